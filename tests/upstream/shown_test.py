#!/usr/bin/env python3
"""What people are shown of upstream's clients: by `maru stat`, at a start, in the log."""

import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from server import Server  # noqa: E402
from upstream.metadata import MetadataClient  # noqa: E402
from upstream.served import MARU, Served  # noqa: E402


class Stat(Served):
    def store(self):
        """Three keys of theirs, 4 KiB each, in a region of 4 MiB, and one of ours."""
        with MetadataClient(self.server.metadata) as client:
            region = client.alloc("prefill-0", 4 << 20)["handle"]["region_id"]
            for number in range(3):
                client.register(f"k{number}", region, number * 4096, 4096)
        self.assertEqual(self.server.run("put", "ours", "-", data=b"bytes").returncode, 0)

    def stat(self, *words):
        done = self.server.run("stat", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.decode()

    def test_counts_their_keys_and_regions(self):
        self.assertNotIn("upstream", self.stat())
        self.store()
        shown = self.stat()
        heads, values = ([re.split("  +", line) for line in shown.splitlines()[1:3]])
        pool = dict(zip(heads, values))
        self.assertEqual((pool["keys"], pool["client-cut"]), ("4", "4 MiB"), shown)
        self.assertIn("clients of upstream's protocols: 1 regions of 4 MiB, 3 keys of 12 KiB; "
                      "since its start 3 registered, 0 refused", shown)
        summary = self.server.json("stat")["pools"][0]
        self.assertEqual(summary["keys"], 4)
        self.assertEqual(summary["pool_bytes"], sum(summary[f"{part}_bytes"] for part in (
            "head", "free", "pages", "client_cut", "records", "text", "index", "lease")))
        regions = self.stat("--regions")
        self.assertRegex(regions, r"prefill-0\n")
        self.assertRegex(regions, r"the server\n")

    def test_a_page_that_waits_for_a_reader_without_a_lease_says_so(self):
        self.store()
        with MetadataClient(self.server.metadata) as client:
            self.assertTrue(client.lookup("ours")["found"])
        self.assertEqual(self.server.run("rm", "ours").returncode, 0)
        self.assertIn("the time that --wire-hold gives", self.stat("--condemned"))

    def test_a_key_that_is_gone_is_told_with_what_was_lent_with_it(self):
        self.server.stop()
        self.server.key.unlink()
        self.server.start()
        self.assertNotIn("key file", self.server.logged())  # nobody has anything
        self.store()
        self.server.stop()
        self.server.key.unlink()
        self.server.start()
        self.assertRegex(self.server.logged(),
                         f"key file {self.server.key} was gone .* 1 regions")

    def test_a_start_counts_them_as_well(self):
        self.store()
        self.server.stop()
        self.server.start()
        self.assertTrue(any(line.startswith("pool ") and ", 4 keys" in line
                            for line in self.server.said), self.server.said)


class Log(unittest.TestCase):
    def test_a_server_without_a_resource_manager_says_what_its_clients_cannot(self):
        with Server(MARU, listen="tcp://127.0.0.1:0", rm_listen="none") as server:
            said = [line for line in server.logged().splitlines() if "cannot map" in line]
            self.assertEqual(len(said), 1, server.logged())
            self.assertIn("--rm-listen", said[0])
            self.assertIn(server.metadata, said[0])
        with Server(MARU, listen="tcp://127.0.0.1:0", rm_listen="127.0.0.1:0") as server:
            self.assertNotIn("cannot map", server.logged())


if __name__ == "__main__":
    unittest.main()
