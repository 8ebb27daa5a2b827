"""Calls counted and timed, and told to the server's metadata endpoint about every second."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Iterable
from typing import Any

from maru import _maru
from maru_common.logs import setup_package_logging

__all__ = ["CallStats"]

logger = setup_package_logging("maru_handler")

_INTERVAL_S = 1.0
# Of one message; the server takes no more. What is beyond waits for the next, or is dropped.
_ENTRIES_MAX = 10_000
_WAITING_MAX = 100_000

Told = tuple[str, str, int, float]  # operation, result, bytes, microseconds


# What a call's answer comes to, and the bytes it moved: each takes the answer, then what the call
# takes by the same names.


def _none(_: Any, /, *__: Any, **___: Any) -> tuple[str, int]:
    return "none", 0


def _alloc(handle: Any, /, *_: Any, **__: Any) -> tuple[str, int]:
    return "none", int(handle.size)


def _found(answer: Any, /, *_: Any, **__: Any) -> tuple[str, int]:
    return ("hit" if answer else "miss"), 0


def _retrieved(info: Any, /, *_: Any, **__: Any) -> tuple[str, int]:
    return ("miss", 0) if info is None else ("hit", len(info))


def _stored(_: Any, /, key: Any, handle: Any = None, data: Any = None) -> tuple[str, int]:
    return "none", _size_of(data if handle is None else handle)


def _all_stored(_: Any, /, keys: Any, handles: Any) -> tuple[str, int]:
    return "none", sum(map(_size_of, handles))


def _size_of(given: Any) -> int:
    return int(given.size) if isinstance(given, _maru.AllocHandle) else memoryview(given).nbytes


def _of_many(answers: Iterable[Any], /, *_: Any, **__: Any) -> tuple[str, int]:
    answers = list(answers)
    hits = [one for one in answers if one]
    size = sum(len(one) for one in hits if not isinstance(one, bool))
    if len(hits) == len(answers):
        return "hit", size
    return ("partial" if hits else "miss"), size


Judge = Callable[..., tuple[str, int]]

_CALLS: dict[str, Judge] = {
    "alloc": _alloc,
    "free": _none,
    "store": _stored,
    "retrieve": _retrieved,
    "exists": _found,
    "pin": _found,
    "unpin": _found,
    "delete": _found,
    "batch_store": _all_stored,
    "batch_retrieve": _of_many,
    "batch_exists": _of_many,
    "batch_pin": _of_many,
    "batch_unpin": _of_many,
}


class CallStats:
    """The calls of one handler. A thread of its own tells them, which a forked child has not; it
    ends with the handler, closed or not."""

    def __init__(self, handler: Any, server_url: str, client_id: str, timeout_ms: int) -> None:
        self._server_url = server_url
        self._client_id = client_id
        self._timeout_ms = timeout_ms
        self._told: list[Told] = []
        self._dropped = 0
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None
        for name, judge in _CALLS.items():
            setattr(handler, name, self._timed(name, getattr(handler, name), judge))
        weakref.finalize(handler, self._ending.set).atexit = False

    def _timed(self, name: str, call: Callable[..., Any], judge: Judge) -> Callable[..., Any]:
        def timed(*args: Any, **keywords: Any) -> Any:
            began = time.perf_counter_ns()
            answer = call(*args, **keywords)
            took = (time.perf_counter_ns() - began) / 1000
            if len(self._told) >= _WAITING_MAX:
                self._dropped += 1
                return answer
            try:
                # After the call a stored handle still says its size.
                result, size = judge(answer, *args, **keywords)
            except Exception as error:  # noqa: BLE001, the call is done and its answer stands
                logger.debug("%s is counted without its size: %s", name, error)
                result, size = "none", 0
            self._told.append((name, result, size, took))
            return answer

        return timed

    def start(self) -> None:
        """Once the handler is connected."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="maru-stats", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Tells the rest."""
        self._ending.set()
        if self._thread is not None and self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._ending.wait(_INTERVAL_S):
            self._tell()
        self._tell()

    def _tell(self) -> None:
        while self._told:
            told = self._told[:_ENTRIES_MAX]
            del self._told[: len(told)]
            try:
                _maru._report_stats(self._server_url, self._client_id, told, self._timeout_ms)
            except _maru.MaruError as error:
                logger.debug("statistics of %d calls are lost: %s", len(told), error)
                return
