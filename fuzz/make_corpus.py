#!/usr/bin/env python3
"""Makes the seeds of fuzz/corpus/, those of stored bytes from the examples of docs/formats/.

    fuzz/make_corpus.py          writes the seeds
    fuzz/make_corpus.py --check  fails when a committed seed is not what the pages give

Seeds that a fuzzer found are kept under other names and are not touched.
"""

import pathlib
import re
import struct
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
UNIT_BYTES = 2 << 20
POOL_BYTES = 64 << 20


def dump(page, name):
    """The bytes of a ```dump block: offset, colon, bytes, comment; gaps are zero."""
    text = (ROOT / "docs/formats" / page).read_text(encoding="utf-8")
    block = re.search(rf"^```dump {re.escape(name)}\n(.*?)^```", text, re.S | re.M)
    if not block:
        sys.exit(f"{page} has no dump {name}")
    out = bytearray()
    for line in block.group(1).splitlines():
        offset, _, rest = line.partition(";")[0].partition(":")
        out += bytes(int(offset, 16) - len(out)) + bytes.fromhex(rest)
    return bytes(out)


def superblock_seeds():
    block = dump("superblock.md", "superblock")
    size = struct.pack("<Q", POOL_BYTES)
    newer = block[:40] + struct.pack("<I", 2) + block[44:]
    return {
        "good": block + size,
        "resized": block + struct.pack("<Q", POOL_BYTES * 2),
        "torn": block[:100] + b"\1" + block[101:] + size,
        "newer": newer + size,
        "longer": newer[:44] + struct.pack("<I", 1024) + newer[48:] + bytes(512) + size,
        "device_only": block[:32] + bytes(480) + size,
        "zeros": bytes(512) + size,
        "short": block[:100] + size,
    }


def region_table_seeds():
    units = struct.pack("<H", POOL_BYTES // UNIT_BYTES - 1)
    pages = dump("region_table.md", "pages")
    cut = dump("region_table.md", "client-cut")
    record = dump("page_record.md", "record")
    client = dump("lease_area.md", "client")
    root = dump("superblock.md", "root")
    part = struct.pack("<QQQ", 1 << 32 | 5, UNIT_BYTES, UNIT_BYTES) + bytes(232)
    return {
        "regions": units + b"\0" + pages + b"\0" + cut + b"\0" + part + b"\0" + bytes(256),
        "pages": units + b"\1" + record + b"\1" + bytes(128),
        "clients": units + b"\2" + client,
        "root": units + b"\3" + root,
        "outside": b"\0\0" + b"\0" + pages + b"\1" + record + b"\3" + root,
    }


def frame(number, payload, reply=False):
    kind = number | (0x8000 if reply else 0)
    return struct.pack("<IHHIIQQ", 0x5552414D, kind, 0, len(payload), 0, 7, 9) + payload


def text(chars):
    return struct.pack("<I", len(chars)) + chars


def pages(count):
    head = struct.pack("<I", count)
    return head + b"".join(struct.pack("<III", i % 16, i + 1, i + 2) for i in range(count))


def frame_request_seeds():
    keys = struct.pack("<I", 3) + text(b"") + text(b"key") + text(b"k" * 100)
    seeds = {name: dump("frame.md", name + "-request") for name in ("attach", "grant", "register")}
    other = bytearray(seeds["attach"])
    other[32] = 2
    return seeds | {
        "attach_other_version": bytes(other),
        "settle": frame(2, b"\1" + pages(3)),
        "give_back": frame(5, pages(2)),
        "free": frame(6, pages(1)[4:]),
        "resolve": frame(7, pages(1)),
        "find": frame(8, keys),
        "delete": frame(9, keys),
        "grow_leases": frame(10, struct.pack("<II", 15, 3)),
        "ping": frame(11, b""),
        "inspect": frame(12, struct.pack("<BQ", 3, 5)),
        "list": frame(13, struct.pack("<QI", 5, 100) + text(b"prefix")),
        "audit": frame(14, b"\1" + struct.pack("<Q", 3)),
        "unpin": frame(15, keys),
        "release": dump("frame.md", "release-request"),
        "release_region": frame(16, struct.pack("<BIII", 1, 0, 0x500004, 0)),
        "lying_count": frame(8, struct.pack("<I", 4096) + text(b"key")),
        "short": frame(8, keys)[:-1],
    }


def frame_reply_seeds():
    names = ("attach-reply", "grant-reply", "register-reply", "error-reply")
    item = pages(1)[4:] + struct.pack("<Q", 100) + text(b"key")
    payloads = {
        "settle": (2, struct.pack("<IBIBI", 2, 1, 5, 3, 0)),
        "give_back": (5, struct.pack("<I", 2)),
        "free": (6, b"\2"),
        "resolve": (7, struct.pack("<IBB", 2, 1, 0)),
        "find": (8, struct.pack("<I", 2) + b"\1" + pages(1)[4:] + b"\0" + bytes(12)),
        "delete": (9, struct.pack("<IBBB", 3, 1, 2, 3)),
        "grow_leases": (10, struct.pack("<III", 2, 0x81, 0x82)),
        "ping": (11, struct.pack("<Q", 1000)),
        "inspect": (12, struct.pack("<Q", 5) + text(b'{"pools": []}')),
        "list": (13, struct.pack("<QI", 5, 2) + item + item),
        "audit": (14, struct.pack("<QQQ", 0, 9, 9) + b"\1" + text(b'{"clean": true}')),
        "unpin": (15, struct.pack("<IBB", 2, 1, 0)),
        "release": (
            16, struct.pack("<II", 9, 2) + 2 * struct.pack("<IQQQQB", 7, 2 << 20, 1, 0, 9, 3)
        ),
    }
    seeds = {name.removesuffix("-reply"): dump("frame.md", name) for name in names}
    seeds |= {name: frame(number, payload, True) for name, (number, payload) in payloads.items()}
    return seeds | {"lying_count": frame(3, struct.pack("<I", 8192), True)}


def lease_area_seeds():
    def word(index, value, client=0):
        return struct.pack("<BHQ", client << 4, index, value)

    scan, drain, counts, reopen, drop, grow = b"\1", b"\2", b"\3", b"\5", b"\6", b"\7"
    lease = 5 << 32 | 3 << 1
    slots = 4096  # the first word of the first block of slots
    filled = word(slots, lease) + word(slots + 1, lease | 1) + word(0, 2)
    touched = word(16, 2 << 32 | 1) + word(17, 0xFFFFFFFF) + word(1, 4)
    return {
        "filled": filled + touched + scan + drain + counts + reopen + scan,
        "all_ones": word(0, 2**64 - 1) + word(1, 2**64 - 1) + word(slots + 9, 2**64 - 1)
        + scan + drain + counts,
        "two_clients": filled + word(slots, lease, 1) + word(0, 1, 1) + scan + drop + scan + grow,
        "grown": grow + grow + word(0, 9000) + word(3 * 4096, lease) + scan + reopen + scan,
        "owners": struct.pack("<BBQ", 4, 9, 1 << 32 | 1) + struct.pack("<BBQ", 4, 0, 1 << 32)
        + struct.pack("<BBQ", 4, 11, 2**64 - 1) + scan + drop + grow,
    }


def catalogue_open_seeds():
    def change(part, word, value):
        return struct.pack("<BHQ", part, word, value)

    record = lambda page, field: page * 16 + field
    live = 3 << 60 | 2 << 28
    return {
        "whole": b"\0",
        "dropped_state": b"\1" + change(0, record(3, 0), 2**64 - 1),
        "state": b"\0" + change(0, record(3, 0), 2**64 - 1),
        "live_again": b"\1" + change(0, record(1, 0), live) + change(0, record(20, 0), live),
        "text_offset": b"\0" + change(0, record(3, 3), 2**63),
        "key_sizes": b"\1" + change(0, record(3, 4), 2**32 - 1),
        "table_word": b"\0" + change(1, 1, 5 << 16 | 0x0101),
        "region": b"\0" + change(2, 1, 2 << 20) + change(2, 33, 4 << 20),
        "chunk": b"\0" + change(3, 0, 9),
        "text": b"\1" + change(4, 0, 0),
    }


def pool_open_seeds():
    def change(place, word, value):
        return struct.pack("<BHQ", place, word, value)

    everywhere = 2**64 - 1

    def each_region(boot, word, value):
        return boot + b"".join(change(5 + 8 * region, word, value) for region in range(6))

    return {
        "whole": b"\0",
        "whole_after_boot": b"\1",
        "table_word": b"\0" + change(0, 1, everywhere),
        "table_word_after_boot": b"\1" + change(0, 1, everywhere),
        "record_high": b"\0" + change(0, 2, everywhere),
        "record_high_32": b"\0" + change(0, 2, 2**32 - 1),
        "slots_high": b"\0" + change(0, 9, 0),
        "descriptor": b"\0" + change(0, 8, 0) + change(0, 64, 106) + change(0, 65, 106),
        "directory": b"\0" + change(1, 0, 3),
        "client": b"\0" + change(2, 5 * 16, everywhere),
        "overlap": b"\0" + change(3, 33, 4 << 20),
        "page_bytes": b"\0" + change(3, 3, 1000) + change(3, 35, 1000) + change(3, 67, 1000),
        "chunk": b"\0" + change(4, 0, 9),
        "records": each_region(b"\0", 40, everywhere),
        "unused_records": each_region(b"\1", 60000, 8 << 60),
        "unused_records_free": each_region(b"\0", 60000, 1 << 60 | 1 << 28),
        "lease_blocks": each_region(b"\0", 3, 1 << 32 | 5 << 16),
    }


def catalogue_seeds():
    """Stores as fuzz/catalogue_fuzz.cc reads them: place, index, value."""

    def store(place, index, value):
        return struct.pack("<BBQ", place, index, value)

    def state(number, generation):
        return number << 60 | generation << 28

    table_word, descriptor, entry, new_entry, record, text, region, directory = range(8)
    second = 16  # words of a record
    return {
        "untouched": b"",
        "growing": store(table_word, 0, 7 << 16 | 0 << 8 | 1),
        "growing_moved": store(table_word, 0, 7 << 16 | 0 << 8 | 1)
        + store(entry, 0, 0xFFFFFFFF)
        + store(new_entry, 0, 1 << 32 | 1),
        "no_table": store(table_word, 0, 7 << 16 | 0xFFFF),
        "table_outside": store(descriptor, 0, 1 << 45 | 18),
        "table_of_pages": store(descriptor, 0, 28 << 21 | 20),
        "wrong_record": store(entry, 0, 1 << 32 | 3),
        "record_outside": store(entry, 1, 2 << 32 | 0xFFFFFFFE),
        "retiring": store(record, 0, state(4, 2)) + store(record, second, state(4, 2)),
        "condemned": store(record, 0, state(5, 2)),
        "generation_0": store(record, 0, state(3, 0)),
        "text_outside": store(record, 3, 1 << 45),
        "text_unaligned": store(record, 3, (2 << 20) + 4),
        "text_at_the_end": store(record, 3, (32 << 20) - 8),
        "endless_key": store(record, 4, 0xFFFF_FFFF_FFFF_FFFF),
        "other_text": store(text, 0, 0x4141414141414141),
        "region_of_its_own_kind": store(region, 4 * 32, 1 << 32 | 2),
        "endless_region": store(region, 4 * 32 + 2, 0xFFFF_FFFF_FFFF_FFFF),
        "chunk_outside": store(directory, 0, 16),
        "chunk_is_the_head": store(directory, 0, 0),
    }


def upstream_metadata_seeds():
    """Whole messages, and payloads behind a byte for their type."""

    def packed(chars):
        return bytes([0xA0 | len(chars)]) + chars

    def number(value):
        return b"\xcf" + struct.pack(">Q", value)

    handshake = b"\xfe\x81" + packed(b"client_version") + packed(b"0.1")
    beat = b"\xf1\x82" + packed(b"lease_id") + b"\x07" + packed(b"lease_release") + b"\xc3"
    stat = b"\x82" + packed(b"client_id") + packed(b"c") + packed(b"op_type") + packed(b"get")
    entry = (
        b"\x84" + packed(b"key") + b"\xc4\x01k" + packed(b"region_id") + number(1 << 40)
        + packed(b"kv_offset") + b"\xd3" + b"\xff" * 8 + packed(b"kv_length") + b"\xd0\x07"
    )
    place = b"".join(
        packed(name) + number(7 << 20) for name in (b"region_id", b"kv_offset", b"kv_length"))
    names = ("register-request", "register-reply", "batch-lookup-request", "heartbeat")
    return {name: dump("upstream_metadata.md", name) for name in names} | {
        "alloc": b"\x01\x82" + packed(b"instance_id") + packed(b"a") + packed(b"size") + number(5),
        "handshake": handshake,
        "beat": beat,
        "report": b"\xf2\x81" + packed(b"entries") + b"\x92" + stat + stat,
        "batch_register": b"\x20\x81" + packed(b"entries") + b"\x91" + entry,
        "keys_numbers": b"\x22\x81" + packed(b"keys") + b"\xdc\0\x40" + b"\x64" * 64,
        "keys_mixed": b"\x21\x81" + packed(b"keys") + b"\x95\xa1k\xc4\2\xc17\0\xff"
        + b"\xd3\x80" + bytes(7),
        "keys_largest_number": b"\x24\x81" + packed(b"keys") + b"\x92" + number(2**64 - 1) * 2,
        "register_number": b"\x10\x84" + packed(b"key") + number(2**64 - 1) + place,
        "batch_register_numbers": b"\x20\x81" + packed(b"entries") + b"\x92"
        + (b"\x84" + packed(b"key") + b"\x2a" + place) * 2,
        "keys_text_32": b"\x24\x81" + packed(b"keys") + b"\xdc\0\1\xdb\0\0\0\1k",
        "unknown_fields": b"\xf0\x82" + packed(b"x") + b"\x81\xa1y\xca\0\0\0\0"
        + packed(b"z") + b"\xd8\5" + bytes(16),
        "lying_count": b"\x22\x81" + packed(b"keys") + b"\xdd" + b"\xff" * 4,
        "deep": b"\xf3\x81" + packed(b"x") + b"\x91" * 40,
        "float_offset": b"\x10\x81" + packed(b"kv_offset") + b"\xcb" + struct.pack(">d", 2.0**64),
        "nil": b"\x12\x81" + packed(b"key") + b"\xc0",
    }


def zmtp_seeds():
    """The size of the pieces less one, then the peer's bytes; or a byte and HANDSHAKE's payload."""
    page = "upstream_metadata.md"
    greeting, ready = dump(page, "zmtp-peer-greeting"), dump(page, "zmtp-peer-ready")
    reply = dump(page, "handshake-reply")
    whole = greeting + ready + b"\1\0\2" + struct.pack(">Q", len(reply)) + reply
    after = greeting + ready
    return {
        "whole": b"\xff" + whole,
        "bytes": b"\0" + whole,
        "ping": b"\7" + after + b"\4\5\4PING" + whole[len(after):],
        "error": b"\x3f" + greeting + b"\4\x0b\5ERROR\4busy",
        "reply_socket": b"\xff" + greeting
        + ready.replace(b"\6ROUTER", b"\3REP").replace(b")", b"&"),
        "version_2": b"\xff" + greeting[:10] + b"\1\4\0\0",
        "version_1": b"\xff\1\0",
        "http": b"\xffHTTP/1.1 400 Bad Request\r\n\r\n",
        "plain": b"\xff" + greeting[:12] + b"PLAIN" + greeting[17:],
        "endless": b"\xff" + after + b"\2" + b"\xff" * 8,
        "payload": b"\0" + reply[16:],
        "no_road": b"\0\x81\xa7success\xc3",
        "short_road": b"\0\x81\xa4maru\x81\xa6socket\xa2/s",
    }


def upstream_resource_manager_seeds():
    page = "upstream_resource_manager.md"
    names = ("alloc-request", "free-request", "stats-request", "access-request", "open-request")
    seeds = {name: dump(page, name) for name in names}
    alloc = seeds["alloc-request"]
    return seeds | {
        "stream": b"".join(seeds.values()),
        "reply": dump(page, "alloc-reply"),
        "open_reply": dump(page, "open-reply"),
        "error_reply": dump(page, "rm-error-reply"),
        "long_path": alloc[:20] + struct.pack("<I", 4097) + alloc[24:],
        "short": alloc[:-1],
        "too_long": alloc[:8] + struct.pack("<I", 8193) + alloc[12:],
        "other_version": alloc[:4] + b"\3" + alloc[5:],
    }


SEEDS = {
    "upstream_metadata": upstream_metadata_seeds,
    "zmtp": zmtp_seeds,
    "upstream_resource_manager": upstream_resource_manager_seeds,
    "lease_area": lease_area_seeds,
    "catalogue_open": catalogue_open_seeds,
    "catalogue": catalogue_seeds,
    "pool_open": pool_open_seeds,
    "superblock": superblock_seeds,
    "region_table": region_table_seeds,
    "frame_request": frame_request_seeds,
    "frame_reply": frame_reply_seeds,
}


def main():
    check = "--check" in sys.argv[1:]
    stale = []
    for target, make in SEEDS.items():
        folder = ROOT / "fuzz/corpus" / target
        folder.mkdir(parents=True, exist_ok=True)
        for name, seed in make().items():
            path = folder / name
            if check and (not path.is_file() or path.read_bytes() != seed):
                stale.append(str(path.relative_to(ROOT)))
            elif not check:
                path.write_bytes(seed)
    for path in stale:
        print(f"{path} is not what this script makes; run fuzz/make_corpus.py")
        print(f"{path} is not what this script makes of docs/formats/; run fuzz/make_corpus.py")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
