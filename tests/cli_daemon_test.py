#!/usr/bin/env python3
"""A daemon that nobody looks after: its log without a reader, strangers at its door, a start that
is refused."""

import contextlib
import json
import os
import pathlib
import re
import resource
import socket
import subprocess
import sys
import threading
import unittest

from server import UNIX_ONLY, Server

MARU = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else "build/maru").resolve()


class Log(unittest.TestCase):
    """The log goes to a pipe whose other end is the test's."""

    def setUp(self):
        self.server = Server(MARU)
        self.addCleanup(self.server.__exit__)
        self.reader, self.writer = os.pipe()
        self.addCleanup(self.close_reader)

    def close_reader(self):
        if self.reader is not None:
            os.close(self.reader)
        self.reader = None

    def start(self):
        self.server.start(log=self.writer)
        os.close(self.writer)

    def cause_a_line(self):
        """Garbage ends its connection, and the log tells so."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as peer:
            peer.connect(str(self.server.socket))
            peer.send(b"garbage")
            self.assertEqual(peer.recv(1), b"")

    def expect_service(self):
        done = self.server.run("put", "k", "-", data=b"bytes")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.server.run("get", "k").stdout, b"bytes")

    def test_whoever_reads_the_log_may_go(self):
        self.start()
        self.close_reader()
        self.cause_a_line()
        self.expect_service()
        self.assertEqual(self.server.stop(), 0)

    def test_whoever_does_not_read_the_log_holds_nobody_up_and_learns_what_is_missing(self):
        os.set_blocking(self.writer, False)
        with self.assertRaises(BlockingIOError):
            while True:
                os.write(self.writer, b"x" * 4096)
        os.set_blocking(self.writer, True)
        self.start()
        self.cause_a_line()
        self.expect_service()
        os.set_blocking(self.reader, False)
        with self.assertRaises(BlockingIOError):
            while os.read(self.reader, 65536):
                pass
        os.set_blocking(self.reader, True)
        self.assertEqual(self.server.stop(), 0)  # the signal is a line
        with open(self.reader, "rb", closefd=False) as rest:
            lines = rest.read().decode().splitlines()
        self.assertRegex(lines[0], r" warning [1-9]\d* lines are missing here")
        self.assertRegex(lines[-1], r" info signal 15: stopping")

    def test_whoever_causes_lines_does_not_fill_the_disk(self):
        self.server.start()
        os.close(self.writer)
        for _ in range(3000):
            self.cause_a_line()
        self.expect_service()
        told = self.server.logged().count("dropped")
        self.assertGreaterEqual(told, 1000)
        self.assertLess(told, 3000)
        self.server.stop()

    def test_what_is_quoted_in_the_log_is_no_line_of_its_own(self):
        forged = "\n2030-01-01T00:00:00Z error forged \x1b[31m\u009b"
        self.server.pool = self.server.pool.with_name(self.server.pool.name + forged)
        self.server.size = "32MiB"
        self.start()
        self.server.stop()
        self.server.size = "64MiB"
        self.server.start()
        self.server.stop()
        lines = self.server.logged().splitlines()
        told = [line for line in lines if "32 MiB, not the 64 MiB" in line]
        self.assertEqual(len(told), 1, lines)
        self.assertIn("error forged", told[0])
        for line in lines:
            self.assertRegex(line, r"^20\d\d-\S+Z (info|warning) ")
            self.assertFalse(re.search(r"[\x00-\x1f\x7f-\x9f]", line), line)


class Output(unittest.TestCase):
    def test_whoever_reads_where_it_listens_may_go(self):
        server = Server(MARU)
        self.addCleanup(server.__exit__)
        reader, writer = os.pipe()
        os.close(reader)
        with open(server.folder / "server.log", "wb") as log:
            daemon = subprocess.Popen(
                server.command("serve", "--pool", f"file:{server.pool},size=64MiB", "--socket",
                               server.socket, *server.options), stdout=writer, stderr=log)
        os.close(writer)
        try:
            # Nobody says when it listens.
            while server.run("put", "k", "-", data=b"bytes").returncode == 3:
                self.assertIsNone(daemon.poll(), server.logged())
            self.assertEqual(server.run("get", "k").stdout, b"bytes")
        finally:
            daemon.terminate()
            code = daemon.wait()
        self.assertEqual(code, 0)
        self.assertIn("could not be printed", server.logged())


class Liar:
    """Stands between a client and its server, and changes words in the server's answers."""

    def __init__(self, server, changes):
        self.server, self.changes = server, changes
        self.path = server.folder / "liar"
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(str(self.path))
        self.listener.listen()
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                client = self.listener.accept()[0]
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            server.connect(str(self.server.socket))
            threading.Thread(target=self.pass_on, args=(client, server, {}), daemon=True).start()
            threading.Thread(target=self.pass_on, args=(server, client, self.changes),
                             daemon=True).start()

    @staticmethod
    def pass_on(source, sink, changes):
        while True:
            try:
                frame, fds, _, _ = socket.recv_fds(source, 1 << 20, 64)
                for right, wrong in changes.items():
                    frame = frame.replace(right, wrong)
                if frame:
                    socket.send_fds(sink, [frame], fds)
            except OSError:
                frame, fds = b"", []
            for fd in fds:
                os.close(fd)
            if not frame:
                with contextlib.suppress(OSError):
                    sink.shutdown(socket.SHUT_RDWR)
                source.close()
                return

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


class Answers(unittest.TestCase):
    def test_an_answer_of_another_shape_is_an_error_and_no_crash(self):
        with Server(MARU) as server:
            server.run("put", "k", "-", data=b"bytes")
            for words, right, wrong in (
                    (["stat"], b'"clients"', b'"stneilc"'), (["stat"], b'"pools"', b'"sloop"'),
                    (["stat"], b'"counters"', b'"sretnuoc"'), (["stat"], b'"pages"', b'"segap"'),
                    (["stat", "--regions"], b'"pages"', b'"segap"')):
                liar = Liar(server, {right: wrong})
                done = subprocess.run([MARU, *words, "--server", liar.path], capture_output=True,
                                      text=True)
                liar.close()
                liar.path.unlink()
                self.assertEqual(done.returncode, 4, (words, right, done.stderr))
                self.assertIn("not what this maru expects", done.stderr)


class RefusedStart(unittest.TestCase):
    """A start that is refused, by whatever and however late, leaves the pools as they were."""

    def setUp(self):
        self.server = Server(MARU)
        self.addCleanup(self.server.__exit__)
        self.server.start()
        self.server.run("put", "k", "-", data=b"bytes")
        self.server.stop()
        # Beside it, another server on a socket and a pool of its own.
        self.other = Server(MARU)
        self.addCleanup(self.other.__exit__)
        self.other.start()
        self.second = self.server.folder / "second"

    def refused(self, reason, *words, socket_path=None):
        """Of a start on the pool with the key, and what the words name."""
        done = subprocess.run(
            [MARU, "serve", "--pool", f"file:{self.server.pool},size=64MiB", *map(str, words),
             "--socket", socket_path or self.server.socket], capture_output=True, text=True)
        self.assertIn(done.returncode, (1, 2), (words, done.stderr))
        self.assertIn(reason, done.stderr)
        return done.returncode

    def expect_as_before(self, why):
        done = subprocess.run([MARU, "pool", "check", "--json", self.server.pool],
                              capture_output=True, text=True)
        checked = json.loads(done.stdout)
        self.assertEqual((checked["keys"], checked["clean"]), (1, True), why)
        left = {path.name for path in self.server.pool.parent.glob(self.server.pool.name + "*")}
        self.assertEqual(left, {self.server.pool.name}, why)
        left = {path.name for path in self.server.folder.iterdir()}
        self.assertLessEqual(left, {"server.log", "second"}, why)

    def cases(self):
        taken = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(taken.close)
        port = taken.getsockname()[1]
        none = list(UNIX_ONLY)
        pool = f"file:{self.second},size=32MiB"
        return (
            ("socket in use", str(self.other.socket), none, {"socket_path": self.other.socket}),
            ("no such folder", "none", none, {"socket_path": self.server.folder / "none" / "s"}),
            ("a file at the socket's path", "is no socket", none,
             {"socket_path": self.server.folder / "server.log"}),
            ("no such group", "no-such-group", [*none, "--socket-group", "no-such-group"], {}),
            ("a port that is taken", f"{port}", ["--listen", f"tcp://127.0.0.1:{port}"], {}),
            ("another port", f"{port}",
             ["--listen", "none", "--rm-listen", f"127.0.0.1:{port}"], {}),
            ("pool in use", str(self.other.pool), [*none, "--pool", f"file:{self.other.pool},"
                                                   "size=64MiB"], {}),
            ("the pool twice", str(self.server.pool),
             [*none, "--pool", f"file:{self.server.pool},size=64MiB"], {}),
            ("a new pool, and one in use", str(self.other.pool),
             [*none, "--pool", pool, "--pool", f"file:{self.other.pool},size=64MiB"], {}),
            ("a new pool twice", str(self.second), [*none, "--pool", pool, "--pool", pool], {}),
            ("a new pool, and a socket in use", str(self.other.socket), [*none, "--pool", pool],
             {"socket_path": self.other.socket}),
            ("a new pool, and a port that is taken", f"{port}",
             ["--pool", pool, "--listen", f"tcp://127.0.0.1:{port}"], {}),
        )

    def test_the_keys_stay_and_no_pool_is_left_behind(self):
        for why, reason, words, where in self.cases():
            for fresh in ([], ["--fresh"]):
                self.refused(reason, *words, *fresh, **where)
                self.expect_as_before((why, fresh))
                self.assertFalse(self.second.exists(), why)

    def test_what_is_no_pool_beside_it_stays_too(self):
        self.second.write_bytes(b"somebody's letter" * 1000)
        for fresh in ([], ["--fresh"]):
            self.refused("no pool", *UNIX_ONLY, "--pool", f"file:{self.second},size=32MiB",
                         *fresh)
            self.expect_as_before(fresh)
        self.assertEqual(self.second.read_bytes(), b"somebody's letter" * 1000)

    def test_a_copy_with_the_same_region_ids_is_refused_before_either_is_opened(self):
        self.second.write_bytes(self.server.pool.read_bytes())
        self.second.chmod(0o600)
        before = [path.read_bytes() for path in (self.second, self.server.pool)]
        self.refused("maru pool renumber", *UNIX_ONLY, "--pool", f"file:{self.second}")
        after = [path.read_bytes() for path in (self.second, self.server.pool)]
        self.assertTrue(before == after)  # without a comparison of a hundred million bytes in words

    def test_after_them_it_starts_with_its_keys(self):
        for _, reason, words, where in self.cases():
            self.refused(reason, *words, **where)
        self.server.start()
        self.assertEqual(self.server.run("get", "k").stdout, b"bytes")
        self.assertTrue(self.server.json("audit")["clean"])


class FirstStart(unittest.TestCase):
    """A start that makes a pool and the key of its handles, and does not come to its end."""

    def setUp(self):
        self.server = Server(MARU, listen="tcp://127.0.0.1:0", rm_listen="127.0.0.1:0")
        self.addCleanup(self.server.__exit__)
        self.new = self.server.pool.with_name(self.server.pool.name + ".new")

    def start(self, **options):
        return subprocess.Popen(
            self.server.command("serve", "--pool", f"file:{self.server.pool},size=64MiB",
                                "--socket", self.server.socket, *self.server.options),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)

    def left(self):
        return {path.name for path in self.server.pool.parent.glob(self.server.pool.name + "*")}

    def test_without_descriptors_enough_it_leaves_nothing(self):
        program = MARU.read_bytes()
        if b"__asan_init" in program or b"__tsan_init" in program:
            self.skipTest("a sanitizer looks at memory through descriptors of its own")
        refused = 0
        for most in range(5, 128):
            def limit(most=most):
                resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
            with self.start(preexec_fn=limit) as process:
                if any(line.startswith("listening on ") for line in process.stdout):
                    process.terminate()
                error = process.stderr.read()
            if process.returncode == 0:
                break
            refused += 1
            self.assertEqual(process.returncode, 1, (most, error))
            self.assertEqual(self.left(), set(), (most, error))
        self.assertEqual(process.returncode, 0)
        self.assertGreater(refused, 5)
        self.assertEqual(self.left(), {self.server.pool.name, self.server.key.name})

    def test_stopped_as_soon_as_there_is_anything_it_stops_in_order(self):
        for seen in (self.new, self.server.key):
            for _ in range(4):
                with self.start() as process:
                    while not seen.exists() and process.poll() is None:
                        pass
                    process.terminate()
                    process.communicate()
                self.assertEqual(process.returncode, 0, seen)
                self.assertEqual(self.left(), {self.server.pool.name, self.server.key.name}, seen)
                self.server.pool.unlink()
                self.server.key.unlink()


if __name__ == "__main__":
    unittest.main()
