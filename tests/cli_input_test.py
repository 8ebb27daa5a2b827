#!/usr/bin/env python3
"""The command line and what it is given: closed descriptors, limits of the process, files that are
none, numbers out of bounds. Each is told by its name and changes nothing."""

import json
import os
import pathlib
import resource
import struct
import subprocess
import sys
import unittest

from server import Server

MARU = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else "build/maru").resolve()


def shell(script, *words, **options):
    """Runs a line of the shell, where "$@" is maru with these words."""
    return subprocess.run(["sh", "-c", script, "sh", str(MARU), *map(str, words)],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


class Given(unittest.TestCase):
    def setUp(self):
        self.server = Server(MARU, size="64MiB")
        self.addCleanup(self.server.__exit__)

    def start(self):
        self.server.start()
        return self.server

    def refused(self, done, code, *words):
        self.assertEqual(done.returncode, code, done)
        for word in words:
            self.assertIn(word, done.stderr.decode())


class Descriptors(Given):
    def test_what_is_written_to_a_closed_standard_output_is_lost_and_told(self):
        self.start().run("put", "k", "-", data=b"x" * 10_000)
        for words in (["get", "k"], ["ls"], ["exists", "k"], ["stat"]):
            done = shell('exec "$@" >&-', *words, "--server", self.server.socket)
            self.refused(done, 1, "standard output" if words[0] != "get" else "write")
        # Without a word on a closed standard error either.
        done = shell('exec "$@" >&- 2>&-', "get", "k", "--server", self.server.socket)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(self.server.run("audit").returncode, 0)

    def test_a_closed_standard_input_is_told(self):
        self.start()
        done = shell('exec "$@" <&-', "put", "k", "-", "--server", self.server.socket)
        self.refused(done, 1, "closed")

    def test_a_server_without_standard_descriptors_writes_its_log_nowhere(self):
        process = subprocess.Popen(
            ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *self.server.command(
                "serve", "--pool", f"file:{self.server.pool},size=64MiB", "--socket",
                self.server.socket, "--listen", "none", "--rm-listen", "none")])
        try:
            while process.poll() is None and self.server.run("exists", "k").returncode != 1:
                continue
            self.assertEqual(self.server.run("put", "k", "-", data=b"x").returncode, 0)
        finally:
            process.terminate()
            process.wait()
        for path in self.server.folder.glob("*.lock"):
            self.assertEqual(path.read_bytes(), b"", path)
        self.assertEqual(subprocess.run([MARU, "pool", "check", self.server.pool],
                                        stdout=subprocess.DEVNULL).returncode, 0)

    def test_a_limit_of_descriptors_is_no_damage(self):
        self.start()
        codes = set()
        for limit in range(5, 12):
            done = shell(f'ulimit -n {limit}; exec "$@"', "exists", "k", "--server",
                         self.server.socket)
            codes.add(done.returncode)
            self.assertNotIn(b"more descriptors than it may", done.stderr)
        self.assertLessEqual(codes, {1, 3})

    def test_a_file_over_the_limit_is_an_error(self):
        self.start().run("put", "k", "-", data=b"x" * 100_000)
        out = self.server.folder / "out"
        done = shell('ulimit -f 10; exec "$@"', "get", "k", "--output", out, "--server",
                     self.server.socket)
        self.refused(done, 1, "ulimit -f")
        pool = self.server.folder / "other"
        done = shell('ulimit -f 10; exec "$@"', "pool", "init", pool, "--size", "32MiB")
        self.refused(done, 1, "ulimit -f")
        self.assertEqual([path.name for path in self.server.folder.glob("other*")], [])


class Numbers(Given):
    def test_sizes_of_a_pool_are_as_given_or_refused(self):
        pool, trace = self.server.pool, self.server.folder / "trace"
        trace.write_text('{"timestamp": 0, "input_length": 1, "output_length": 1, '
                         '"hash_ids": [1]}\n')
        for size, following in (("1MiB", "32MiB"), ("33MiB", "34MiB"), ("1", "32MiB")):
            for words, named in ((["pool", "init", pool, "--size", size], f"--size {size}"),
                                 (["serve", "--pool", f"file:{pool},size={size}"], f"size={size}"),
                                 (["demo", "--pool-size", size], f"--pool-size {size}"),
                                 (["replay", trace, "--pool-size", size], f"--pool-size {size}")):
                done = subprocess.run([MARU, *words], capture_output=True)
                self.refused(done, 2, named, f"is {following}")
        self.assertFalse(pool.exists())

    def test_counts_do_not_wrap(self):
        done = subprocess.run([MARU, "bench", "--keys", "18446744073709552k"],
                              capture_output=True)
        self.refused(done, 2, "18446744073709552k")

    def test_any_number_of_keys_is_unpinned(self):
        keys = [f"key {i}" for i in range(5000)]
        done = self.start().run("unpin", "--json", *keys)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(json.loads(done.stdout),
                         [{"key": key, "verdict": "not pinned"} for key in keys])


class Files(Given):
    def test_what_cannot_be_put_is_named(self):
        self.start()
        done = self.server.run("put", "k", "/tmp")
        self.refused(done, 2, "/tmp", "Is a directory")
        self.assertNotIn(b"page-size", done.stderr)
        done = self.server.run("put", "k", "/dev/null")
        self.refused(done, 2, "/dev/null has 0 bytes")

    def test_traces_that_are_none(self):
        for path in ("/tmp", "/dev/zero", "/dev/stdin"):
            done = subprocess.run([MARU, "replay", path], input=b"", capture_output=True)
            self.refused(done, 2, f"{path} is no regular file")
        trace = self.server.folder / "trace.jsonl"
        trace.write_bytes(bytes(32 << 20))
        done = subprocess.run([MARU, "replay", trace], capture_output=True)
        self.refused(done, 2, "trace.jsonl:1", "in one line")

    def test_memory_that_ends_is_an_error(self):
        limited = ["sh", "-c", 'ulimit -v 400000; exec "$@"', "sh", self.server.maru, "--version"]
        if subprocess.run(limited, capture_output=True).returncode != 0:
            self.skipTest("a sanitizer's shadow is larger than the limit")
        self.start()
        done = shell('ulimit -v 400000; exec "$@"', "put", "k", "/dev/zero", "--page-size", "1GiB",
                     "--server", self.server.socket)
        self.refused(done, 1, "memory")

    def test_a_pool_that_is_named_twice_or_by_a_link(self):
        command = ["serve", "--listen", "none", "--rm-listen", "none", "--socket",
                   self.server.socket]
        pool = f"file:{self.server.pool},size=32MiB"
        done = subprocess.run([MARU, *command, "--pool", pool, "--pool", pool],
                              capture_output=True)
        self.refused(done, 2, str(self.server.pool), "twice")
        for other in (f"{self.server.folder}/../{self.server.folder.name}/p",
                      f"{self.server.folder}/./p"):
            done = subprocess.run(
                [MARU, *command, "--pool", f"file:{self.server.folder}/p,size=32MiB", "--pool",
                 f"file:{other},size=32MiB"], capture_output=True)
            self.refused(done, 2, other, "twice")
        link = self.server.folder / "link"
        link.symlink_to(self.server.pool)
        self.start()
        self.server.stop()
        done = subprocess.run([MARU, *command, "--pool", f"file:{link}"], capture_output=True)
        self.refused(done, 2, str(link), "link is not followed")

    def test_a_block_that_is_cut_short_is_a_failed_verification(self):
        self.start()
        trace = self.server.folder / "trace.jsonl"
        trace.write_text('{"hash_ids": [1, 2, 3]}\n')
        for failures in (0, 1):
            done = self.server.run("replay", trace, "--page-size", "16KiB", "--json")
            self.assertEqual(done.returncode, 4 if failures else 0, done)
            self.assertEqual(json.loads(done.stdout)["verification_failures"], failures, done)
            whole = self.server.run("get", "block/16384/2").stdout
            self.server.run("rm", "block/16384/2")
            self.server.run("put", "block/16384/2", "-", data=whole[:8192])

    def root_with(self, offset, number):
        """A pool with one key, at rest, and then this number in its root."""
        self.start().run("put", "k", "-", data=b"bytes")
        self.server.stop()
        with self.server.pool.open("r+b") as pool:
            pool.seek(0x1000 + offset)
            pool.write(struct.pack("<Q", number))

    def test_without_client_ids_left_only_new_clients_are_refused(self):
        self.root_with(0x20, 2**32)
        self.server.start()
        for _ in range(3):
            self.refused(self.server.run("get", "k"), 1, "client id", "maru pool init")
        self.assertIsNone(self.server.process.poll())

    def test_client_ids_go_on_behind_those_in_use(self):
        self.root_with(0x20, 0)
        done = subprocess.run([MARU, "pool", "check", self.server.pool], capture_output=True)
        self.assertEqual(done.returncode, 0)
        self.assertIn(b"next_client_id is 0", done.stdout)
        self.server.start()
        self.assertEqual(self.server.run("get", "k").stdout, b"bytes")
        self.assertTrue(self.server.json("audit")["clean"])

    def test_a_clock_of_uses_that_no_server_reaches_is_damage(self):
        self.root_with(0x50, 2**64 - 1)
        done = subprocess.run([MARU, "pool", "check", self.server.pool], capture_output=True)
        self.assertEqual(done.returncode, 4)
        with self.assertRaisesRegex(RuntimeError, "use_tick"):
            self.server.start()

    def test_a_pool_with_a_damaged_key_is_refused_and_untouched(self):
        text = b"a key of its own"
        self.start().run("put", text.decode(), "-", data=b"bytes")
        self.server.stop()
        whole = bytearray(self.server.pool.read_bytes())
        at = whole.index(text)
        whole[at] ^= 1
        self.server.pool.write_bytes(whole)
        with self.assertRaisesRegex(RuntimeError, "hash.*maru pool check.*--fresh"):
            self.server.start()
        self.assertEqual(self.server.pool.read_bytes(), whole)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    unittest.main()
