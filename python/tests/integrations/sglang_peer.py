"""What of SGLang runs here and in processes of its own: its host pools, the part of its cache
controller that moves pages, and its factory, which makes the storage of what a user's flags say."""

import argparse
import contextlib
import json

import cpu_torchvision  # noqa: F401
import torch
from sglang.srt.managers.cache_controller import HiCacheController
from sglang.srt.mem_cache.device_pool_info import (
    KVBufferLayout,
    KVBuffers,
    MambaStateBufferInfo,
    MHABufferInfo,
    MLABufferInfo,
)
from sglang.srt.mem_cache.hicache_storage import HiCacheStorageConfig
from sglang.srt.mem_cache.hybrid_cache.hybrid_cache_controller import (
    HybridCacheController,
)
from sglang.srt.mem_cache.pool_host.mamba import MambaPoolHost
from sglang.srt.mem_cache.pool_host.mha import MHATokenToKVPoolHost
from sglang.srt.mem_cache.pool_host.mla import MLATokenToKVPoolHost
from sglang.srt.mem_cache.storage.backend_factory import StorageBackendFactory
from sglang.srt.server_args import ServerArgs

PAGE, PAGES = 4, 8
LAYERS, HEADS, WIDTH = 3, 2, 64
PAGE_BYTES = 2 * PAGE * LAYERS * HEADS * WIDTH * 2
OTHER = 100  # what a page holds before anything is loaded


def flags(url, **extra):
    """What a user says to SGLang."""
    config = {
        "backend_name": "maru",
        "module_path": "maru_sglang.maru_storage",
        "class_name": "MaruStorage",
        "interface_v1": 1,
        "maru_server_url": url,
        "maru_pool_size": "16M",
        **extra,
    }
    return [
        *("--model-path", "org/model", "--enable-hierarchical-cache"),
        *("--hicache-mem-layout", "page_first", "--hicache-storage-backend", "dynamic"),
        *("--hicache-storage-backend-extra-config", json.dumps(config)),
    ]


def parsed(told):
    """Flags as SGLang reads them."""
    parser = argparse.ArgumentParser()
    ServerArgs.add_cli_args(parser)
    return parser.parse_args(told)


def extra_config(told):
    """What SGLang passes on of flags to a storage."""
    text = parsed(told).hicache_storage_backend_extra_config
    return HybridCacheController.parse_storage_backend_extra_config(text)[0]


def storage_of(told, pool=None, **fields):
    """The storage that SGLang makes of flags, as its cache controller does. FIELDS are of its
    HiCacheStorageConfig, for what a parallel model would have."""
    arguments = parsed(told)
    config = HiCacheStorageConfig(
        **{
            **{"tp_rank": 0, "tp_size": 1, "pp_rank": 0, "pp_size": 1},
            **{"attn_cp_rank": 0, "attn_cp_size": 1, "is_mla_model": False},
            **{"enable_storage_metrics": False, "is_page_first_layout": True},
            "model_name": arguments.model_path,
            "extra_config": extra_config(told),
            **fields,
        }
    )
    storage = StorageBackendFactory.create_backend(
        arguments.hicache_storage_backend, config, pool
    )
    if pool is not None:
        storage.register_mem_pool_host(pool)
        storage.on_host_pools_registered()
    return storage


@contextlib.contextmanager
def storages(url):
    """Makes storages as SGLang does of a user's flags."""
    made = []

    def one(pool=None, extra=None, **fields):
        made.append(storage_of(flags(url, **(extra or {})), pool, **fields))
        return made[-1]

    yield one
    for storage in made:
        storage.close()


def _filled(pool):
    if pool.layout != "page_unified":  # of which there is no flat form
        for page in range(PAGES):
            fill(pool, page, OTHER)
    return pool


def mha_pool(layout="page_first", dtype=torch.bfloat16):
    """SGLang's host pool of a model with heads, every page of it OTHER."""
    parts = [
        [torch.zeros(PAGE * PAGES, HEADS, WIDTH, dtype=dtype) for _ in range(LAYERS)]
        for _ in "kv"
    ]
    k_pointers, v_pointers = (
        torch.tensor([one.data_ptr() for one in part], dtype=torch.uint64) for part in parts
    )
    info = MHABufferInfo(
        buffers=KVBuffers(
            k=tuple(parts[0]),
            v=tuple(parts[1]),
            k_data_ptrs=k_pointers,
            v_data_ptrs=v_pointers,
            layout=KVBufferLayout.NHD,
        ),
        page_size=PAGE,
        head_num=HEADS,
        head_dim=WIDTH,
        v_head_dim=WIDTH,
        dtype=dtype,
        device=torch.device("cpu"),
    )
    return _filled(
        MHATokenToKVPoolHost(
            info,
            2.0,
            0,
            PAGE,
            layout,
            pin_memory=False,
            device_capacity_tokens=PAGE * PAGES,
            start_layer=0,
            end_layer=LAYERS - 1,
        )
    )


def mla_pool(layout="page_first"):
    """SGLang's host pool of a model with latent attention."""
    layers = tuple(torch.zeros(PAGE * PAGES, 1, WIDTH, dtype=torch.bfloat16) for _ in range(LAYERS))
    info = MLABufferInfo(
        buffers=layers,
        data_ptrs=torch.tensor([one.data_ptr() for one in layers], dtype=torch.uint64),
        layer_indices=tuple(range(LAYERS)),
        device_layer_num=LAYERS,
        page_size=PAGE,
        kv_lora_rank=WIDTH // 2,
        qk_rope_head_dim=WIDTH // 2,
        kv_cache_dim=WIDTH,
        dtype=torch.bfloat16,
        device=torch.device("cpu"),
    )
    return _filled(
        MLATokenToKVPoolHost(
            info,
            2.0,
            0,
            PAGE,
            layout,
            pin_memory=False,
            device_capacity_tokens=PAGE * PAGES,
            start_layer=0,
            end_layer=LAYERS - 1,
            target_layer_num=LAYERS,
        )
    )


def mamba_pool(side_state=False):
    """SGLang's host pool of recurrent states: one index is a page, of tensors of two kinds."""
    extra = (torch.zeros(PAGES, 3, dtype=torch.int64),) if side_state else ()
    info = MambaStateBufferInfo(
        temporal=torch.zeros(LAYERS, PAGES, 4, WIDTH, dtype=torch.float32),
        conv=(torch.zeros(LAYERS, PAGES, 6, dtype=torch.bfloat16),),
        extra_checkpoint_buffers=extra,
    )
    pool = MambaPoolHost(
        info, 2.0, 0, device_capacity=PAGES, pin_memory=False, layout="page_first"
    )
    return _filled(pool)


def start(pool, page):
    return page * pool.page_size


def fill(pool, page, number):
    """Values that differ all over the page, and between numbers."""
    flat = pool.get_dummy_flat_data_page()
    values = torch.arange(flat.numel()) * 3 + number * 7
    pool.set_from_flat_data_page(start(pool, page), (values % 251).to(flat.dtype))


def holds(pool, page, number):
    """Whether a page is what fill() made of NUMBER in a pool of that kind."""
    flat = pool.get_data_page(start(pool, page), flat=True)
    values = torch.arange(flat.numel()) * 3 + number * 7
    return torch.equal(flat, (values % 251).to(flat.dtype))


def indices(pool, pages):
    first = torch.tensor(pages, dtype=torch.int64) * pool.page_size
    return (first.unsqueeze(1) + torch.arange(pool.page_size)).flatten()


class Moves:
    """SGLang's own movers of pages, those of its cache controller, over a storage and a pool."""

    def __init__(self, storage, pool):
        from sglang.srt.managers.cache_controller import HiCacheController

        class Controller(HiCacheController):
            request_id = "a request"

            def __init__(self):
                self.storage_backend = storage
                self.storage_host_pool = pool
                self.page_size = pool.page_size

            @staticmethod
            def is_terminated():
                return False

        self.controller = Controller()
        self.pool = pool

    def set(self, form, keys, pages):
        to = self.controller
        move = to._page_set_zero_copy if form == "v1" else to._generic_page_set
        return move(keys, indices(self.pool, pages))

    def get(self, form, keys, pages):
        """How many pages there are, from the first on."""
        to = self.controller
        move = to._page_get_zero_copy if form == "v1" else to._generic_page_get
        return move(to, keys, indices(self.pool, pages))


class Instance:
    """An engine's storage, host pool and movers, in a process of its own."""

    def __init__(self, url):
        self.url = url
        self.made = []
        self.use("page_first")

    def use(self, layout):
        self.pool = mha_pool(layout)
        self.storage = storage_of(flags(self.url), self.pool)
        self.made.append(self.storage)
        self.moves = Moves(self.storage, self.pool)

    def fill(self, pages, numbers):
        for page, number in zip(pages, numbers, strict=True):
            fill(self.pool, page, number)

    def hold(self, pages, numbers):
        return [holds(self.pool, *pair) for pair in zip(pages, numbers, strict=True)]

    def set(self, form, keys, pages):
        return self.moves.set(form, keys, pages)

    def get(self, form, keys, pages):
        return self.moves.get(form, keys, pages)

    def set_v1(self, keys, pages):
        return self.storage.batch_set_v1(keys, indices(self.pool, pages))

    def get_v1(self, keys, pages):
        return self.storage.batch_get_v1(keys, indices(self.pool, pages))

    def exist(self, keys):
        return self.storage.batch_exists(keys)

    def statistics(self):
        counts = [handler._statistics() for handler in self.storage._handlers.values()]
        return {name: sum(one[name] for one in counts) for name in counts[0]}

    def close(self):
        for storage in self.made:
            storage.close()
