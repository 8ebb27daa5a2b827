"""SGLang's own cache controller in two processes on one server."""

from peers import at_once, opened
from sglang_engine import PAGE, Engine
from sglang_peer import OTHER
from sglang_test import assert_nothing_held

TURNS = 30


def engines(processes, server):
    return opened(processes, server.metadata, Engine)


def tokens_of(turn, pages):
    return [turn * 1000 + i for i in range(PAGE * pages)]


def test_who_stores_the_same_tokens_at_once(sglang_processes, server, settled):
    with engines(sglang_processes, server) as both:
        for turn in range(TURNS):
            tokens, numbers = tokens_of(turn, 3), [turn, turn + 1, turn + 2]
            at_once(both, "fill", "kv", [0, 1, 2], numbers)
            assert at_once(both, "store", tokens, [0, 1, 2]) == [PAGE * 3] * 2
            assert at_once(both, "load", tokens, [5, 3, 4]) == [(PAGE * 3, PAGE * 3, 0)] * 2
            assert at_once(both, "hold", "kv", [5, 3, 4], numbers) == [[True] * 3] * 2
        told = at_once(both, "statistics")
        assert [one["pages_held"] for one in told] == [one["leases"] for one in told] == [0, 0]
    assert_nothing_held(settled(), live=TURNS * 3)


def test_a_prefix_is_what_is_found(sglang_processes, server):
    with engines(sglang_processes, server) as (one, other):
        one("fill", "kv", [0, 1], [1, 2])
        assert one("store", tokens_of(0, 2), [0, 1]) == PAGE * 2
        assert other("load", tokens_of(0, 5), [3, 4, 5, 6, 7]) == (PAGE * 2, PAGE * 2, 0)
        assert other("hold", "kv", [3, 4, 5], [1, 2, OTHER]) == [True] * 3
        assert other("load", tokens_of(7, 2), [3, 4]) == (0, 0, 0)
        assert one("clear") is True
        assert other("load", tokens_of(0, 2), [3, 4]) == (0, 0, 0)


def test_states_go_with_the_kv_that_leads_to_them(sglang_processes, server):
    with engines(sglang_processes, server) as (one, other):
        one("fill", "kv", [0, 1, 2], [1, 2, 3])
        one("fill", "mamba", [6], [9])
        assert one("store", tokens_of(0, 2), [0, 1], 6) == PAGE * 2
        assert one("store", tokens_of(0, 3), [0, 1, 2]) == PAGE * 3
        # No state follows the third page, so two are of use.
        assert other("load", tokens_of(0, 3), [5, 6, 7], 1) == (PAGE * 2, PAGE * 2, 1)
        assert other("hold", "kv", [5, 6, 7], [1, 2, OTHER]) == [True] * 3
        assert other("hold", "mamba", [0, 1], [OTHER, 9]) == [True] * 2


def test_an_engine_goes_on_without_its_server(sglang_processes, server, settled):
    with engines(sglang_processes, server) as (one, other):
        one("fill", "kv", [0], [1])
        assert one("store", tokens_of(0, 1), [0]) == PAGE
        server.kill()
        assert one("store", tokens_of(1, 1), [0], 1) == 0
        assert other("load", tokens_of(1, 1), [4], 1) == (0, 0, 0)
        server.start()
        assert other("load", tokens_of(0, 1), [4]) == (PAGE, PAGE, 0)
        assert other("hold", "kv", [4], [1]) == [True]
        assert one("store", tokens_of(1, 1), [0]) == PAGE
    assert_nothing_held(settled(), live=2)
