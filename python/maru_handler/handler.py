"""The handler, by the name of upstream's module."""

from maru.handler import MaruHandler

__all__ = ["MaruHandler"]
