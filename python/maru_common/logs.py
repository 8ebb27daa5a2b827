"""The loggers of the packages."""

from __future__ import annotations

import logging
import os

__all__ = ["setup_package_logging"]

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def setup_package_logging(name: str) -> logging.Logger:
    """The logger of a package. ``MARU_LOG_LEVEL`` sets its level, and has it print where nobody
    else does; an unknown level is INFO. Without the variable the application's settings hold."""
    logger = logging.getLogger(name)
    wanted = os.environ.get("MARU_LOG_LEVEL")
    if wanted is None:
        return logger
    level = logging.getLevelName(wanted.strip().upper())
    logger.setLevel(level if isinstance(level, int) else logging.INFO)
    if not logger.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter(_FORMAT))
        logger.addHandler(handler)
    return logger
