"""MaruStorage under SGLang's own factory, host pools and movers of pages, in two processes."""

import pytest
from peers import at_once, opened
from sglang_peer import OTHER

LAYOUTS = ["page_first", "page_first_direct", "page_head", "layer_first"]
FORMS = ["v1", "generic"]
KEYS = ["a", "b", "c"]
NUMBERS = [1, 2, 3]
TURNS = 30


def assert_nothing_held(told, live):
    for pool in told["pools"]:
        assert pool["pages"]["granted"] == pool["pages"]["condemned"] == 0
    assert told["clients"]["attached"] == 0
    assert sum(pool["pages"]["live"] for pool in told["pools"]) == live


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("stored", FORMS)
@pytest.mark.parametrize("loaded", FORMS)
def test_what_one_sets_the_other_gets(sglang_processes, server, layout, stored, loaded):
    """Whichever form of the interface either of them uses: the bytes of a page are the same."""
    with opened(sglang_processes, server.metadata) as (one, other):
        at_once(sglang_processes, "use", layout)
        one("fill", [4, 0, 2], NUMBERS)
        assert one("set", stored, KEYS, [4, 0, 2]) is True
        assert other("exist", [*KEYS, "no"]) == 3
        assert other("get", loaded, KEYS, [1, 6, 5]) == 3
        assert other("hold", [1, 6, 5], NUMBERS) == [True] * 3
        assert other("hold", [0, 2, 3, 4, 7], [OTHER] * 5) == [True] * 5


def test_missing_keys_leave_the_memory_as_it_was(sglang_processes, server):
    with opened(sglang_processes, server.metadata) as (one, other):
        one("fill", [0, 1], [1, 2])
        assert one("set_v1", ["a", "c"], [0, 1]) == [True] * 2
        assert other("exist", ["a", "b", "c"]) == 1
        assert other("exist", ["b", "a"]) == other("exist", []) == 0
        assert other("get_v1", ["a", "b", "c"], [5, 6, 7]) == [True, False, True]
        assert other("hold", [5, 6, 7], [1, OTHER, 2]) == [True] * 3
        assert other("get", "v1", ["a", "b", "c"], [5, 6, 7]) == 1
        assert other("get", "generic", ["b"], [6]) == 0
        assert other("get_v1", [], []) == other("set_v1", [], []) == []


@pytest.mark.parametrize("form", FORMS)
def test_who_sets_the_same_keys_at_once(sglang_processes, server, settled, form):
    with opened(sglang_processes, server.metadata) as both:
        pages = list(range(8))
        for turn in range(TURNS):
            keys = [f"{turn} {page}" for page in pages]
            at_once(both, "fill", pages, [turn + page for page in pages])
            assert at_once(both, "set", form, keys, pages) == [True] * 2
            at_once(both, "fill", pages, [OTHER] * 8)
            assert at_once(both, "get", form, keys, pages) == [8] * 2
            expected = [turn + page for page in pages]
            assert at_once(both, "hold", pages, expected) == [[True] * 8] * 2
        told = at_once(both, "statistics")
        assert [one["pages_held"] for one in told] == [one["leases"] for one in told] == [0, 0]
    assert_nothing_held(settled(), live=TURNS * 8)


def test_what_is_there_is_not_copied_again(sglang_processes, server):
    with opened(sglang_processes, server.metadata) as (one, other):
        one("fill", [0], [1])
        assert one("set_v1", ["a"], [0]) == [True]
        assert other("set_v1", ["a", "b"], [0, 1]) == [True] * 2
        assert other("statistics")["stores"] == 1
        assert other("get_v1", ["a"], [3]) == [True]
        assert other("hold", [3], [1]) == [True]


def test_a_server_that_comes_back(sglang_processes, server, settled):
    with opened(sglang_processes, server.metadata) as (one, other):
        one("fill", [0, 1], [1, 2])
        assert one("set_v1", ["a", "b"], [0, 1]) == [True] * 2
        server.kill()
        assert one("set_v1", ["c"], [0]) == [False]
        assert other("get_v1", ["no"], [0]) == [False]
        server.start()
        assert other("get_v1", ["a", "b"], [4, 5]) == [True] * 2
        assert other("hold", [4, 5], [1, 2]) == [True] * 2
        assert one("set_v1", ["c"], [0]) == [True]
        assert other("exist", ["c", "b", "a"]) == 3
    assert_nothing_held(settled(), live=3)
