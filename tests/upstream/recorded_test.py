#!/usr/bin/env python3
"""Exchanges recorded between upstream's own programs, where they are at hand: the file that
MARU_UPSTREAM_FRAMES names, or ../shared/data/upstream_frames.jsonl beside the source tree. Each
request goes to the real server; its reply must have the same keys, kinds of value and outcome.

What a run decides (regions, tokens, paths, room) is taken from the replies of this server wherever
a later request names it."""

import json
import os
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from upstream import metadata, resource_manager  # noqa: E402
from upstream.served import Served  # noqa: E402

NAMED = os.environ.get("MARU_UPSTREAM_FRAMES")
FRAMES = pathlib.Path(ROOT.parent / "shared/data/upstream_frames.jsonl" if NAMED is None else NAMED)
SKIPPED = 77  # as cmake/MaruTesting.cmake has it

Request, Answer = resource_manager.Type, resource_manager.Type
# Fields whose value belongs to a run; their kind is compared.
OF_A_RUN = {"region_id", "offset", "auth_token", "rm_address", "error", "pool_total", "pool_free"}
# Fields that a reply may have beyond the recorded ones (docs/formats/upstream_metadata.md).
BEYOND = {"server_version", "capabilities", "server_epoch", "maru", "error", "cxl_pool", "devices"}


def exchanges():
    """(frame of the request, bytes, frame of the reply, bytes), in the order of the requests."""
    waiting, pairs = {}, []
    for line in FRAMES.read_text(encoding="utf-8").splitlines():
        frame = json.loads(line)
        data = bytes.fromhex(frame["frames"][-1])
        if frame["from"] == "client":
            pair = [frame, data]
            pairs.append(pair)
            waiting.setdefault(frame["connection"], []).append(pair)
        else:
            waiting[frame["connection"]].pop(0).extend([frame, data])
    if not all(len(pair) == 4 for pair in pairs):
        raise AssertionError("a request without its reply")
    return pairs


class Recorded(Served):
    # As much as a few regions take, and less than the largest request asks for.
    size = "256MiB"

    def setUp(self):
        super().setUp()
        self.clients = {}
        self.handles = {}  # (connection, recorded region id): handle of this run

    def client(self, connection, make):
        if connection not in self.clients:
            self.clients[connection] = self.closed(make())
        return self.clients[connection]

    def same(self, recorded, live, path):
        """Keys, kinds and outcome."""
        self.assertEqual(type(live), type(recorded), path)
        if isinstance(recorded, dict):
            self.assertLessEqual(set(recorded), set(live), path)
            self.assertLessEqual(set(live) - set(recorded), BEYOND, path)
            for name in recorded:
                if name in OF_A_RUN:
                    self.assertEqual(type(live[name]), type(recorded[name]), f"{path}.{name}")
                else:
                    self.same(recorded[name], live[name], f"{path}.{name}")
        elif isinstance(recorded, list):
            self.assertEqual(len(live), len(recorded), path)
            for i, (one, other) in enumerate(zip(recorded, live)):
                self.same(one, other, f"{path}[{i}]")
        else:
            self.assertEqual(live, recorded, path)

    # The metadata protocol.

    def live_fields(self, fields):
        fields = dict(fields)
        if "region_id" in fields:
            live = self.handles.get(("metadata", fields["region_id"]))
            fields["region_id"] = live["region_id"] if live else fields["region_id"]
        if "entries" in fields:
            fields["entries"] = [self.live_fields(entry) for entry in fields["entries"]]
        return fields

    def metadata(self, request, sent, reply, received):
        asked, recorded = metadata.decode(sent), metadata.decode(received)
        client = self.client(request["connection"],
                             lambda: metadata.MetadataClient(self.server.metadata))
        message = metadata.encode(asked.type, asked.sequence, self.live_fields(asked.fields),
                                  asked.flags)
        live = metadata.decode(client.raw(message))
        self.assertEqual(live[:3], recorded[:3])
        if asked.type == metadata.Type.REQUEST_ALLOC and recorded.fields["success"]:
            name = recorded.fields["handle"]["region_id"]
            self.handles["metadata", name] = live.fields["handle"]
        if asked.type == metadata.Type.GET_USAGE:
            for one in (recorded, live):
                one.fields["instances"].sort(key=lambda instance: instance["instance_id"])
        self.same(recorded.fields, live.fields, "")
        self.check_regions(recorded.fields, live.fields)

    def check_regions(self, recorded, live):
        """A region of the reply is the one that the recorded reply means."""
        for one, other in zip(recorded.get("entries", [recorded]), live.get("entries", [live])):
            if "handle" in one:
                self.assertEqual(other["handle"],
                                 self.handles["metadata", one["handle"]["region_id"]])
        if "allocations" in recorded:
            expected = [self.handles["metadata", handle["region_id"]]
                        for handle in recorded["allocations"]]
            self.assertCountEqual(live["allocations"], expected)

    # The resource manager's.

    def live_payload(self, connection, kind, payload):
        if kind not in (Request.FREE_REQ, Request.GET_ACCESS_REQ):
            return payload
        recorded = resource_manager.Handle._make(
            int.from_bytes(payload[at : at + 8], "little") for at in range(0, 32, 8))
        # Handed out on this connection, or to a client of the metadata protocol.
        live = self.handles.get((connection, recorded.region_id))
        of_recording = self.tokens.get((connection, recorded.region_id))
        if live is None:
            live = self.handles["metadata", recorded.region_id]
            of_recording = self.tokens["metadata", recorded.region_id]
        handle = resource_manager.Handle(**live)
        if recorded.auth_token != of_recording:  # a bad one, as bad as it was
            handle = handle._replace(
                auth_token=handle.auth_token ^ recorded.auth_token ^ of_recording)
        return handle.pack() + payload[32:]

    def resource_manager(self, request, sent, reply, received):
        header = resource_manager.HEADER
        kind, payload = header.unpack(sent[: header.size])[2], sent[header.size :]
        client = self.client(
            request["connection"],
            lambda: resource_manager.connect(self.server.resource_manager))
        client.send(resource_manager.encode(
            kind, self.live_payload(request["connection"], kind, payload)))
        live_kind, live = client.receive()
        recorded_kind = header.unpack(received[: header.size])[2]
        recorded = resource_manager.decode(recorded_kind, received[header.size :])
        self.assertEqual(live_kind, recorded_kind)
        if recorded_kind == Answer.ALLOC_RESP:
            self.assertEqual((live.status, live.access_type, live.requested_size, live.uuid),
                             (recorded.status, recorded.access_type, recorded.requested_size,
                              recorded.uuid))
            self.assertEqual(live.handle.length, recorded.handle.length)
            self.assertEqual(live.path, str(self.server.pool) if recorded.path else "")
            self.handles[request["connection"], recorded.handle.region_id] = live.handle._asdict()
        elif recorded_kind == Answer.GET_ACCESS_RESP:
            self.assertEqual((live.status, live.path, live.length, live.uuid),
                             (recorded.status, str(self.server.pool), recorded.length,
                              recorded.uuid))
        elif recorded_kind == Answer.ERROR_RESP:
            self.assertEqual(live.status, recorded.status)
        elif recorded_kind == Answer.STATS_RESP:
            self.assertEqual([(pool.type, pool.align) for pool in live],
                             [(pool.type, pool.align) for pool in recorded])
        else:
            self.assertEqual(live, recorded)

    def learn_tokens(self, pairs):
        """Of every region of the recording, by who was told."""
        self.tokens = {}
        for request, sent, _, received in pairs:
            if request["channel"] == "metadata":
                handle = metadata.decode(received).fields.get("handle")
                if handle:
                    self.tokens["metadata", handle["region_id"]] = handle["auth_token"]
                continue
            kind = resource_manager.HEADER.unpack(received[:12])[2]
            if kind == Answer.ALLOC_RESP:
                handle = resource_manager.decode(kind, received[12:]).handle
                self.tokens[request["connection"], handle.region_id] = handle.auth_token

    def test_every_request_is_answered_as_it_was(self):
        pairs = exchanges()
        self.learn_tokens(pairs)
        self.assertGreater(len(pairs), 100)
        for pair in pairs:
            request = pair[0]
            with self.subTest(number=request["n"], step=request["step"]):
                getattr(self, request["channel"])(*pair)


if __name__ == "__main__":
    if NAMED is None and not FRAMES.exists():
        print(f"no recorded frames at {FRAMES}")
        sys.exit(SKIPPED)
    unittest.main()
