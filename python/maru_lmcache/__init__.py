"""Where LMCache's own backend for Maru (``maru_path`` in its configuration) has its memory from."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from maru_lmcache.adapter import CxlMemoryAdapter

__all__ = ["CxlMemoryAdapter"]

_NAMES = frozenset({"CxlMemoryAdapter", "CxlMemoryAllocator"})  # the latter is an older name


def __getattr__(name: str) -> Any:
    """Resolved when it is asked for, so that the package imports where LMCache is not."""
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from maru_lmcache.adapter import CxlMemoryAdapter

    return CxlMemoryAdapter
