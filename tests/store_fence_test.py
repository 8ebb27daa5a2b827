#!/usr/bin/env python3
"""A store fence stands between the caller's bytes and the message that registers them.

No run can show that it is missing: what it prevents takes a processor that delays a store for
longer than a message takes. So this reads the instructions of the function that sends the message.

    store_fence_test.py ARCHIVE-OF-THE-HANDLER
"""
import re
import subprocess
import sys
import unittest

ARCHIVE = sys.argv.pop(1)
FENCE = re.compile(r"\t(sfence|dmb\tishst|dmb +ishst)")


def instructions(function):
    """Of a member function of the handler, calls with their targets: lists, one for each part."""
    listing = subprocess.run(
        ["objdump", "--disassemble", "--reloc", "--demangle", "--no-show-raw-insn", ARCHIVE],
        check=True, stdout=subprocess.PIPE, text=True).stdout
    parts = re.split(r"\n(?=[0-9a-f]+ <)", listing)
    return [part.splitlines()[1:] for part in parts
            if f"<maru::handler::Handler::Impl::{function}(" in part.splitlines()[0]]


class StoreFence(unittest.TestCase):
    def position(self, lines, pattern):
        return next((i for i, line in enumerate(lines) if re.search(pattern, line)), None)

    def test_comes_before_the_register_message(self):
        bodies = [lines for lines in instructions("StoreFrame")
                  if self.position(lines, r"Impl::CallLocked\(") is not None]
        self.assertEqual(len(bodies), 1, "one body of StoreFrame calls CallLocked")
        fence = self.position(bodies[0], FENCE)
        self.assertIsNotNone(fence, "StoreFrame has no store fence")
        between = bodies[0][fence:]
        self.assertIsNotNone(self.position(between, r"Impl::CallLocked\("),
                             "the message is sent before the fence")

    def test_comes_before_a_page_is_free(self):
        bodies = [lines for lines in instructions("Free")
                  if self.position(lines, FENCE) is not None]
        self.assertEqual(len(bodies), 1, "one body of Free has a store fence")


if __name__ == "__main__":
    unittest.main()
