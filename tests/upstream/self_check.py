#!/usr/bin/env python3
"""Holds the client of this folder against the worked examples of docs/formats/upstream_*.md, and
its sockets against a ROUTER and a listener that send those examples back."""

import pathlib
import re
import socket
import sys
import threading
import unittest

import zmq

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from upstream import metadata, resource_manager  # noqa: E402

HANDLE = resource_manager.Handle(5242881, 0, 4 << 20, 0xFEDCBA9876543210)
CLIENT = "host-a:321"


def example(page, name):
    text = (ROOT / "docs/formats" / page).read_text(encoding="utf-8")
    block = re.search(rf"^```dump {re.escape(name)}\n(.*?)^```", text, re.S | re.M)
    out = bytearray()
    for line in block.group(1).splitlines():
        offset, _, rest = line.partition(";")[0].partition(":")
        out += bytes(int(offset, 16) - len(out)) + bytes.fromhex(rest)
    return bytes(out)


def of_metadata(name):
    return example("upstream_metadata.md", name)


def of_resource_manager(name):
    return example("upstream_resource_manager.md", name)


class Encodes(unittest.TestCase):
    def test_metadata(self):
        kind = metadata.Type
        entry = metadata.Entry("hello world", 5242881, 8192, 4096)
        self.assertEqual(
            metadata.encode(kind.REGISTER_KV, 7, entry._asdict()), of_metadata("register-request")
        )
        keys = {"keys": ["hello world", "missing"]}
        self.assertEqual(
            metadata.encode(kind.BATCH_LOOKUP_KV, 8, keys, metadata.Flag.BATCH),
            of_metadata("batch-lookup-request"),
        )
        self.assertEqual(metadata.encode(kind.HEARTBEAT, 9), of_metadata("heartbeat"))

    def test_resource_manager(self):
        made = {
            "alloc-request": resource_manager.alloc_request(3 << 20, CLIENT, 1),
            "free-request": resource_manager.free_request(HANDLE, CLIENT, 2),
            "stats-request": resource_manager.stats_request(),
            "access-request": resource_manager.access_request(HANDLE, CLIENT),
        }
        for name, message in made.items():
            self.assertEqual(message, of_resource_manager(name), name)


class Decodes(unittest.TestCase):
    def test_metadata(self):
        reply = metadata.decode(of_metadata("batch-lookup-reply"))
        self.assertEqual(reply[:3], (0xA1, 1, 8))
        found, missing = reply.fields["entries"]
        self.assertEqual(found["handle"], HANDLE._asdict())
        self.assertEqual((found["kv_offset"], found["kv_length"]), (8192, 4096))
        self.assertEqual(missing, {"found": False})
        for broken in (b"", of_metadata("heartbeat")[:-1], b"\0" + of_metadata("heartbeat")[1:]):
            self.assertRaises(metadata.ProtocolError, metadata.decode, broken)

    def test_resource_manager(self):
        def decoded(name):
            message = of_resource_manager(name)
            return resource_manager.decode(message[6] | message[7] << 8, message[12:])

        path = "/dev/shm/maru-1000"
        self.assertEqual(decoded("alloc-reply"), (0, 0, HANDLE, 3 << 20, path, ""))
        self.assertEqual(decoded("free-reply"), 0)
        self.assertEqual(decoded("stats-reply"), [(path, 1, 1 << 30, 1 << 29, 2 << 20)])
        uuid = "00112233-4455-6677-8899-aabbccddeeff"
        self.assertEqual(decoded("access-reply"), (0, "/dev/dax0.0", 2 << 20, 4 << 20, uuid))
        self.assertEqual(decoded("rm-error-reply"), (-13, "invalid auth token"))
        with self.assertRaises(resource_manager.ProtocolError):
            resource_manager.decode(4, bytes(5))


class Talks(unittest.TestCase):
    def test_pipelined_replies_are_matched_by_sequence(self):
        context = zmq.Context()
        router = context.socket(zmq.ROUTER)
        port = router.bind_to_random_port("tcp://127.0.0.1")
        count = 3 * metadata.IN_FLIGHT_MAX

        def serve():
            # Two at a time, answered in the other order.
            for _ in range(count // 2):
                pair = [router.recv_multipart() for _ in range(2)]
                for *envelope, message in reversed(pair):
                    asked = metadata.decode(message)
                    answer = metadata.encode(asked.type | 0x80, asked.sequence, asked.fields)
                    router.send_multipart([*envelope, answer])

        server = threading.Thread(target=serve)
        server.start()
        with metadata.PipelinedClient(f"tcp://127.0.0.1:{port}") as client:
            sequences = [client.submit(metadata.Type.PIN_KV, {"n": n}) for n in range(count)]
            for n, sequence in enumerate(sequences):
                self.assertEqual(client.collect(sequence), {"n": n})
        server.join()
        router.close()
        context.term()

    def test_resource_manager_reads_replies_in_pieces(self):
        listener = socket.create_server(("127.0.0.1", 0))

        def serve():
            peer, _ = listener.accept()
            with peer:
                expected = of_resource_manager("alloc-request")
                self.assertEqual(peer.recv(len(expected), socket.MSG_WAITALL), expected)
                for byte in of_resource_manager("alloc-reply"):
                    peer.sendall(bytes([byte]))

        server = threading.Thread(target=serve)
        server.start()
        port = listener.getsockname()[1]
        with resource_manager.ResourceManagerClient("127.0.0.1", port, CLIENT) as client:
            self.assertEqual(client.alloc(3 << 20).handle, HANDLE)
            self.assertRaises(resource_manager.ConnectionEnded, client.receive)
        server.join()
        listener.close()


if __name__ == "__main__":
    unittest.main()
