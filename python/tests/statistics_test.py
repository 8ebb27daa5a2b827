"""Calls counted and timed for the server, with enable_stats or MARU_STAT=1."""

import gc
import os
import pathlib

import pytest
from server import Server

from maru import MaruConfig, MaruHandler, _maru, call_stats

CHUNK = 64 << 10
GONE_WITHIN_S = 60  # many times what it takes


@pytest.fixture
def url():
    program = pathlib.Path(os.environ["MARU_PROGRAM"])
    with Server(program, size="64MiB", listen="tcp://127.0.0.1:0") as running:
        yield running.metadata


def use(url, **fields):
    config = MaruConfig(server_url=url, instance_id="user", chunk_size_bytes=CHUNK, **fields)
    with MaruHandler(config) as handler:
        handler.store("a", data=b"1234")
        handler.batch_store(["b", "c"], [b"12", b"345"])
        handler.retrieve("a")
        handler.retrieve("no")
        handler.exists(key="a")
        handler.batch_retrieve(["a", "no"])
        handler.batch_exists(["no"])
        handle = handler.alloc(5)
        handler.store("d", handle)
        with pytest.raises(TypeError):
            handler.batch_pin(None)
    # All of it is told by the time that close() is over.
    with MaruHandler(MaruConfig(server_url=url, chunk_size_bytes=CHUNK)) as other:
        return other.get_stats()["stats_manager"]["clients"]


def check(clients):
    told = clients["user"]["operations"]
    assert {name: counters["count"] for name, counters in told.items()} == {
        "store": 2,
        "batch_store": 1,
        "retrieve": 2,
        "exists": 1,
        "batch_retrieve": 1,
        "batch_exists": 1,
        "alloc": 1,
    }
    sizes = {name: counters["total_size"] for name, counters in told.items()}
    assert (sizes["store"], sizes["batch_store"], sizes["retrieve"]) == (9, 5, 4)
    assert told["retrieve"]["results"] == {"hit": 1, "miss": 1}
    assert told["batch_retrieve"]["results"] == {"partial": 1}
    assert told["retrieve"]["total_latency_us"] > 0
    assert clients["_all"]["operations"].keys() == told.keys()


def test_calls_are_told(url):
    clients = use(url, enable_stats=True)
    check(clients)


def test_the_environment_turns_it_on(url, monkeypatch):
    monkeypatch.setenv("MARU_STAT", "1")
    config_says_no = use(url, enable_stats=False)
    check(config_says_no)


def test_without_it_nothing_is_told(url):
    assert "user" not in use(url)


def test_many_clients_are_told_of(url):
    told = [(name, result, 1, 1.0) for name in ("store", "retrieve", "exists", "pin")
            for result in ("hit", "miss")]
    for number in range(256):
        _maru._report_stats(url, f"{number:08}-aaaa-bbbb-cccc-0123456789ab", told, 10_000)
    with MaruHandler(MaruConfig(server_url=url, chunk_size_bytes=CHUNK)) as handler:
        clients = handler.get_stats()["stats_manager"]["clients"]
    assert len(clients) == 256 + 1
    assert {operation["count"] for operation in clients["_all"]["operations"].values()} == {512}


def test_calls_answer_the_same_however_their_arguments_are_given(url):
    config = MaruConfig(
        server_url=url, instance_id="user", chunk_size_bytes=CHUNK, enable_stats=True
    )
    with MaruHandler(config) as handler:
        assert handler.store(handle=handler.alloc(3), key="a")
        assert handler.store(data=b"12", key="b")
        assert handler.store("c", None, b"1234")
        assert handler.batch_store(handles=[b"1", b"2"], keys=["d", "e"]) == [True] * 2
        assert handler.batch_store(keys=["f"], handles=iter([b"123"])) == [True]
        assert handler.exists(key="f") and handler.retrieve(verify=False, key="a") is not None
    with MaruHandler(MaruConfig(server_url=url, chunk_size_bytes=CHUNK)) as other:
        told = other.get_stats()["stats_manager"]["clients"]["user"]["operations"]
    assert (told["store"]["count"], told["store"]["total_size"]) == (3, 9)
    assert (told["batch_store"]["count"], told["batch_store"]["total_size"]) == (2, 2)


def test_a_count_that_fails_leaves_the_answer(url, monkeypatch):
    def fails(*_, **__):
        raise LookupError("no such count")

    monkeypatch.setitem(call_stats._CALLS, "store", fails)
    config = MaruConfig(server_url=url, chunk_size_bytes=CHUNK, enable_stats=True)
    with MaruHandler(config) as handler:
        assert handler.store("a", data=b"1") is True


def test_the_thread_ends_with_a_handler_that_is_dropped(url):
    config = MaruConfig(
        server_url=url, instance_id="user", chunk_size_bytes=CHUNK, enable_stats=True
    )
    handler = MaruHandler(config)
    assert handler.connect() and handler.store("a", data=b"1")
    thread = handler._call_stats._thread
    assert thread.is_alive()
    del handler
    gc.collect()
    thread.join(GONE_WITHIN_S)
    assert not thread.is_alive()
    with MaruHandler(MaruConfig(server_url=url, chunk_size_bytes=CHUNK)) as other:
        told = other.get_stats()["stats_manager"]["clients"]["user"]["operations"]
    assert told["store"]["count"] == 1, "the rest is told"


def test_nobody_to_tell_disturbs_nobody(server):
    config = MaruConfig(server_url=str(server.socket), chunk_size_bytes=CHUNK, enable_stats=True)
    with MaruHandler(config) as handler:
        assert handler.store("a", data=b"1")
        assert handler.get_stats()["stats_manager"] == {"clients": {}}
