#!/usr/bin/env python3
"""A recorded trace through `maru replay`: that of Mooncake's conversations, which
MARU_REPLAY_TRACE names, or ../shared/data beside the source tree has."""

import json
import os
import pathlib
import subprocess
import sys
import unittest

MARU = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else "build/maru").resolve()
NAMED = os.environ.get("MARU_REPLAY_TRACE")
BESIDE = pathlib.Path(__file__).resolve().parent.parent.parent / "shared" / "data"
TRACE = pathlib.Path(NAMED or BESIDE / "mooncake_conversation_trace.jsonl")


def repeats():
    """What a cache that forgets nothing finds: the blocks, and the share of those seen before."""
    blocks, seen = 0, set()
    for line in TRACE.read_text(encoding="utf-8").splitlines():
        ids = json.loads(line)["hash_ids"]
        blocks += len(ids)
        seen.update(ids)
    return blocks, 1 - len(seen) / blocks


class Trace(unittest.TestCase):
    @unittest.skipUnless(NAMED or TRACE.exists(), f"no trace at {TRACE}")
    def test_every_block_that_comes_again_is_found_and_right_and_nothing_leaks(self):
        blocks, share = repeats()
        done = subprocess.run([MARU, "replay", TRACE, "--instances", "2", "--page-size", "2KiB",
                               "--pool-size", "768MiB", "--json"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        shown = json.loads(done.stdout)
        self.assertEqual(shown["blocks"], blocks)
        # Two instances at once may both store what each would have found a moment later.
        self.assertAlmostEqual(shown["hit_rate"], share, delta=0.01)
        self.assertEqual((shown["leaked_pages"], shown["verification_failures"],
                          shown["audit_clean"]), (0, 0, True))


if __name__ == "__main__":
    unittest.main()
