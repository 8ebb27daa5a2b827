"""The loggers of the packages."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator

__all__ = ["setup_package_logging"]

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class _WhereNobodyElseDoes(logging.StreamHandler):  # type: ignore[type-arg, unused-ignore]
    """Prints what no other handler sees, however late the application sets those up."""

    def emit(self, record: logging.LogRecord) -> None:
        seen_by = _handlers_of(logging.getLogger(record.name))
        if all(isinstance(one, _WhereNobodyElseDoes) for one in seen_by):
            super().emit(record)


def _handlers_of(logger: logging.Logger) -> Iterator[logging.Handler]:
    """Those that a record of that logger goes to."""
    at: logging.Logger | None = logger
    while at is not None:
        yield from at.handlers
        at = at.parent if at.propagate else None


def setup_package_logging(name: str) -> logging.Logger:
    """The logger of a package. ``MARU_LOG_LEVEL`` sets its level, and has it print where nobody
    else does; an unknown level is INFO. Without the variable the application's settings hold."""
    logger = logging.getLogger(name)
    wanted = os.environ.get("MARU_LOG_LEVEL")
    if wanted is None:
        return logger
    level = logging.getLevelName(wanted.strip().upper())
    logger.setLevel(level if isinstance(level, int) else logging.INFO)
    if not any(isinstance(one, _WhereNobodyElseDoes) for one in _handlers_of(logger)):
        handler = _WhereNobodyElseDoes()
        handler.setFormatter(logging.Formatter(_FORMAT))
        logger.addHandler(handler)
    return logger
