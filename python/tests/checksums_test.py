"""verify=True, in a pool that keeps checksums and in one that does not."""

import os
import pathlib

import pytest
from handler_test import CHUNK
from server import Server

from maru import CorruptionError, MaruConfig, MaruError, MaruHandler, StateError

BYTES = b"the bytes of a chunk, " * 100
CALLS = {
    "retrieve": lambda handler, key: handler.retrieve(key, verify=True),
    "batch_retrieve": lambda handler, key: handler.batch_retrieve(["no", key], verify=True)[1],
}


@pytest.fixture(params=CALLS)
def look(request):
    return CALLS[request.param]


@pytest.fixture
def checked():
    program = pathlib.Path(os.environ["MARU_PROGRAM"])
    with Server(program, size="64MiB,checksum") as running:
        yield running


def change(server, before, after):
    """Writes to the pool behind everybody's back."""
    with server.pool.open("r+b") as pool:
        at = pool.read().index(before)
        pool.seek(at)
        pool.write(after)


def test_bytes_that_changed_are_an_error_that_names_their_key(checked, look):
    config = MaruConfig(server_url=str(checked.socket), chunk_size_bytes=CHUNK)
    with MaruHandler(config) as handler:
        assert handler.store("whole", data=BYTES) and handler.store("other", data=b"1")
        assert bytes(look(handler, "whole").view) == BYTES
        assert look(handler, "no") is None
        change(checked, BYTES, b"T")
        with pytest.raises(CorruptionError, match="whole") as error:
            look(handler, "whole")
        assert isinstance(error.value, MaruError)
        assert handler._statistics()["leases"] == 0
        assert bytes(look(handler, "other").view) == b"1"
        assert bytes(handler.retrieve("whole").view) == b"T" + BYTES[1:], "nobody asked"
        assert handler.delete("whole") and handler.store("whole", data=BYTES)
        assert bytes(look(handler, "whole").view) == BYTES


def test_a_pool_without_checksums_says_so(handler, look):
    assert handler.store("key", data=BYTES)
    with pytest.raises(StateError, match="checksum"):
        look(handler, "key")
    assert handler._statistics()["leases"] == 0
