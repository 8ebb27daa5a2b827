"""SGLang's storage interface over pages of a pool.

One page of SGLang is one page of Maru under one key, for each of its pools: K and V of all layers
together, so there is never a part of a page. docs/decisions/0011 says who copies what and when.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import torch
from sglang.srt.mem_cache.hicache_storage import (
    HiCacheStorage,
    PoolHitPolicy,
    PoolName,
    PoolTransferResult,
)

from maru import AllocHandle, MaruHandler
from maru_common import setup_package_logging
from maru_handler.memory import MemoryInfo
from maru_sglang.config import MaruSGLangConfig
from maru_sglang.handlers import Handlers
from maru_sglang.hits import all_pages, block_groups, trailing_pages
from maru_sglang.host_pages import HostPages, host_pages
from maru_sglang.rates import Rates
from maru_sglang.suffixes import Suffixes

__all__ = ["MaruStorage"]

logger = setup_package_logging("maru_sglang")

T = TypeVar("T")

_KV = str(PoolName.KV)
_TENSOR_PAGE_BYTES = 1 << 20  # for set() before a host pool is registered
_DELETED_AT_ONCE = 1024


class MaruStorage(HiCacheStorage):  # type: ignore[misc, unused-ignore]
    """KV pages of SGLang, under keys that carry all that their bytes depend on: model, ranks (but
    for MLA, where all have the same), pool, and once a host pool is registered dtype and layout.

    Apart from the constructor and the registration of pools nothing raises: what cannot be had is
    a miss, what cannot be stored is False, and the log says why. All methods may be called from
    several threads.
    """

    def __init__(self, storage_config: Any, kwargs: Any = None) -> None:
        """Connects. ``storage_config.extra_config`` has the keys of MaruSGLangConfig.

        Raises:
            RuntimeError: it cannot; the log says why.
            ValueError: a setting that cannot be.
        """
        self._config = MaruSGLangConfig.from_extra_config(storage_config.extra_config)
        if getattr(storage_config, "should_split_heads", False):
            logger.warning("tp_lcm_size: pages are shared between equal tensor-parallel sizes only")
        self._suffixes = Suffixes(storage_config)
        self._pages: dict[str, HostPages[Any]] = {}
        self.mem_pool_host: Any = None
        self.registered_pools: dict[str, Any] = {}
        self._handlers = Handlers(self._config)
        self._rates = Rates() if getattr(storage_config, "enable_storage_metrics", False) else None
        self._reader()

    # --- Handlers.

    def _reader(self) -> MaruHandler:
        """Any handler finds pages of any size."""
        return self._handlers.of(self._config.page_bytes(self._kv_bytes() or _TENSOR_PAGE_BYTES))

    def _kv_bytes(self) -> int:
        pages = self._pages.get(_KV)
        return 0 if pages is None else pages.page_bytes

    def _or(self, otherwise: T, what: str, call: Callable[[], T]) -> T:
        try:
            return call()
        except Exception as error:  # noqa: BLE001, whatever Maru, torch and host pools raise
            logger.warning("%s: %s", what, _said(error))
            return otherwise

    def _keys(self, keys: Iterable[str], pool: str = _KV) -> list[str]:
        suffix = self._suffixes.of(pool, self._pages.get(pool))
        if pool != _KV:
            suffix = f".{pool}{suffix}"
        return [f"{key}{suffix}" for key in keys]

    # --- Tensors under keys.

    def exists(self, key: str) -> bool:
        """Whether the page is there."""
        return self._or(False, "exists", lambda: self._reader().exists(*self._keys([key])))

    def batch_exists(self, keys: list[str], extra_info: Any = None) -> int:
        """How many of the pages are there, from the first on."""
        return self._or(
            0, "batch_exists", lambda: self._reader().match_prefix(self._keys(keys))
        )

    def get(
        self, key: str, target_location: Any = None, target_sizes: Any = None
    ) -> torch.Tensor | None:
        """The bytes, in the tensor TARGET_LOCATION, or without one where they lie: read-only there,
        a write ends the process. None: not there, or not of the target's size."""
        return self.batch_get([key], None if target_location is None else [target_location])[0]

    def batch_get(
        self, keys: list[str], target_locations: Any = None, target_sizes: Any = None
    ) -> list[torch.Tensor | None]:
        """get() of each."""

        def call() -> list[torch.Tensor | None]:
            targets = [None] * len(keys) if target_locations is None else target_locations
            if len(targets) != len(keys):
                raise ValueError(f"{len(targets)} targets for {len(keys)} keys")
            infos = self._reader().batch_retrieve(self._keys(keys))
            return [_load(*pair) for pair in zip(infos, targets, strict=True)]

        return self._or([None] * len(keys), "batch_get", call)

    def set(
        self,
        key: str,
        value: Any = None,
        target_location: Any = None,
        target_sizes: Any = None,
    ) -> bool:
        """Whether the tensor VALUE, or another instance's of that key, is there now."""
        return value is not None and self.batch_set([key], [value])

    def batch_set(
        self,
        keys: list[str],
        values: Any = None,
        target_locations: Any = None,
        target_sizes: Any = None,
    ) -> bool:
        """Whether all are there now. Those before the first failure are."""

        def call() -> bool:
            tensors = [_bytes_of(value) for value in values]
            if len(tensors) != len(keys):
                raise ValueError(f"{len(tensors)} values for {len(keys)} keys")

            handler = self._reader()

            def page_of(number: int) -> AllocHandle:
                page = handler.alloc(tensors[number].numel())
                page.tensor().copy_(tensors[number])
                return page

            return all(_store(handler, self._keys(keys), page_of))

        return bool(keys) and values is not None and self._or(False, "batch_set", call)

    # --- Pages of host pools.

    def register_mem_pool_host(self, mem_pool_host: Any) -> None:
        """The pool of the KV pages.

        Raises:
            ValueError: pages of its layout cannot be copied.
        """
        self._pages[_KV] = host_pages(mem_pool_host)
        self.mem_pool_host = mem_pool_host

    def batch_get_v1(
        self, keys: list[str], host_indices: Any, extra_info: Any = None
    ) -> list[bool]:
        """Which KV pages are copied to the host pool now. The others' memory is as it was."""
        return self._or(
            [False] * len(keys), "batch_get_v1", lambda: self._load(_KV, keys, host_indices)
        )

    def batch_set_v1(
        self, keys: list[str], host_indices: Any, extra_info: Any = None
    ) -> list[bool]:
        """Which KV pages of the host pool are there now, whoever stored them."""
        return self._or(
            [False] * len(keys), "batch_set_v1", lambda: self._save(_KV, keys, host_indices)
        )

    def _registered(self, name: str) -> HostPages[Any]:
        pages = self._pages.get(name)
        if pages is None:
            raise RuntimeError(f"no host pool {name} is registered")
        return pages

    def _load(self, name: str, keys: Sequence[str], indices: Any) -> list[bool]:
        pages = self._registered(name)
        places = pages.places(indices, len(keys))
        if pages.page_bytes == 0:
            return [True] * len(keys)

        def load() -> list[bool]:
            infos = self._reader().batch_retrieve(self._keys(keys, name))
            return [_load_page(pages, *pair) for pair in zip(places, infos, strict=True)]

        return load() if self._rates is None else self._rates.load(pages.page_bytes, load)

    def _save(self, name: str, keys: Sequence[str], indices: Any) -> list[bool]:
        pages = self._registered(name)
        places = pages.places(indices, len(keys))
        if pages.page_bytes == 0:
            return [True] * len(keys)
        handler = self._handlers.of(self._config.page_bytes(pages.page_bytes))

        def page_of(number: int) -> AllocHandle:
            page = handler.alloc(pages.page_bytes)
            pages.save(places[number], page)
            return page

        def save() -> list[bool]:
            return _store(handler, self._keys(keys, name), page_of)

        return save() if self._rates is None else self._rates.save(pages.page_bytes, save)

    # --- Several pools, of hybrid models.

    def register_mem_host_pool_v2(self, host_pool: Any, host_pool_name: Any) -> None:
        """A pool of that name, the KV pages' among them.

        Raises:
            ValueError: pages of its layout cannot be copied.
        """
        self._pages[str(host_pool_name)] = host_pages(host_pool)
        self.registered_pools[host_pool_name] = host_pool

    def batch_exists_v2(
        self, keys: list[str], pool_transfers: Any = None, extra_info: Any = None
    ) -> PoolTransferResult:
        """The longest prefix that all pools can restore, all lengths that they can, and how far
        each pool goes alone."""

        def call() -> PoolTransferResult:
            length = self._kv_prefix(keys)
            hits: dict[str, int] = {PoolName.KV: length} if length else {}
            lengths = list(range(1, length + 1))
            for transfer in pool_transfers or []:
                # Groups of blocks are extra: without them the KV is worth as much.
                grouped = transfer.hit_policy == PoolHitPolicy.BLOCK_GROUPS
                nothing: tuple[list[int] | None, int] = (None if grouped else [], 0)
                able, pages = self._or(
                    nothing,
                    f"batch_exists_v2 of {transfer.name}",
                    functools.partial(self._restorable, transfer, keys[:length]),
                )
                if pages:
                    hits[transfer.name] = pages
                if able is not None:
                    lengths = sorted(set(lengths) & set(able))
            return PoolTransferResult(lengths[-1] if lengths else 0, hits, lengths)

        return self._or(PoolTransferResult(0, {}, []), "batch_exists_v2", call)

    def _kv_prefix(self, keys: list[str]) -> int:
        pages = self._pages.get(_KV)
        if pages is not None and pages.page_bytes == 0:
            return len(keys)
        return self._reader().match_prefix(self._keys(keys))

    def _restorable(self, transfer: Any, keys: list[str]) -> tuple[list[int] | None, int]:
        """The lengths of prefixes of KEYS that a pool can restore, None: any; and its pages."""
        name = str(transfer.name)
        self._registered(name)
        grouped = transfer.hit_policy == PoolHitPolicy.BLOCK_GROUPS
        asked = transfer.keys or [] if grouped else keys
        there = self._reader().batch_exists(self._keys(asked, name))
        if grouped:
            return None, block_groups(there, transfer.block_pages, transfer.group_pages)
        if transfer.hit_policy == PoolHitPolicy.ALL_PAGES:
            lengths = all_pages(there)
        elif transfer.hit_policy == PoolHitPolicy.TRAILING_PAGES:
            lengths = trailing_pages(there, max(1, len(transfer.keys or [])))
        else:
            raise ValueError(f"the policy {transfer.hit_policy} is not known")
        return lengths, lengths[-1] if lengths else 0

    def batch_get_v2(self, transfers: Any, extra_info: Any = None) -> dict[str, list[bool]]:
        """batch_get_v1() of each pool, by its name."""
        return self._each("batch_get_v2", transfers, self._load)

    def batch_set_v2(self, transfers: Any, extra_info: Any = None) -> dict[str, list[bool]]:
        """batch_set_v1() of each pool, by its name."""
        return self._each("batch_set_v2", transfers, self._save)

    def _each(
        self, what: str, transfers: Any, move: Callable[[str, Sequence[str], Any], list[bool]]
    ) -> dict[str, list[bool]]:
        done: dict[str, list[bool]] = {}
        for transfer in transfers:
            keys = transfer.keys or []
            done[transfer.name] = self._or(
                [False] * len(keys),
                f"{what} of {transfer.name}",
                functools.partial(move, str(transfer.name), keys, transfer.host_indices),
            )
        return done

    # --- Life.

    def clear(self) -> None:
        """Deletes the pages that this instance would find, for all that share them: whoever clears
        has changed what a model computes."""
        self._or(None, "clear", self._clear)

    def _clear(self) -> None:
        handler = self._reader()
        ends = [self._keys([""], name)[0].encode() for name in {_KV, *self._pages}]
        ours: list[bytes] = []
        for key in handler.keys():
            if any(key.endswith(end) and _is_hash(key.removesuffix(end)) for end in ends):
                ours.append(key)
            if len(ours) == _DELETED_AT_ONCE:
                handler.batch_delete(ours)
                ours.clear()
        handler.batch_delete(ours)

    def get_stats(self) -> Any:
        """SGLang's StorageMetrics of the batches since the last call, where its metrics are on."""
        return None if self._rates is None else self._rates.take()

    def close(self) -> None:
        """Disconnects. Tensors that get() answered stay; a later call connects anew."""
        self._handlers.close()


def _store(
    handler: MaruHandler, keys: list[str], page_of: Callable[[int], AllocHandle]
) -> list[bool]:
    """Which KEYS are there afterwards: PAGE_OF makes the page of each that is not there yet, up to
    the first that it cannot make."""
    stored = handler.batch_exists(keys)
    wanted = [number for number, there in enumerate(stored) if not there]
    pages: list[AllocHandle] = []
    try:
        for number in wanted:
            pages.append(page_of(number))
    except Exception as error:  # noqa: BLE001, as in _or
        missing = len(wanted) - len(pages)
        logger.warning("%d of %d pages are not stored: %s", missing, len(keys), _said(error))
    made = wanted[: len(pages)]
    answers = handler.batch_store([keys[number] for number in made], pages)
    for number, answer in zip(made, answers, strict=True):
        stored[number] = answer
    return stored


def _said(error: Exception) -> str:
    """For the log, which may keep what it is given: with an error, the pages of its frames."""
    return f"{type(error).__name__}: {error}"


def _is_hash(key: bytes) -> bool:
    """Whether it may be SGLang's, not a key and the beginning of another model's name."""
    return not any(mark in key for mark in b"._/")


def _bytes_of(value: Any) -> torch.Tensor:
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"a tensor is stored, not {type(value).__name__}")
    return value.detach().contiguous().view(-1).view(torch.uint8)


def _load_page(pages: HostPages[Any], place: Any, info: MemoryInfo | None) -> bool:
    if info is None:
        return False
    if len(info) != pages.page_bytes:
        logger.warning("%d bytes are stored, not the %d of a page", len(info), pages.page_bytes)
        return False
    pages.load(place, info)
    return True


def _load(info: MemoryInfo | None, target: torch.Tensor | None) -> torch.Tensor | None:
    if info is None:
        return None
    stored = info.tensor()
    if target is None:
        return stored
    if target.numel() * target.element_size() != len(info):
        logger.warning("%d bytes are stored, not those of %s", len(info), tuple(target.shape))
        return None
    target.copy_(stored.view(target.dtype).view(target.shape))
    return target
