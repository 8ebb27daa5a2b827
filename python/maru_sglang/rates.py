"""What is told to SGLang's metrics: pages and speed of each batch since the last time it asked."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

__all__ = ["Rates"]

_BATCHES_MAX = 1024  # while nobody asks, the oldest go


class Rates:
    """Of an instance, by several threads."""

    def __init__(self) -> None:
        self._loaded: deque[tuple[int, float]] = deque(maxlen=_BATCHES_MAX)
        self._saved: deque[tuple[int, float]] = deque(maxlen=_BATCHES_MAX)

    def load(self, page_bytes: int, call: Callable[[], list[bool]]) -> list[bool]:
        """CALL, which loads pages of that size."""
        return _timed(self._loaded, page_bytes, call)

    def save(self, page_bytes: int, call: Callable[[], list[bool]]) -> list[bool]:
        """CALL, which stores pages of that size."""
        return _timed(self._saved, page_bytes, call)

    def take(self) -> Any:
        """SGLang's StorageMetrics of what was done since the last call."""
        from sglang.srt.observability.metrics_collector import StorageMetrics

        loaded, saved = _taken(self._loaded), _taken(self._saved)
        return StorageMetrics(
            prefetch_pgs=[pages for pages, _ in loaded],
            backup_pgs=[pages for pages, _ in saved],
            prefetch_bandwidth=[rate for _, rate in loaded],
            backup_bandwidth=[rate for _, rate in saved],
        )


def _timed(
    done: deque[tuple[int, float]], page_bytes: int, call: Callable[[], list[bool]]
) -> list[bool]:
    started = time.perf_counter()
    answers = call()
    seconds = max(time.perf_counter() - started, 1e-9)
    pages = answers.count(True)
    if pages > 0:
        done.append((pages, pages * page_bytes / seconds / (1 << 30)))
    return answers


def _taken(done: deque[tuple[int, float]]) -> list[tuple[int, float]]:
    taken = []
    while done:  # others may add meanwhile
        taken.append(done.popleft())
    return taken
