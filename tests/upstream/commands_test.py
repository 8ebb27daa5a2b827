#!/usr/bin/env python3
"""maru-resource-manager and maru-server, started by hand in upstream's order: the first owns the
pools, each of the second has an endpoint with keys of its own."""

import json
import os
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from server import ended  # noqa: E402
from upstream.endpoint import OPEN_REQ, OPEN_RESP, open_reply, open_request  # noqa: E402
from upstream.instance import Instance  # noqa: E402
from upstream.metadata import MetadataClient  # noqa: E402
from upstream.resource_manager import HEADER, ErrorReply, connect, encode  # noqa: E402

MARU = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else "build/maru").resolve()
REGION = 4 << 20
POOL = 64 << 20
ENOENT, EINVAL, EADDRINUSE = -2, -22, -98
ERROR_RESP = 255


class Program:
    """Under one of upstream's names; what it says is read from its JSON line."""

    def __init__(self, path, *words):
        self.command = [path, "--json", *map(str, words)]
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if not line:
            error = self.process.communicate()[1]
            raise RuntimeError(f"exit {self.process.returncode}: {error}")
        self.told = json.loads(line)
        return self

    def await_line(self, words):
        """On standard error."""
        for line in self.process.stderr:
            if words in line:
                return line
        raise AssertionError(f"{self.command} never said {words!r}")

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        self.process.communicate()
        return self.process.returncode

    def close(self):
        if self.process.returncode is None:
            self.end()


class Commands(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="maru-commands-", dir="/dev/shm"))
        self.addCleanup(subprocess.run, ["rm", "-r", self.folder], check=True)
        for name in ("maru-server", "maru-resource-manager"):
            (self.folder / name).symlink_to(MARU)
        self.pools = [self.folder / "pool", self.folder / "second"]
        self.manager = self.start_manager()

    def start_manager(self, *words, port=0, level="WARN"):
        words = [*words, *(() if port is None else ("--port", port)),
                 *(() if level is None else ("--log-level", level))]
        pools = [word for pool in self.pools for word in ("--pool", f"file:{pool},size={POOL}")]
        manager = Program(self.folder / "maru-resource-manager", *pools, "--socket",
                          self.folder / "sock", *words)
        self.addCleanup(manager.close)
        self.address = manager.told["resource_manager"]
        return manager

    def start_server(self, *words, port=0):
        server = Program(self.folder / "maru-server", "--port", port, "--rm-address", self.address,
                         "--log-level", "INFO", *words)
        self.addCleanup(server.close)
        return server

    def instance(self, server, name):
        instance = Instance(server.told["metadata"], name)
        self.addCleanup(instance.close)
        return instance

    def audit(self):
        done = subprocess.run([MARU, "audit", "--server", self.folder / "sock"],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_keys_of_one_server_are_not_visible_in_another(self):
        self.assertIsNone(self.manager.told["metadata"])
        one, two = self.start_server(), self.start_server()
        a, b, reader = (self.instance(one, "a"), self.instance(two, "a"),
                        self.instance(one, "reader"))
        a.alloc(REGION)
        b.alloc(REGION)
        self.assertTrue(a.store("k", b"of one"))
        self.assertFalse(b.client.exists("k")["exists"])
        self.assertTrue(b.store("k", b"of two"))
        self.assertEqual((a.retrieve("k"), b.retrieve("k"), reader.retrieve("k")),
                         (b"of one", b"of two", b"of one"))
        self.assertTrue(b.client.delete("k")["success"])
        self.assertTrue(a.client.exists("k")["exists"])
        # Nor their regions, though both instances have one name.
        region = a.handle["region_id"]
        self.assertEqual(reader.client.list_allocations("reader")["allocations"], [a.handle])
        self.assertEqual(b.client.list_allocations("x")["allocations"], [b.handle])
        self.assertFalse(b.client.register("over", region, 0, REGION)["is_new"])
        self.assertFalse(b.client.return_alloc("a", region)["success"])
        self.assertEqual(b.client.get_stats()["allocation_manager"]["num_allocations"], 1)
        self.assertEqual(a.retrieve("k"), b"of one")
        shaken = a.client.handshake()
        self.assertEqual(shaken["rm_address"], self.address)
        self.assertEqual(shaken["maru"]["namespace"], one.told["metadata"])
        self.assertEqual(shaken["maru"]["socket"], str(self.folder / "sock"))
        for words, code in ((("exists", "k"), 1),
                            (("exists", "k", "--namespace", one.told["metadata"]), 0)):
            done = subprocess.run([MARU, *words, "--server", self.folder / "sock"],
                                  stdout=subprocess.DEVNULL)
            self.assertEqual(done.returncode, code)
        self.audit()

    def test_regions_of_one_name_are_shown_with_their_endpoints(self):
        names = [self.start_server().told["metadata"] for _ in range(2)]
        for name in names:
            with Instance(name, "prefill-0") as instance:
                instance.alloc(REGION)
        shown = subprocess.run([MARU, "stat", "--regions", "--server", self.folder / "sock"],
                               check=True, text=True, capture_output=True).stdout
        for name in names:
            self.assertRegex(shown, f"prefill-0 at {name}\n")

    def test_a_server_that_is_started_again_has_its_keys(self):
        for number in (signal.SIGTERM, signal.SIGKILL):
            server = self.start_server()
            with Instance(server.told["metadata"], "a") as instance:
                instance.alloc(REGION)
                instance.store("k", b"bytes")
            code = server.end(number)
            self.assertEqual(code, 0 if number == signal.SIGTERM else -number)
            port = server.told["metadata"].rpartition(":")[2]
            # The address is free as soon as the one before is gone.
            again = self.start_server(port=port)
            self.assertEqual(again.told["metadata"], server.told["metadata"])
            self.assertEqual(self.instance(again, "b").retrieve("k"), b"bytes")
            again.end()

    def test_servers_go_on_when_the_resource_manager_is_started_again(self):
        server = self.start_server()
        instance = self.instance(server, "a")
        instance.alloc(REGION)
        instance.store("k", b"bytes")
        port = self.address.rpartition(":")[2]
        for number in (signal.SIGKILL, signal.SIGTERM):
            self.manager.end(number)
            server.await_line("is opened again as soon as it can be")
            self.manager = self.start_manager(port=port)
            server.await_line("the endpoint is open again at " + server.told["metadata"])
            self.assertEqual(instance.retrieve("k"), b"bytes")
            self.assertTrue(instance.store(f"after {number}", b"more"))
        self.assertEqual(server.end(), 0)
        self.audit()

    def test_regions_come_from_the_pools_that_were_named(self):
        server = self.start_server("--dax-path", self.pools[1])
        instance = self.instance(server, "a")
        region = instance.region(instance.alloc(REGION))
        self.assertEqual(region.access.path, str(self.pools[1]))
        self.assertFalse(instance.client.alloc("a", 60 << 20)["success"])
        other = self.instance(self.start_server(), "b")
        self.assertEqual(other.region(other.alloc(REGION)).access.path, str(self.pools[0]))
        both = self.instance(self.start_server("--dax-path", self.pools[1], "--dax-path",
                                               self.pools[0]), "c")
        self.assertEqual(both.region(both.alloc(REGION)).access.path, str(self.pools[1]))

    def test_totals_are_of_the_pools_that_were_named(self):
        one, both = self.start_server("--dax-path", self.pools[1]), self.start_server()
        rm = connect(self.address, "host-a:1")
        self.addCleanup(rm.close)
        takes = {one: self.pools[1], both: self.pools[0]}  # where each one's first region lies
        for server, pools in ((one, self.pools[1:]), (both, self.pools)):
            client = self.instance(server, "a").client

            def totals():
                stats, usage = client.get_stats()["cxl_pool"], client.get_usage()
                # The resource manager's clients may use any pool, and are shown each by itself.
                shown = {pool.path: pool for pool in rm.stats()}
                self.assertEqual(set(shown), set(map(str, self.pools)))
                self.assertEqual([pool.total for pool in shown.values()], [POOL, POOL])
                free = sum(shown[str(pool)].free for pool in pools)
                self.assertEqual(stats, {"total_size": len(pools) * POOL, "free_size": free})
                self.assertEqual((usage["pool_total"], usage["pool_free"]),
                                 (len(pools) * POOL, free))
                return {path: pool.free for path, pool in shown.items()}

            before = totals()
            client.alloc("a", REGION)
            before[str(takes[server])] -= REGION
            self.assertEqual(totals(), before)

    def test_what_cannot_be_opened_ends_the_server_with_the_reason(self):
        one = self.start_server()
        port = one.told["metadata"].rpartition(":")[2]
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        for words, code, said in (
                (("--port", port), 1, (one.told["metadata"], "choose another")),
                (("--port", listener.getsockname()[1]), 1, ("choose another",)),
                (("--port", "0", "--host", "0.0.0.0"), 2,
                 ("0.0.0.0", "--allow-remote of ", "maru-resource-manager")),
                (("--port", "0", "--host", "nowhere.invalid"), 2,
                 ("--host nowhere.invalid", "has no address")),
                (("--port", "0", "--dax-path", "/dev/dax9.9"), 1, ("/dev/dax9.9",)),
                (("--port", "70000"), 2, ("--port", "70000")),
                (("--port", "0", "--log-level", "LOUD"), 2, ("LOUD",)),
                (("--port", "0", "--client-lease-ttl", "-1"), 2, ("--client-lease-ttl -1",)),
                (("--port", "0", "--client-lease-ttl", "nan"), 2, ("--client-lease-ttl nan",)),
                (("--port", "0", "--client-lease-ttl", "30s"), 2, ("--client-lease-ttl 30s",)),
                (("--port", "0", "--client-lease-ttl", "86401"), 2, ("86400",)),
                (("--port", "0", "--remote-bind", "tcp://0.0.0.0:6600"), 1,
                 ("--remote-bind tcp://0.0.0.0:6600", "one host")),
                (("--port", "0", "--cpu-only", "--dax-path", self.pools[1]), 2,
                 ("--cpu-only", "--dax-path")),
                (("--port", "0", "--rm-address", "nowhere.invalid:1"), 3,
                 ("nowhere.invalid:1", "has no address")),
                (("--port", "0", "--rm-address", "127.0.0.1"), 2,
                 ("--rm-address 127.0.0.1:", "HOST:PORT", "127.0.0.1:9850")),
                (("--port", "0", "--rm-address", ":9850"), 2, ("--rm-address :9850:", "HOST:PORT")),
                (("--port", "0", "--rm-address", "127.0.0.1:1"), 3,
                 ("127.0.0.1:1", "Connection refused"))):
            manager = () if "--rm-address" in words else ("--rm-address", self.address)
            done = ended(self.folder / "maru-server", *manager, *words)
            self.assertEqual(done.returncode, code, (words, done.stderr))
            for word in said:
                self.assertIn(word, done.stderr)

    def test_a_resource_manager_of_upstreams_is_named_with_what_to_do(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:

            def answer():
                asking, _ = listener.accept()
                with asking:
                    asking.recv(4096)
                    message = b"unknown message"
                    asking.sendall(encode(ERROR_RESP, struct.pack("<iI", EINVAL, len(message))
                                          + message))
                    asking.recv(1)  # until it is gone

            thread = threading.Thread(target=answer)
            thread.start()
            address = "127.0.0.1:%d" % listener.getsockname()[1]
            done = ended(self.folder / "maru-server", "--port", "0", "--rm-address", address)
            thread.join()
        self.assertEqual(done.returncode, 1, done.stderr)
        for word in (address, "unknown message", "stop upstream's maru-resource-manager"):
            self.assertIn(word, done.stderr)

    def test_a_hang_up_ends_neither(self):
        server = self.start_server()
        for program in (server, self.manager):
            program.process.send_signal(signal.SIGHUP)
        server.await_line("going on")
        self.assertTrue(self.instance(server, "a").client.handshake()["success"])
        self.assertEqual((server.end(), self.manager.end()), (0, 0))

    def test_the_resource_manager_takes_every_flag_of_upstreams(self):
        for words in (("--state-dir", self.folder, "--idle-timeout", 60, "--num-workers", 32,
                       "--host", "127.0.0.1", "--port", 0, "--log-level", "warn"),
                      ("-d", self.folder, "-t", 60, "-w", 32, "-H", "127.0.0.1", "-p", 0,
                       "-l", "warn")):
            self.manager.end()
            self.manager = self.start_manager(*words, port=None, level=None)
            for flag in ("--state-dir", "--idle-timeout", "--num-workers"):
                self.assertIn("not used", self.manager.await_line(flag))
            self.start_server().end()

    def test_a_server_takes_every_flag_of_upstreams(self):
        server = self.start_server(
            "--host", "127.0.0.1", "--cpu-only", "--cpu-capacity-limit", 64 << 30,
            "--client-lease-ttl", 30, "--remote-pool-size", "8G", "--remote-page-bytes", "32M",
            "--remote-pool-id", "maru", "--remote-ucx-device", "mlx5_1:1", "--remote-capacity",
            "64G", "--remote-eviction", "lru", "--remote-reservation-ttl", 60.0,
            "--remote-ticket-ttl", 120.0, "--remote-quarantine-ttl", 600.0)
        # One line for each that does nothing, and the endpoint is as without them.
        for flag in ("--cpu-only", "--cpu-capacity-limit", "--remote-pool-size",
                     "--remote-page-bytes", "--remote-pool-id", "--remote-ucx-device",
                     "--remote-capacity", "--remote-eviction", "--remote-reservation-ttl",
                     "--remote-ticket-ttl", "--remote-quarantine-ttl"):
            self.assertIn("is taken and not used: ", server.await_line(flag + " "))
        instance = self.instance(server, "a")
        instance.alloc(REGION)
        self.assertTrue(instance.store("k", b"bytes"))
        self.assertIn("STORAGE", instance.client.storage("register", {})["error"])

    def test_leases_last_as_long_as_the_server_was_told(self):
        brief, standard, none = (self.start_server("--client-lease-ttl", "0.25"),
                                 self.start_server(), self.start_server("--client-lease-ttl", 0))
        regions = {}
        for server, ttl in ((brief, {"lease_ttl": 0.25}),
                            (standard, {"lease_ttl": 30.0, "lease_expired": False}), (none, {})):
            name = server.told["metadata"]
            client = self.instance(server, name).client
            regions[name] = client.alloc(name, REGION, lease_id=name)["handle"]["region_id"]
            told = client.heartbeat(instance_id=name, lease_id=name)
            if server is brief:
                told.pop("lease_expired")  # it may be over by then
            self.assertEqual(told, ttl)
        # Nobody renews: the brief one's region is nobody's soon, and only that.
        watchers = {server: self.instance(server, "watcher").client
                    for server in (brief, standard, none)}

        def owned(server):
            return [handle["region_id"]
                    for handle in watchers[server].list_allocations("watcher")["allocations"]]

        while owned(brief):
            os.sched_yield()
        for server in (standard, none):
            self.assertEqual(owned(server), [regions[server.told["metadata"]]])
        name = brief.told["metadata"]
        self.assertTrue(self.instance(brief, name).client.heartbeat(
            instance_id=name, lease_id=name)["lease_expired"])

    def test_a_lease_that_lapsed_stays_so_after_kills_of_the_server(self):
        server = self.start_server("--client-lease-ttl", "0.25")
        client, watcher = (self.instance(server, name).client for name in ("a", "watcher"))
        region = client.alloc("a", REGION, lease_id="l1")["handle"]["region_id"]
        while watcher.list_allocations("watcher")["allocations"]:  # until nobody has renewed it
            os.sched_yield()
        port = self.address.rpartition(":")[2]
        for _ in range(2):
            self.manager.end(signal.SIGKILL)
            server.await_line("is opened again as soon as it can be")
            self.manager = self.start_manager(port=port)
            server.await_line("the endpoint is open again at " + server.told["metadata"])
            # Its room is another's by now.
            self.assertTrue(watcher.alloc("b", REGION)["success"])
            for lease, expired in (("l1", True), ("l2", False)):
                self.assertEqual(client.heartbeat(instance_id="a", lease_id=lease),
                                 {"lease_ttl": 0.25, "lease_expired": expired})
            self.assertFalse(client.alloc("a", REGION, lease_id="l1")["success"])
            self.assertFalse(client.register("late", region, 0, 1)["is_new"])
        self.audit()

    def test_leases_outlast_a_server_that_is_away(self):
        ttl = ("--client-lease-ttl", 2)
        server, other = self.start_server(*ttl), self.start_server(*ttl)
        a, b = self.instance(server, "a").client, self.instance(other, "b").client
        region = a.alloc("a", REGION, lease_id="l")["handle"]["region_id"]
        self.assertFalse(a.heartbeat(instance_id="a", lease_id="l")["lease_expired"])
        server.end(signal.SIGKILL)
        # As long as a lease that nobody renews lasts elsewhere.
        b.alloc("b", REGION, lease_id="l")
        while b.list_allocations("watcher")["allocations"]:
            os.sched_yield()
        again = self.start_server(*ttl, port=server.told["metadata"].rpartition(":")[2])
        back = self.instance(again, "a").client
        self.assertFalse(back.heartbeat(instance_id="a", lease_id="l")["lease_expired"])
        self.assertTrue(back.register("k", region, 0, 4096)["is_new"])
        self.assertTrue(b.heartbeat(instance_id="b", lease_id="l")["lease_expired"])

    def test_a_server_without_leases_ends_none_of_those_before(self):
        server = self.start_server("--client-lease-ttl", 30)
        client = self.instance(server, "a").client
        region = client.alloc("a", REGION, lease_id="l")["handle"]["region_id"]
        self.assertEqual(self.held_by_leases(), [region])
        metadata_port, port = (told.rpartition(":")[2] for told in (server.told["metadata"],
                                                                    self.address))
        server.end()
        server = self.start_server("--client-lease-ttl", 0, port=metadata_port)
        for number in (None, signal.SIGKILL):
            if number is not None:  # a new resource manager learns it with the endpoint
                self.manager.end(number)
                server.await_line("is opened again as soon as it can be")
                self.manager = self.start_manager(port=port)
                server.await_line("the endpoint is open again at ")
            client = self.instance(server, "a").client
            self.assertEqual(client.heartbeat(instance_id="a", lease_id="l"), {})
            self.assertEqual(self.held_by_leases(), [])
            self.assertTrue(client.register(f"k{number}", region, 0, 4096)["is_new"])
        server.end()
        self.start_server("--client-lease-ttl", 30, port=metadata_port)
        self.assertEqual(self.held_by_leases(), [region])

    def held_by_leases(self):
        shown = subprocess.run([MARU, "stat", "--regions", "--json", "--server",
                                self.folder / "sock"], check=True, text=True,
                               capture_output=True).stdout
        return [each["region_id"] for each in json.loads(shown)
                if each.get("lease_deadline_unix_ns", 0) != 0]

    def test_each_program_speaks_of_itself(self):
        port = self.address.rpartition(":")[2]
        files = ("--pool", f"file:{self.folder}/x,size=64MiB", "--socket", self.folder / "x.sock")
        for program, words, code, said in (
                ("maru-resource-manager", ("--port", port, *files), 1, ("--port",)),
                ("maru-resource-manager", ("--host", "0.0.0.0", *files), 2, ("--host",)),
                ("maru-resource-manager", ("--nothing",), 2, ("maru-resource-manager --help",)),
                ("maru-server", ("--nothing",), 2, ("maru-server --help",)),
                ("maru-server", ("--server", "x"), 2, ("--server",)),
                ("maru-server", ("--port", "x"), 2, ("--port",))):
            done = ended(self.folder / program, *words)
            self.assertEqual(done.returncode, code, (program, words, done.stderr))
            self.assertTrue(done.stderr.startswith(program + ": "), done.stderr)
            for word in said:
                self.assertIn(word, done.stderr)
            for word in ("--rm-listen", "every key", "maru server", "maru resource-manager"):
                self.assertNotIn(word, done.stderr)

    def test_each_program_has_its_own_help_and_version(self):
        for program in ("maru-server", "maru-resource-manager"):
            told = subprocess.run([self.folder / program, "--help"], check=True, text=True,
                                  capture_output=True).stdout
            self.assertIn(f"Usage: {program} [OPTIONS]", told)
            for word in ("--server", "--server-user", "--rm-listen"):
                self.assertNotRegex(told, rf"{word}\b(?!-)")
            for word in ("--json", "--host", "--port", "--version"):
                self.assertIn(word, told)
            for word in ("The same as", "maru server", "maru resource-manager"):
                self.assertNotIn(word, told)
        versions = [subprocess.run([path, "--version"], check=True, text=True,
                                   capture_output=True).stdout.split()
                    for path in (MARU, self.folder / "maru-server",
                                 self.folder / "maru-resource-manager")]
        self.assertEqual([name for name, _ in versions],
                         ["maru", "maru-server", "maru-resource-manager"])
        self.assertEqual(len({version for _, version in versions}), 1)

    def test_hosts_may_be_named(self):
        port = self.address.rpartition(":")[2]
        self.address = f"localhost:{port}"
        server = self.start_server("--host", "localhost")
        self.assertTrue(server.told["metadata"].startswith("tcp://127.0.0.1:"))
        server.end()
        self.manager.end()
        # A name that the system's list of hosts has, or the name server's.
        name = socket.gethostname()
        address = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)[0][4][0]
        self.manager = self.start_manager("--host", name, "--allow-remote")
        told = self.address.rpartition(":")[0].strip("[]")
        self.assertEqual(told, address)
        self.address = f"{name}:{self.address.rpartition(':')[2]}"
        server = self.start_server()
        self.assertTrue(self.instance(server, "a").client.handshake()["success"])

    def test_other_hosts_need_a_word_of_the_resource_managers_user(self):
        done = ended(self.folder / "maru-resource-manager", "--host", "0.0.0.0", "--port", "0",
                     "--pool", f"file:{self.folder}/x,size=64MiB", "--socket",
                     self.folder / "x.sock")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--allow-remote", done.stderr)
        self.manager.end()
        self.manager = self.start_manager("--host", "0.0.0.0", "--allow-remote")
        self.address = "127.0.0.1:" + self.address.rpartition(":")[2]
        server = self.start_server("--host", "0.0.0.0")
        port = server.told["metadata"].rpartition(":")[2]
        with MetadataClient(f"tcp://127.0.0.1:{port}") as client:
            self.assertEqual(client.handshake()["rm_address"], self.address)

    # Our own message, byte by byte.

    def ask(self, client, message):
        client.send(message)
        return open_reply(client)

    def test_an_endpoint_lives_as_long_as_its_connection(self):
        with connect(self.address, "host-a:1") as client:
            status, address, message = self.ask(client, open_request("tcp://127.0.0.1:0"))
            self.assertEqual((status, message), (0, ""))
            with MetadataClient(address) as asking:
                self.assertTrue(asking.handshake()["success"])
            status, _, message = self.ask(client, open_request("tcp://127.0.0.1:0"))
            self.assertEqual((status, message != ""), (EINVAL, True))
            with connect(self.address, "host-a:2") as other:
                status, _, message = self.ask(other, open_request(address, "host-a:2"))
                self.assertEqual((status, address in message), (EADDRINUSE, True))
            # It allocates like any other client on that connection.
            self.assertEqual(client.alloc(REGION).status, 0)
        with connect(self.address, "host-a:2") as other:
            self.assertEqual(self.ask(other, open_request(address, "host-a:2"))[:2], (0, address))

    def test_messages_that_are_wrong_are_answered_and_survived(self):
        good = open_request("tcp://127.0.0.1:0")[HEADER.size :]
        with connect(self.address, "host-a:1") as client:
            for payload in (b"", good[:-1], good[:5], b"\xff\xff" + good[2:],
                            good[:-4] + struct.pack("<I", 65),
                            good[:-4] + struct.pack("<II", 1, 1 << 30)):
                reply = self.ask(client, encode(OPEN_REQ, payload))
                self.assertIsInstance(reply, ErrorReply, payload)
                self.assertEqual(reply.status, EINVAL)
            for message, status in (
                    (open_request("tcp://127.0.0.1:0", ""), EINVAL),
                    (open_request("ipc:///tmp/x"), EINVAL), (open_request(""), EINVAL),
                    (open_request("tcp://0.0.0.0:0"), EINVAL),
                    (open_request("tcp://127.0.0.1:0", paths=["/dev/dax9.9"]), ENOENT)):
                self.assertEqual(self.ask(client, message)[0], status)
            # A type of replies is no request.
            self.assertEqual(self.ask(client, encode(OPEN_RESP, good)).status, EINVAL)
            self.assertEqual(self.ask(client, open_request("tcp://127.0.0.1:0"))[0], 0)

    def test_there_are_so_many_endpoints_and_no_more(self):
        clients = []
        for number in range(64):
            client = connect(self.address, f"host-a:{number}")
            self.addCleanup(client.close)
            clients.append(client)
            self.assertEqual(
                self.ask(client, open_request("tcp://127.0.0.1:0", client.client_id))[0], 0)
        with connect(self.address, "one more:1") as client:
            status, _, message = self.ask(client, open_request("tcp://127.0.0.1:0", "one more:1"))
            self.assertEqual((status, "64" in message), (-12, True))
            clients.pop().close()
            while self.ask(client, open_request("tcp://127.0.0.1:0", "one more:1"))[0] != 0:
                os.sched_yield()  # until the server has seen it go


if __name__ == "__main__":
    unittest.main()
