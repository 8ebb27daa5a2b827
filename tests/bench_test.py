#!/usr/bin/env python3
"""`maru bench` in a small size: every row is there, and nothing is left behind."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest

from server import Server
from shared_memory import Watch

MARU = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else "build/maru").resolve()
SOURCE = pathlib.Path(__file__).resolve().parent.parent
SMALL = ["--repetitions", "1", "--time", "1", "--messages", "8", "--json"]


def bench(*words):
    return subprocess.run([MARU, "bench", *words], capture_output=True, check=False)


def rows_of(done):
    return json.loads(done.stdout)["rows"]


class Bench(unittest.TestCase):
    def test_every_part_on_a_private_server(self):
        with Watch() as watch:
            done = bench("--keys", "500", "--readers", "1,2", "--batch", "1,16", *SMALL)
            self.assertEqual(done.returncode, 0, done.stderr)
            made = [name for name in watch.names() if re.match("maru-(bench|private)", name)]
            self.assertEqual(made, [], "a file with a name may stay")
        rows = rows_of(done)
        lookups = [row for row in rows if row["section"] == "catalogue"]
        self.assertEqual(len(lookups), 3 * 2 * 2)
        # So many keys in one call: 16 take longer than 2 of one.
        took = {(row["operation"], row["processes"], row["batch"]): row["p50_ns"]
                for row in lookups}
        for operation, readers, _ in took:
            self.assertGreater(took[operation, readers, 16], 2 * took[operation, readers, 1])
        messages = [row for row in rows if row["section"] == "socket"]
        self.assertEqual(len({row["operation"] for row in messages}), 7)
        # By message as in the catalogue, in each placement.
        finds = [row for row in messages if row["operation"].startswith("find")]
        placements = {row["placement"] for row in messages}
        self.assertEqual(len(finds), 2 * 2 * 2 * len(placements))
        for placement in placements:
            told = {(row["operation"], row["processes"], row["batch"]) for row in finds
                    if row["placement"] == placement}
            self.assertEqual(told, {(f"find, {what}", readers, batch) for what in ("hit", "miss")
                                    for readers in (1, 2) for batch in (1, 16)})
        payload = [row for row in rows if row["section"] == "payload"]
        self.assertEqual(len(payload), 2)
        for row in lookups + messages + payload:
            for number in ("p50_ns", "p99_ns", "limit_ns", "times_limit"):
                self.assertGreater(row[number], 0, (number, row))
        for row in rows:
            if row.get("unit") not in ("bytes a key", "% of a core"):
                self.assertGreaterEqual(row["p99_ns"], row["p50_ns"], row)
        server = {row["operation"]: row for row in rows if row["section"] == "server"}
        self.assertEqual(len(server), 4)
        self.assertGreater(server["memory beside the key text"]["value"], 0)

    def test_killed_at_any_moment_it_leaves_no_pool(self):
        for part, progress in (("catalogue", "look-ups"), ("server", "restarts")):
            with subprocess.Popen([MARU, "bench", "--keys", "2k", "--only", part], text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
                self.assertTrue(any(progress in line for line in run.stderr))
                run.kill()
            self.assertEqual(list(pathlib.Path("/dev/shm").glob(f"maru-bench-{run.pid}-*")), [])

    def test_a_server_of_the_environment_is_left_alone(self):
        with Server(MARU) as server:
            server.run("put", "k", "-", data=b"somebody's")
            before = server.json("stat")["counters"]
            done = subprocess.run([MARU, "bench", "--keys", "20", "--only", "socket", *SMALL],
                                  capture_output=True, check=False,
                                  env={**os.environ, "MARU_SERVER": str(server.socket)})
            self.assertEqual(done.returncode, 0, done.stderr)
            after = server.json("stat")["counters"]
            self.assertEqual(after["registered"], before["registered"])

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

    def test_the_tables_of_the_documentation_have_every_row(self):
        page = pathlib.Path(tempfile.mkdtemp()) / "page.md"
        page.write_text("before\n<!-- bench-tables: begin -->\nold\n"
                        "<!-- bench-tables: end -->\nafter\n")
        words = ["--keys", "300,2k", "--readers", "1,2", "--batch", "1,16",
                 *(word for word in SMALL if word != "--json")]
        done = subprocess.run([SOURCE / "scripts" / "bench-tables", "--maru", MARU, "--page", page,
                               *words], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        text = page.read_text()
        page.unlink()
        page.parent.rmdir()
        self.assertTrue(text.startswith("before\n") and text.endswith("after\n"), text)
        self.assertNotIn("old", text)
        for heading in ("Look-ups that hit", "Look-ups that miss", "Retrieve and release"):
            table = text.split(f"### {heading}\n\n")[1].split("\n\n")[0].splitlines()
            self.assertEqual(len(table), 2 + 2 * 2 * 2, heading)
            for line in table[2:]:
                self.assertNotIn("| |", line, heading)  # no empty cell
        for heading in ("Messages", "Payload of 1 MiB", "Server"):
            self.assertIn(f"### {heading}\n", text)

    def test_what_would_need_more_memory_than_there_is_is_left_out(self):
        done = bench("--keys", "200,100M", "--page-size", "1MiB", "--only", "catalogue",
                     "--readers", "1", "--batch", "1", *SMALL)
        self.assertEqual(done.returncode, 0, done.stderr)
        shown = json.loads(done.stdout)
        self.assertEqual(shown["keys_left_out"], [100_000_000])
        self.assertEqual({row["keys"] for row in shown["rows"]}, {200})
        done = bench("--keys", "100M", "--page-size", "1MiB")
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"of memory", done.stderr)

    def ended(self, server, number):
        """A run on that server, ended by that signal while it measures."""
        with subprocess.Popen([MARU, "bench", "--server", server.socket, "--keys", "3k", "--only",
                               "catalogue", "--readers", "1,3", "--time", "50"], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
            self.assertTrue(any("look-ups" in line for line in run.stderr))
            stat = server.json("stat")
            self.assertEqual(stat["pools"][0]["pages"]["live"], 3000)
            while stat["clients"]["attached"] != 3:  # the readers come one after the other
                self.assertIsNone(run.poll(), "it has ended without as many readers")
                stat = server.json("stat")
            run.send_signal(number)
            error = run.stderr.read()
        return run.returncode, error

    def test_ended_early_it_deletes_its_keys_of_a_running_server(self):
        with Server(MARU, size="512MiB") as server:
            for number in (signal.SIGINT, signal.SIGTERM):
                code, error = self.ended(server, number)
                self.assertEqual(code, 1, error)
                self.assertIn(f"ended by signal {number.value}; its keys are deleted", error)
                stat = json.loads(server.run("stat", "--json").stdout)
                self.assertEqual(stat["pools"][0]["pages"]["live"], 0)

    def test_a_server_that_stops_answering_is_told_with_what_stays_there(self):
        with Server(MARU, size="512MiB") as server:
            with subprocess.Popen([MARU, "bench", "--server", server.socket, "--keys", "3k",
                                   "--only", "socket"], text=True, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE) as run:
                self.assertTrue(any("messages" in line for line in run.stderr))
                server.process.send_signal(signal.SIGSTOP)
                error = run.stderr.read()
            self.assertEqual(run.returncode, 3, error)
            self.assertRegex(error, "up to 3000 keys of namespace maru-bench-[0-9]+ stay on ")
            # From the start.
            done = bench("--server", server.socket, "--keys", "10", *SMALL)
            server.process.send_signal(signal.SIGCONT)
            self.assertEqual(done.returncode, 3)
            self.assertNotIn(b"stay on", done.stderr)

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
