"""What type checkers know is what is there."""

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def passes(*command):
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_stub_of_the_native_module_is_what_it_says():
    pytest.importorskip("nanobind")
    passes("scripts/python-stub", "--check")


def test_the_reference_is_what_the_packages_say():
    passes("scripts/python-reference", "--check")


def test_packages_and_examples_pass_a_strict_type_checker(tmp_path):
    pytest.importorskip("mypy")
    passes("-m", "mypy", "--cache-dir", tmp_path, "--config-file", "pyproject.toml")
