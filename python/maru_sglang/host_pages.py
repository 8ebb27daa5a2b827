"""Pages of SGLang's host pools, and copies between them and pages of Maru.

The bytes of a page are those of the pool's flat form, ``get_data_page(index, flat=True)``,
whichever way they are copied: so each form of SGLang's interface reads what the others have stored.
"""

from __future__ import annotations

import ctypes
from typing import Any, Generic, TypeVar

from maru import AllocHandle
from maru_handler.memory import MemoryInfo

__all__ = ["HostPages", "host_pages"]

Place = TypeVar("Place")

# The parts of a page, end to end, are its flat form.
_PARTS_ARE_FLAT = frozenset(
    {"page_first", "page_first_direct", "page_first_kv_split", "page_head"}
)


class HostPages(Generic[Place]):
    """The pages of one pool. ``page_bytes`` is what each takes, 0 for a pool that has no memory.

    ``page_tokens`` is how many indices a page has, ``kind`` names the form of its bytes.
    """

    page_bytes: int

    def __init__(self, pool: Any) -> None:
        self.pool = pool
        self.page_tokens = int(getattr(pool, "logical_page_size", 0) or pool.page_size or 1)
        self.has_heads = hasattr(pool, "head_num")
        self.kind = _kind(pool)

    def places(self, indices: Any, count: int) -> list[Place]:
        """Where each of COUNT pages lies.

        Raises:
            ValueError: the indices are not those of COUNT pages.
        """
        given = 0 if indices is None else indices.numel()
        if given != count * self.page_tokens:
            raise ValueError(f"{given} indices for {count} pages of {self.page_tokens}")
        return self._places(indices) if count else []

    def _places(self, indices: Any) -> list[Place]:
        raise NotImplementedError

    def save(self, place: Place, page: AllocHandle) -> None:
        """Copies a page of the pool into one of Maru."""
        raise NotImplementedError

    def load(self, place: Place, info: MemoryInfo) -> None:
        """Copies what is stored into a page of the pool. REQUIRES: it is page_bytes long."""
        raise NotImplementedError


class _Nothing(HostPages[None]):
    """A pool of indices alone; its sidecars have the bytes."""

    page_bytes = 0

    def _places(self, indices: Any) -> list[None]:
        return [None] * (indices.numel() // self.page_tokens)


class _Addressed(HostPages[list[tuple[int, int]]]):
    """A pool that says where the parts of a page lie: (address, bytes) of each."""

    def __init__(self, pool: Any, first: Any) -> None:
        super().__init__(pool)
        self.page_bytes = sum(size for _, size in self._places(first)[0])

    def _places(self, indices: Any) -> list[list[tuple[int, int]]]:
        addresses, sizes = self.pool.get_page_buffer_meta(indices)
        parts = list(zip(addresses, sizes, strict=True))
        count, rest = divmod(len(parts) * self.page_tokens, indices.numel())
        if rest != 0 or count == 0:
            raise ValueError(f"{len(parts)} parts for {indices.numel()} indices")
        return [parts[i : i + count] for i in range(0, len(parts), count)]

    def save(self, place: list[tuple[int, int]], page: AllocHandle) -> None:
        # An array over the page, until the last copy: those let other threads run, which may close.
        first = ctypes.c_char.from_buffer(page.buf)
        at = ctypes.addressof(first)
        for address, size in place:
            ctypes.memmove(at, address, size)
            at += size

    def load(self, place: list[tuple[int, int]], info: MemoryInfo) -> None:
        at = info.tensor().data_ptr()  # INFO keeps the lease meanwhile
        for address, size in place:
            ctypes.memmove(address, at, size)
            at += size


class _Flat(HostPages[int]):
    """A pool whose parts are not in the order of the flat form, or which has it alone."""

    def __init__(self, pool: Any) -> None:
        super().__init__(pool)
        first = pool.get_data_page(0, flat=False)
        self._dtype = first.dtype
        self.page_bytes = first.numel() * first.element_size()

    def _places(self, indices: Any) -> list[int]:
        places: list[int] = indices[:: self.page_tokens].tolist()
        return places

    def save(self, place: int, page: AllocHandle) -> None:
        data = self.pool.get_data_page(place, flat=False)  # a view of the pool where it can be one
        page.tensor().view(self._dtype).view(data.shape).copy_(data)

    def load(self, place: int, info: MemoryInfo) -> None:
        self.pool.set_from_flat_data_page(place, info.tensor().view(self._dtype))


def _kind(pool: Any) -> str:
    names = ("dtype", "temporal_dtype", "indexer_dtype")
    dtypes = dict.fromkeys(str(getattr(pool, name)) for name in names if hasattr(pool, name))
    parts = [dtype.removeprefix("torch.") for dtype in dtypes]
    if "uint8" in parts:
        parts.append(_kv_cache_dtype())
    parts.append(str(pool.layout))
    tag = getattr(pool, "storage_format_tag", None)
    return "_".join(parts if tag is None else [*parts, str(tag)])


def _kv_cache_dtype() -> str:
    """What the engine was told: fp8 formats lie in host pools as bytes, which do not say which."""
    try:
        from sglang.srt.runtime_context import get_model

        return str(get_model().kv_cache_dtype)
    except (AttributeError, ImportError, RuntimeError, ValueError):
        return "auto"  # no engine runs here


def host_pages(pool: Any) -> HostPages[Any]:
    """The pages of POOL.

    Raises:
        ValueError: pages of its layout cannot be copied.
    """
    import torch

    if getattr(pool, "kv_buffer", None) is None:
        return _Nothing(pool)
    try:
        # Rows beside the state of a slot are in the flat form alone.
        if pool.layout in _PARTS_ARE_FLAT and not getattr(pool, "slot_state_device_tensors", ()):
            tokens = int(getattr(pool, "logical_page_size", 0) or pool.page_size or 1)
            return _Addressed(pool, torch.arange(tokens))
        return _Flat(pool)
    except (AttributeError, NotImplementedError, ValueError) as error:
        raise ValueError(f"pages of layout {pool.layout!r} cannot be stored: {error}") from error
