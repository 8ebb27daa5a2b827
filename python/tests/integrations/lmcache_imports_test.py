"""The names that LMCache's users import are there when they are the first of ours in a process."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["maru_lmcache", "maru_lmcache.adapter"])
def test_it_is_the_first_import_of_a_process(module):
    program = f"from {module} import CxlMemoryAdapter"
    subprocess.run([sys.executable, "-c", program], check=True)
