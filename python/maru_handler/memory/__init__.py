"""What alloc() and retrieve() answer with."""

from maru import AllocHandle, MemoryInfo

__all__ = ["AllocHandle", "MemoryInfo"]
