"""The commands that come with the packages."""

import os
import pathlib
import subprocess
import sys

import pytest

import maru

PROGRAM = """
import sys
import maru
maru.__path__[:] = sys.argv[1].split(":")
sys.argv[:] = ["/anywhere/maru", "--version"]
from maru import _command
_command.main()
"""
SOURCE = str(pathlib.Path(maru.__file__).parent)


def run(*folders):
    """The command, in a package that has these folders."""
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, ":".join([SOURCE, *map(str, folders)])],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def built(tmp_path):
    """What an installed package has beside the source's folder in an editable install."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "maru").symlink_to(os.environ["MARU_PROGRAM"])
    return tmp_path


def test_it_is_found_in_each_folder_of_the_package(built, tmp_path):
    done = run(tmp_path / "nothing", built)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("maru ")


def test_what_is_missing_is_named(tmp_path):
    done = run(tmp_path / "nothing")
    assert done.returncode == 1 and "Traceback" not in done.stderr
    for folder in (SOURCE, tmp_path / "nothing"):
        assert f"{folder}/bin/maru" in done.stderr


def test_what_cannot_be_run_is_named(tmp_path):
    program = tmp_path / "bin" / "maru"
    program.parent.mkdir()
    program.touch(mode=0o600)
    done = run(tmp_path)
    assert (done.returncode, done.stderr) == (1, f"{program} cannot be run: Permission denied\n")
