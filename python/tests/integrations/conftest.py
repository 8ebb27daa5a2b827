"""Servers with upstream's metadata endpoint, as LMCache's users give it."""

import json
import os
import pathlib
import subprocess
import time

import pytest
from server import Server

GONE_WITHIN_S = 60  # many times what it takes; then the test fails by what it finds


@pytest.fixture
def server():
    program = pathlib.Path(os.environ["MARU_PROGRAM"])
    with Server(program, size="64MiB", listen="tcp://127.0.0.1:0") as running:
        running.options[1] = running.metadata  # it comes back where its clients look for it
        yield running


@pytest.fixture
def settled(server):
    """What is left when all instances are gone: an audit without findings, and what holds pages."""

    def stat():
        return json.loads(server.run("stat", "--json").stdout)

    def of():
        # One that ended while the server was away is known to be gone when its lock is looked at.
        give_up = time.monotonic() + GONE_WITHIN_S
        while any((told := stat())["clients"].values()) and time.monotonic() < give_up:
            pass
        audit = subprocess.run(
            server.command("audit", "--server", server.socket),
            capture_output=True,
            text=True,
            check=False,
        )
        assert audit.returncode == 0, audit.stdout
        return told

    return of
