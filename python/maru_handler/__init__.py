"""The handler, by the name of upstream's package."""

from maru import MaruHandler

__all__ = ["MaruHandler"]
