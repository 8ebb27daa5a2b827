"""The handler, by the name of upstream's package."""

from maru_handler.handler import MaruHandler

__all__ = ["MaruHandler"]
