#!/usr/bin/env python3
"""What a handler costs in Python, beside what `maru bench` measures of the same work in C++.

    PYTHONPATH=build/release/python/packages build/venv/bin/python bench/python_bench.py \\
        build/maru [--keys 1M] [--repetitions 5] [--time 100] [--messages 1000] [--json]

The handler is configured as upstream's users do it, with tcp://localhost:PORT, of a private server
whose pool is in /dev/shm; both are gone afterwards. Pages have 512 bytes, keys 100 characters.
Times are of one call, what it answers with released; medians over the repetitions. `maru bench`
runs first, with as many keys. Processes are on the cores where it has them: for look-ups on the
last one, for messages with the server on one core and on two.
"""

import argparse
import contextlib
import json
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from server import Server  # noqa: E402

from maru import MaruConfig, MaruHandler  # noqa: E402

PAGE_BYTES = 512
BATCH = 64
KEYS_MAX = 100_000_000
CATALOGUE_BYTES_A_KEY = 400  # while an index grows
SPARE_BYTES = 512 << 20
LOOKUPS_A_ROUND = 1000  # keys that are made before the clock runs, few enough for the cache
TIMEOUT_MS = 60_000  # a busy machine is no reason to give up
FIRST_NEW_KEY = 1 << 40  # keys that no look-up asks for
CHECKED_KEYS = 100

now = time.perf_counter_ns


def count(text):
    """1000, 1k, 1M."""
    scale = {"k": 1000, "M": 1_000_000}.get(text[-1:], 1)
    number = int(text if scale == 1 else text[:-1]) * scale
    if not 0 < number <= KEYS_MAX:
        raise ValueError(text)
    return number


def key_of(number):
    return f"{number:0100d}"


def value_of(number):
    return number.to_bytes(8, "little") * (PAGE_BYTES // 8)


# --- Samples.


def clock_ns():
    """What two readings of the clock are apart when nothing is between them."""
    gaps = []
    for _ in range(2001):
        before = now()
        gaps.append(now() - before)
    return statistics.median(gaps)


class Row:
    """One operation: the times of its calls in each repetition."""

    def __init__(self, name, batch=1, place="", goal=None, beside=None):
        self.name, self.batch, self.place = name, batch, place
        self.goal = goal  # ("p50_ns" or "per_second", its bound)
        self.beside = beside  # of `maru bench`: (section, operation, batch)
        self.rounds = []

    def add(self, samples, clock):
        samples.sort()
        times = [max(0.0, samples[(len(samples) - 1) * part // 100] - clock) for part in (50, 99)]
        spent = sum(samples) - clock * len(samples)
        self.rounds.append((*times, len(samples) * self.batch * 1e9 / max(spent, 1.0)))

    def result(self, native):
        p50, p99, rate = (statistics.median(column) for column in zip(*self.rounds, strict=True))
        told = {"operation": self.name, "batch": self.batch, "p50_ns": p50, "p99_ns": p99,
                "per_second": rate}
        if self.place:
            told["placement"] = self.place
        if self.goal:
            number, bound = self.goal
            told["goal"] = {number: bound}
            told["goal_met"] = told[number] < bound if number == "p50_ns" else told[number] > bound
        row = native.get((*self.beside, self.place)) if self.beside else None
        if row:
            told["native"] = {name: row[name] for name in ("p50_ns", "p99_ns", "per_second")
                              if name in row}
        return told


# --- Where processes run.


def put(pid, cores):
    """All threads of a process."""
    for thread in os.listdir(f"/proc/{pid}/task"):
        os.sched_setaffinity(int(thread), cores)


def placements(cores):
    """Where this process and the server are, by the names that `maru bench` has for it."""
    shown = {"one core": ({cores[0]}, {cores[0]})}
    if len(cores) > 1:
        shown["two cores"] = ({cores[0]}, {cores[-1]})
    return shown


# --- Operations. Each takes keys and appends a time for each call.


def exists(handler, keys, samples):
    for key in keys:
        before = now()
        handler.exists(key)
        samples.append(now() - before)


def retrieve(handler, keys, samples):
    for key in keys:
        before = now()
        _ = handler.retrieve(key).view
        samples.append(now() - before)


def pin_and_unpin(handler, keys, pins, unpins):
    for key in keys:
        before = now()
        handler.pin(key)
        between = now()
        handler.unpin(key)
        unpins.append(now() - between)
        pins.append(between - before)


def batched(call, keys, samples):
    """CALL with so many keys at once."""
    for at in range(0, len(keys), BATCH):
        some = keys[at:at + BATCH]
        before = now()
        call(some)
        samples.append(now() - before)


def views_of(handler, keys, samples):
    for at in range(0, len(keys), BATCH):
        some = keys[at:at + BATCH]
        before = now()
        _ = [info.view for info in handler.batch_retrieve(some)]
        samples.append(now() - before)


class Bench:
    def __init__(self, options, handler, server, clock):
        self.options, self.handler, self.server, self.clock = options, handler, server, clock
        self.cores = sorted(os.sched_getaffinity(0))
        self.random = random.Random(1)
        self.rows = []

    def row(self, *words, **more):
        self.rows.append(Row(*words, **more))
        return self.rows[-1]

    def fill(self):
        row = self.row("fill, batch_store", BATCH,
                       beside=("server", "fill, alloc and batch_store of 64", BATCH))
        samples = []
        for first in range(0, self.options.keys, BATCH):
            numbers = range(first, min(first + BATCH, self.options.keys))
            keys, values = [key_of(n) for n in numbers], [value_of(n) for n in numbers]
            before = now()
            stored = self.handler.batch_store(keys, values)
            samples.append(now() - before)
            if not all(stored):
                sys.exit(f"the pool does not hold {self.options.keys} keys")
        row.add(samples, self.clock)

    def check(self):
        """What was stored is there."""
        for number in self.numbers(CHECKED_KEYS):
            info = self.handler.retrieve(key_of(number))
            if info is None or bytes(info.view) != value_of(number):
                sys.exit(f"key {number} has not the bytes that were stored")

    def numbers(self, wanted):
        return [self.random.randrange(self.options.keys) for _ in range(wanted)]

    def look_up(self, rows, work):
        """WORK(keys, samples...) on keys that are there, for as long as each repetition takes."""
        for _ in range(self.options.repetitions):
            samples = [[] for _ in rows]
            until = now() + self.options.time * 1_000_000
            while True:
                work([key_of(number) for number in self.numbers(LOOKUPS_A_ROUND)], *samples)
                if now() >= until:
                    break
            for row, some in zip(rows, samples, strict=True):
                row.add(some, self.clock)

    def look_ups(self):
        put(os.getpid(), {self.cores[-1]})
        handler, native = self.handler, "catalogue"
        self.look_up([self.row("exists", goal=("p50_ns", 2000),
                               beside=(native, "exists, hit", 1))],
                     lambda keys, samples: exists(handler, keys, samples))
        self.look_up([self.row("batch_exists", BATCH, beside=(native, "exists, hit", BATCH))],
                     lambda keys, samples: batched(handler.batch_exists, keys, samples))
        self.look_up([self.row("retrieve, its view", goal=("p50_ns", 5000),
                               beside=(native, "retrieve and release", 1))],
                     lambda keys, samples: retrieve(handler, keys, samples))
        both = (native, "retrieve and release", BATCH)
        self.look_up([self.row("batch_retrieve", BATCH, goal=("per_second", 1e6), beside=both)],
                     lambda keys, samples: batched(handler.batch_retrieve, keys, samples))
        self.look_up([self.row("batch_retrieve, their views", BATCH, beside=both)],
                     lambda keys, samples: views_of(handler, keys, samples))
        self.look_up([self.row("pin"), self.row("unpin")],
                     lambda keys, *samples: pin_and_unpin(handler, keys, *samples))

    # --- With messages to the server. What was stored goes again, so that all rounds are alike.

    def delete(self, keys, samples):
        for key in keys:
            before = now()
            deleted = self.handler.delete(key)
            samples.append(now() - before)
            if not deleted:
                sys.exit("a key that was stored is not there")

    def alloc(self, samples, frees):
        for _ in range(self.options.messages):
            before = now()
            handle = self.handler.alloc(PAGE_BYTES)
            between = now()
            self.handler.free(handle)
            frees.append(now() - between)
            samples.append(between - before)

    def store(self, samples, deletes):
        handler = self.handler
        for number in range(self.options.messages):
            key = key_of(FIRST_NEW_KEY + number)
            before = now()
            stored = handler.store(key, handler.alloc(PAGE_BYTES))
            samples.append(now() - before)
            if not stored:
                sys.exit("a key was not stored")
            self.delete([key], deletes)

    def batch_store(self, samples, things):
        """THINGS() are the handles or the bytes of a batch."""
        for number in range(max(1, self.options.messages // 8)):
            keys = [key_of(FIRST_NEW_KEY + number * BATCH + n) for n in range(BATCH)]
            before = now()
            stored = self.handler.batch_store(keys, things())
            samples.append(now() - before)
            if not all(stored):
                sys.exit("a key was not stored")
            self.delete(keys, [])

    def messages(self):
        handler, data = self.handler, [value_of(1)] * BATCH
        for place, (mine, servers) in placements(self.cores).items():
            put(os.getpid(), mine)
            put(self.server.process.pid, servers)
            alloc, free = self.row("alloc", place=place), self.row("free", place=place)
            store = self.row("alloc and store", place=place,
                             beside=("socket", "alloc and store", 1))
            delete = self.row("delete", place=place, beside=("socket", "delete", 1))
            goal, native = ("per_second", 250e3), ("socket", "batch_store, with alloc", BATCH)
            handles = self.row("batch_store, with alloc", BATCH, place, goal, native)
            copies = self.row("batch_store of bytes", BATCH, place, goal, native)
            for _ in range(self.options.repetitions):
                all_samples = [[] for _ in range(6)]
                self.alloc(*all_samples[:2])
                self.store(*all_samples[2:4])
                self.batch_store(all_samples[4],
                                 lambda: [handler.alloc(PAGE_BYTES) for _ in range(BATCH)])
                self.batch_store(all_samples[5], lambda: data)
                for row, samples in zip((alloc, free, store, delete, handles, copies), all_samples,
                                        strict=True):
                    row.add(samples, self.clock)


# --- Beside it, and around it.


def native_rows(options):
    """The rows of `maru bench` that this is beside, by what they are of."""
    words = ["--keys", options.keys, "--readers", 1, "--batch", f"1,{BATCH}",
             "--repetitions", options.repetitions, "--time", options.time,
             "--messages", options.messages, "--only", "catalogue,socket", "--json"]
    done = subprocess.run([options.maru, "bench", *map(str, words)], stdout=subprocess.PIPE,
                          check=True)
    return {(row["section"], row["operation"], row.get("batch", 1), row.get("placement", "")): row
            for row in json.loads(done.stdout)["rows"]}


@contextlib.contextmanager
def private_server(options):
    """Whatever ends this, its pool has no name by then."""
    size = options.keys * (PAGE_BYTES + CATALOGUE_BYTES_A_KEY) + SPARE_BYTES
    with Server(options.maru, f"{(size >> 20) + 2 & ~1}MiB", listen="tcp://127.0.0.1:0") as server:
        server.pool.unlink()
        server.key.unlink(missing_ok=True)
        yield server


def measured(options):
    native = native_rows(options)
    with private_server(options) as server:
        port = server.metadata.rsplit(":", maxsplit=1)[1]
        config = MaruConfig(server_url=f"tcp://localhost:{port}", chunk_size_bytes=PAGE_BYTES,
                            timeout_ms=TIMEOUT_MS)
        with MaruHandler(config) as handler:
            if not handler.connected:
                sys.exit("no connection to the private server")
            bench = Bench(options, handler, server, clock_ns())
            bench.fill()
            bench.check()
            bench.look_ups()
            bench.messages()
            bench.check()
    return [row.result(native) for row in bench.rows]


# --- For people.


def time_text(nanoseconds):
    return f"{nanoseconds / 1000:.2f} us" if nanoseconds is not None else ""


def rate_text(rate):
    if rate is None:
        return ""
    return f"{rate / 1e6:.2f}M" if rate >= 1e6 else f"{rate / 1e3:.0f}k"


def goal_text(row):
    if "goal" not in row:
        return ""
    [(number, bound)] = row["goal"].items()
    text = f"< {bound / 1000:g} us" if number == "p50_ns" else f"> {rate_text(bound)} keys/s"
    return f"{text}: {'met' if row['goal_met'] else 'MISSED'}"


def print_table(rows):
    lines = [("operation", "batch", "where", "p50", "p99", "keys/s", "C++ p50", "C++ keys/s",
              "goal")]
    for row in rows:
        native = row.get("native", {})
        lines.append((row["operation"], str(row["batch"]), row.get("placement", ""),
                      time_text(row["p50_ns"]), time_text(row["p99_ns"]),
                      rate_text(row["per_second"]), time_text(native.get("p50_ns")),
                      rate_text(native.get("per_second")), goal_text(row)))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = (text.ljust(width) for text, width in zip(line, widths, strict=True))
        print("  ".join(cells).rstrip())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("maru", type=lambda text: pathlib.Path(text).resolve(),
                        help="the command, which is the server and measures in C++")
    parser.add_argument("--keys", type=count, default=count("1M"), help="in the pool")
    parser.add_argument("--repetitions", type=count, default=5)
    parser.add_argument("--time", type=count, default=100, help="ms of each look-up's repetition")
    parser.add_argument("--messages", type=count, default=1000, help="in each repetition")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    # Ends the server as well.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    rows = measured(options)
    if options.json:
        print(json.dumps({"keys": options.keys, "repetitions": options.repetitions, "rows": rows},
                         indent=2))
    else:
        print_table(rows)


if __name__ == "__main__":
    main()
