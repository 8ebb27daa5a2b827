#!/usr/bin/env python3
"""The command line against a real server: what it does, says and answers with its exit code."""

import json
import os
import pathlib
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile
import unittest

from server import UNIX_ONLY, Server
from shared_memory import Watch, with_small_shm

MARU = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else "build/maru").resolve()


class Keys(unittest.TestCase):
    def setUp(self):
        self.server = Server(MARU)
        self.server.start()
        self.addCleanup(self.server.__exit__)

    def put(self, key, data, *words):
        return self.server.run("put", *words, "--", key, "-", data=data)

    def test_what_is_put_is_got(self):
        data = os.urandom(100_000)
        self.assertEqual(self.put("a key", data).returncode, 0)
        got = self.server.run("get", "a key")
        self.assertEqual(got.returncode, 0)
        self.assertEqual(got.stdout, data)

    def test_a_second_put_finds_it_there_and_changes_nothing(self):
        self.put("k", b"first")
        second = self.put("k", b"second")
        self.assertEqual(second.returncode, 0)
        self.assertIn(b"there already", second.stdout)
        self.assertEqual(self.server.run("get", "k").stdout, b"first")

    def test_what_is_not_there_is_exit_code_1(self):
        for words in (("get", "no"), ("exists", "no"), ("rm", "no")):
            self.assertEqual(self.server.run(*words).returncode, 1, words)

    def test_a_command_leaves_itself_out_of_what_it_shows(self):
        self.assertIn(b"clients 0 attached, 0 detached", self.server.run("stat").stdout)
        self.assertEqual(self.server.json("stat", "--clients"), [])
        self.assertEqual(self.server.run("stat", "--clients").stdout.count(b"\n"), 1)
        self.assertEqual(self.server.json("audit")["unchecked"], [])
        with self.server.waiting_instance():
            self.assertEqual(self.server.json("stat")["clients"]["attached"], 1)
            self.assertEqual(len(self.server.json("stat", "--clients")), 1)

    def test_exists_and_rm_answer_for_each_key(self):
        self.put("one", b"1")
        done = self.server.run("exists", "one", "two", "--json")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(json.loads(done.stdout), [{"key": "one", "verdict": "exists"},
                                                   {"key": "two", "verdict": "missing"}])
        removed = self.server.run("rm", "one", "two", "--json")
        self.assertEqual(json.loads(removed.stdout), [{"key": "one", "verdict": "deleted"},
                                                      {"key": "two", "verdict": "missing"}])
        self.assertEqual(self.server.run("exists", "one").returncode, 1)

    def test_json_has_an_answer_for_each_key_though_keys_repeat_or_are_no_text(self):
        # The byte FF, and the letter of that number; a key that is removed twice.
        keys = [b"\xff", "\u00ff".encode(), "\u0085".encode(), b'a"\\', b"k", b"k"]
        for key in keys[:-1]:
            self.assertEqual(self.put(key, b"bytes").returncode, 0)

        def named(entry):
            return (bytes.fromhex(entry["key_hex"]) if "key_hex" in entry
                    else entry["key"].encode())

        listed = self.server.run("ls", "--json").stdout.splitlines()
        self.assertEqual(sorted(named(json.loads(line)) for line in listed), sorted(keys[:-1]))
        for command, verdicts in (("exists", ["exists"] * 6), ("unpin", ["not pinned"] * 6),
                                  ("rm", ["deleted"] * 5 + ["missing"])):
            done = self.server.run(command, "--json", *keys)
            told = json.loads(done.stdout)
            self.assertEqual([named(entry) for entry in told], keys)
            self.assertEqual([entry["verdict"] for entry in told], verdicts)

    def test_files_of_any_size_share_a_few_page_sizes(self):
        sizes = [5000 + 4096 * n for n in range(60)]
        for size in sizes:
            done = self.put(f"of {size}", bytes(size))
            self.assertEqual(done.returncode, 0, done.stderr)
        for size in sizes:
            self.assertEqual(len(self.server.run("get", f"of {size}").stdout), size)

    def test_keys_are_opaque(self):
        keys = ["", "/", "@", "a/b@c", "x" * 65536, "tab\tnewline\n", "\u00fc"]
        for key in keys:
            self.assertEqual(self.put(key, key.encode() + b"!").returncode, 0, key[:20])
        for key in keys:
            got = self.server.run("get", "--", key)
            self.assertEqual(got.stdout, key.encode() + b"!", key[:20])
        listed = self.server.run("ls", "--json").stdout.decode().splitlines()
        self.assertEqual(sorted(json.loads(line)["key"] for line in listed), sorted(keys))

    def test_a_key_over_the_limit_is_refused_by_its_length(self):
        done = self.put("x" * 65537, b"1")
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"65537", done.stderr)
        self.assertIn(b"65536", done.stderr)

    def test_an_empty_value_is_refused(self):
        done = self.put("k", b"")
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"0 bytes", done.stderr)

    def test_namespaces_are_apart(self):
        self.put("k", b"plain")
        self.put("k", b"other", "--namespace", "other")
        self.assertEqual(self.server.run("get", "k").stdout, b"plain")
        self.assertEqual(self.server.run("get", "k", "--namespace", "other").stdout, b"other")
        self.assertEqual(self.server.run("ls", "--namespace", "third").stdout, b"")

    def test_keys_survive_kill_and_stop(self):
        self.put("k", b"stays")
        for end in (self.server.kill, self.server.stop):
            end()
            self.server.start()
            self.assertEqual(self.server.run("get", "k").stdout, b"stays")
            audit = self.server.json("audit")
            self.assertTrue(audit["clean"], audit)

    def on_terminal(self, *command):
        """With standard error on a terminal: the finished process and what it wrote there."""
        ours, theirs = pty.openpty()
        done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=theirs)
        os.close(theirs)
        written = b""
        try:
            while part := os.read(ours, 65536):
                written += part
        except OSError:  # as a terminal ends that nobody has open any more
            pass
        os.close(ours)
        return done, written.decode()

    def test_long_checks_show_how_far_they_are_on_a_terminal_alone(self):
        self.put("k", b"v")
        audit = self.server.command("audit", "--server", self.server.socket)
        done, shown = self.on_terminal(*audit)
        self.assertEqual(done.returncode, 0)
        self.assertRegex(shown, r"\r\d+% of the pools is checked")
        self.assertTrue(shown.endswith("\r"), repr(shown))  # the line goes
        self.assertNotIn(b"%", done.stdout)
        self.assertEqual(self.server.run("audit").stderr, b"")
        self.server.stop()
        check = self.server.command("pool", "check", self.server.pool, "--bytes")
        done, shown = self.on_terminal(*check)
        self.assertEqual(done.returncode, 0)
        self.assertIn("100% of the records are checked", shown)
        self.assertEqual(subprocess.run(check, capture_output=True).stderr, b"")
        self.server.start()

    def test_fresh_starts_anew(self):
        self.put("k", b"goes")
        self.server.stop()
        self.server.start("--fresh")
        self.assertEqual(self.server.run("exists", "k").returncode, 1)

    def test_nothing_is_granted_after_the_tools_are_gone(self):
        for i in range(20):
            self.put(f"k{i}", b"x" * 5000)
            self.server.run("rm", f"k{i}")
        stat = self.server.json("stat")
        self.assertEqual(stat["clients"], {"attached": 0, "detached": 0})
        pages = stat["pools"][0]["pages"]
        self.assertEqual(pages["live"], 0)
        self.assertEqual(pages["all"], pages["free"] + pages["quarantined"] + pages["granted"])
        self.assertTrue(self.server.json("audit")["clean"])
        self.assertEqual(self.server.json("stat", "--clients"), [])

    def test_ls_knows_prefix_and_limit(self):
        for i in range(30):
            self.put(f"a{i:02}", b"x")
        self.put("b", b"x")
        listed = self.server.run("ls", "--prefix", "a").stdout.decode().split()
        self.assertEqual(sorted(listed), [f"a{i:02}" for i in range(30)])
        self.assertEqual(len(self.server.run("ls", "--limit", "7").stdout.split()), 7)


class Errors(unittest.TestCase):
    def test_output_that_is_lost_is_an_error(self):
        with Server(MARU) as server, open("/dev/full", "w") as full:
            server.run("put", "k", "-", data=b"x" * 100_000)
            for words in (["ls"], ["get", "k"], ["get", "k", "--output", "/dev/full"], ["stat"]):
                done = subprocess.run([MARU, *words, "--server", server.socket], stdout=full,
                                      stderr=subprocess.PIPE, text=True)
                self.assertEqual(done.returncode, 1, words)
                self.assertIn("No space left", done.stderr)

    def test_no_server_is_exit_code_3_and_names_socket_and_remedy(self):
        done = subprocess.run([MARU, "exists", "k", "--server", "/tmp/no-such.sock"],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 3)
        self.assertIn("/tmp/no-such.sock", done.stderr)
        self.assertIn("maru serve", done.stderr)

    def test_a_server_that_stands_still_or_ends_in_mid_call_is_exit_code_3_and_named(self):
        with Server(MARU) as server:
            server.process.send_signal(signal.SIGSTOP)
            done = server.run("ls")
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn(f"{server.socket} did not answer", done.stderr.decode())
            # Connected or not, it hears nothing but the end.
            waiting = subprocess.Popen(server.command("ls", "--server", server.socket),
                                       stderr=subprocess.PIPE, text=True)
            server.kill()
            error = waiting.communicate()[1]
            self.assertEqual(waiting.returncode, 3, error)
            self.assertIn(str(server.socket), error)

    def test_a_block_over_the_page_size_is_refused_by_it(self):
        with Server(MARU) as server:
            done = server.run("put", "k", "/dev/zero", "--page-size", "64KiB")
            self.assertEqual(done.returncode, 2)
            for word in (b"/dev/zero", b"64 KiB", b"--page-size"):
                self.assertIn(word, done.stderr)

    def test_clients_do_not_keep_a_server_from_stopping(self):
        with Server(MARU) as server:
            server.run("put", "k", "-", data=b"bytes")
            with server.waiting_instance():
                self.assertEqual(server.stop(), 0)
            checked = subprocess.run([MARU, "pool", "check", server.pool], capture_output=True)
            self.assertIn(b"closed in order: yes", checked.stdout)
            server.start()
            self.assertEqual(server.run("exists", "k").returncode, 0)

    def test_wrong_words_are_exit_code_2(self):
        for words in (["no-such-command"], ["put", "k"], ["serve", "--eviction", "random"],
                      ["serve", "--pool", "tape:x"], ["serve", "--pool", "shm:size=1KiB"],
                      ["serve", "--pool", "dax:/dev/dax0.0"], ["serve", "--metrics", "x:1"],
                      ["exists", "k", "--server", "tcp://localhost"]):
            done = subprocess.run([MARU, *words], capture_output=True, text=True)
            self.assertEqual(done.returncode, 2, (words, done.stderr))
            self.assertTrue(done.stderr or done.stdout, words)

    def test_help_teaches(self):
        done = subprocess.run([MARU, "--help"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0)
        for command in ("serve", "demo", "put", "get", "exists", "rm", "unpin", "ls", "stat",
                        "audit", "replay", "pool"):
            self.assertIn(command, done.stdout)
        self.assertNotIn("replay-instance", done.stdout)
        serve = subprocess.run([MARU, "serve", "--help"], capture_output=True, text=True)
        self.assertIn("Examples", serve.stdout)

    def test_two_servers_on_one_pool(self):
        with Server(MARU) as first:
            second = Server(MARU)
            second.pool = first.pool
            try:
                with self.assertRaises(RuntimeError) as caught:
                    second.start()
                self.assertIn(str(first.pool), str(caught.exception))
            finally:
                second.pool = second.folder / "none"
                second.__exit__()

    def test_socket_in_use(self):
        with Server(MARU) as first:
            second = Server(MARU)
            own = second.socket
            second.socket = first.socket
            try:
                with self.assertRaises(RuntimeError) as caught:
                    second.start()
                self.assertIn(str(first.socket), str(caught.exception))
            finally:
                second.socket = own
                second.__exit__()

    def test_a_foreign_file_is_refused_and_untouched(self):
        server = Server(MARU)
        server.pool.write_bytes(b"not a pool" * 10000)
        before = (server.pool.read_bytes(), server.pool.stat().st_mtime_ns)
        try:
            for words in ([], ["--fresh"]):
                with self.assertRaises(RuntimeError) as caught:
                    server.start(*words)
                self.assertIn("exit 1", str(caught.exception))
            self.assertEqual(before, (server.pool.read_bytes(), server.pool.stat().st_mtime_ns))
        finally:
            server.__exit__()


    def test_a_pool_of_another_size_is_refused_and_a_damaged_one_is_broken(self):
        server = Server(MARU)
        self.addCleanup(server.__exit__)
        server.start()
        server.stop()
        sound = server.pool.read_bytes()
        damaged = bytearray(sound)
        damaged[300] ^= 1  # within the superblock
        for code, reason, held in ((1, "resized", sound + bytes(1 << 21)),
                                   (1, "resized", sound[:-(1 << 21)]),
                                   (1, "no pool", bytes(len(sound))),
                                   (4, "torn", damaged)):
            server.pool.write_bytes(held)
            for words in (["serve", "--pool", f"file:{server.pool}", "--socket", server.socket,
                           *UNIX_ONLY],
                          ["pool", "inspect", server.pool], ["pool", "check", server.pool]):
                done = subprocess.run([MARU, *words], capture_output=True, text=True)
                self.assertEqual(done.returncode, code, (words, done.stderr))
                self.assertIn(reason, done.stderr)
            self.assertEqual(server.pool.read_bytes(), bytes(held))


class Pool(unittest.TestCase):
    """A pool at rest."""

    def setUp(self):
        self.server = Server(MARU)
        self.addCleanup(self.server.__exit__)

    def maru(self, *words):
        return subprocess.run([MARU, "pool", *map(str, words)], capture_output=True, text=True)

    def test_init_inspect_check(self):
        path = self.server.pool
        made = self.maru("init", path, "--size", "64MiB", "--checksum")
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertEqual(self.maru("init", path, "--size", "64MiB").returncode, 1)
        self.assertEqual(self.maru("init", path, "--size", "1MiB").returncode, 2)
        self.server.start()
        self.server.run("put", "--", "k", "-", data=b"checked" * 100)
        self.assertEqual(self.server.run("get", "--verify", "k").stdout, b"checked" * 100)
        self.assertTrue(self.server.json("audit", "--bytes")["clean"])
        self.assertEqual(self.maru("check", path).returncode, 1)  # it is being served
        self.assertIn("served", self.maru("inspect", path).stdout)
        self.server.kill()
        checked = self.maru("check", path, "--bytes", "--json")
        self.assertEqual(checked.returncode, 0, checked.stdout)
        shown = json.loads(checked.stdout)
        self.assertEqual((shown["keys"], shown["verified_pages"]), (1, 1))

    def test_an_audit_of_bytes_that_can_verify_none_says_so(self):
        self.server.start()
        self.assertEqual(self.server.run("audit", "--bytes").returncode, 0)  # no key at all
        self.server.run("put", "--", "k", "-", data=b"unchecked")
        for words in (["audit", "--bytes"], ["audit", "--bytes", "--json"]):
            self.assertEqual(self.server.run(*words).returncode, 1, words)
        self.assertIn(b"verified of 0 of 1 keys", self.server.run("audit", "--bytes").stdout)
        self.assertEqual(self.server.run("audit").returncode, 0)

    def test_a_damaged_byte_is_named(self):
        self.server.start("--pool", f"file:{self.server.pool}2,size=64MiB,checksum")
        self.server.stop()
        os.unlink(f"{self.server.pool}2")
        self.maru("init", self.server.pool, "--size", "64MiB", "--checksum", "--force")
        self.server.start()
        self.server.run("put", "--", "k", "-", data=b"needle" * 1000)
        self.server.stop()
        bytes_there = bytearray(self.server.pool.read_bytes())
        at = bytes_there.index(b"needleneedle")
        with open(self.server.pool, "r+b") as pool:
            pool.seek(at)
            pool.write(b"X")
        self.assertEqual(self.maru("check", self.server.pool).returncode, 0)
        checked = self.maru("check", self.server.pool, "--bytes")
        self.assertEqual(checked.returncode, 4, checked.stdout)
        self.server.start()
        got = self.server.run("get", "--verify", "k")
        audit = self.server.run("audit", "--bytes")
        self.assertEqual((got.returncode, audit.returncode), (4, 4))
        for told in (checked.stdout, got.stderr.decode(), audit.stdout.decode()):
            self.assertIn('key "k"', told)
        self.assertIn(b"bytes verified of 0 of 1 keys", audit.stdout)

    def test_an_audit_names_a_key_that_changed_under_the_server(self):
        self.server.start()
        self.server.run("put", "--", "needle of a key", "-", data=b"bytes")
        self.assertEqual(self.server.run("audit").returncode, 0)
        at = self.server.pool.read_bytes().index(b"needle of a key")
        with open(self.server.pool, "r+b") as pool:
            pool.seek(at)
            pool.write(b"X")
        done = self.server.run("audit")
        self.assertEqual(done.returncode, 4, done.stdout)
        self.assertIn(b"hash", done.stdout)


class Pools(unittest.TestCase):
    def test_as_many_pools_as_there_may_be(self):
        server = Server(MARU)
        self.addCleanup(server.__exit__)
        more = [f"{server.pool}.{i}" for i in range(1, 16)]
        for path in more:
            self.addCleanup(os.unlink, path)
        words = [word for path in more for word in ("--pool", f"file:{path},size=32MiB")]
        server.start(*words)
        server.run("put", "k", "-", data=b"bytes")
        self.assertEqual(server.run("get", "k").stdout, b"bytes")
        self.assertEqual(len(server.json("stat")["pools"]), 16)
        self.assertTrue(server.json("audit")["clean"])

    def test_a_pool_that_is_there_keeps_its_size_and_says_so(self):
        server = Server(MARU, size="32MiB")
        self.addCleanup(server.__exit__)
        server.start()
        server.stop()
        server.size = "64MiB,checksum"
        server.start()
        self.assertIn("32 MiB, not the 64 MiB", server.logged())
        self.assertIn("without checksums", server.logged())


class Full(unittest.TestCase):
    def test_without_eviction_a_full_pool_says_so(self):
        with Server(MARU, size="32MiB", options=["--eviction", "none"]) as server:
            codes = []
            for i in range(40):
                done = server.run("put", f"k{i}", "-", data=bytes(1 << 20))
                codes.append(done.returncode)
                if done.returncode != 0:
                    self.assertIn(b"full", done.stderr)
            self.assertEqual(codes[0], 0)
            self.assertEqual(codes[-1], 1)

    def test_a_key_that_has_no_room_for_its_text_is_refused(self):
        with Server(MARU, size="32MiB", options=["--eviction", "none"]) as server:
            # Text of 64 KiB beside a page of 512 bytes.
            for i in range(1000):
                key = f"{i}/".ljust(65536, "k")
                done = server.run("put", "--page-size", "512", "--", key, "-", data=b"x")
                if done.returncode != 0:
                    break
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(b"no room for the text of the key", done.stderr)
            self.assertEqual(server.run("exists", "--", key).returncode, 1)

    def test_with_eviction_the_oldest_go(self):
        with Server(MARU, size="32MiB") as server:
            for i in range(60):
                done = server.run("put", f"k{i}", "-", data=bytes(1 << 20))
                self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(server.run("exists", "k59").returncode, 0)
            self.assertEqual(server.run("exists", "k0").returncode, 1)
            self.assertTrue(server.json("audit")["clean"])


class Workloads(unittest.TestCase):
    def test_demo_shares_and_leaks_nothing(self):
        done = subprocess.run([MARU, "demo", "--json"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        shown = json.loads(done.stdout)
        self.assertGreater(shown["shared_hits"], 0)
        self.assertEqual(shown["leaked_pages"], 0)
        self.assertEqual(shown["verification_failures"], 0)
        self.assertEqual(shown["races_won"], shown["races"])

    def test_a_killed_demo_leaves_nothing(self):
        with subprocess.Popen([MARU, "demo"], stdout=subprocess.PIPE, text=True) as demo:
            server = int(re.search(r"pid (\d+)", demo.stdout.readline()).group(1))
            ended = os.pidfd_open(server)
            demo.kill()
        select.select([ended], [], [])  # readable once the server is gone
        os.close(ended)
        left = [path for folder in ("/dev/shm", "/tmp")
                for path in pathlib.Path(folder).glob(f"maru-private-{demo.pid}-*")]
        self.assertEqual(left, [])

    def test_a_private_pool_has_no_name_at_any_moment(self):
        """So that no signal finds a moment at which a file would stay."""
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as trace, Watch() as watch:
            trace.write('{"hash_ids": [1]}\n')
            trace.flush()
            marker = pathlib.Path("/dev/shm") / f"maru-test-{os.getpid()}"
            marker.touch()
            marker.unlink()
            self.assertIn(marker.name, watch.names())
            for words in (["demo", "--pool-size", "32MiB"],
                          ["replay", trace.name, "--pool-size", "32MiB"]):
                done = subprocess.run([MARU, *words], capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)
                # Pools of servers of other tests are made at the same time.
                made = [name for name in watch.names() if not name.startswith("maru-test-")]
                self.assertEqual([name for name in made if "maru" in name], [], words)

    def test_a_demo_takes_what_shared_memory_there_is(self):
        done = with_small_shm("64m", MARU, "demo", "--json")
        if done is None:
            self.skipTest("needs a mount of its own")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(json.loads(done.stdout)["shared_hits"], 0)
        for words, remedy in ((["demo"], "--pool-size"),
                              (["demo", "--pool-size", "1GiB"], "--pool-size"),
                              (["pool", "init", "/dev/shm/x", "--size", "1GiB"], "--size"),
                              (["serve", "--pool", "shm:x,size=1GiB", *UNIX_ONLY], "size=SIZE"),
                              (["bench", "--keys", "1k"], "--keys")):
            size = "64m" if "1GiB" in " ".join(words) else "16m"
            done = with_small_shm(size, MARU, *words)
            self.assertEqual(done.returncode, 1, (words, done.stderr))
            self.assertRegex(done.stderr, f"{size[:2]} MiB free there; .* ask for less by {remedy}")

    def test_replay_verifies_and_finds_repeats(self):
        with Server(MARU, size="128MiB") as server:
            trace = server.folder / "trace.jsonl"
            lines = [{"timestamp": i, "hash_ids": [0, 1, 2, i + 3]} for i in range(50)]
            trace.write_text("".join(json.dumps(line) + "\n" for line in lines))
            shown = server.json("replay", trace, "--instances", "3", "--page-size", "64KiB",
                                "--races", "2")
            self.assertEqual(shown["requests"], 50)
            self.assertEqual(shown["blocks"], 200)
            # 53 different blocks; whoever loses a race for one has stored it for nothing.
            self.assertEqual(shown["hits"] + shown["stored"], 200)
            self.assertGreaterEqual(shown["stored"], 53)
            self.assertEqual(shown["stored"] - 53, shown["duplicates"] - 2 * 2)
            self.assertEqual(shown["hit_rate"], shown["hits"] / 200)
            self.assertEqual(shown["bytes"], 200 << 16)
            self.assertGreater(shown["rate"], 0)
            self.assertEqual(shown["leaked_pages"], 0)
            self.assertEqual(shown["verification_failures"], 0)

    def test_one_server_is_replayed_to_with_several_page_sizes(self):
        with Server(MARU) as server:
            for size in ("16KiB", "8KiB", "32KiB", "8KiB"):
                shown = server.json("replay", self.one_request(), "--page-size", size, "--races",
                                    "1")
                self.assertEqual(shown["verification_failures"], 0, size)
            # That of the last was there.
            self.assertEqual((shown["hits"], shown["stored"]), (1, 0))

    def test_races_are_met_on_a_pool_that_is_full_from_the_start(self):
        done = subprocess.run([MARU, "demo", "--pool-size", "32MiB", "--page-size", "1MiB",
                               "--json"], capture_output=True, text=True)
        # Whether there is anything left to share is chance: 1 says that there was not.
        self.assertIn(done.returncode, (0, 1), done.stderr)
        shown = json.loads(done.stdout)
        self.assertEqual((shown["races"], shown["races_won"], shown["races_lost"]), (8, 8, 8))

    def test_an_instance_that_fails_ends_the_others_and_tells_why(self):
        trace = self.one_request()
        cases = (
            # Not all of them get a page: the others wait for those without.
            (1, "the pool is full", ["--instances", "8", "--races", "1", "--page-size", "8MiB",
                                     "--pool-size", "64MiB"]),
            (1, "the pool is full", ["--races", "1", "--page-size", "80MiB", "--pool-size",
                                     "64MiB"]),
            (2, "page_bytes 100", ["--page-size", "100", "--pool-size", "64MiB"]),
            (2, "300 bytes", ["--namespace", "n" * 300, "--pool-size", "64MiB"]),
            (2, "a pool has", ["--pool-size", "1MiB"]),
            (1, "no pool at", ["--pool", "file:/dev/shm/no-such-pool"]),
            (3, "maru serve", ["--server", "@no-such-server"]),
        )
        for code, reason, words in cases:
            done = subprocess.run([MARU, "replay", trace, *words], capture_output=True, text=True)
            self.assertEqual(done.returncode, code, (words, done.stderr))
            lines = done.stderr.splitlines()
            self.assertEqual(len(lines), 1, lines)
            self.assertIn(reason, lines[0])
            self.assertEqual(done.stdout, "")
            done = subprocess.run([MARU, "replay", "--json", trace, *words], capture_output=True,
                                  text=True)
            self.assertEqual(done.returncode, code, (words, done.stderr))
            told = json.loads(done.stderr)
            self.assertEqual(told["exit_code"], code)
            self.assertIn(reason, told["message"])

    def test_with_json_nothing_but_errors_goes_to_standard_error(self):
        for words in (["demo"], ["replay", self.one_request(), "--pool-size", "64MiB"],
                      ["bench", "--keys", "100", "--time", "1", "--messages", "10", "--only",
                       "catalogue"]):
            done = subprocess.run([MARU, *words, "--json"], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""), words)

    def test_replay_beside_another_client_tells_its_results(self):
        with Server(MARU) as server, server.waiting_instance():
            shown = server.json("replay", self.one_request())
            self.assertEqual((shown["requests"], shown["stored"]), (1, 1))
            self.assertIsNone(shown["leaked_pages"])
            self.assertIn("other clients", shown["leaks_unchecked"])
            self.assertTrue(shown["audit_clean"])

    def one_request(self):
        folder = tempfile.TemporaryDirectory(prefix="maru-test-")
        self.addCleanup(folder.cleanup)
        trace = pathlib.Path(folder.name) / "trace.jsonl"
        trace.write_text('{"hash_ids": [1]}\n')
        return trace

    def test_replay_refuses_a_bad_trace_by_line(self):
        with Server(MARU) as server:
            trace = server.folder / "trace.jsonl"
            trace.write_text('{"hash_ids": [1]}\n{"hash_ids": "x"}\n')
            done = server.run("replay", trace)
            self.assertEqual(done.returncode, 2)
            self.assertIn(b"trace.jsonl:2", done.stderr)


if __name__ == "__main__":
    unittest.main()
