"""The examples, as users run them."""

import importlib.util
import os
import pathlib
import subprocess
import sys

import pytest

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "examples"
NEEDS = {"with_numpy": "numpy", "with_torch": "torch"}


@pytest.mark.parametrize("example", sorted(path.stem for path in FOLDER.glob("*.py")))
def test_it_runs_and_leaves_nothing_behind(server, example):
    needed = NEEDS.get(example)
    if needed is not None and importlib.util.find_spec(needed) is None:
        pytest.skip(f"no {needed} here")
    done = subprocess.run(
        [sys.executable, FOLDER / f"{example}.py"],
        env={**os.environ, "MARU_SERVER": str(server.socket)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert not server.run("ls").stdout
