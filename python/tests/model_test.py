"""A handler answers as a plain dict does."""

import hypothesis.strategies as st
from handler_test import audit
from hypothesis import HealthCheck, given, settings

KEYS = st.sampled_from(["a", "b", "c/d", "ключ", "x" * 300])
DATA = st.binary(min_size=1, max_size=200)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("store"), KEYS, DATA),
        st.tuples(st.just("batch"), st.lists(st.tuples(KEYS, DATA), max_size=4)),
        st.tuples(st.just("delete"), KEYS),
        st.tuples(st.just("pin"), KEYS),
        st.tuples(st.just("unpin"), KEYS),
    ),
    max_size=30,
)


def act(handler, known, pins, step):
    kind, *rest = step
    if kind == "store":
        key, data = rest
        assert handler.store(key, data=data)
        known.setdefault(key, data)
    elif kind == "batch":
        keys = [key for key, _ in rest[0]]
        assert handler.batch_store(keys, [data for _, data in rest[0]]) == [True] * len(keys)
        for key, data in rest[0]:
            known.setdefault(key, data)
    elif kind == "pin":
        assert handler.pin(rest[0]) is (rest[0] in known)
        pins[rest[0]] = pins.get(rest[0], 0) + (rest[0] in known)
    elif kind == "unpin":
        held = pins.get(rest[0], 0)
        assert handler.unpin(rest[0]) is (held > 0)
        pins[rest[0]] = max(0, held - 1)
    else:
        gone = rest[0] in known and not pins.get(rest[0])
        assert handler.delete(rest[0]) is gone
        if gone:
            del known[rest[0]]


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(steps=STEPS)
def test_it_answers_as_a_dict_does(handler, server, steps):
    known, pins = {}, {}
    for step in steps:
        act(handler, known, pins, step)
    everything = ["a", "b", "c/d", "ключ", "x" * 300, "never"]
    assert handler.batch_exists(everything) == [key in known for key in everything]
    views = handler.batch_retrieve(everything)
    assert [info and bytes(info.view) for info in views] == [known.get(k) for k in everything]
    assert handler.match_prefix(everything) == next(
        (i for i, key in enumerate(everything) if key not in known), len(everything)
    )
    for key, count in pins.items():
        for _ in range(count):
            assert handler.unpin(key)
    for key in known:
        assert handler.delete(key)
    audit(server)
