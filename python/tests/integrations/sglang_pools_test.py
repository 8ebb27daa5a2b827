"""Several pools of one model: the forms of SGLang's interface that name them."""

import pytest
import torch
from sglang.srt.mem_cache.hicache_storage import PoolHitPolicy, PoolName, PoolTransfer
from sglang.srt.mem_cache.memory_pool_host import LogicalHostPool
from sglang_peer import PAGE, PAGES, fill, holds, indices, mamba_pool, mha_pool, mla_pool, storages

ALL, TRAILING = PoolHitPolicy.ALL_PAGES, PoolHitPolicy.TRAILING_PAGES
KEYS = ["a", "b", "c", "d"]


@pytest.fixture
def storage(server):
    """Makes storages with several pools, as SGLang's hybrid controller registers them."""
    with storages(server.metadata) as made:

        def one(pools, **fields):
            storage = made(pools[PoolName.KV], **fields)
            for name, pool in pools.items():
                storage.register_mem_host_pool_v2(pool, name)
            return storage

        yield one


def hybrid(kv=mha_pool, **options):
    return {PoolName.KV: kv(), PoolName.MAMBA: mamba_pool(**options)}


def transfer(pools, name, keys, pages, policy=ALL):
    return PoolTransfer(
        name=name, keys=keys, host_indices=indices(pools[name], pages), hit_policy=policy
    )


@pytest.mark.parametrize("side_state", [False, True])
def test_each_pool_has_pages_of_its_own(storage, side_state):
    ours, theirs = hybrid(side_state=side_state), hybrid(side_state=side_state)
    one, other = storage(ours), storage(theirs)
    for page in range(4):
        fill(ours[PoolName.KV], page, page + 1)
        fill(ours[PoolName.MAMBA], page, page + 11)
    told = one.batch_set_v2(
        [
            transfer(ours, PoolName.KV, KEYS, range(4)),
            transfer(ours, PoolName.MAMBA, ["b", "d"], [1, 3], TRAILING),
        ]
    )
    assert told == {PoolName.KV: [True] * 4, PoolName.MAMBA: [True] * 2}
    assert other.batch_exists([*KEYS, "no"]) == 4, "the same KV pages as without several pools"
    assert other.batch_get_v1(KEYS, indices(theirs[PoolName.KV], range(4))) == [True] * 4
    assert holds(theirs[PoolName.KV], 2, 3)

    told = other.batch_get_v2(
        [
            transfer(theirs, PoolName.MAMBA, ["b", "a", "d"], [6, 5, 4]),
            transfer(theirs, PoolName.KV, ["d"], [7]),
        ]
    )
    assert told == {PoolName.MAMBA: [True, False, True], PoolName.KV: [True]}
    states = theirs[PoolName.MAMBA]
    assert holds(states, 6, 12) and holds(states, 4, 14) and holds(states, 5, 100)
    assert holds(theirs[PoolName.KV], 7, 4)


def exists(storage, name, policy, window, keys=KEYS):
    wanted = PoolTransfer(name=name, keys=window, hit_policy=policy)
    told = storage.batch_exists_v2(keys, [wanted])
    pages = told.extra_pool_hit_pages
    return told.kv_hit_pages, told.restorable_prefix_pages, pages.get(name, 0)


@pytest.mark.parametrize(
    ("there", "policy", "window", "expected"),
    [
        ("ab", ALL, None, (2, [1, 2], 2)),
        ("bc", ALL, None, (0, [], 0)),
        ("b", TRAILING, ["x"], (2, [2], 2)),
        ("bd", TRAILING, None, (4, [2, 4], 4)),
        ("bcd", TRAILING, ["x", "y"], (4, [3, 4], 4)),
        ("abd", TRAILING, ["x", "y"], (2, [1, 2], 2)),
        ("ab", TRAILING, ["x"] * 3, (2, [1, 2], 2)),
        ("", TRAILING, ["x"], (0, [], 0)),
    ],
)
def test_a_prefix_is_what_all_pools_can_restore(storage, there, policy, window, expected):
    pools = hybrid()
    one = storage(pools)
    assert one.batch_set_v1(KEYS, indices(pools[PoolName.KV], range(4))) == [True] * 4
    if there:
        states = transfer(pools, PoolName.MAMBA, list(there), range(len(there)))
        assert all(one.batch_set_v2([states])[PoolName.MAMBA])
    assert exists(one, PoolName.MAMBA, policy, window, [*KEYS, "no"]) == expected
    assert one.batch_exists_v2([*KEYS, "no"]).kv_hit_pages == 4
    assert one.batch_exists_v2(["no", *KEYS]).kv_hit_pages == 0


@pytest.mark.parametrize("asked", [(PoolName.MAMBA, PoolName.SWA), (PoolName.SWA, PoolName.MAMBA)])
def test_pools_that_go_different_lengths(storage, asked):
    """Lengths that each of them can restore; the longest of one alone may be none of another."""
    pools = {**hybrid(), PoolName.SWA: mamba_pool()}
    one = storage(pools)
    for name, keys in ((PoolName.KV, KEYS), (PoolName.MAMBA, ["b", "d"]), (PoolName.SWA, ["b"])):
        assert all(one.batch_set_v2([transfer(pools, name, keys, range(len(keys)))])[name])
    wanted = [PoolTransfer(name=name, keys=["x"], hit_policy=TRAILING) for name in asked]
    told = one.batch_exists_v2(KEYS, wanted)
    assert (told.kv_hit_pages, told.restorable_prefix_pages) == (2, [2])
    assert told.extra_pool_hit_pages == {PoolName.KV: 4, PoolName.MAMBA: 4, PoolName.SWA: 2}


def test_states_beyond_the_kv_are_of_no_use(storage):
    pools = hybrid()
    one = storage(pools)
    assert one.batch_set_v1(KEYS[:2], indices(pools[PoolName.KV], range(2))) == [True] * 2
    assert all(one.batch_set_v2([transfer(pools, PoolName.MAMBA, KEYS, range(4))]).values())
    assert exists(one, PoolName.MAMBA, ALL, None) == (2, [1, 2], 2)


def test_groups_of_blocks_report_and_shorten_nothing(storage):
    pools = hybrid()
    one = storage(pools)
    assert one.batch_set_v1(KEYS, indices(pools[PoolName.KV], range(4))) == [True] * 4
    blocks = ["b0", "b1", "b2"]
    assert all(one.batch_set_v2([transfer(pools, PoolName.MAMBA, blocks, range(3))]).values())
    wanted = PoolTransfer(
        name=PoolName.MAMBA,
        keys=[*blocks, "b3"],
        hit_policy=PoolHitPolicy.BLOCK_GROUPS,
        block_pages=3,
        group_pages=2,
    )
    told = one.batch_exists_v2(KEYS, [wanted])
    assert told.kv_hit_pages == 4 and told.extra_pool_hit_pages[PoolName.MAMBA] == 3


def test_one_pools_failure_is_its_own(storage):
    pools = hybrid()
    one = storage(pools)
    kv = transfer(pools, PoolName.KV, ["a"], [0])
    unknown = PoolTransfer(name=PoolName.SWA, keys=["a"], host_indices=torch.arange(1))
    short = PoolTransfer(name=PoolName.MAMBA, keys=["a", "b"], host_indices=torch.arange(1))
    expected = {PoolName.SWA: [False], PoolName.MAMBA: [False] * 2, PoolName.KV: [True]}
    assert one.batch_set_v2([unknown, short, kv]) == expected
    assert one.batch_get_v2([unknown, short, kv]) == expected
    assert one.batch_get_v2([PoolTransfer(name=PoolName.MAMBA)]) == {PoolName.MAMBA: []}
    assert exists(one, PoolName.SWA, ALL, None, ["a"]) == (0, [], 0)
    assert exists(one, PoolName.MAMBA, "another policy", None, ["a"]) == (0, [], 0)
    assert exists(one, PoolName.SWA, PoolHitPolicy.BLOCK_GROUPS, None, ["a"]) == (1, [1], 0)


@pytest.mark.parametrize("name", [PoolName.MAMBA, PoolName.DRAFT])
def test_what_differs_by_rank_where_the_kv_does_not(storage, name):
    """Recurrent states, and the KV of a draft model that has heads."""
    pools = {**hybrid(kv=mla_pool), PoolName.DRAFT: mha_pool()}
    ranks = {"is_mla_model": True, "tp_size": 2}
    one, other = (storage(pools, tp_rank=rank, **ranks) for rank in range(2))
    for each in pools:
        assert one.batch_set_v2([transfer(pools, each, ["a"], [0])]) == {each: [True]}
    assert exists(one, name, ALL, None, ["a"]) == (1, [1], 1)
    assert exists(other, name, ALL, None, ["a"]) == (0, [], 0)
    assert other.batch_exists(["a"]) == 1


def test_kv_that_lies_in_the_sidecars_alone(storage):
    pools = {PoolName.KV: LogicalHostPool(PAGE * PAGES, PAGE), PoolName.MAMBA: mamba_pool()}
    one = storage(pools)
    assert one.batch_set_v1(KEYS, indices(pools[PoolName.KV], range(4))) == [True] * 4
    assert one.batch_get_v1(KEYS, indices(pools[PoolName.KV], range(4))) == [True] * 4
    states = transfer(pools, PoolName.MAMBA, ["a", "b"], [0, 1])
    assert one.batch_set_v2([states]) == {PoolName.MAMBA: [True] * 2}
    assert exists(one, PoolName.MAMBA, ALL, None) == (2, [1, 2], 2)
    assert one.batch_exists(KEYS) == 0, "nothing is stored of it"


def test_clear_deletes_of_all_pools(storage):
    pools = hybrid()
    one = storage(pools)
    for name in pools:
        assert one.batch_set_v2([transfer(pools, name, ["a"], [0])]) == {name: [True]}
    assert exists(one, PoolName.MAMBA, ALL, None, ["a"]) == (1, [1], 1)
    one.clear()
    assert one.batch_set_v1(["a"], indices(pools[PoolName.KV], [0])) == [True]
    assert exists(one, PoolName.MAMBA, ALL, None, ["a"]) == (0, [], 0)
