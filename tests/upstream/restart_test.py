#!/usr/bin/env python3
"""The server is stopped, or killed, and started again under upstream's clients, which go on."""

import pathlib
import signal
import sys
import threading
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from upstream.instance import Instance  # noqa: E402
from upstream.metadata import MetadataClient, PipelinedClient, Type  # noqa: E402
from upstream.resource_manager import Handle, alloc_request, connect  # noqa: E402
from upstream.served import Served  # noqa: E402
from upstream.together import waited_for  # noqa: E402

REGION = 4 << 20
UNIT = 2 << 20


class Registering(threading.Thread):
    """An instance that registers one key after the other until it is told to end, and then at least
    KEYS_MIN. `keys` are those that were answered, once it has ended without an error."""

    KEYS_MIN = 100
    STEP = 512  # between values: many more keys than are registered while the server restarts
    TIMEOUT_MS = 500

    def __init__(self, url, number, client_class, ready, told_to_end, given_up):
        super().__init__()
        self.number = number
        self._client_class = client_class
        self.keys = None
        self._url = url
        self._ready = ready
        self._told_to_end = told_to_end
        self._given_up = given_up

    def run(self):
        # Nobody ends the server before all are ready.
        with waited_for(self._ready), Instance(
                self._url, f"w{self.number}",
                lambda url: self._client_class(url, timeout_ms=-1)) as one:
            handle = one.alloc(REGION)
            region = one.region(handle)
            one.client.set_timeout(self.TIMEOUT_MS)
            self._ready.wait()
            keys = []
            while not self._told_to_end.is_set() or len(keys) < self.KEYS_MIN:
                offset = len(keys) * self.STEP
                if offset == REGION:
                    break
                key, data = f"w{self.number}/{len(keys)}", self.bytes_of(len(keys))
                region.write(offset, data)
                self._register(one.client, key, handle["region_id"], offset, len(data))
                keys.append(key)
        self.keys = keys

    def bytes_of(self, i):
        return f"{self.number} {i}".encode()

    def _register(self, client, *words):
        """Asks again when no answer comes, as upstream's does. The first one may have arrived: then
        it is not new."""
        while True:
            try:
                reply = client.register(*words)
                break
            except TimeoutError:
                if self._given_up.is_set():
                    raise
        if not reply["success"]:
            raise AssertionError(f"{reply}")


class Restart(Served):
    # What a client was told is held for longer than any run takes.
    options = ("--eviction", "none", "--wire-hold", "86400")

    def setUp(self):
        super().setUp()
        # From now on where its clients look for it.
        self.server.options[1] = self.server.metadata
        self.server.options[3] = self.server.resource_manager

    def restart(self, number):
        self.server.end(number)
        self.server.start()

    def check_that_clients_go_on(self, number, client_class):
        one = self.closed(Instance(self.server.metadata, "one", client_class))
        two = self.closed(Instance(self.server.metadata, "two", client_class))
        epoch = one.client.handshake()["server_epoch"]
        handle = one.alloc(REGION, lease_id="l1")
        two.alloc(REGION)
        for i in range(20):
            self.assertTrue(one.store(f"k{i}", f"bytes {i}".encode()))
        self.server.run("put", "ours", "-", data=b"of ours" * 100_000)
        for key in ("k1", "k1", "ours"):
            self.assertTrue(one.client.pin(key)["exists"])
        gave_back = one.client.alloc("one", UNIT, lease_id="l2")["handle"]["region_id"]
        self.assertTrue(one.client.return_alloc("one", gave_back)["success"])
        rm = self.closed(connect(self.server.resource_manager, "host-a:1"))
        lent = rm.alloc(UNIT, request_id=5)
        told = one.client.lookup("ours")

        self.restart(number)

        self.assertNotEqual(one.client.handshake()["server_epoch"], epoch)
        # Regions keep their owner: it registers in them, and it alone gives them back.
        self.assertCountEqual(one.client.list_allocations("x")["allocations"],
                              [handle, two.handle])
        # So do leases, with a region, without one any more, and without one yet.
        for lease in ("l1", "l2", "l3"):
            self.assertEqual(one.client.heartbeat(instance_id="one", lease_id=lease),
                             {"lease_ttl": 30.0, "lease_expired": False})
        self.assertTrue(one.store("after", b"later bytes"))
        self.assertFalse(two.client.return_alloc("two", handle["region_id"])["success"])
        for i in range(20):
            self.assertEqual(two.bytes_of(two.client.lookup(f"k{i}")) if i < 10 else
                             one.retrieve(f"k{i}"), f"bytes {i}".encode())
        # Global pins keep their counts.
        self.assertFalse(one.client.delete("k1")["success"])
        self.assertEqual(self.server.run("rm", "ours").returncode, 1)
        self.assertEqual(one.client.batch_unpin(["k1", "k1", "k1", "ours", "ours"])["results"],
                         [True, True, False, True, False])
        # Handles keep their tokens, and the resource manager's clients their regions.
        again = self.closed(connect(self.server.resource_manager, "host-a:1"))
        self.assertEqual(again.access(Handle(**handle)).length, REGION)
        self.assertEqual(again.access(Handle(**told["handle"])).status, 0)
        self.assertEqual(again.access(Handle(**handle)._replace(auth_token=1)).status, -13)
        # Whoever asks may have its name alone.
        self.assertNotEqual(again.alloc(UNIT, request_id=5).handle, lent.handle)
        self.assertEqual(again.access(lent.handle).length, UNIT)
        self.assertEqual(again.free(lent.handle), 0)
        # A page that was told is held on, though every other one is used.
        self.server.run("rm", "ours")
        self.assertGreater(self.server.fill(b"later!!" * 100_000), 20)
        self.assertEqual(one.bytes_of(told), b"of ours" * 100_000)

    def test_after_a_stop(self):
        self.check_that_clients_go_on(signal.SIGTERM, MetadataClient)

    def test_after_a_kill(self):
        self.check_that_clients_go_on(signal.SIGKILL, MetadataClient)

    def test_pipelined_after_a_stop(self):
        self.check_that_clients_go_on(signal.SIGTERM, PipelinedClient)

    def test_pipelined_after_a_kill(self):
        self.check_that_clients_go_on(signal.SIGKILL, PipelinedClient)

    def registering(self, classes):
        """A thread at work with a client of each, and the event that tells them to end."""
        count = len(classes)
        ready = threading.Barrier(count + 1)
        told_to_end, given_up = threading.Event(), threading.Event()
        threads = [Registering(self.server.metadata, number, client_class, ready, told_to_end,
                               given_up)
                   for number, client_class in enumerate(classes)]
        for thread in threads:
            thread.start()
            self.addCleanup(thread.join)
        self.addCleanup(told_to_end.set)
        self.addCleanup(given_up.set)
        ready.wait()
        return threads, told_to_end

    def await_more_keys(self, count, threads):
        with MetadataClient(self.server.metadata) as watch:
            def keys():
                return watch.get_stats()["kv_manager"]["total_entries"]

            wanted = keys() + count
            while keys() < wanted and any(thread.is_alive() for thread in threads):
                pass
            self.assertTrue(all(thread.is_alive() for thread in threads),
                            "registers are still coming in")

    def test_a_kill_amid_registers_keeps_every_key_that_was_answered(self):
        threads, told_to_end = self.registering(
            [MetadataClient, PipelinedClient, PipelinedClient])
        for _ in range(3):
            self.await_more_keys(30, threads)
            self.restart(signal.SIGKILL)
        told_to_end.set()
        for thread in threads:
            thread.join()
        with Instance(self.server.metadata, "reader") as reader:
            self.assertEqual(len(reader.client.list_allocations("")["allocations"]), len(threads))
            for thread in threads:
                self.assertIsNotNone(thread.keys, "it ended with an error")
                self.assertGreaterEqual(len(thread.keys), Registering.KEYS_MIN)
                for i, key in enumerate(thread.keys):
                    self.assertEqual(reader.retrieve(key), thread.bytes_of(i))


class RegionUnderWay(Served):
    size = "2GiB"
    LARGE = 1 << 30
    # A region may be there before anybody looks; then it is tried with memory that is new again.
    TRIES = 20

    def test_others_are_answered_meanwhile_and_a_kill_leaves_nothing_lent(self):
        for _ in range(self.TRIES):
            if self.killed_while_under_way():
                return
            self.doCleanups()
            self.setUp()
        self.fail(f"a region was there before anybody looked, {self.TRIES} times")

    def killed_while_under_way(self):
        """Whether nobody had been told of the region yet."""
        # The first start after a kill builds a second index table, which stays.
        self.server.end(signal.SIGKILL)
        self.server.start()
        asking = PipelinedClient(self.server.metadata)
        with (MetadataClient(self.server.metadata) as watch,
              connect(self.server.resource_manager, "host-a:1") as rm):
            free = watch.get_stats()["cxl_pool"]["free_size"]
            number = asking.submit(Type.REQUEST_ALLOC, {"instance_id": "large", "size": self.LARGE})
            stats = watch.get_stats()
            while stats["cxl_pool"]["free_size"] == free:
                stats = watch.get_stats()
            self.assertEqual(rm.stats()[0].free, stats["cxl_pool"]["free_size"])
            lent = stats["allocation_manager"]["num_allocations"]
            self.server.end(signal.SIGKILL)
        told = asking.poll(number) is not None
        asking.close()
        self.server.start()
        with MetadataClient(self.server.metadata) as watch:
            stats = watch.get_stats()
            # What was lent meanwhile stays, told or not, and nothing else.
            kept = stats["allocation_manager"]["num_allocations"]
            self.assertIn(kept, (lent, 1))
            self.assertEqual(stats["cxl_pool"]["free_size"], free - kept * self.LARGE)
            if told:
                self.assertEqual(kept, 1)
        return kept == 0

    def test_a_region_whose_client_goes_meanwhile_goes_back(self):
        with MetadataClient(self.server.metadata) as watch:
            free = watch.get_stats()["cxl_pool"]["free_size"]

            def until(reached):
                while not reached(watch.get_stats()["cxl_pool"]["free_size"]):
                    pass

            # A client that was told of its region before it went has it for as long as one that is
            # gone may have it.
            with connect(self.server.resource_manager, "host-a:1") as rm:
                rm.send(alloc_request(self.LARGE, "host-a:1", 1))
                until(lambda now: now < free)
            until(lambda now: now == free)
            with PipelinedClient(self.server.metadata) as asking:
                asking.submit(Type.REQUEST_ALLOC, {"instance_id": "large", "size": self.LARGE,
                                                   "lease_id": "lease"})
                until(lambda now: now < free)
            until(lambda now: now == free)
            self.assertEqual(watch.get_stats()["allocation_manager"]["num_allocations"], 0)


if __name__ == "__main__":
    unittest.main()
