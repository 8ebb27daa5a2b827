"""A server for each test, and handlers of it."""

import os
import pathlib

import pytest
from server import Server

from maru import MaruConfig, MaruHandler

CHUNK = 64 << 10


@pytest.fixture
def server():
    with Server(pathlib.Path(os.environ["MARU_PROGRAM"]), size="64MiB") as running:
        yield running


@pytest.fixture
def connect(server):
    """Makes connected handlers, which are closed at the end."""
    made = []

    def one(**fields):
        config = MaruConfig(
            **{"server_url": str(server.socket), "chunk_size_bytes": CHUNK, **fields}
        )
        handler = MaruHandler(config)
        assert handler.connect()
        made.append(handler)
        return handler

    yield one
    for handler in made:
        handler.close()


@pytest.fixture
def handler(connect):
    return connect()
