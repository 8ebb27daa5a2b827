"""What of LMCache runs in processes of its own."""

import asyncio
import threading
import time
import weakref

LAYERS, HEADS, HEAD, CHUNK = 2, 2, 16, 16
TOKEN_BYTES = 2 * LAYERS * HEADS * HEAD * 2
GONE_WITHIN_S = 60  # many times what it takes; then the test fails by what it finds


def configuration(url):
    from lmcache.v1.config import LMCacheEngineConfig

    return LMCacheEngineConfig.from_defaults(
        chunk_size=CHUNK,
        local_cpu=False,
        max_local_cpu_size=0.0,
        maru_path=url.replace("tcp://", "maru://"),
        maru_pool_size=0.03,
        lmcache_instance_id="test",
    )


def metadata():
    import torch
    from lmcache.v1.metadata import LMCacheMetadata

    return LMCacheMetadata(
        model_name="model",
        world_size=1,
        local_world_size=1,
        worker_id=0,
        local_worker_id=0,
        kv_dtype=torch.bfloat16,
        kv_shape=(LAYERS, 2, CHUNK, HEADS, HEAD),
        chunk_size=CHUNK,
    )


class Backend:
    """LMCache's own MaruBackend, with the loop that its storage manager gives it."""

    def __init__(self, url):
        from lmcache.v1.pin_monitor import PinMonitor
        from lmcache.v1.storage_backend.maru_backend import MaruBackend

        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()
        self.metadata = metadata()
        PinMonitor.GetOrCreate(configuration(url))
        self.backend = MaruBackend(configuration(url), self.metadata, self.loop, "cpu")
        self.held = {}

    def key(self, number):
        from lmcache.utils import CacheEngineKey

        return CacheEngineKey("model", 1, 0, number, self.metadata.kv_dtype)

    def keys(self, numbers):
        return [self.key(number) for number in numbers]

    def _written(self, number, tokens):
        shapes = self.metadata.get_shapes(tokens)
        one = self.backend.allocate(shapes, self.metadata.get_dtypes())
        one.tensor.fill_(number)
        return one

    def put(self, numbers, tokens=CHUNK, batched=True):
        """As the storage manager does it: its own reference ends after the submit. The answers of
        the done tasks are the on_complete calls."""
        told = []
        objects = [self._written(number, tokens) for number in numbers]
        if batched:
            futures = self.backend.batched_submit_put_task(
                self.keys(numbers), objects, on_complete_callback=told.append
            )
        else:
            futures = [
                self.backend.submit_put_task(self.key(number), one, told.append)
                for number, one in zip(numbers, objects, strict=True)
            ]
        for one in objects:
            one.ref_count_down()
        failed = 0
        for future in futures:
            try:
                future.result()
            except Exception:  # noqa: BLE001, counted
                failed += 1
        return len(told), failed

    @staticmethod
    def _bytes(one):
        return None if one is None else bytes(one.byte_array)

    def get(self, number):
        one = self.backend.get_blocking(self.key(number))
        return self._bytes(one)

    def hold(self, number):
        self.held[number] = self.backend.get_blocking(self.key(number))
        return list(self.held[number].get_shape())

    def held_bytes(self, number):
        return self._bytes(self.held[number])

    def let_go(self, number):
        one = self.held.pop(number)
        one.ref_count_down()

    def batched_get(self, numbers):
        return [self._bytes(one) for one in self.backend.batched_get_blocking(self.keys(numbers))]

    def async_get(self, numbers):
        """Look up with pins, get, and give back all that was taken."""

        async def run():
            found = await self.backend.batched_async_contains("id", self.keys(numbers), pin=True)
            objects = await self.backend.batched_get_non_blocking("id", self.keys(numbers[:found]))
            return found, objects

        found, objects = asyncio.run_coroutine_threadsafe(run(), self.loop).result()
        told = [self._bytes(one) for one in objects]
        for one in objects:
            one.unpin()
            one.ref_count_down()
        self.backend.batched_unpin(self.keys(numbers[:found]))
        alive = [weakref.ref(one) for one in objects]
        del objects, one
        # The loop, and the thread that it had them from, let go of them in their own time.
        give_up = time.monotonic() + GONE_WITHIN_S
        while any(one() is not None for one in alive) and time.monotonic() < give_up:
            asyncio.run_coroutine_threadsafe(asyncio.sleep(0), self.loop).result()
        return found, told

    def contains(self, numbers, pin=False):
        return self.backend.batched_contains(self.keys(numbers), pin)

    def unpin(self, numbers):
        return [self.backend.unpin(key) for key in self.keys(numbers)]

    def remove(self, number):
        return self.backend.remove(self.key(number))

    def statistics(self):
        return self.backend._handler._statistics()

    def adapter(self):
        return self.backend.memory_allocator

    def double_free(self, number):
        """Frees more often than it may, before and after a store."""
        one = self._written(number, CHUNK)
        handle = self.adapter().create_store_handle(one)
        stored = self.backend._handler.store(self.key(number).to_string(), handle)
        self.adapter().free(one)
        self.adapter().free(one)
        other = self._written(number, CHUNK)
        self.adapter().free(other)
        self.adapter().batched_free([other, other])
        try:
            self.backend._handler.store("again", handle)
        except ValueError:
            return stored, "refused"
        return stored, "stored twice"

    def all_or_nothing(self, count):
        """More objects than there is room for."""
        shapes, dtypes = self.metadata.get_shapes(), self.metadata.get_dtypes()
        objects = self.backend.batched_allocate(shapes, dtypes, count)
        return None if objects is None else len(objects)

    def format_without_one(self):
        """Of an object whose format nobody says, and that of the chunks."""
        shapes, dtypes = self.metadata.get_shapes(), self.metadata.get_dtypes()
        one = self.backend.allocate(shapes, dtypes, fmt=None)
        return one.metadata.fmt.name, self.backend.memory_allocator._fmt.name

    def write_to_loaded(self, number):
        self.backend.get_blocking(self.key(number)).tensor.fill_(1)

    def close(self):
        self.held.clear()
        self.backend.close()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()


def connector():
    """Memory of a CPU in place of an engine's on a GPU: a tensor with the KV of all tokens."""
    import torch
    from lmcache.v1.gpu_connector.gpu_connectors import GPUConnectorInterface

    class Connector(GPUConnectorInterface):
        def to_gpu(self, memory_obj, start, end, **kwargs):
            kwargs["kv"][:, :, start:end] = memory_obj.tensor

        def from_gpu(self, memory_obj, start, end, **kwargs):
            memory_obj.tensor.copy_(kwargs["kv"][:, :, start:end])

        def batched_to_gpu(self, memory_objs=None, starts=None, ends=None, **kwargs):
            for one, start, end in zip(memory_objs, starts, ends, strict=True):
                self.to_gpu(one, start, end, **kwargs)

        def batched_from_gpu(self, memory_objs, starts, ends, **kwargs):
            for one, start, end in zip(memory_objs, starts, ends, strict=True):
                self.from_gpu(one, start, end, **kwargs)

        def get_shape(self, num_tokens):
            return torch.Size([2, LAYERS, num_tokens, HEADS * HEAD])

    return Connector()


class Engine:
    """LMCache's engine on its own storage manager and MaruBackend."""

    def __init__(self, url):
        import torch
        from lmcache.v1.cache_engine import LMCacheEngineBuilder

        self.torch = torch
        self.builder = LMCacheEngineBuilder
        self.engine = LMCacheEngineBuilder.get_or_create(
            "engine",
            configuration(url),
            metadata(),
            connector(),
            lambda tensor, source: None,
            lambda one, source: one,
        )
        self.engine.post_init()

    def _kv(self, tokens):
        """What a model would compute: of each token, whatever stands around it."""
        values = self.torch.tensor(tokens, dtype=self.torch.bfloat16)
        return values.reshape(1, 1, -1, 1).expand(2, LAYERS, -1, HEADS * HEAD).clone()

    def backend(self):
        return self.engine.storage_manager.storage_backends["MaruBackend"]

    def store(self, tokens):
        self.engine.store(tokens=tokens, kv=self._kv(tokens))
        # Stores end in the backend's loop.
        while self.backend().put_tasks:
            pass

    def retrieve(self, tokens):
        """How many tokens were loaded, and whether all of them are what was computed."""
        kv = self.torch.zeros_like(self._kv(tokens))
        loaded = int(self.engine.retrieve(tokens, kv=kv).sum())
        return loaded, bool((kv[:, :, :loaded] == self._kv(tokens)[:, :, :loaded]).all())

    def lookup(self, tokens, name, pin=True):
        return self.engine.lookup(tokens=tokens, lookup_id=name, pin=pin)

    def unpin(self, name):
        self.engine.lookup_unpin(name)

    def statistics(self):
        return self.backend()._handler._statistics()

    def close(self):
        self.builder.destroy("engine")
