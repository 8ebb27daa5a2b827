"""What the packages of Maru share."""

from maru_common.config import MaruConfig
from maru_common.logs import setup_package_logging

__all__ = ["MaruConfig", "setup_package_logging"]
