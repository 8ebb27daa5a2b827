#!/usr/bin/env python3
"""Every message of upstream's resource-manager protocol, valid and invalid, against the real
server."""

import pathlib
import socket
import struct
import sys
import threading
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from upstream import resource_manager  # noqa: E402
from upstream.instance import Region  # noqa: E402
from upstream.metadata import MetadataClient  # noqa: E402
from upstream.resource_manager import (  # noqa: E402
    HEADER, MAGIC, AllocReply, ConnectionEnded, ErrorReply, Handle, Type, connect, encode)
from upstream.served import Served  # noqa: E402

UNIT = 2 << 20
ENOENT, ENOMEM, EACCES, EINVAL = -2, -12, -13, -22


class Connected(Served):
    def setUp(self):
        super().setUp()
        self.rm = self.connect("host-a:1")

    def connect(self, client_id):
        return self.closed(connect(self.server.resource_manager, client_id))


class Messages(Connected):
    def test_a_region_is_allocated_mapped_read_by_another_and_freed(self):
        got = self.rm.alloc(3 << 20)
        self.assertEqual((got.status, got.access_type, got.requested_size, got.path, got.uuid),
                         (0, 0, 3 << 20, str(self.server.pool), ""))
        self.assertEqual(got.handle.length, 2 * UNIT)
        mine = self.closed(Region(self.rm.access(got.handle)))
        mine.write(UNIT, b"bytes")
        other = self.connect("host-a:2")
        theirs = self.closed(Region(other.access(got.handle, with_client_id=False)))
        self.assertEqual(theirs.read(UNIT, 5), b"bytes")
        self.assertEqual(self.rm.free(got.handle), 0)
        self.assertNotEqual(getattr(self.rm.access(got.handle), "status", 0), 0)

    def test_stats_name_each_pool(self):
        (before,) = self.rm.stats()
        self.assertEqual((before.path, before.type, before.total, before.align),
                         (str(self.server.pool), 1, 64 << 20, UNIT))
        handle = self.rm.alloc(UNIT).handle
        self.assertLessEqual(self.rm.stats()[0].free, before.free - UNIT)
        self.rm.free(handle)

    def test_a_pool_by_its_path(self):
        self.assertEqual(self.rm.alloc(UNIT, str(self.server.pool)).status, 0)
        for path in ("/dev/dax9.9", str(self.server.pool) + "x", "/", "x" * 4096):
            self.assertEqual(self.rm.alloc(UNIT, path).status, ENOENT)

    def test_refusals_have_their_numbers(self):
        nothing = AllocReply(0, 0, Handle(0, 0, 0, 0), 0, "", "")
        for size, status in ((1 << 50, EINVAL), ((1 << 64) - 1, EINVAL), (0, EINVAL),
                             (1 << 40, EINVAL)):
            self.assertEqual(self.rm.alloc(size), nothing._replace(status=status), size)
        while (got := self.rm.alloc(4 * UNIT)).status == 0:
            pass
        self.assertEqual(got, nothing._replace(status=ENOMEM))

    def test_a_token_is_checked_before_anything_else(self):
        handle = self.rm.alloc(UNIT).handle
        for bad in (handle._replace(auth_token=handle.auth_token ^ 1),
                    handle._replace(auth_token=0), handle._replace(region_id=handle.region_id + 1),
                    handle._replace(offset=handle.offset + UNIT),
                    handle._replace(length=handle.length * 2), Handle(0, 0, 0, 0)):
            for reply in (self.rm.access(bad), self.rm.free(bad)):
                self.assertIsInstance(reply, ErrorReply)
                self.assertEqual(reply.status, EACCES)
        self.assertEqual(self.rm.access(handle).status, 0)

    def test_another_clients_region_is_not_freed(self):
        handle = self.rm.alloc(UNIT).handle
        other = self.connect("host-a:2")
        reply = other.free(handle)
        self.assertEqual(getattr(reply, "status", reply), EACCES)
        self.assertEqual(self.rm.access(handle).status, 0)
        self.assertEqual(self.rm.free(handle), 0)

    def test_a_repeated_request_is_answered_as_the_first_time(self):
        first = self.rm.alloc(UNIT, request_id=100)
        self.assertEqual(self.rm.alloc(UNIT, request_id=100), first)
        self.assertNotEqual(self.rm.alloc(UNIT, request_id=101), first)
        self.rm.close()
        again = self.connect("host-a:1")
        self.assertEqual(again.alloc(UNIT, request_id=100), first)
        self.assertEqual(again.free(first.handle, request_id=102), 0)
        self.assertEqual(again.free(first.handle, request_id=102), 0)

    def test_a_connection_is_its_first_clients(self):
        handle = self.rm.alloc(UNIT).handle
        for message in (resource_manager.alloc_request(UNIT, "host-b:1", 1),
                        resource_manager.free_request(handle, "host-b:1", 1),
                        resource_manager.access_request(handle, "host-b:1")):
            reply = self.rm.ask(message)
            self.assertIsInstance(reply, ErrorReply)
            self.assertEqual(reply.status, EACCES)
        self.assertEqual(self.rm.free(handle), 0)

    def test_requests_of_one_write_are_answered_in_order(self):
        self.rm.send(b"".join(resource_manager.alloc_request(UNIT, "host-a:1", n)
                              for n in range(1, 5)) + resource_manager.stats_request())
        replies = [self.rm.receive() for _ in range(5)]
        self.assertEqual([kind for kind, _ in replies], [Type.ALLOC_RESP] * 4 + [Type.STATS_RESP])
        self.assertEqual(len({reply.handle.region_id for _, reply in replies[:4]}), 4)

    def test_a_request_in_pieces(self):
        for byte in resource_manager.alloc_request(UNIT, "host-a:1", 1):
            self.rm.send(bytes([byte]))
        self.assertEqual(self.rm.receive()[1].status, 0)
        self.rm.send(resource_manager.stats_request())
        self.rm.end_sending()
        self.assertEqual(self.rm.receive()[0], Type.STATS_RESP)
        self.assertRaises(ConnectionEnded, self.rm.receive)

    def test_a_region_of_the_metadata_protocol_is_mapped_with_its_handle(self):
        with MetadataClient(self.server.metadata) as client:
            handle = Handle(**client.alloc("a", UNIT)["handle"])
            self.assertEqual(self.rm.access(handle).length, UNIT)
            reply = self.rm.free(handle)
            self.assertEqual(getattr(reply, "status", reply), EACCES)
            self.assertTrue(client.return_alloc("a", handle.region_id)["success"])


class Broken(Connected):
    def test_malformed_payloads_are_answered_and_the_connection_goes_on(self):
        whole = resource_manager.alloc_request(UNIT, "host-a:1", 1)[HEADER.size :]
        for kind, payload in ((Type.ALLOC_REQ, b""), (Type.ALLOC_REQ, whole[:-1]),
                              (Type.ALLOC_REQ, struct.pack("<QII", 1, 1 << 31, 0)),
                              (Type.ALLOC_REQ, struct.pack("<QII", 1, 5000, 0) + b"x" * 5000),
                              (Type.FREE_REQ, whole), (Type.GET_ACCESS_REQ, b"x" * 31),
                              (Type.FREE_REQ, b"\0" * 32 + b"\xff\xff"), (7, b""), (200, b"abc"),
                              (Type.ALLOC_RESP, b""), (Type.ERROR_RESP, b"")):
            reply = self.rm.ask(encode(kind, payload))
            self.assertIsInstance(reply, ErrorReply, (kind, payload))
            self.assertEqual(reply.status, EINVAL)
            self.assertTrue(reply.message)
        self.assertEqual(self.rm.alloc(UNIT).status, 0)

    def test_a_stream_out_of_step_ends_with_an_error(self):
        for header in (struct.pack("<IHHI", MAGIC + 1, 2, 5, 0),
                       struct.pack("<IHHI", MAGIC, 3, 5, 0),
                       struct.pack("<IHHI", MAGIC, 2, 5, 8193), b"GET / HTTP/1.1\r\n\r\n"):
            client = self.connect("host-a:9")
            client.send(header)
            kind, reply = client.receive()
            self.assertEqual((kind, reply.status), (Type.ERROR_RESP, EINVAL))
            self.assertRaises((ConnectionEnded, ConnectionResetError), client.receive)
        self.assertEqual(self.rm.alloc(UNIT).status, 0)

    def test_a_peer_that_stalls_holds_up_nobody(self):
        half = self.connect("host-a:2")
        half.send(resource_manager.alloc_request(UNIT, "host-a:2", 1)[:-1])
        deaf = socket.create_connection(self.rm._socket.getpeername())
        self.addCleanup(deaf.close)
        deaf.setblocking(False)
        asked = resource_manager.stats_request() * 100
        try:
            while True:  # until neither side takes more
                deaf.send(asked)
        except BlockingIOError:
            pass
        for _ in range(100):
            self.assertEqual(len(self.rm.stats()), 1)
        half.send(b"\0")
        self.assertEqual(half.receive()[0], Type.ALLOC_RESP)

    def test_many_clients_at_once_get_regions_of_their_own(self):
        got, guard = [], threading.Lock()

        def allocate(number):
            with connect(self.server.resource_manager, f"host-b:{number}") as client:
                for _ in range(3):
                    reply = client.alloc(UNIT)
                    with guard:
                        got.append(reply)

        threads = [threading.Thread(target=allocate, args=(n,)) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual({reply.status for reply in got}, {0})
        offsets = {reply.handle.offset for reply in got}
        self.assertEqual(len(offsets), 18)


if __name__ == "__main__":
    unittest.main()
