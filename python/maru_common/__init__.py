"""What the packages of Maru share."""

from maru_common.config import MaruConfig

__all__ = ["MaruConfig"]
