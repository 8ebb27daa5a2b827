"""SGLang's hierarchical cache on Maru: ``--hicache-storage-backend dynamic`` with ``module_path``
``maru_sglang.maru_storage`` and ``class_name`` ``MaruStorage`` in its extra config."""

from typing import TYPE_CHECKING, Any

from maru_sglang.config import MaruSGLangConfig

if TYPE_CHECKING:
    from maru_sglang.maru_storage import MaruStorage

__all__ = ["MaruSGLangConfig", "MaruStorage"]

_NAMES = frozenset({"MaruStorage", "MaruHiCacheStorage"})  # the latter is an older name


def __getattr__(name: str) -> Any:
    """Resolved when it is asked for, so that the package imports where SGLang is not."""
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from maru_sglang.maru_storage import MaruStorage

    return MaruStorage
