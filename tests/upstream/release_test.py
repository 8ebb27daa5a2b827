#!/usr/bin/env python3
"""`maru release`: regions of clients that are gone, which nothing else takes for dead."""

import json
import pathlib
import signal
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from upstream.endpoint import open_reply, open_request  # noqa: E402
from upstream.instance import Instance  # noqa: E402
from upstream.metadata import MetadataClient  # noqa: E402
from upstream.resource_manager import connect  # noqa: E402
from upstream.served import Served  # noqa: E402

REGION = 8 << 20
REGIONS = 6  # of those, a pool of 64 MiB has room for

# A client without a lease that takes all there is, stores a key in the first, and waits to end.
TAKES_ALL = """
import sys
sys.path.insert(0, sys.argv[1])
from upstream.metadata import MetadataClient
client = MetadataClient(sys.argv[2])
regions = []
while (reply := client.alloc("dead", int(sys.argv[3])))["success"]:
    regions.append(reply["handle"]["region_id"])
client.register("key", regions[0], 0, 4096)
print(*regions, flush=True)
sys.stdin.read()
"""


class Release(Served):
    def setUp(self):
        super().setUp()
        self.client = self.closed(MetadataClient(self.server.metadata))

    def release(self, *words, code=0):
        done = self.server.run("release", *words)
        self.assertEqual(done.returncode, code, (words, done.stdout, done.stderr))
        return done.stdout.decode()

    def verdicts(self, *words, code=0):
        told = json.loads(self.release("--json", *words, code=code))
        return [(one.get("region_id"), one["verdict"]) for one in told]

    def taken_by_one_that_dies(self):
        """The regions of a process that was killed."""
        process = subprocess.Popen(
            [sys.executable, "-c", TAKES_ALL, str(ROOT / "tests"), self.server.metadata,
             str(REGION)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            return list(map(int, process.stdout.readline().split()))
        finally:
            process.send_signal(signal.SIGKILL)
            process.communicate()

    def test_what_a_dead_client_left_is_its_successors(self):
        regions = self.taken_by_one_that_dies()
        self.assertEqual(len(regions), REGIONS)
        successor = self.closed(Instance(self.server.metadata, "successor"))
        self.assertFalse(successor.client.alloc("successor", REGION)["success"])

        self.assertEqual(self.verdicts("dead", "--dry-run"),
                         [(region, "releasable") for region in regions])
        self.assertFalse(successor.client.alloc("successor", REGION)["success"])
        said = self.release("dead")
        self.assertIn(f"released region {regions[0]} of dead, 8 MiB: 1 key points into it", said)
        self.assertIn(f"released region {regions[1]} of dead, 8 MiB: its room is free", said)
        self.assertIn("dead: 6 of 6 regions, 48 MiB\n", said)

        # All but the one with a key, which goes with it.
        for _ in range(REGIONS - 1):
            successor.alloc(REGION)
        self.assertTrue(successor.store("its own", b"bytes"))
        self.assertEqual(successor.retrieve("its own"), b"bytes")
        self.assertFalse(successor.client.alloc("successor", REGION)["success"])
        self.assertTrue(successor.client.exists("key")["exists"])
        self.assertTrue(successor.client.delete("key")["success"])
        self.assertTrue(successor.client.alloc("successor", REGION)["success"])
        # Should it live, it registers nothing there.
        for region in regions:
            self.assertFalse(self.client.register("late", region, 8192, 1)["is_new"])
        self.assertIn("no region of dead", self.release("dead", code=1))

    def test_room_that_is_kept_for_readers_is_not_said_to_be_free(self):
        region = self.client.alloc("dead", REGION)["handle"]["region_id"]
        self.client.register("key", region, 0, 4096)
        self.assertTrue(self.client.lookup("key")["found"])
        self.assertTrue(self.client.delete("key")["success"])
        for words in (("--dry-run",), ()):
            said = self.release("dead", *words)
            self.assertRegex(said, f"region {region} of dead, 8 MiB: .* its room is free in "
                                   r"\d+ s \(--wire-hold\)\n")
        self.assertRegex(self.server.run("stat", "--regions").stdout.decode(),
                         r"nobody any more, on hold \(--wire-hold\)\n")
        while (reply := self.client.alloc("next", REGION))["success"]:
            pass
        self.assertRegex(reply["error"], r"8MiB \(1 region\) was given back and is on hold.*"
                                         r"the first for \d+ s$")

    def test_names_are_taken_as_they_are_shown(self):
        names = ("a\nb", "c\x85d", "")
        shown = ("a\\x0ab", "c\\x85d", '""')
        rows = {}
        for name, as_shown in zip(names, shown):
            region = self.client.alloc(name, REGION)["handle"]["region_id"]
            rows[as_shown] = str(region)
        table = self.server.run("stat", "--regions").stdout.decode()
        for as_shown, region in rows.items():
            line, = (line for line in table.splitlines() if line.split()[1] == region)
            self.assertEqual(line.split()[-1], as_shown)
            self.assertEqual(self.verdicts(as_shown), [(int(region), "released")])
            self.assertEqual(self.verdicts(as_shown, code=1), [(None, "missing")])
        # As they are, too.
        for name in names:
            region = self.client.alloc(name, REGION)["handle"]["region_id"]
            self.assertEqual(self.verdicts(name), [(region, "released")])

    def test_one_region_by_its_id(self):
        first, second = (self.client.alloc("a", REGION)["handle"]["region_id"] for _ in range(2))
        leased = self.client.alloc("b", REGION, lease_id="l1")["handle"]["region_id"]
        self.assertEqual(self.verdicts("--region", str(second), "--dry-run"),
                         [(second, "releasable")])
        self.assertEqual(self.release("--region", str(second)),
                         f"released region {second}, 8 MiB: its room is free\n")
        self.assertEqual(self.verdicts("--region", str(second), code=1), [(second, "missing")])
        self.assertIn(f"owns region {second}", self.release("--region", str(second), code=1))
        self.assertEqual(self.verdicts("--region", str(leased), code=1), [(leased, "leased")])
        self.assertTrue(self.client.register("key", first, 0, 1)["is_new"])
        self.assertFalse(self.client.register("late", second, 0, 1)["is_new"])

    def test_it_is_so_after_a_kill_of_the_server(self):
        regions = self.taken_by_one_that_dies()
        self.release("dead")
        self.server.kill()
        self.server.start()
        self.assertEqual(self.verdicts("dead", code=1), [(None, "missing")])
        with MetadataClient(self.server.metadata) as client:
            for _ in range(REGIONS - 1):
                self.assertTrue(client.alloc("successor", REGION)["success"])
            self.assertFalse(client.register("late", regions[0], 8192, 1)["is_new"])
            self.assertTrue(client.exists("key")["exists"])

    def test_who_is_known_to_live_is_kept_unless_forced(self):
        leased = self.client.alloc("leased", REGION, lease_id="l1")["handle"]["region_id"]
        rm = self.closed(connect(self.server.resource_manager, "host-a:1"))
        lent = rm.alloc(REGION).handle.region_id
        self.assertEqual(self.verdicts("leased", "host-a:1", code=1),
                         [(leased, "leased"), (lent, "connected")])
        self.assertIn("host-a:1", self.server.run("stat", "--regions").stdout.decode())
        self.assertTrue(self.client.register("key", leased, 0, 1)["is_new"])
        self.assertEqual(self.verdicts("leased", "host-a:1", "--force"),
                         [(leased, "released"), (lent, "released")])
        self.assertFalse(self.client.register("late", leased, 8192, 1)["is_new"])
        self.assertTrue(
            self.client.heartbeat(instance_id="leased", lease_id="l1")["lease_expired"])

    def test_an_endpoint_is_named_by_its_address_or_its_namespace(self):
        rm = self.closed(connect(self.server.resource_manager, "host-a:1"))
        rm.send(open_request("tcp://127.0.0.1:0", rm.client_id))
        status, address, message = open_reply(rm)
        self.assertEqual(status, 0, message)
        with MetadataClient(address) as client:
            for words in (("--server", self.server.socket, "--namespace", address),
                          ("--server", address)):
                self.assertTrue(client.alloc("a", REGION)["success"])
                mine = self.client.alloc("a", REGION)["handle"]["region_id"]
                self.assertEqual(self.verdicts("a"), [(mine, "released")])
                self.assertEqual(len(client.list_allocations("")["allocations"]), 1)
                done = subprocess.run(self.server.command("release", "a", *words),
                                      capture_output=True)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(client.list_allocations("")["allocations"], [])

    def test_what_cannot_be_asked_is_refused(self):
        done = self.server.run("release", "a", "--force", "--dry-run")
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"one at a time", done.stderr)
        for words in ((), ("a", "--region", "1")):
            done = self.server.run("release", *words)
            self.assertEqual(done.returncode, 2)
            self.assertIn(b"INSTANCE, one at least, or --region ID", done.stderr)
        done = self.server.run("release", "n" * 4097)
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"4097", done.stderr)


if __name__ == "__main__":
    unittest.main()
