"""LMCache's own MaruBackend in two processes on one server."""

import struct

import pytest

import torch
from lmcache.v1.memory_management import MemoryFormat
from lmcache_peer import CHUNK, TOKEN_BYTES, Backend
from peers import Peer, at_once, opened, two

from maru import MaruConfig, MaruHandler
from maru_lmcache import CxlMemoryAdapter

PAIRS = 30
KEYS = list(range(16))


@pytest.fixture(scope="module")
def processes():
    with two(Backend) as made:
        yield made


def bytes_of(number, tokens=CHUNK):
    """bfloat16 of the number: the upper half of its float32."""
    return struct.pack("<f", number)[2:] * (tokens * TOKEN_BYTES // 2)


def assert_nothing_held(told):
    for pool in told["pools"]:
        assert pool["pages"]["granted"] == pool["pages"]["condemned"] == 0
    assert told["clients"]["attached"] == 0


def test_what_one_puts_the_other_gets(processes, server, settled):
    with opened(processes, server.metadata) as (one, other):
        assert one("put", KEYS) == (len(KEYS), 0)
        assert one("put", [100], CHUNK, False) == (1, 0)
        assert other("contains", [*KEYS, 999, 100]) == len(KEYS)
        assert other("get", 100) == bytes_of(100)
        assert other("get", 999) is None
        assert other("batched_get", [3, 999, 4]) == [bytes_of(3), None, bytes_of(4)]
        assert other("async_get", [0, 1, 999, 2]) == (2, [bytes_of(0), bytes_of(1)])
        assert other("statistics")["leases"] == other("statistics")["pins"] == 0
        assert one("statistics")["leases"] == 0, "LMCache leaves the counts of its objects raised"
    assert_nothing_held(settled())


@pytest.mark.parametrize("tokens", [1, 5, CHUNK - 1])
def test_partial_chunks(processes, server, tokens):
    with opened(processes, server.metadata) as (one, other):
        assert one("put", [7], tokens) == (1, 0)
        assert other("hold", 7)[2] == tokens
        assert other("held_bytes", 7) == bytes_of(7, tokens)


def test_pins_keep_a_key_and_are_counted(processes, server):
    with opened(processes, server.metadata) as (one, other):
        assert one("put", [1, 2]) == (2, 0)
        assert other("contains", [1, 1, 2, 999], True) == 3
        assert one("remove", 1) is False
        assert other("unpin", [1, 1, 1, 2]) == [True, True, False, True]
        assert one("remove", 1) is True


def test_what_was_loaded_does_not_change(processes, server):
    with opened(processes, server.metadata) as (one, other):
        one("put", [1])
        other("hold", 1)
        assert one("remove", 1) is True
        for number in range(2, 30):
            assert one("put", [number]) == (1, 0)
        assert other("held_bytes", 1) == bytes_of(1)
        assert other("statistics")["leases"] == 1
        other("let_go", 1)
        assert other("statistics")["leases"] == 0


def test_anyone_removes_and_no_page_is_lost(processes, server, settled):
    with opened(processes, server.metadata) as (one, other):
        for _ in range(3):
            assert one("put", KEYS) == (len(KEYS), 0)
            assert [other("remove", key) for key in KEYS] == [True] * len(KEYS)
            assert other("remove", 0) is False
    told = settled()
    assert_nothing_held(told)
    assert sum(pool["pages"]["live"] for pool in told["pools"]) == 0


@pytest.mark.parametrize("batched", [True, False])
def test_who_puts_the_same_keys_at_once(processes, server, settled, batched):
    with opened(processes, server.metadata) as both:
        for turn in range(PAIRS):
            keys = [turn * 8 + i for i in range(8)]
            assert at_once(both, "put", keys, CHUNK, batched) == [(8, 0)] * 2
            assert at_once(both, "batched_get", keys) == [[bytes_of(key) for key in keys]] * 2
        assert [peer("statistics")["pages_held"] for peer in both] == [0, 0]
        lost = sum(peer("statistics")["duplicates"] for peer in both)
        assert lost == PAIRS * 8, "each key has one winner and one loser"
    told = settled()
    assert_nothing_held(told)
    assert sum(pool["pages"]["live"] for pool in told["pools"]) == PAIRS * 8


def test_a_page_has_one_owner(processes, server, settled):
    with opened(processes[:1], server.metadata) as (one,):
        assert one("double_free", 5) == (True, "refused")
        assert one("get", 5) == bytes_of(5)
        assert one("statistics")["pages_held"] == 0
        assert one("all_or_nothing", 10_000_000) is None
        assert one("statistics")["pages_held"] == 0
        assert one("all_or_nothing", 4) == 4
        told, chunks = one("format_without_one")
        assert told == chunks != "UNDEFINED"
    assert_nothing_held(settled())


def test_a_server_that_comes_back(processes, server, settled):
    with opened(processes, server.metadata) as (one, other):
        assert one("put", KEYS) == (len(KEYS), 0)
        other("hold", 3)
        server.kill()
        assert other("held_bytes", 3) == bytes_of(3)
        server.start()
        assert other("get", 4) == bytes_of(4)
        assert other("put", [50]) == (1, 0)
        assert one("get", 50) == bytes_of(50)
        assert other("remove", 4) is True
    assert_nothing_held(settled())


def test_a_stray_write_stops_its_writer(processes, server):
    with opened(processes[:1], server.metadata) as (one,):
        one("put", [1])
        stray = Peer(Backend)
        stray("open", server.metadata)
        stray.start("write_to_loaded", 1)
        with pytest.raises(EOFError):
            stray.answer()
        stray.process.join()
        assert stray.process.exitcode < 0, "stopped by a signal"
        assert one("get", 1) == bytes_of(1)


class ClosedBesideIt(MaruHandler):
    """As if another thread closed it right after each page."""

    def alloc(self, size):
        handle = super().alloc(size)
        self.close()
        return handle


def test_a_close_beside_an_allocation_leaves_no_memory(server):
    handler = ClosedBesideIt(MaruConfig(server_url=server.metadata))
    assert handler.connect()
    shape, dtype = torch.Size([2, 1, 4, 8]), torch.bfloat16
    adapter = CxlMemoryAdapter(handler, [shape], [dtype], MemoryFormat.KV_2LTD, 128)
    assert adapter.allocate(shape, dtype) is None
