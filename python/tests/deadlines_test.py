"""What a call says of a server that stands still, and when."""

import contextlib
import time

import pytest
from handler_test import CHUNK, audit, put

from maru import DeadlineError, MaruConfig, MaruHandler

TIMEOUT_MS = 1000
# A hundred times as long: what a slow machine does in between does not matter.
WITHIN_S = 100 * TIMEOUT_MS / 1000

RAISE = {
    "alloc": lambda handler: handler.alloc(1),
    "store": lambda handler: handler.store("other", data=b"1"),
    "keys": lambda handler: list(handler.keys()),
}
# What became of these is not known to the caller: no is what is safe to go on from.
SAY_NO = {
    "store": lambda handler, handle: handler.store("other", handle),
    "batch_store": lambda handler, handle: any(handler.batch_store(["other"], [handle])),
    "delete": lambda handler, _: handler.delete("key"),
    "batch_delete": lambda handler, _: any(handler.batch_delete(["key"])),
    "healthcheck": lambda handler, _: handler.healthcheck(),
}


@contextlib.contextmanager
def bounded():
    began = time.monotonic()
    yield
    assert time.monotonic() - began < WITHIN_S


@pytest.mark.parametrize("call", RAISE)
def test_a_call_ends_with_an_error_that_says_why(connect, server, call):
    handler = connect(timeout_ms=TIMEOUT_MS)
    with server.standing_still(), bounded(), pytest.raises(DeadlineError) as error:
        RAISE[call](handler)
    assert isinstance(error.value, TimeoutError) and isinstance(error.value, RuntimeError)
    handler.close()
    audit(server)


@pytest.mark.parametrize("call", SAY_NO)
def test_or_with_no(connect, server, call):
    assert put(connect(), "key", b"1")
    handler = connect(timeout_ms=TIMEOUT_MS)
    handle = handler.alloc(1)
    with server.standing_still(), bounded():
        assert SAY_NO[call](handler, handle) is False
    del handle
    handler.close()
    audit(server)


def test_look_ups_go_on_and_statistics_are_zeros(connect, server):
    handler = connect(timeout_ms=TIMEOUT_MS)
    assert put(handler, "key", b"1")
    with server.standing_still(), bounded():
        assert handler.exists("key") and bytes(handler.retrieve("key").view) == b"1"
        assert handler.get_stats()["kv_manager"]["total_entries"] == 0


def test_connecting_ends_with_false(server):
    config = MaruConfig(
        server_url=str(server.socket), chunk_size_bytes=CHUNK, timeout_ms=TIMEOUT_MS
    )
    handler = MaruHandler(config)
    with server.standing_still(), bounded():
        assert handler.connect() is False
    assert handler.connect()
    handler.close()
