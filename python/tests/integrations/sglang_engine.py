"""SGLang's own cache controller, with its threads, in processes of their own: the part of the
engine that has pages of its host pools stored and loaded."""

import threading

import cpu_torchvision  # noqa: F401
import torch
from sglang.srt.mem_cache.allocator.paged import PagedTokenToKVPoolAllocator
from sglang.srt.mem_cache.base_prefix_cache import CacheRequestHandle
from sglang.srt.mem_cache.hicache_storage import PoolHitPolicy, PoolName, PoolTransfer
from sglang.srt.mem_cache.hybrid_cache.hybrid_cache_controller import HybridCacheController
from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool
from sglang.srt.mem_cache.pool_host.group import HostPoolGroup, PoolEntry
from sglang.srt.mem_cache.utils import get_storage_hash_str
from sglang.srt.runtime_context import get_context, get_parallel
from sglang_peer import (
    HEADS,
    LAYERS,
    PAGE,
    PAGES,
    WIDTH,
    Instance,
    extra_config,
    fill,
    flags,
    holds,
    indices,
    mamba_pool,
    mha_pool,
)
ANSWERED_WITHIN_S = 60  # many times what it takes; then the test fails by what it finds


def start_runtime():
    """What SGLang's launcher sets up in an engine's process, once in each."""
    if torch.distributed.is_initialized():
        return
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    get_context().override_server_args().install()
    get_parallel().override_permanently(tp_rank=0, pp_rank=0, attn_dcp_rank=0)


class Engine:
    """A controller over two host pools, KV and recurrent states, with a storage of a user's
    flags."""

    def __init__(self, url):
        start_runtime()
        device = MHATokenToKVPool(
            PAGE * PAGES, PAGE, torch.bfloat16, HEADS, WIDTH, LAYERS, "cpu", False
        )
        allocator = PagedTokenToKVPoolAllocator(
            PAGE * PAGES, PAGE, torch.bfloat16, "cpu", device, False
        )
        self.pools = {PoolName.KV: mha_pool(), PoolName.MAMBA: mamba_pool()}
        entries = [
            PoolEntry(name, pool, device, lambda layer: layer, name == PoolName.KV)
            for name, pool in self.pools.items()
        ]
        self.controller = HybridCacheController(
            allocator,
            HostPoolGroup(entries),
            PAGE,
            torch.distributed.group.WORLD,
            threading.Event(),
            storage_backend="dynamic",
            model_name="org/model",
            storage_backend_extra_config=extra_config(flags(url)),
        )

    def fill(self, name, pages, numbers):
        for page, number in zip(pages, numbers, strict=True):
            fill(self.pools[name], page, number)

    def hold(self, name, pages, numbers):
        return [holds(self.pools[name], *pair) for pair in zip(pages, numbers, strict=True)]

    def store(self, tokens, pages, state=None):
        """Tokens of which the KV is there afterwards. STATE: the page of the state after them."""
        hashes = get_storage_hash_str(tokens, None, page_size=PAGE)
        self.controller.write_storage(
            indices(self.pools[PoolName.KV], pages),
            tokens,
            hashes,
            extra_pools=None if state is None else [self._state(state, hashes[-1:])],
        )
        return self.controller.ack_backup_queue.get(timeout=ANSWERED_WITHIN_S).completed_tokens

    def _state(self, page, keys):
        return PoolTransfer(
            name=PoolName.MAMBA,
            host_indices=indices(self.pools[PoolName.MAMBA], [page]),
            keys=keys,
            hit_policy=PoolHitPolicy.TRAILING_PAGES,
        )

    def load(self, tokens, pages, state=None):
        """Tokens of which the KV was found, of which it was loaded to PAGES, and states loaded."""
        controller = self.controller
        controller.prefetch(
            CacheRequestHandle("a request", 0),
            tokens,
            extra_pools=None if state is None else [self._state(state, None)],
        )
        found = controller.prefetch_hit_queue.get(timeout=ANSWERED_WITHIN_S)
        if found.storage_hit_count == 0:
            return 0, 0, 0
        # As the scheduler does: memory for what was found.
        wanted = pages[: found.storage_hit_count // PAGE]
        found.host_indices = indices(self.pools[PoolName.KV], wanted)
        controller.prefetch_buffer.put(found)
        loaded = states = 0
        while True:
            told = controller.ack_prefetch_queue.get(timeout=ANSWERED_WITHIN_S)
            loaded = max(loaded, told.completed_tokens or 0)
            states += (told.pool_hits or {}).get(PoolName.MAMBA, 0)
            if told.completed_req:
                return found.storage_hit_count, loaded, states

    def statistics(self):
        counts = [one._statistics() for one in self.controller.storage_backend._handlers.values()]
        return {name: sum(one[name] for one in counts) for name in counts[0]}

    def clear(self):
        return self.controller.clear_storage_backend()

    def close(self):
        self.controller.detach_storage_backend()


def either(url, kind=Instance):
    """What the processes make: an engine's storage and movers, or its controller."""
    return kind(url)
