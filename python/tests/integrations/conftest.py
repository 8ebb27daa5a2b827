"""Servers with upstream's metadata endpoint, as LMCache's users give it."""

import json
import os
import pathlib
import subprocess

import pytest
from server import Server


@pytest.fixture
def server():
    program = pathlib.Path(os.environ["MARU_PROGRAM"])
    with Server(program, size="64MiB", listen="tcp://127.0.0.1:0") as running:
        running.options[1] = running.metadata  # it comes back where its clients look for it
        yield running


@pytest.fixture
def settled(server):
    """What is left when all instances are gone: an audit without findings, and what holds pages."""

    def of():
        audit = subprocess.run(
            server.command("audit", "--server", server.socket),
            capture_output=True,
            text=True,
            check=False,
        )
        assert audit.returncode == 0, audit.stdout
        return json.loads(server.run("stat", "--json").stdout)

    return of
