"""A server of upstream's two protocols for each test, at ports that were free."""

import pathlib
import sys
import unittest

from server import Server

MARU = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else "build/maru").resolve()


class Served(unittest.TestCase):
    """After each test the audit must be clean."""

    size = "64MiB"
    options = ()

    def setUp(self):
        self.server = Server(MARU, self.size, self.options, listen="tcp://127.0.0.1:0",
                             rm_listen="127.0.0.1:0").start()
        self.addCleanup(self.server.__exit__)

    def tearDown(self):
        audit = self.server.json("audit")
        self.assertTrue(audit["clean"], audit)

    def closed(self, thing):
        """At the end of the test."""
        self.addCleanup(thing.close)
        return thing
