"""What a page's bytes depend on beside its tokens, as the end of its key."""

from __future__ import annotations

from typing import Any

from maru_sglang.host_pages import HostPages

__all__ = ["Suffixes"]

# Pools whose bytes differ by tensor-parallel rank whatever the model's KV does.
_SHARDED_POOLS = frozenset({"mamba"})


def _part(kind: str, rank: int, size: int) -> str:
    return f"_{kind}{rank}_{size}" if size > 1 else ""


class Suffixes:
    """Of one instance: SGLang's key of a page comes first, then the pool, then this.

    The name of the model stays as it is; its slashes matter to file systems alone.
    """

    def __init__(self, storage_config: Any) -> None:
        """Of a ``HiCacheStorageConfig``. Fields that a release of SGLang lacks are 1 of 1."""
        parallel = "".join(
            _part(kind, getattr(storage_config, f"{kind}_rank", 0), size)
            for kind in ("pp", "attn_cp", "dcp")
            if (size := getattr(storage_config, f"{kind}_size", 1))
        )
        model = storage_config.model_name or ""
        self._sharded = f"_{model}_{storage_config.tp_rank}_{storage_config.tp_size}{parallel}"
        # MLA: each rank has the same bytes, one of them stores them.
        self._replicated = f"_{model}{parallel}"
        self._mla = bool(storage_config.is_mla_model)

    def of(self, name: str, pages: HostPages[Any] | None) -> str:
        """Of the pool NAME. Without its pages, what was stored before it was registered."""
        sharded = not self._mla or name in _SHARDED_POOLS
        # A draft model may have heads, which ranks share out, beside a target that has none.
        if name != "kv" and pages is not None and pages.has_heads:
            sharded = True
        suffix = self._sharded if sharded else self._replicated
        return suffix if pages is None else f"{suffix}_{pages.kind}"
