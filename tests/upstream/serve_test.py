#!/usr/bin/env python3
"""Where `maru serve` serves upstream's two protocols, and what it says when it cannot."""

import json
import os
import pathlib
import re
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from server import Server, ended  # noqa: E402
from upstream import metadata, resource_manager  # noqa: E402
from upstream.own_network import own_network  # noqa: E402

MARU = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else "build/maru").resolve()
ENOENT = -2
ANY_METADATA, ANY_RM = "tcp://127.0.0.1:0", "127.0.0.1:0"
METADATA_DEFAULT, RM_DEFAULT = "tcp://127.0.0.1:5555", "127.0.0.1:9850"


def serve(*words):
    return ended(MARU, "serve", *words)


def take(port):
    """The port is taken until the listener is closed."""
    return socket.create_server(("127.0.0.1", port))


class Addresses(unittest.TestCase):
    def server(self, **options):
        server = Server(MARU, size="32MiB", **options)
        self.addCleanup(server.__exit__)
        return server

    def test_ports_that_were_chosen_are_told_and_served(self):
        server = self.server(listen=ANY_METADATA, rm_listen=ANY_RM).start()
        self.assertRegex(server.metadata, r"^tcp://127\.0\.0\.1:[1-9]\d*$")
        self.assertRegex(server.resource_manager, r"^127\.0\.0\.1:[1-9]\d*$")
        with metadata.MetadataClient(server.metadata) as client:
            shaken = client.handshake()
        self.assertEqual(shaken["rm_address"], server.resource_manager)
        with resource_manager.connect(server.resource_manager) as client:
            self.assertEqual([pool.path for pool in client.stats()], [str(server.pool)])

    def test_none_serves_nothing_and_makes_no_key(self):
        server = self.server().start()
        self.assertEqual((server.metadata, server.resource_manager), (None, None))
        self.assertFalse(server.key.exists())

    def test_json_tells_both(self):
        server = self.server()
        for words, expected in (((ANY_METADATA, ANY_RM), (str, str)),
                                (("none", ANY_RM), (type(None), str)),
                                ((ANY_METADATA, "none"), (str, type(None)))):
            process = subprocess.Popen(
                [MARU, "serve", "--json", "--pool", f"file:{server.pool},size=32MiB", "--socket",
                 server.socket, "--listen", words[0], "--rm-listen", words[1], "--log-level",
                 "warning"],
                stdout=subprocess.PIPE, text=True)
            told = json.loads(process.stdout.readline())
            process.terminate()
            process.communicate()
            self.assertEqual((type(told["metadata"]), type(told["resource_manager"])), expected)

    def test_a_taken_address_that_was_asked_for_is_an_error_that_names_it(self):
        first = self.server(listen=ANY_METADATA, rm_listen=ANY_RM).start()
        for option, taken in (("--listen", first.metadata),
                              ("--rm-listen", first.resource_manager)):
            other = "--rm-listen" if option == "--listen" else "--listen"
            second = self.server()
            done = serve("--pool", f"file:{second.pool},size=32MiB", "--socket", second.socket,
                         option, taken, other, "none")
            self.assertEqual(done.returncode, 1, done.stderr)
            for word in (option, taken, "choose another address"):
                self.assertIn(word, done.stderr)

    def test_a_taken_default_is_done_without(self):
        self.enterContext(own_network())
        with take(5555), take(9850):
            server = self.server()
            server.options = []
            server.start()
        self.assertEqual((server.metadata, server.resource_manager), (None, None))
        warned = [line for line in server.logged().splitlines() if "warning" in line]
        self.assertEqual(len(warned), 2, warned)
        for line, words in zip(warned, ((METADATA_DEFAULT, "--listen URL"),
                                        (RM_DEFAULT, "--rm-listen ADDRESS"))):
            for word in words:
                self.assertIn(word, line)
        self.assertEqual(server.run("put", "k", "-", data=b"bytes").returncode, 0)

    def test_clients_are_told_where_the_resource_manager_is_when_its_default_is_taken(self):
        self.enterContext(own_network())
        with take(9850):
            server = self.server()
            server.options = ["--listen", ANY_METADATA]
            server.start()
        self.assertNotIn(server.resource_manager, (None, RM_DEFAULT))
        with metadata.MetadataClient(server.metadata) as client:
            self.assertEqual(client.handshake()["rm_address"], server.resource_manager)

    def test_a_fifo_of_anybody_beside_the_pool_holds_up_no_start(self):
        server = self.server(listen=ANY_METADATA, rm_listen=ANY_RM).start()
        server.stop()
        os.mkfifo(server.rm_port)
        server.start()
        self.assertIn(f"{server.rm_port} is a FIFO", server.logged())
        server.stop()
        server.key.unlink()
        os.mkfifo(server.key)
        done = serve("--pool", f"file:{server.pool}", "--socket", server.socket,
                     "--listen", ANY_METADATA, "--rm-listen", ANY_RM)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"{server.key} is a FIFO, not a file", done.stderr)

    def test_a_port_that_was_chosen_is_the_same_after_a_restart(self):
        self.enterContext(own_network())
        server = self.server()
        server.options = ["--listen", "tcp://127.0.0.1:5555"]
        with take(9850):
            server.start()
            chosen = server.resource_manager
            client = self.enterContext(resource_manager.connect(chosen, "host-a:1"))
            handle = client.alloc(2 << 20).handle
            for end in (server.kill, server.stop):
                end()
                server.start()
                self.assertEqual(server.resource_manager, chosen)
                with resource_manager.connect(chosen, "host-a:1") as back:
                    self.assertEqual(back.access(handle).status, 0)
            self.assertEqual(server.rm_port.stat().st_mode & 0o777, 0o600)
            self.assertNotIn("go on asking there", server.logged())
            # Somebody else has it meanwhile, and keeps it: the next one is kept from now on.
            server.stop()
            with take(int(chosen.rpartition(":")[2])):
                server.start()
                other = server.resource_manager
                self.assertNotIn(other, (chosen, RM_DEFAULT))
                self.assertIn(f"was at {chosen} before", server.logged())
            server.stop()
            server.start()
            self.assertEqual(server.resource_manager, other)
            # What is no port is told, and passed over.
            server.stop()
            server.rm_port.write_text("70000\n")
            server.start()
            self.assertIn(f"{server.rm_port} has no number of a port", server.logged())
            server.stop()
        # At its own address again, it says who must be started again.
        kept = f"127.0.0.1:{server.rm_port.read_text().strip()}"
        server.start()
        self.assertEqual(server.resource_manager, RM_DEFAULT)
        self.assertIn(f"was at {kept} before", server.logged())
        self.assertFalse(server.rm_port.exists())

    def test_the_defaults_are_upstreams(self):
        self.enterContext(own_network())
        server = self.server()
        server.options = []
        server.start()
        self.assertEqual((server.metadata, server.resource_manager),
                         (METADATA_DEFAULT, RM_DEFAULT))

    def test_other_hosts_need_a_word_of_the_user(self):
        server = self.server()
        pool = f"file:{server.pool},size=32MiB"
        for option, address in (("--listen", "tcp://0.0.0.0:0"), ("--listen", "tcp://*:0"),
                                ("--listen", "tcp://[::]:0"), ("--rm-listen", "0.0.0.0:0")):
            other = "--rm-listen" if option == "--listen" else "--listen"
            done = serve("--pool", pool, "--socket", server.socket, option, address, other, "none")
            self.assertEqual(done.returncode, 2, done.stderr)
            for word in (option, address, "--allow-remote"):
                self.assertIn(word, done.stderr)
            self.assertFalse(server.pool.exists())
        server.options = ["--listen", "tcp://0.0.0.0:0", "--rm-listen", "0.0.0.0:0",
                          "--allow-remote"]
        server.start()
        port = server.metadata.rpartition(":")[2]
        with metadata.MetadataClient(f"tcp://127.0.0.1:{port}") as client:
            rm_port = server.resource_manager.rpartition(":")[2]
            self.assertEqual(client.handshake()["rm_address"], f"127.0.0.1:{rm_port}")

    def test_what_is_no_address_is_named_and_leaves_no_pool(self):
        server = self.server()
        for option, address in (("--listen", "127.0.0.1:5555"), ("--listen", "tcp://nowhere:1"),
                                ("--listen", "ipc:///tmp/x"), ("--listen", "tcp://127.0.0.1"),
                                ("--rm-listen", "tcp://127.0.0.1:1"), ("--rm-listen", "9850"),
                                ("--listen", ""), ("--rm-listen", "")):
            done = serve("--pool", f"file:{server.pool},size=32MiB", "--socket", server.socket,
                         option, address)
            self.assertEqual(done.returncode, 2, (address, done.stderr))
            self.assertIn(f"{option} {address}".strip(), done.stderr)
            self.assertFalse(server.pool.exists())
        for seconds in ("-1", "86401", "long"):
            done = serve("--wire-hold", seconds)
            self.assertEqual(done.returncode, 2)
            self.assertIn(f"--wire-hold {seconds}", done.stderr)


class LocalRoad(unittest.TestCase):
    """What the handshake tells a handler of ours."""

    def told(self, server):
        with metadata.MetadataClient(server.metadata) as client:
            return client.handshake()["maru"]

    def test_socket_host_pool_and_namespace(self):
        with Server(MARU, size="32MiB", listen=ANY_METADATA) as server:
            road = self.told(server)
            shown = subprocess.run([MARU, "pool", "inspect", server.pool], capture_output=True,
                                   check=True, text=True).stdout
        uuid = re.search(r"^ *uuid: (\S+)$", shown, re.MULTILINE).group(1)
        boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        self.assertEqual(road, {"socket": str(server.socket),
                                "abstract_name": f"@maru-{uuid}",
                                "host": f"{socket.gethostname()}/{boot}",
                                "pool": uuid, "namespace": ""})

    def test_an_abstract_socket_alone(self):
        with Server(MARU, size="32MiB", listen=ANY_METADATA) as server:
            server.stop()
            name = f"@{server.folder.name}"
            server.socket = name
            server.start()
            road = self.told(server)
            self.assertEqual((road["socket"], road["abstract_name"]), ("", name))

    def test_a_relative_path_is_told_as_clients_can_open_it(self):
        server = Server(MARU, size="32MiB", listen=ANY_METADATA, rm_listen=ANY_RM)
        self.addCleanup(server.__exit__)
        before = os.getcwd()
        self.addCleanup(os.chdir, before)
        socket_path, pool = server.socket, server.pool
        os.chdir(server.folder)
        server.socket = "maru.sock"
        server.pool = os.path.relpath(pool, server.folder)
        server.start()
        server.socket, server.pool = socket_path, pool
        folder = os.path.realpath(server.folder)
        self.assertEqual(self.told(server)["socket"], f"{folder}/maru.sock")
        with resource_manager.connect(server.resource_manager) as client:
            (told,) = client.stats()
        self.assertTrue(os.path.isabs(told.path))
        self.assertTrue(os.path.samefile(told.path, pool))


class OurCommandsAtTheMetadataEndpoint(unittest.TestCase):
    """They are given what upstream's clients are given, and go on over the unix socket."""

    def run_at(self, url, *words, data=None, env=None):
        return subprocess.run([MARU, words[0], *([] if url is None else ["--server", url]),
                               *words[1:]], input=data, capture_output=True,
                              env={**os.environ, **(env or {})})

    def test_put_get_and_the_others(self):
        with Server(MARU, size="32MiB", listen=ANY_METADATA) as server:
            url, data = server.metadata, bytes(range(256)) * 1000
            done = self.run_at(url, "put", "k", "-", data=data)
            self.assertEqual((done.returncode, done.stderr), (0, b""))
            port = url.rpartition(":")[2]
            for name in (url, f"tcp://localhost:{port}"):
                self.assertEqual(self.run_at(name, "get", "k").stdout, data)
            self.assertEqual(self.run_at(None, "get", "k", env={"MARU_SERVER": url}).stdout, data)
            self.assertEqual(server.run("get", "k").stdout, data)
            self.assertEqual(self.run_at(url, "ls").stdout, b"k\n")
            self.assertEqual(self.run_at(url, "get", "missing").returncode, 1)
            self.assertEqual(self.run_at(url, "audit").returncode, 0)
            with metadata.MetadataClient(url) as client:
                self.assertEqual(client.lookup("k")["kv_length"], len(data))
            self.assertEqual(self.run_at(url, "rm", "k").returncode, 0)
            self.assertEqual(server.run("exists", "k").returncode, 1)
            server.kill()
            done = self.run_at(url, "get", "k")
            self.assertEqual(done.returncode, 3)
            self.assertIn(url.encode(), done.stderr)
            server.options = ["--listen", url, "--rm-listen", "none"]
            server.start()
            self.assertEqual(self.run_at(url, "put", "again", "-", data=b"x").returncode, 0)

    def test_what_is_no_metadata_endpoint_is_named(self):
        with Server(MARU, size="32MiB", listen=ANY_METADATA, rm_listen=ANY_RM) as server:
            wrong = f"tcp://{server.resource_manager}"
            done = self.run_at(wrong, "put", "k", "-", data=b"x")
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(wrong.encode(), done.stderr)
            self.assertEqual(server.run("exists", "k").returncode, 1)


class Descriptors(unittest.TestCase):
    def limited(self):
        """A program with 256 descriptors."""
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        limited = folder / "maru"
        limited.write_text(f'#!/bin/sh\nulimit -n 256\nexec "{MARU}" "$@"\n')
        limited.chmod(0o755)
        return limited

    def test_connections_at_the_resource_manager_leave_some_for_others(self):
        with Server(self.limited(), size="32MiB", listen=ANY_METADATA,
                    rm_listen=ANY_RM) as server:
            address = ("127.0.0.1", int(server.resource_manager.rpartition(":")[2]))
            silent = [self.enterContext(socket.create_connection(address)) for _ in range(300)]
            with resource_manager.connect(server.resource_manager) as client:
                self.assertEqual(len(client.stats()), 1)  # all before it are accepted
                opened = len(os.listdir(f"/proc/{server.process.pid}/fd"))
                self.assertLess(opened, 256 * 2 // 3)
                self.assertEqual(server.run("put", "k", "-", data=b"x").returncode, 0)
                with metadata.MetadataClient(server.metadata) as after:
                    self.assertEqual(after.exists("k"), {"exists": True})
            self.assertEqual(len(silent), 300)

    def test_connections_at_the_metadata_endpoint_leave_some_for_others(self):
        limited = Server(self.limited(), size="32MiB", listen=ANY_METADATA, rm_listen=ANY_RM)
        with limited as server, server.waiting_instance(), \
                metadata.MetadataClient(server.metadata) as before:
            self.assertTrue(before.handshake()["success"])
            address = ("127.0.0.1", int(server.metadata.rpartition(":")[2]))
            many = [self.enterContext(socket.create_connection(address)) for _ in range(700)]
            for i in range(10):
                self.assertEqual(server.run("put", f"k{i}", "-", data=b"x").returncode, 0)
                self.assertEqual(before.exists(f"k{i}"), {"exists": True})
                with metadata.MetadataClient(server.metadata) as after:
                    self.assertEqual(after.exists(f"k{i}"), {"exists": True})
                with resource_manager.connect(server.resource_manager) as client:
                    self.assertEqual(len(client.stats()), 1)
            self.assertIn("asked nothing", server.logged())
            self.assertEqual(len(many), 700)


class Signals(unittest.TestCase):
    def test_a_hang_up_is_told_and_the_server_goes_on(self):
        with Server(MARU, size="32MiB", listen=ANY_METADATA, rm_listen=ANY_RM) as server:
            server.process.send_signal(signal.SIGHUP)
            while "going on" not in server.logged():
                self.assertIsNone(server.process.poll())
                os.sched_yield()
            self.assertEqual(server.run("put", "k", "-", data=b"x").returncode, 0)
            self.assertEqual(server.stop(), 0)


class Key(unittest.TestCase):
    """Of the tokens in handles."""

    def setUp(self):
        self.server = Server(MARU, size="32MiB", listen=ANY_METADATA, rm_listen=ANY_RM)
        self.addCleanup(self.server.__exit__)

    def test_it_is_the_owners_alone(self):
        self.server.start()
        facts = self.server.key.stat()
        self.assertEqual((stat.S_IMODE(facts.st_mode), facts.st_size), (0o600, 16))

    def test_a_key_that_others_can_read_is_not_used(self):
        self.server.start()
        self.server.stop()
        self.server.key.chmod(0o640)
        with self.assertRaisesRegex(RuntimeError, f"{self.server.key}.*--listen none"):
            self.server.start()
        self.server.key.chmod(0o600)
        self.server.start()

    def test_handles_outlive_another_order_of_the_pools(self):
        def second(path):
            return ("--pool", f"file:{path},size=32MiB")

        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            other = pathlib.Path(folder) / "other"
            self.server.start(*second(other))
            with resource_manager.connect(self.server.resource_manager, "host-a:1") as client:
                handle = client.alloc(2 << 20).handle
            # The other way round, then without the one that had the key first.
            first, self.server.pool = self.server.pool, other
            self.addCleanup(first.unlink, missing_ok=True)
            for words in (second(first), ()):
                self.server.stop()
                self.server.start(*words)
                self.assertNotIn("key file", self.server.logged())
                with resource_manager.connect(self.server.resource_manager, "host-a:1") as client:
                    status = client.access(handle).status
                # Its pool is served no more, but the token is the same.
                self.assertEqual(status, 0 if words else ENOENT)
            keys = [pathlib.Path(f"{pool}.key").read_bytes() for pool in (first, other)]
            self.assertEqual(keys[0], keys[1])
            self.server.stop()
            self.server.pool = first


if __name__ == "__main__":
    unittest.main()
