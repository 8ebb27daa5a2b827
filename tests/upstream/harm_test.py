#!/usr/bin/env python3
"""What a client of upstream's protocols could do to others: take all descriptors, places or memory,
or give itself a name that nobody can read."""

import os
import pathlib
import resource
import sys
import unittest

import zmq

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from upstream.endpoint import open_reply, open_request  # noqa: E402
from upstream.metadata import MetadataClient, Type, decode, encode  # noqa: E402
from upstream.resource_manager import ErrorReply, Handle, connect  # noqa: E402
from upstream.served import Served  # noqa: E402

EMFILE = -24
CONNECTIONS_MAX = 1024  # of the resource manager
REPLIES_MAX = 160 << 20  # that wait for all clients
HELD_MAX = 128 << 20  # messages that are in hand
BATCHES_MAX = 64 << 20  # what batches under way take beside their messages
SLACK = 48 << 20  # what a server has beside
FREE_DESCRIPTORS_MIN = 64  # for an endpoint


class Descriptors(Served):
    def limit(self, free):
        """So many more descriptors and no more; None: as before."""
        pid = self.server.process.pid
        hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]
        opened = len(os.listdir(f"/proc/{pid}/fd"))
        soft = hard if free is None else opened + free
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))

    def open(self, client):
        client.send(open_request("tcp://127.0.0.1:0", client.client_id))
        return open_reply(client)

    def test_an_endpoint_that_finds_none_left_is_refused_and_all_else_goes_on(self):
        client = self.closed(connect(self.server.resource_manager, "host-a:1"))
        client.stats()  # so it is accepted
        for free in range(FREE_DESCRIPTORS_MIN):
            self.limit(free)
            status, _, message = self.open(client)
            self.assertEqual((status, "ulimit -n" in message), (EMFILE, True), (free, message))
        self.limit(None)
        status, address, _ = self.open(client)
        self.assertEqual(status, 0)
        for metadata in (address, self.server.metadata):
            with MetadataClient(metadata) as asking:
                self.assertTrue(asking.handshake()["success"])


class Places(Served):
    def test_a_made_up_name_keeps_nobody_out_of_the_resource_manager(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard < 2 * CONNECTIONS_MAX:
            self.skipTest(f"needs ulimit -Hn {2 * CONNECTIONS_MAX}")
        resource.setrlimit(resource.RLIMIT_NOFILE, (2 * CONNECTIONS_MAX, hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        address = self.server.resource_manager
        owner = self.closed(connect(address, "host-a:1"))
        handle = owner.alloc(2 << 20).handle
        server = self.closed(connect(address, "host-a:2"))
        server.send(open_request("tcp://127.0.0.1:0", server.client_id))
        status, metadata, _ = open_reply(server)
        self.assertEqual(status, 0)
        for number in range(CONNECTIONS_MAX):
            stranger = self.closed(connect(address, f"made-up:{number}"))
            self.assertIsInstance(stranger.access(Handle(1, 2, 3, 4)), ErrorReply)
        newcomer = self.closed(connect(address, "host-b:1"))
        self.assertEqual(newcomer.alloc(2 << 20).status, 0)
        self.assertEqual(owner.access(handle).status, 0)
        with MetadataClient(metadata) as asking:
            self.assertTrue(asking.handshake()["success"])


class Memory(Served):
    def anonymous(self):
        """Bytes of the server's that are no pool's."""
        status = pathlib.Path(f"/proc/{self.server.process.pid}/status").read_text()
        return int(status.partition("RssAnon:")[2].split()[0]) * 1024

    def deaf_client(self):
        """Its library takes one reply, then the kernel's buffers fill."""
        client = zmq.Context.instance().socket(zmq.DEALER)
        self.addCleanup(client.close, linger=0)
        client.rcvhwm, client.sndhwm, client.linger = 1, 0, 0
        client.connect(self.server.metadata)
        return client

    def until(self, condition):
        """Asks on; each request is a turn of the server's."""
        for _ in range(100_000):
            if condition():
                return
            self.assertTrue(self.asking.exists("k0"))
        self.fail(f"never: {self.anonymous()} bytes, {self.server.logged()[-500:]}")

    def test_clients_that_do_not_read_cost_a_bounded_part_and_give_it_back(self):
        self.asking = self.closed(MetadataClient(self.server.metadata))
        region = self.asking.alloc("a", 2 << 20)["handle"]["region_id"]
        keys = [f"k{number}" for number in range(10_000)]  # a reply of about a MiB
        self.asking.batch_register([(key, region, at, 1) for at, key in enumerate(keys)])
        before = self.anonymous()
        deaf = [self.deaf_client() for _ in range(8)]
        for client in deaf:
            for sequence in range(60):  # the kernel's buffers take the first, up to 10 MiB a client
                client.send_multipart(
                    [b"", encode(Type.BATCH_LOOKUP_KV, sequence, {"keys": keys})])
        self.until(lambda: "were dropped so far" in self.server.logged())
        self.assertIn("ss -tnp", self.server.logged())
        self.assertLess(self.anonymous() - before, REPLIES_MAX + HELD_MAX + BATCHES_MAX + SLACK)
        for client in deaf:
            client.close(linger=0)
        self.until(lambda: self.anonymous() - before < SLACK)


    def test_many_large_batches_of_numbers_take_a_bounded_part_and_are_all_answered(self):
        """A number is a byte on the wire, and its text, its place and its answer are a hundred."""
        keys_max, clients = 65_536, 100
        keys = b"\x81\xa4keys\xdd" + keys_max.to_bytes(4, "big") + b"\x2a" * keys_max
        message = encode(Type.BATCH_LOOKUP_KV, 1, keys)
        asking = [zmq.Context.instance().socket(zmq.DEALER) for _ in range(clients)]
        waiting = zmq.Poller()
        for client in asking:
            self.addCleanup(client.close, linger=0)
            client.connect(self.server.metadata)
            client.send_multipart([b"", encode(Type.HANDSHAKE, 0)])
            client.recv_multipart()
            waiting.register(client, zmq.POLLIN)
        before = peak = self.anonymous()
        for client in asking:
            client.send_multipart([b"", message])
        answered = 0
        while answered < clients:
            for client, _ in waiting.poll():
                peak = max(peak, self.anonymous())
                entries = decode(client.recv_multipart()[-1]).fields["entries"]
                self.assertEqual(entries, [{"found": False}] * keys_max)
                answered += 1
        self.assertLess(peak - before, BATCHES_MAX + clients * len(message) + SLACK)


class Names(Served):
    """Upstream's client reads a reply as strict UTF-8, or not at all."""

    def test_that_are_no_utf8_are_refused_and_nobody_else_is_told_them(self):
        client = self.closed(MetadataClient(self.server.metadata))
        wrong = b"\xff\xfe"
        entry = {"client_id": "a", "op_type": "x", "result": "hit"}
        for field in entry:
            reply = client.request(Type.REPORT_STATS, {"entries": [entry, entry | {field: wrong}]})
            self.assertIn(f"entries[1].{field} is a text of 2 bytes that is no UTF-8",
                          reply["error"])
        for field in ("instance_id", "lease_id"):
            request = {"instance_id": "a", "size": 2 << 20, "lease_id": "l", field: wrong}
            self.assertIn(field, client.request(Type.REQUEST_ALLOC, request)["error"])
        self.assertEqual(set(client.get_stats()["stats_manager"]["clients"]), {"_all"})
        self.assertEqual(client.get_usage()["instances"], [])


if __name__ == "__main__":
    unittest.main()
