"""Maru: one KV cache for all LLM engines of a host.

    from maru import MaruConfig, MaruHandler

    with MaruHandler(MaruConfig()) as handler:
        page = handler.alloc(len(chunk))
        page.buf[:] = chunk
        handler.store("prompt-17/layer-3", page)
        info = handler.retrieve("prompt-17/layer-3")  # where it lies, read-only
"""

from maru._maru import (
    AccessError,
    AllocHandle,
    CorruptionError,
    DeadlineError,
    InvalidArgumentError,
    MaruError,
    MemoryInfo,
    NotConnectedError,
    NotFoundError,
    PoolFullError,
    StateError,
)
from maru.handler import MaruHandler
from maru_common.config import MaruConfig

__version__ = "0.1.0"

__all__ = [
    "AccessError",
    "AllocHandle",
    "CorruptionError",
    "DeadlineError",
    "InvalidArgumentError",
    "MaruConfig",
    "MaruError",
    "MaruHandler",
    "MemoryInfo",
    "NotConnectedError",
    "NotFoundError",
    "PoolFullError",
    "StateError",
]
