#!/usr/bin/env python3
"""`maru bench` in a small size: every row is there, and nothing is left behind."""

import json
import pathlib
import subprocess
import sys
import unittest

from server import Server

MARU = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else "build/maru").resolve()
SMALL = ["--repetitions", "1", "--time", "1", "--messages", "8", "--json"]


def bench(*words):
    return subprocess.run([MARU, "bench", *words], capture_output=True, check=False)


def rows_of(done):
    return json.loads(done.stdout)["rows"]


class Bench(unittest.TestCase):
    def test_every_part_on_a_private_server(self):
        before = set(pathlib.Path("/dev/shm").glob("maru-bench-*"))
        done = bench("--keys", "500", "--readers", "1,2", "--batch", "1,16", *SMALL)
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = rows_of(done)
        lookups = [row for row in rows if row["section"] == "catalogue"]
        self.assertEqual(len(lookups), 3 * 2 * 2)
        messages = [row for row in rows if row["section"] == "socket"]
        self.assertEqual(len({row["operation"] for row in messages}), 5)
        payload = [row for row in rows if row["section"] == "payload"]
        self.assertEqual(len(payload), 2)
        for row in lookups + messages + payload:
            for number in ("p50_ns", "p99_ns", "limit_ns", "times_limit"):
                self.assertGreater(row[number], 0, (number, row))
        server = {row["operation"]: row for row in rows if row["section"] == "server"}
        self.assertEqual(len(server), 4)
        self.assertGreater(server["memory beside the key text"]["value"], 0)
        self.assertEqual(set(pathlib.Path("/dev/shm").glob("maru-bench-*")) - before, set())

    def test_killed_at_any_moment_it_leaves_no_pool(self):
        for part, progress in (("catalogue", "look-ups"), ("server", "restarts")):
            with subprocess.Popen([MARU, "bench", "--keys", "2k", "--only", part], text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
                self.assertTrue(any(progress in line for line in run.stderr))
                run.kill()
            self.assertEqual(list(pathlib.Path("/dev/shm").glob(f"maru-bench-{run.pid}-*")), [])

    def test_a_running_server_is_as_it_was_afterwards(self):
        with Server(MARU, size="512MiB") as server:
            done = bench("--server", server.socket, "--keys", "300", "--readers", "1",
                         "--batch", "1", *SMALL)
            self.assertEqual(done.returncode, 0, done.stderr)
            parts = {row["section"] for row in rows_of(done)}
            self.assertEqual(parts, {"catalogue", "socket", "payload", "server"})
            self.assertEqual(server.run("audit").returncode, 0)
            stat = json.loads(server.run("stat", "--json").stdout)
            self.assertEqual(stat["pools"][0]["pages"]["live"], 0)

    def test_what_makes_no_sense_is_refused(self):
        for words in (["--keys", "0"], ["--keys", "1x"], ["--batch", "5000"], ["--only", "all"],
                      ["--readers", ""], ["--repetitions", "0"]):
            done = bench(*words)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn(words[0].encode(), done.stderr)

    def test_without_a_server_it_says_so(self):
        done = bench("--server", "/nowhere/maru.sock", "--keys", "10", *SMALL)
        self.assertEqual(done.returncode, 3)


if __name__ == "__main__":
    unittest.main()
