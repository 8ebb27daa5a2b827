"""What MaruStorage says to SGLang, in one process: keys, sizes, failures."""

import os
import pathlib
import threading
import time

import pytest

import torch
from server import Server
from sglang.srt.observability.metrics_collector import StorageMetrics
from sglang.srt.runtime_context import get_context
from sglang_peer import (
    OTHER,
    PAGE_BYTES,
    fill,
    holds,
    indices,
    mha_pool,
    mla_pool,
    storages,
)

from maru import MaruConfig, MaruHandler

ODD_KEYS = ["", " ", "ключ/🔑", "a\0b", "x" * 4000]
NO_KEYS = ["x" * (65 << 10), "\udc00"]


@pytest.fixture
def storage(server):
    with storages(server.metadata) as made:
        yield made


def test_tensors_under_keys(storage):
    one, other = storage(), storage()
    keys, values = ["a", "b", "c"], [torch.randn(16) for _ in range(3)]
    assert one.set("a", values[0]) is True
    assert one.batch_set(keys, values) is True
    assert other.exists("a") is True and other.exists("no") is False
    assert other.batch_exists([*keys, "no", "a"]) == 3
    assert torch.equal(other.get("a").view(torch.float32), values[0])
    into = [torch.zeros(16) for _ in keys]
    assert all(map(torch.equal, other.batch_get(keys, into), values))
    assert all(map(torch.equal, into, values))
    crossed = values[0].view(4, 4).t()
    assert one.set("not contiguous", crossed) is True
    assert torch.equal(other.get("not contiguous", torch.zeros(4, 4)), crossed)


def test_what_cannot_be_had_or_stored(storage):
    one = storage()
    assert one.set("a", torch.zeros(16)) is True
    assert one.get("no") is None and one.batch_get(["no", "no"]) == [None, None]
    assert one.get("a", torch.zeros(15)) is None, "of another size"
    assert one.batch_get(["a"], [None, None]) == [None]
    told = one.batch_get(["a", "a", "no"], [torch.zeros(15), torch.ones(16), torch.zeros(16)])
    assert told[0] is told[2] is None and torch.equal(told[1], torch.zeros(16))
    assert one.set("b") is one.set("b", b"no tensor") is one.batch_set([], []) is False
    assert one.batch_set(["b", "c"], [torch.zeros(1)]) is False
    assert one.set("large", torch.zeros(1 << 20)) is False
    assert one.set("empty", torch.zeros(0)) is False
    assert one.batch_exists(["a", "b"]) == 1
    assert one.batch_get_v1(["a"], torch.arange(4)) == [False], "no pool is registered"
    assert one.batch_set_v1(["a"], torch.arange(4)) == [False]


def test_whatever_is_raised_inside_is_said_and_not_raised(storage, monkeypatch, caplog):
    pool = mha_pool()
    one = storage(pool)
    assert one.set("a", torch.zeros(16)) is True
    assert one.get("a", bytearray(64)) is None
    assert one.batch_set_v1(["b"], list(range(4))) == [False], "no tensor of indices"
    assert one.batch_get_v1(["b"], list(range(4))) == [False]
    assert one.batch_set(["b"], 7) is False
    assert caplog.text.count("AttributeError") == 3

    def fails(*_):
        raise IndexError("beyond the pool")

    assert one.batch_set_v1(["c"], indices(pool, [1])) == [True]
    monkeypatch.setattr(pool, "get_page_buffer_meta", fails)
    assert one.batch_set_v1(["d"], indices(pool, [1])) == [False]
    assert one.batch_get_v1(["c"], indices(pool, [1])) == [False]
    monkeypatch.setattr(one._pages["kv"], "_places", lambda indices: [None])
    monkeypatch.setattr(one._pages["kv"], "save", fails)
    monkeypatch.setattr(one._pages["kv"], "load", fails)
    assert one.batch_set_v1(["d"], indices(pool, [1])) == [False]
    assert one.batch_get_v1(["c"], indices(pool, [1])) == [False]
    assert caplog.text.count("IndexError: beyond the pool") == 4
    assert pool_held(one) == 0


def seconds_of(call, threads):
    """How long CALL takes in so many threads at the same time."""
    ready = threading.Barrier(threads + 1)

    def work():
        ready.wait()
        call()

    all_of_them = [threading.Thread(target=work) for _ in range(threads)]
    for thread in all_of_them:
        thread.start()
    ready.wait()
    began = time.monotonic()
    for thread in all_of_them:
        thread.join()
    return time.monotonic() - began


def test_threads_share_an_attempt_to_connect(storage, server):
    one = storage(extra={"maru_timeout_ms": 1000})
    one.close()
    with server.standing_still():
        alone = seconds_of(lambda: one.exists("a"), 1)
        together = seconds_of(lambda: one.exists("a"), 16)
    assert together < 8 * alone, "one after the other would take 16 times as long"
    assert one.set("a", torch.zeros(1)) is one.exists("a") is True


@pytest.mark.parametrize("key", ODD_KEYS)
def test_odd_keys(storage, key):
    pool = mha_pool()
    fill(pool, 1, 5)
    one = storage(pool)
    assert one.batch_set_v1([key], indices(pool, [1])) == [True]
    assert one.batch_get_v1([key], indices(pool, [2])) == [True]
    assert holds(pool, 2, 5) and one.exists(key) is True


@pytest.mark.parametrize("key", NO_KEYS)
def test_what_is_no_key(storage, key):
    pool = mha_pool()
    one = storage(pool)
    assert one.batch_set_v1([key], indices(pool, [1])) == [False]
    assert one.batch_get_v1([key], indices(pool, [1])) == [False]
    assert one.exists(key) is one.set(key, torch.zeros(1)) is False
    assert one.batch_exists([key]) == 0 and one.get(key) is None
    assert pool_held(one) == 0


def pool_held(storage):
    return sum(handler._statistics()["pages_held"] for handler in storage._handlers.values())


@pytest.mark.parametrize("indices_less", [0, 1])
@pytest.mark.parametrize("pages", [[], [0], [0, 1, 2]])
def test_indices_of_another_number_of_pages(storage, pages, indices_less):
    pool = mha_pool()
    one = storage(pool)
    wrong = indices(pool, pages)
    wrong = wrong[: max(0, len(wrong) - indices_less)]
    assert one.batch_set_v1(["a", "b"], wrong) == [False] * 2
    assert one.batch_get_v1(["a", "b"], wrong) == [False] * 2
    assert one.batch_set_v1(["a", "b"], None) == [False] * 2
    assert pool_held(one) == 0


def test_a_page_of_another_size_is_a_miss(storage, server):
    pool = mha_pool()
    one = storage(pool)
    with MaruHandler(MaruConfig(server_url=server.metadata)) as handler:
        for key, size in (("short", PAGE_BYTES - 1), ("long", PAGE_BYTES + 1)):
            assert handler.store(*one._keys([key]), data=b"\1" * size)
    assert one.batch_exists(["short", "long"]) == 2
    assert one.batch_get_v1(["short", "long"], indices(pool, [0, 1])) == [False] * 2
    assert one.get("long", pool.get_dummy_flat_data_page()) is None
    assert holds(pool, 0, OTHER) and holds(pool, 1, OTHER)


@pytest.mark.parametrize(
    "other",
    [
        {"model_name": "org-model"},
        {"model_name": None},
        {"tp_rank": 1, "tp_size": 2},
        {"tp_size": 2},
        {"pp_rank": 1, "pp_size": 2},
        {"attn_cp_rank": 1, "attn_cp_size": 2},
        {"extra": {"maru_namespace": "theirs"}},
    ],
)
def test_pages_of_others_are_not_found(storage, other):
    pool = mha_pool()
    assert storage(pool).batch_set_v1(["a"], indices(pool, [1])) == [True]
    assert storage(pool).batch_exists(["a"]) == 1
    assert storage(pool, **other).batch_exists(["a"]) == 0


def test_neither_are_those_of_another_dtype_or_layout(storage):
    pool = mha_pool()
    assert storage(pool).batch_set_v1(["a"], indices(pool, [1])) == [True]
    assert storage(mha_pool(dtype=torch.float16)).exists("a") is False
    for layout in ("page_first_direct", "page_head", "layer_first"):
        assert storage(mha_pool(layout)).exists("a") is False


def test_nor_those_of_another_fp8_format(storage):
    pools = [mha_pool(dtype=torch.uint8) for _ in range(3)]
    with get_context().override_server_args(kv_cache_dtype="fp8_e5m2"):
        assert storage(pools[0]).batch_set_v1(["a"], indices(pools[0], [1])) == [True]
        assert storage(pools[1]).exists("a") is True
    with get_context().override_server_args(kv_cache_dtype="fp8_e4m3"):
        assert storage(pools[2]).exists("a") is False


def test_ranks_of_a_model_with_latent_attention_share(storage):
    ours, theirs = mla_pool(), mla_pool()
    fill(ours, 1, 5)
    ranks = {"is_mla_model": True, "tp_size": 2}
    assert storage(ours, tp_rank=0, **ranks).batch_set_v1(["a"], indices(ours, [1])) == [True]
    reader = storage(theirs, tp_rank=1, **ranks)
    assert reader.batch_get_v1(["a"], indices(theirs, [2])) == [True] and holds(theirs, 2, 5)
    assert storage(theirs, pp_rank=1, pp_size=2, **ranks).exists("a") is False


@pytest.mark.parametrize(("chunk", "page"), [(None, 8 << 10), ("4K", 8 << 10), ("1M", 1 << 20)])
def test_pages_of_maru_are_as_large_as_those_of_the_host_pool(storage, chunk, page):
    extra = {} if chunk is None else {"maru_chunk_size_bytes": chunk}
    pool = mha_pool()
    one = storage(pool, extra)
    assert one.batch_set_v1(["a"], indices(pool, [1])) == [True]
    assert one._reader().get_chunk_size() == page


def test_a_full_pool_stores_what_fits():
    """A prefix of the batch: what comes after the first page without room is not tried."""
    pool = mha_pool()
    program = pathlib.Path(os.environ["MARU_PROGRAM"])
    options = ("--eviction", "none")
    with Server(program, options=options, listen="tcp://127.0.0.1:0") as full:
        with storages(full.metadata) as storage:
            one = storage(pool, {"maru_chunk_size_bytes": "1M"})
            keys = [f"{number}" for number in range(80)]
            stored = one.batch_set_v1(keys, indices(pool, [number % 8 for number in range(80)]))
            fitted = stored.index(False)
            assert 16 < fitted < 64 and stored == [True] * fitted + [False] * (80 - fitted)
            assert one.batch_exists(keys) == fitted
            assert pool_held(one) == 0
            assert one.set("more", torch.zeros(1)) is False
            assert one.batch_set(keys[:3], [torch.zeros(1)] * 3) is True, "they are there"


def test_who_loses_a_race_is_told_that_the_page_is_there(storage):
    ours, theirs = mha_pool(), mha_pool()
    one, other = storage(ours), storage(theirs)
    for pool in (ours, theirs):
        fill(pool, 1, 5)
    pages = one._pages["kv"]
    save = pages.save

    def late(place, page):
        """Between the look whether the page is there and the store, another stores it."""
        assert other.batch_set_v1(["a", "b"], indices(theirs, [1, 1])) == [True] * 2
        save(place, page)

    pages.save = late
    assert one.batch_set_v1(["a", "b"], indices(ours, [1, 1])) == [True] * 2
    assert sum(each._statistics()["duplicates"] for each in one._handlers.values()) == 2
    assert pool_held(one) == 0
    assert other.batch_get_v1(["a", "b"], indices(theirs, [2, 3])) == [True] * 2
    assert holds(theirs, 2, 5) and holds(theirs, 3, 5)


def test_threads_and_a_close_among_them(storage):
    pool = mha_pool()
    fill(pool, 1, 5)
    one = storage(pool)
    failed = []

    def work(number):
        for turn in range(50):
            key = f"{turn % 10}"
            if one.batch_set_v1([key], indices(pool, [1])) != [True]:
                failed.append(("set", number, turn))
            if one.batch_get_v1([key], indices(pool, [2 + number])) != [True]:
                failed.append(("get", number, turn))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed and all(holds(pool, 2 + number, 5) for number in range(4))
    kept = one.get("0")
    one.close()
    one.close()
    assert kept.numel() == PAGE_BYTES and int(kept[0]) == int(one.get("0")[0])
    assert one.batch_get_v1(["0"], indices(pool, [7])) == [True], "it connects anew"


def test_settings_that_cannot_be(storage, server):
    with pytest.raises(ValueError, match="maru_pool_size"):
        storage(extra={"maru_pool_size": "many"})
    with pytest.raises(ValueError, match="page_unified"):
        storage(mha_pool("page_unified"))
    server.stop()
    with pytest.raises(RuntimeError, match="cannot connect to Maru"):
        storage()


def test_clear_deletes_what_it_would_find(storage):
    pool = mha_pool()
    one, twin = storage(pool), storage(pool)
    hashes = [f"{number:064x}" for number in range(2000)]
    assert one.batch_set_v1(hashes, indices(pool, [0] * 2000)) == [True] * 2000
    others = [storage(pool, tp_rank=1, tp_size=2), storage(pool, model_name="other_org/model")]
    others.append(storage(pool, model_name="model"))
    for other in others:
        assert other.batch_set_v1(hashes[:2], indices(pool, [0, 1])) == [True] * 2
    assert twin.clear() is None
    assert one.batch_exists(hashes[::-1]) == one.batch_exists(hashes) == 0
    assert [other.batch_exists(hashes) for other in others] == [2] * 3
    assert one.batch_set_v1(hashes[:1], indices(pool, [0])) == [True]


def test_rates_are_told_once(storage):
    pool = mha_pool()
    assert storage(pool).get_stats() is None
    one = storage(pool, enable_storage_metrics=True)
    assert one.batch_set_v1(["a", "b"], indices(pool, [0, 1])) == [True] * 2
    assert one.batch_get_v1(["a", "no"], indices(pool, [2, 3])) == [True, False]
    assert one.batch_get_v1(["no"], indices(pool, [2])) == [False]
    told = one.get_stats()
    assert isinstance(told, StorageMetrics)
    assert (told.backup_pgs, told.prefetch_pgs) == ([2], [1])
    assert min(told.backup_bandwidth + told.prefetch_bandwidth) > 0
    assert one.get_stats() == StorageMetrics()
