"""LMCache's engine itself in two processes on one server."""

import pytest

from lmcache_peer import CHUNK, Engine
from lmcache_test import assert_nothing_held
from peers import at_once, opened, two

PAIRS = 30
CHUNKS = 8


@pytest.fixture(scope="module")
def processes():
    with two(Engine) as made:
        yield made


def tokens_of(turn):
    # bfloat16 tells 256 numbers apart.
    return [(turn * 7 + i) % 251 + 1 for i in range(CHUNK * CHUNKS)]


def test_who_stores_the_same_tokens_at_once(processes, server, settled):
    length = CHUNK * CHUNKS
    with opened(processes, server.metadata) as both:
        for turn in range(PAIRS):
            tokens = tokens_of(turn)
            at_once(both, "store", tokens)
            assert [both[i]("lookup", tokens, f"{turn}") for i in range(2)] == [length] * 2
            assert at_once(both, "retrieve", tokens) == [(length, True)] * 2
            at_once(both, "unpin", f"{turn}")
        for told in at_once(both, "statistics"):
            assert told["pages_held"] == told["leases"] == told["pins"] == 0
        assert sum(told["duplicates"] for told in at_once(both, "statistics")) > 0
    told = settled()
    assert_nothing_held(told)
    assert sum(pool["pages"]["live"] for pool in told["pools"]) == PAIRS * CHUNKS


def test_a_prefix_is_what_is_found(processes, server):
    tokens = tokens_of(0)
    longer = [*tokens, *range(1, CHUNK + 1)]
    with opened(processes, server.metadata) as (one, other):
        one("store", tokens)
        assert other("lookup", longer, "longer", False) == len(tokens)
        assert other("retrieve", longer) == (len(tokens), True)
        other("store", longer)
        assert one("lookup", longer, "again", False) == len(longer)
