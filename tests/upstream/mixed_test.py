#!/usr/bin/env python3
"""Upstream's clients and ours on the same keys at the same time: instances of `maru replay` (the
C++ handler), `maru put`, `get` and `rm`, and processes that do what upstream's handler does. Every
byte that anybody reads is verified, and the audit is clean afterwards."""

import concurrent.futures
import hashlib
import json
import multiprocessing
import pathlib
import random
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from upstream.instance import Instance  # noqa: E402
from upstream.metadata import MetadataClient, PipelinedClient  # noqa: E402
from upstream.served import MARU, Served  # noqa: E402
from upstream.together import waited_for  # noqa: E402

PAGE = 4096
REGION = 16 << 20
MASK = (1 << 64) - 1
HASH_BYTES = 32
MEETINGS = 2  # of all instances in each race: before they store, after they have read


def block_bytes(block):
    """What `maru replay` stores under block/PAGE/N (tools/workload.h); by SplitMix64."""
    words = []
    for i in range(PAGE // 8):
        state = (block * 0x9E3779B97F4A7C15 + i + 0x9E3779B97F4A7C15) & MASK
        state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & MASK
        state = (state ^ state >> 27) * 0x94D049BB133111EB & MASK
        words.append((state ^ state >> 31).to_bytes(8, "little"))
    return b"".join(words)


def self_verifying(key, seed):
    """Bytes that say whether they are whole and of that key."""
    body = f"{key} {seed} ".encode() * 40
    return hashlib.sha256(key.encode() + body).digest() + body


def is_whole(key, data):
    return hashlib.sha256(key.encode() + data[HASH_BYTES:]).digest() == data[:HASH_BYTES]


def meet(barrier, replayed, races):
    """Stands for an instance of ours at the barrier, as its parent: it says when it is there, and
    goes on with a line. What it says at its end."""
    last, met = "", 0
    with waited_for(barrier):
        for line in replayed.stdout:
            last = line
            if line == "ready\n":
                met += 1
                barrier.wait()
                replayed.stdin.write("go\n")
                replayed.stdin.flush()
        if met != MEETINGS * races:
            raise AssertionError(f"it ended after {met} meetings: {last}")
    return last


def race(url, index, barrier, races, blocks, client_class, told):
    """One of upstream's instances in a replay: won races, duplicates, then every block."""
    with (waited_for(barrier),
          Instance(url, f"upstream-{index}", client_class, PAGE) as instance):
        instance.alloc(REGION)
        won = 0
        for number in range(races):
            name = f"race/{PAGE}/{number}"
            expected = block_bytes(~number & MASK)
            barrier.wait()
            won += instance.store(name, expected)
            if instance.retrieve(name) != expected:
                raise AssertionError(name)
            barrier.wait()
        for block in blocks:
            name = f"block/{PAGE}/{block}"
            instance.store(name, block_bytes(block))
            if instance.retrieve(name) != block_bytes(block):
                raise AssertionError(name)
        told.put((index, won))


def churn(url, seed, told):
    """Stores, reads, pins and deletes keys that others do the same with."""
    rng = random.Random(seed)
    with Instance(url, f"churn-{seed}") as instance:
        instance.alloc(REGION)
        read = 0
        for step in range(300):
            key = f"churn/{rng.randrange(12)}"
            choice = rng.randrange(6)
            if choice < 2:
                instance.store(key, self_verifying(key, f"{seed}.{step}"))
            elif choice < 4:
                data = instance.retrieve(key)
                if data is not None:
                    read += 1
                    if not is_whole(key, data):
                        raise AssertionError(f"{key}: {data[:80]}")
            elif choice == 4:
                instance.client.delete(key)
            elif instance.client.pin(key)["exists"]:
                # Pinned by one, it is there for all.
                if not instance.client.exists(key)["exists"]:
                    raise AssertionError(f"{key} is pinned and gone")
                instance.client.unpin(key)
        told.put((seed, read))


class Mixed(Served):
    size = "256MiB"

    def setUp(self):
        super().setUp()
        self.told = multiprocessing.SimpleQueue()

    def start(self, target, *words):
        process = multiprocessing.Process(target=target, args=(*words, self.told))
        process.start()
        return process

    def ended(self, processes):
        for process in processes:
            process.join()
        self.assertEqual([process.exitcode for process in processes], [0] * len(processes))
        return dict(self.told.get() for _ in processes)

    def test_forced_races_have_one_winner_and_everybody_reads_its_bytes(self):
        races, ours, theirs = 60, 2, 2
        instances = ours + theirs
        trace = self.server.folder / "trace.jsonl"
        blocks = list(range(100, 400))
        trace.write_text("".join(
            json.dumps({"timestamp": at, "input_length": 1, "output_length": 1,
                        "hash_ids": blocks[at * 10 : at * 10 + 10]}) + "\n" for at in range(30)))
        replayed = [subprocess.Popen(
            [MARU, "replay-instance", "--server", self.server.socket, "--trace", trace, "--index",
             str(i), "--instances", str(instances), "--page-size", str(PAGE), "--races",
             str(races)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for i in range(ours)]
        for process in replayed:
            self.addCleanup(process.kill)
        barrier = multiprocessing.Barrier(instances)
        classes = (MetadataClient, PipelinedClient)
        others = [self.start(race, self.server.metadata, ours + i, barrier, races,
                             blocks[:: -1 if i else 1], classes[i]) for i in range(theirs)]
        with concurrent.futures.ThreadPoolExecutor(ours) as standing_in:
            lasts = list(standing_in.map(meet, [barrier] * ours, replayed, [races] * ours))
        results = []
        for process, last in zip(replayed, lasts):
            process.stdin.close()
            process.stdout.close()
            self.assertEqual(process.wait(), 0, last)
            results.append([int(word) for word in last.split()[1:]])
        won = sum(self.ended(others).values())
        failures, raced, won_by_ours, lost_by_ours = (
            sum(result[field] for result in results) for field in (9, 10, 11, 12))
        self.assertEqual((failures, raced), (0, ours * races))
        self.assertEqual(won + won_by_ours, races)
        self.assertEqual(won_by_ours + lost_by_ours, ours * races)
        for number in range(races):
            got = self.server.run("get", f"race/{PAGE}/{number}").stdout
            self.assertEqual(got, block_bytes(~number & MASK))

    def test_everybody_stores_reads_pins_and_deletes_the_same_keys(self):
        churning = [self.start(churn, self.server.metadata, seed) for seed in range(3)]
        rng = random.Random(0)
        step = 0
        while any(process.is_alive() for process in churning) or step < 50:
            step += 1
            key = f"churn/{rng.randrange(12)}"
            choice = rng.choice(("put", "get", "get", "rm", "exists"))
            data = self_verifying(key, f"cli.{step}")
            words = (choice, key, "-") if choice == "put" else (choice, key)
            done = self.server.run(*words, data=data)
            self.assertIn(done.returncode, (0, 1), done.stderr)
            if choice == "get" and done.returncode == 0:
                self.assertTrue(is_whole(key, done.stdout), (key, done.stdout[:80]))
        read = self.ended(churning)
        self.assertTrue(all(read.values()), read)


if __name__ == "__main__":
    unittest.main()
