"""Servers with upstream's metadata endpoint, as users of LMCache and SGLang give it."""

import importlib.util
import json
import os
import pathlib
import subprocess
import time

import pytest
from server import Server

if importlib.util.find_spec("sglang"):
    import cpu_torchvision  # noqa: F401

# LMCache and SGLang have an environment each.
collect_ignore_glob = [
    f"{name}_*" for name in ("lmcache", "sglang") if importlib.util.find_spec(name) is None
]
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


@pytest.fixture(scope="session")
def sglang_processes():
    """Two; they take long to import SGLang, so all tests use the same."""
    from peers import two
    from sglang_engine import either

    with two(either) as made:
        yield made
