#!/usr/bin/env python3
"""The server is stopped, or killed, and started again under upstream's clients, which go on."""

import pathlib
import signal
import sys
import threading
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from server import Server  # noqa: E402
from upstream.instance import Instance  # noqa: E402
from upstream.metadata import MetadataClient  # noqa: E402
from upstream.resource_manager import Handle, connect  # noqa: E402

MARU = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else "build/maru").resolve()
REGION = 4 << 20
UNIT = 2 << 20


class Restart(unittest.TestCase):
    def setUp(self):
        self.server = Server(MARU, size="64MiB", listen="tcp://127.0.0.1:0",
                             rm_listen="127.0.0.1:0", options=["--eviction", "none"]).start()
        self.addCleanup(self.server.__exit__)
        # From now on where its clients look for it.
        self.server.options[1] = self.server.metadata
        self.server.options[3] = self.server.resource_manager

    def tearDown(self):
        self.assertTrue(self.server.json("audit")["clean"])

    def restart(self, number):
        self.server.end(number)
        self.server.start()

    def closed(self, thing):
        self.addCleanup(thing.close)
        return thing

    def check_that_clients_go_on(self, number):
        one = self.closed(Instance(self.server.metadata, "one"))
        two = self.closed(Instance(self.server.metadata, "two"))
        epoch = one.client.handshake()["server_epoch"]
        handle = one.alloc(REGION, lease_id="l1")
        two.alloc(REGION)
        for i in range(20):
            self.assertTrue(one.store(f"k{i}", f"bytes {i}".encode()))
        self.server.run("put", "ours", "-", data=b"of ours" * 100_000)
        for key in ("k1", "k1", "ours"):
            self.assertTrue(one.client.pin(key)["exists"])
        rm = self.closed(connect(self.server.resource_manager, "host-a:1"))
        lent = rm.alloc(UNIT, request_id=5)
        told = one.client.lookup("ours")

        self.restart(number)

        self.assertNotEqual(one.client.handshake()["server_epoch"], epoch)
        # Regions keep their owner: it registers in them, and it alone gives them back.
        self.assertCountEqual(one.client.list_allocations("x")["allocations"],
                              [handle, two.handle])
        self.assertEqual(one.client.heartbeat(instance_id="one", lease_id="l1")["lease_expired"],
                         False)
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
        self.assertEqual(again.alloc(UNIT, request_id=5), lent)
        self.assertEqual(again.free(lent.handle), 0)
        # A page that was told is held on, though every other one is used.
        self.server.run("rm", "ours")
        self.assertGreater(self.server.fill(b"later!!" * 100_000), 20)
        self.assertEqual(one.bytes_of(told), b"of ours" * 100_000)

    def test_after_a_stop(self):
        self.check_that_clients_go_on(signal.SIGTERM)

    def test_after_a_kill(self):
        self.check_that_clients_go_on(signal.SIGKILL)

    def test_a_kill_amid_registers_keeps_every_key_that_was_answered(self):
        """Each client asks again when no answer comes, as upstream's does after its time-out."""
        acknowledged, ended, ready = {}, threading.Event(), threading.Barrier(4)

        def work(number):
            with Instance(self.server.metadata, f"w{number}",
                          lambda url: MetadataClient(url, timeout_ms=500)) as instance:
                handle = instance.alloc(REGION)
                region = instance.region(handle)
                ready.wait()
                mine = []
                while not ended.is_set() or len(mine) < 100:
                    i = len(mine)
                    if i == REGION // 4096:
                        break
                    key, data = f"w{number}/{i}", f"{number} {i}".encode()
                    region.write(i * 4096, data)
                    # After a time-out the first one may have arrived: then it is not new.
                    while True:
                        try:
                            reply = instance.client.register(
                                key, handle["region_id"], i * 4096, len(data))
                            break
                        except TimeoutError:
                            continue
                    if not reply["success"]:
                        raise AssertionError(f"{reply}")
                    mine.append(key)
                acknowledged[number] = mine

        threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
        for thread in threads:
            thread.start()
        ready.wait()
        for _ in range(3):
            # Amid the work: registers are coming in.
            with MetadataClient(self.server.metadata) as watch:
                seen = watch.get_stats()["kv_manager"]["total_entries"]
                while watch.get_stats()["kv_manager"]["total_entries"] < seen + 30:
                    pass
            self.restart(signal.SIGKILL)
        ended.set()
        for thread in threads:
            thread.join()
        self.assertEqual(len(acknowledged), 3)
        with Instance(self.server.metadata, "reader") as reader:
            self.assertEqual(len(reader.client.list_allocations("")["allocations"]), 3)
            for number, keys in acknowledged.items():
                self.assertGreaterEqual(len(keys), 100)
                for i, key in enumerate(keys):
                    self.assertEqual(reader.retrieve(key), f"{number} {i}".encode())


if __name__ == "__main__":
    unittest.main()
