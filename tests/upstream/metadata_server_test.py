#!/usr/bin/env python3
"""Every message of upstream's metadata protocol, valid and invalid, against the real server: one at
a time over a REQ socket, and pipelined over a DEALER."""

import pathlib
import struct
import sys
import threading
import unittest

import msgpack

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from upstream import resource_manager  # noqa: E402
from upstream.instance import Instance  # noqa: E402
from upstream.metadata import (  # noqa: E402
    HEADER, IN_FLIGHT_MAX, MAGIC, Flag, MetadataClient, PipelinedClient, Type, decode, encode)
from upstream.served import Served  # noqa: E402

REGION = 4 << 20
FAR = 1 << 40


class Both:
    """Tests for either kind of client."""

    def setUp(self):
        super().setUp()
        self.client = self.closed(self.client_class(self.server.metadata))

    def region(self, name="a", size=REGION, **fields):
        reply = self.client.alloc(name, size, **fields)
        self.assertTrue(reply["success"], reply)
        return reply["handle"]

    def test_handshake(self):
        for fields in ({}, {"client_version": "1", "instance_id": "a"},
                       {"unknown": {"a": [1, None]}}):
            reply = self.client.handshake(**fields)
            self.assertIs(reply["success"], True)
            self.assertEqual(reply["rm_address"], self.server.resource_manager)
            self.assertGreater(reply["server_epoch"], 0)
            self.assertTrue(reply["server_version"])

    def test_a_region_is_handed_out_listed_and_returned(self):
        handle = self.region(size=REGION - 5)
        self.assertEqual(set(handle), {"region_id", "offset", "length", "auth_token"})
        self.assertEqual(handle["length"], REGION)
        other = self.region("b")
        self.assertNotEqual(handle["region_id"], other["region_id"])
        for excluded, expected in (("a", [other]), ("b", [handle]), ("", [handle, other]),
                                   ("c", [handle, other])):
            reply = self.client.list_allocations(excluded)
            self.assertTrue(reply["success"])
            self.assertCountEqual(reply["allocations"], expected)
        self.assertTrue(self.client.return_alloc("a", handle["region_id"])["success"])
        self.assertFalse(self.client.return_alloc("a", handle["region_id"])["success"])
        self.assertEqual(self.client.list_allocations("c")["allocations"], [other])

    def test_another_clients_region_is_not_returned(self):
        handle = self.region("a")
        self.assertTrue(self.client.register("k", handle["region_id"], 0, 1)["is_new"])
        for name, region in (("b", handle["region_id"]), ("", handle["region_id"]),
                             ("a", handle["region_id"] + 1), ("a", FAR), ("a", 0)):
            self.assertIs(self.client.return_alloc(name, region)["success"], False)
        self.assertEqual(self.client.list_allocations("b")["allocations"], [handle])
        self.assertTrue(self.client.register("still its own", handle["region_id"], 8, 1)["is_new"])

    def test_what_cannot_be_allocated_is_an_error_and_takes_nothing(self):
        before = self.client.get_stats()["cxl_pool"]
        for size in (0, 1 << 30, 1 << 50, (1 << 64) - 1):
            reply = self.client.alloc("a", size)
            self.assertIs(reply["success"], False, size)
            self.assertIn("Allocation failed", reply["error"])
            self.assertNotIn("handle", reply)
        self.assertEqual(self.client.get_stats()["cxl_pool"], before)

    def test_a_full_pool_is_an_error_until_something_is_returned(self):
        handles = []
        while (reply := self.client.alloc("a", REGION))["success"]:
            handles.append(reply["handle"])
        self.assertGreater(len(handles), 4)
        self.assertIn("error", reply)
        self.assertTrue(self.client.return_alloc("a", handles[0]["region_id"])["success"])
        again = self.region()
        self.assertNotIn(again["region_id"], [handle["region_id"] for handle in handles])

    def test_a_key_from_register_to_delete(self):
        handle = self.region()
        region = handle["region_id"]
        self.assertEqual(self.client.register("k", region, 8192, 100),
                         {"success": True, "is_new": True})
        self.assertEqual(self.client.register("k", region, 0, 1),
                         {"success": True, "is_new": False})
        self.assertEqual(self.client.exists("k"), {"exists": True})
        self.assertEqual(self.client.lookup("k"),
                         {"found": True, "handle": handle, "kv_offset": 8192, "kv_length": 100})
        self.assertEqual(self.client.delete("k"), {"success": True})
        self.assertEqual(self.client.delete("k")["success"], False)
        self.assertEqual(self.client.exists("k"), {"exists": False})
        self.assertEqual(self.client.lookup("k"), {"found": False})

    def test_keys_are_any_text(self):
        region = self.region()["region_id"]
        keys = ["", " ", "/", "\0", "é漢字", "k" * 65_536, b"\xff\xfe", "a\nb"]
        for i, key in enumerate(keys):
            self.assertTrue(self.client.register(key, region, i * 8, 8)["is_new"], key)
        self.assertEqual(self.client.batch_exists(keys)["results"], [True] * len(keys))
        self.assertIn("error", self.client.register("k" * 65_537, region, 0, 1))

    def test_keys_may_be_whole_numbers(self):
        region = self.region()["region_id"]
        keys = [42, -7, (1 << 64) - 1, "42"]
        for place, key in enumerate(keys):
            self.assertEqual(self.client.batch_exists(keys)["results"],
                             [True] * place + [False] * (4 - place))
            self.assertTrue(self.client.register(key, region, place * 8, 8)["is_new"])
        for place, key in enumerate(keys):
            self.assertEqual(self.client.lookup(key)["kv_offset"], place * 8)
        self.assertEqual(self.server.run("exists", b"\xc1-7").returncode, 0)
        self.assertEqual(self.client.delete(42), {"success": True})
        self.assertEqual(self.client.batch_exists(keys)["results"], [False, True, True, True])

    def test_pins_are_one_count_that_forbids_deleting(self):
        region = self.region()["region_id"]
        self.client.register("k", region, 0, 1)
        self.assertEqual(self.client.pin("k"), {"exists": True})
        self.assertEqual(self.client.pin("k"), {"exists": True})
        self.assertEqual(self.client.pin("missing"), {"exists": False})
        for expected in (True, True, False):
            self.assertEqual(self.client.delete("k")["success"], not expected)
            self.assertEqual(self.client.unpin("k")["success"], expected)
        self.assertEqual(self.client.unpin("missing")["success"], False)

    def test_batches_answer_every_key_in_order(self):
        handle = self.region()
        region = handle["region_id"]
        entries = [("a", region, 0, 8), ("b", region, 8, 8), ("a", region, 16, 8),
                   ("c", region, FAR, 8), ("d", FAR, 0, 8)]
        self.assertEqual(self.client.batch_register(entries),
                         {"success": True, "results": [True, True, False, False, False]})
        keys = ["b", "missing", "a", "", "b"]
        self.assertEqual(self.client.batch_exists(keys)["results"],
                         [True, False, True, False, True])
        found = self.client.batch_lookup(keys)["entries"]
        self.assertEqual([entry["found"] for entry in found], [True, False, True, False, True])
        self.assertEqual(found[0],
                         {"found": True, "handle": handle, "kv_offset": 8, "kv_length": 8})
        self.assertEqual(found[1], {"found": False})
        self.assertEqual(self.client.batch_pin(["a", "a", "missing", "b"])["results"],
                         [True, True, False, False])
        self.assertEqual(self.client.batch_unpin(["a", "missing", "a", "a", "b"])["results"],
                         [True, False, True, False, False])
        for call in (self.client.batch_exists, self.client.batch_pin, self.client.batch_unpin,
                     self.client.batch_register):
            self.assertEqual(call([])["results"], [])
        self.assertEqual(self.client.batch_lookup([]), {"entries": []})

    def test_a_batch_of_the_largest_number_of_keys(self):
        keys = [f"model/x@1@0@{i:08}" for i in range(65_536)]
        self.assertEqual(self.client.batch_exists(keys)["results"], [False] * len(keys))
        self.assertIn("65536", self.client.batch_exists([*keys, "one more"])["error"])

    def test_registers_where_a_region_has_no_room_are_refused_and_change_nothing(self):
        region = self.region()["region_id"]
        lent = self.region("b")["region_id"]
        self.client.register("there", region, 0, REGION)
        self.client.return_alloc("b", lent)
        before = self.client.get_stats()
        largest = (1 << 64) - 1
        for where in ((region, FAR, 1), (region, REGION, 1), (region, REGION - 1, 2),
                      (region, 0, REGION + 1), (region, 1, largest), (region, largest, largest),
                      (region, 0, 0), (region + 1_000, 0, 1), (FAR, 0, 1), (0, 0, 1),
                      (largest, 0, 1), (lent, 0, 1)):
            self.assertEqual(self.client.register("bad", *where),
                             {"success": True, "is_new": False}, where)
        for where in ((region, -1, 1), (region, 0, -1), (-1, 0, 1), (region, 0, 1.0),
                      (region, "0", 1), (region, 1 << 64, 1)):
            try:
                reply = self.client.register("bad", *where)
            except OverflowError:  # cannot be written
                continue
            self.assertEqual(list(reply), ["error"], where)
        self.assertEqual(self.client.exists("bad"), {"exists": False})
        self.assertEqual(self.client.get_stats(), before)
        self.assertTrue(self.client.exists("there")["exists"])

    def test_a_key_over_a_live_one_takes_its_place(self):
        """As a late register is dropped by the next one of that extent, also when it is pinned."""
        region = self.region()["region_id"]
        self.client.batch_register([("late", region, 0, 4096), ("beside", region, 8192, 4096)])
        self.client.pin("late")
        self.assertTrue(self.client.register("next", region, 4095, 4097)["is_new"])
        self.assertEqual(self.client.batch_exists(["late", "next", "beside"])["results"],
                         [False, True, True])

    def test_a_delete_by_another_than_the_owner_leaves_the_room_to_the_owner(self):
        handle = self.region("a")
        other = self.closed(MetadataClient(self.server.metadata))
        self.client.register("k", handle["region_id"], 0, 4096)
        self.assertTrue(other.delete("k")["success"])
        self.assertEqual(self.client.list_allocations("x")["allocations"], [handle])
        self.assertTrue(self.client.register("next", handle["region_id"], 0, 4096)["is_new"])

    def test_a_returned_region_stays_as_long_as_its_keys(self):
        handle = self.region()
        self.client.register("k", handle["region_id"], 0, 1)
        full = self.client.get_stats()["cxl_pool"]
        self.assertTrue(self.client.return_alloc("a", handle["region_id"])["success"])
        self.assertEqual(self.client.lookup("k")["handle"], handle)
        self.assertEqual(self.client.get_stats()["cxl_pool"], full)
        # Somebody was just told of it: its room is not lent anew yet.
        self.assertTrue(self.client.delete("k")["success"])
        self.assertEqual(self.client.get_stats()["cxl_pool"], full)
        untold = self.region()["region_id"]
        self.client.register("untold", untold, 0, 1)
        self.assertTrue(self.client.return_alloc("a", untold)["success"])
        self.assertTrue(self.client.delete("untold")["success"])
        self.assertGreaterEqual(self.client.get_stats()["cxl_pool"]["free_size"],
                                full["free_size"])

    def test_heartbeats_and_leases(self):
        self.assertEqual(self.client.heartbeat(), {})
        self.assertEqual(self.client.heartbeat(instance_id="a"), {})
        handle = self.region(lease_id="l1")
        self.assertEqual(self.client.heartbeat(instance_id="a", lease_id="l1"),
                         {"lease_ttl": 30.0, "lease_expired": False})
        # A number is an id as well; a lease without a region has nothing that could lapse.
        self.assertEqual(self.client.heartbeat(instance_id="a", lease_id=7)["lease_expired"],
                         False)
        # A lease is known by its id alone.
        self.assertEqual(self.client.heartbeat(lease_id="l1"),
                         {"lease_ttl": 30.0, "lease_expired": False})
        self.assertTrue(self.client.register("mine", handle["region_id"], 8, 1)["is_new"])
        self.client.delete("mine")
        self.client.heartbeat(lease_id="l1", lease_release=True)
        self.assertFalse(self.client.register("k", handle["region_id"], 0, 1)["is_new"])
        self.assertEqual(self.client.list_allocations("x")["allocations"], [])

    def test_stats_usage_and_reports(self):
        region = self.region()["region_id"]
        self.client.batch_register([("k1", region, 0, 10), ("k2", region, 10, 20)])
        stats = self.client.get_stats()
        self.assertEqual(stats["kv_manager"], {"total_entries": 2, "total_size": 30})
        self.assertEqual(stats["allocation_manager"],
                         {"num_allocations": 1, "total_allocated": REGION, "active_clients": 1})
        self.assertEqual(stats["stats_manager"], {"clients": {"_all": {"operations": {}}}})
        usage = self.client.get_usage()
        self.assertEqual(usage["instances"], [
            {"instance_id": "a", "regions": 1, "allocated": REGION, "used": 30,
             "devices": {str(self.server.pool): REGION}}])
        self.assertEqual(usage["pool_total"], stats["cxl_pool"]["total_size"])
        entry = {"client_id": "c", "op_type": "retrieve", "result": "hit", "size": 5,
                 "latency_us": 1.5}
        self.assertEqual(self.client.report_stats([entry] * 10_000), {"success": True})
        self.assertEqual(self.client.report_stats([{"client_id": "c", "op_type": "store"}]),
                         {"success": True})
        self.assertIn("10000", self.client.report_stats([entry] * 10_001)["error"])
        clients = self.client.get_stats()["stats_manager"]["clients"]
        self.assertEqual(set(clients), {"_all", "c"})
        self.assertEqual(clients["c"], clients["_all"])
        self.assertEqual(clients["c"]["operations"]["retrieve"],
                         {"count": 10_000, "total_size": 50_000, "total_latency_us": 15_000.0,
                          "results": {"hit": 10_000}})

    def test_what_is_not_offered_is_declined(self):
        reply = self.client.storage("put", {"key": "k", "data": b"x" * 100})
        self.assertIs(reply["success"], False)
        self.assertIn("STORAGE", reply["error"])
        self.assertIs(self.client.shutdown()["success"], False)
        self.assertTrue(self.client.handshake()["success"])

    def test_wrong_fields_are_answered_with_an_error_that_names_them(self):
        for kind, fields, word in (
                (Type.EXISTS_KV, {}, "key"), (Type.EXISTS_KV, {"key": 1.5}, "key"),
                (Type.LOOKUP_KV, {"key": None}, "key"), (Type.PIN_KV, {"keys": ["a"]}, "key"),
                (Type.BATCH_EXISTS_KV, {"key": "a"}, "keys"),
                (Type.BATCH_LOOKUP_KV, {"keys": "a"}, "keys"),
                (Type.BATCH_PIN_KV, {"keys": [["a"]]}, "keys"),
                (Type.REQUEST_ALLOC, {"instance_id": "a"}, "size"),
                (Type.REQUEST_ALLOC, {"size": 1}, "instance_id"),
                (Type.REQUEST_ALLOC, {"instance_id": "a" * 257, "size": 1}, "instance_id"),
                (Type.REQUEST_ALLOC, {"instance_id": "a", "size": -1}, "size"),
                (Type.RETURN_ALLOC, {"instance_id": "a", "region_id": "9"}, "region_id"),
                (Type.REGISTER_KV, {"key": "k", "region_id": 1, "kv_offset": 0}, "kv_length"),
                (Type.BATCH_REGISTER_KV, {"entries": [{"key": "k"}]}, "region_id"),
                (Type.REPORT_STATS, {"entries": [{"op_type": "x"}]}, "client_id"),
                (Type.HEARTBEAT, {"lease_release": "yes"}, "lease_release")):
            reply = self.client.request(kind, fields)
            self.assertEqual(list(reply), ["error"], (kind, fields))
            self.assertIn(word, reply["error"])

    def test_flags_are_repeated_and_unknown_fields_passed_over(self):
        for flags in (Flag.BATCH, Flag.URGENT, Flag.BATCH | Flag.URGENT):
            self.assertEqual(
                self.client.request(Type.EXISTS_KV, {"key": "k", "more": {"x": [1, 2.5]}}, flags),
                {"exists": False})


class OneAtATime(Both, Served):
    client_class = MetadataClient

    def test_broken_messages_are_answered_and_survived(self):
        good = encode(Type.EXISTS_KV, 7, {"key": "k"})
        deep = b"\x81\xa1x" + b"\x91" * 40 + b"\xc0"
        for message in (
                b"", b"\xcf", good[:15], good[:-1], good + b"\0", b"\0" * 16,
                HEADER.pack(MAGIC, 2, Type.EXISTS_KV, 0, 7, 0),
                HEADER.pack(MAGIC, 1, 0x40, 0, 7, 0),
                HEADER.pack(MAGIC, 1, Type.EXISTS_KV, 0, 7, (1 << 32) - 1),
                encode(Type.EXISTS_KV, 7, b""), encode(Type.EXISTS_KV, 7, b"\xc1"),
                encode(Type.EXISTS_KV, 7, msgpack.packb([1])),
                encode(Type.EXISTS_KV, 7, b"\x81\xa3key\xdb\xff\xff\xff\xff"),
                encode(Type.BATCH_EXISTS_KV, 7, b"\x81\xa4keys\xdd\xff\xff\xff\xff"),
                encode(Type.EXISTS_KV, 7, {"key": "k"}, Flag.COMPRESSED),
                encode(Type.EXISTS_KV, 7, deep), encode(Type.EXISTS_KV, 7, {"key": "k"}) * 2):
            reply = decode(self.client.raw(message))
            self.assertEqual(list(reply.fields), ["error"], message)
            if len(message) >= HEADER.size and struct.unpack(">H", message[:2])[0] == MAGIC:
                self.assertEqual(reply.sequence, 7)
        self.assertEqual(self.client.exists("k"), {"exists": False})

    def test_a_reply_that_is_not_wanted_does_not_come(self):
        pipelined = self.closed(PipelinedClient(self.server.metadata))
        handle = pipelined.alloc("a", REGION)["handle"]
        pipelined.submit(Type.REGISTER_KV, {"key": "k", "region_id": handle["region_id"],
                                            "kv_offset": 0, "kv_length": 1}, Flag.NO_REPLY)
        self.assertEqual(pipelined.exists("k"), {"exists": True})

    def test_a_region_that_nobody_is_told_of_is_given_back(self):
        pipelined = self.closed(PipelinedClient(self.server.metadata))
        before = pipelined.get_stats()["allocation_manager"]
        for lease in ("", "lease"):
            pipelined.submit(Type.REQUEST_ALLOC, {"instance_id": "a", "size": REGION,
                                                  "lease_id": lease}, Flag.NO_REPLY)
        self.assertEqual(pipelined.get_stats()["allocation_manager"], before)


class Pipelined(Both, Served):
    client_class = PipelinedClient

    def test_64_in_flight_are_answered_in_order_while_others_are_served(self):
        region = self.region()["region_id"]
        count = 20 * IN_FLIGHT_MAX
        failed = []

        def one_at_a_time(number):
            with MetadataClient(self.server.metadata) as client:
                for i in range(200):
                    key = f"sync-{number}-{i}"
                    if client.exists(key) != {"exists": False}:
                        failed.append(key)

        others = [threading.Thread(target=one_at_a_time, args=(n,)) for n in range(3)]
        for thread in others:
            thread.start()
        registered = [
            self.client.submit(Type.REGISTER_KV, {"key": f"k{i}", "region_id": region,
                                                  "kv_offset": i * 64, "kv_length": 64})
            for i in range(count)]
        self.assertEqual([self.client.collect(sequence)["is_new"] for sequence in registered],
                         [True] * count)
        looked_up = [self.client.submit(Type.LOOKUP_KV, {"key": f"k{i}"}) for i in range(count)]
        self.assertEqual([self.client.collect(sequence)["kv_offset"] for sequence in looked_up],
                         [i * 64 for i in range(count)])
        for thread in others:
            thread.join()
        self.assertEqual(failed, [])

    def test_a_client_that_does_not_read_holds_up_nobody(self):
        region = self.region()["region_id"]
        keys = [f"model/x@1@0@{i:060}" for i in range(1_000)]
        entries = [(key, region, i * 64, 64) for i, key in enumerate(keys)]
        self.assertEqual(self.client.batch_register(entries)["results"], [True] * len(keys))
        silent = self.closed(PipelinedClient(self.server.metadata, in_flight_max=1 << 20))
        for _ in range(400):  # some 60 MB of replies
            silent.submit(Type.BATCH_LOOKUP_KV, {"keys": keys})
        other = self.closed(MetadataClient(self.server.metadata))
        for _ in range(100):
            self.assertEqual(other.exists(keys[0]), {"exists": True})


class BytesAreWhereTheyAreSaidToBe(Served):
    """Through real mappings of what the resource manager names."""

    def test_of_one_instance_to_another(self):
        writer = self.closed(Instance(self.server.metadata, "writer"))
        reader = self.closed(Instance(self.server.metadata, "reader", PipelinedClient))
        writer.alloc(REGION)
        stored = {f"k{i}": bytes([i]) * (i + 1) for i in range(100)}
        for key, data in stored.items():
            self.assertTrue(writer.store(key, data))
        for key, data in stored.items():
            self.assertEqual(reader.retrieve(key), data)
        self.assertIsNone(reader.retrieve("missing"))
        self.assertFalse(writer.store("k1", b"not new"))

    def test_of_our_clients_to_upstreams_and_back(self):
        instance = self.closed(Instance(self.server.metadata, "a"))
        instance.alloc(REGION)
        mine, theirs = b"of ours " * 1000, b"of upstream's " * 200
        self.server.run("put", "ours", "-", data=mine)
        self.assertEqual(instance.retrieve("ours"), mine)
        self.assertTrue(instance.store("upstream's", theirs))
        self.assertEqual(self.server.run("get", "upstream's").stdout, theirs)
        self.assertFalse(instance.store("ours", b"another's"))
        self.assertTrue(instance.client.pin("ours")["exists"])
        self.assertEqual(self.server.run("rm", "ours").returncode, 1)
        self.assertTrue(instance.client.unpin("ours")["success"])
        # Stuck pins, however many, end by hand.
        self.assertEqual(instance.client.batch_pin(["ours"] * 3)["results"], [True] * 3)
        self.assertEqual(self.server.run("rm", "ours").returncode, 1)
        self.assertEqual(self.server.run("unpin", "ours").returncode, 0)
        self.assertFalse(instance.client.unpin("ours")["success"])
        self.assertEqual(self.server.run("rm", "ours").returncode, 0)
        self.assertEqual(self.server.run("rm", "upstream's").returncode, 0)
        self.assertEqual(instance.client.batch_exists(["ours", "upstream's"])["results"],
                         [False, False])

    def check_a_page_that_was_told(self, hold, expected):
        """All pages that may be used are, after the key of one was deleted."""
        self.server.stop()
        self.server.start("--wire-hold", hold, "--eviction", "none")
        instance = self.closed(Instance(self.server.metadata, "reader"))
        self.server.run("put", "k", "-", data=b"first" * 200_000)
        found = instance.client.lookup("k")
        self.assertEqual(self.server.run("rm", "k").returncode, 0)
        self.assertGreater(self.server.fill(b"later" * 200_000), 20)
        self.assertEqual(instance.bytes_of(found), expected * 200_000)

    def test_a_page_that_was_told_is_not_reused_within_the_hold(self):
        self.check_a_page_that_was_told("86400", b"first")

    def test_without_a_hold_it_is_reused(self):
        self.check_a_page_that_was_told("0", b"later")

    def test_a_region_of_pages_is_not_registered_in(self):
        instance = self.closed(Instance(self.server.metadata, "a"))
        self.server.run("put", "k", "-", data=b"x")
        pages = instance.client.lookup("k")["handle"]
        self.assertFalse(instance.client.register("bad", pages["region_id"], 0, 1)["is_new"])
        self.assertFalse(instance.client.return_alloc("a", pages["region_id"])["success"])
        rm = self.closed(resource_manager.connect(self.server.resource_manager))
        self.assertEqual(rm.free(resource_manager.Handle(**pages)).status, -13)


if __name__ == "__main__":
    unittest.main()
