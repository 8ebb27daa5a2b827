"""The handlers of one storage, connected when they are first asked for."""

from __future__ import annotations

import threading
from concurrent.futures import Future

from maru import MaruHandler
from maru_sglang.config import MaruSGLangConfig

__all__ = ["Handlers"]


class Handlers:
    """One for each size of pages that is stored, as pools have them. Used by several threads."""

    def __init__(self, config: MaruSGLangConfig) -> None:
        self._config = config
        self._lock = threading.Lock()
        # By the bytes of their pages: those that are connected, and attempts to.
        self._connected: dict[int, MaruHandler] = {}
        self._attempts: dict[int, Future[MaruHandler]] = {}

    def of(self, page_bytes: int) -> MaruHandler:
        """The one that stores to pages of that size.

        Who comes while another thread connects it shares what comes of that: so while the server is
        away a call waits for one attempt, however many threads there are.

        Raises:
            RuntimeError: it cannot be connected; the log says why.
        """
        with self._lock:
            handler = self._connected.get(page_bytes)
            if handler is not None:
                return handler
            others = self._attempts.get(page_bytes)
            if others is None:
                ours = self._attempts[page_bytes] = Future()
        return self._attempt(page_bytes, ours) if others is None else others.result()

    def _attempt(self, page_bytes: int, attempt: Future[MaruHandler]) -> MaruHandler:
        try:
            handler = MaruHandler(self._config.handler_config(page_bytes))
            if not handler.connect():
                raise RuntimeError(
                    f"cannot connect to Maru at {self._config.server_url}: its log says why"
                )
        except BaseException as error:
            with self._lock:
                del self._attempts[page_bytes]
            # An interrupt is this thread's alone.
            attempt.set_exception(
                error if isinstance(error, Exception) else RuntimeError("connecting was ended")
            )
            raise
        with self._lock:
            del self._attempts[page_bytes]
            self._connected[page_bytes] = handler
        attempt.set_result(handler)
        return handler

    def values(self) -> list[MaruHandler]:
        """Those that are connected."""
        with self._lock:
            return list(self._connected.values())

    def close(self) -> None:
        """Closes all. A later call connects anew."""
        with self._lock:
            handlers = list(self._connected.values())
            self._connected.clear()
        for handler in handlers:
            handler.close()
