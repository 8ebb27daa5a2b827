#!/usr/bin/env python3
"""What a client of upstream's protocols could do to others: take all descriptors, places or memory,
or give itself a name that nobody can read."""

import os
import pathlib
import resource
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from upstream.endpoint import open_reply, open_request  # noqa: E402
from upstream.metadata import MetadataClient, Type  # noqa: E402
from upstream.resource_manager import connect  # noqa: E402
from upstream.served import Served  # noqa: E402

EMFILE = -24
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
