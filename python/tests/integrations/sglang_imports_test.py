"""The names that SGLang's users import are there when they are the first of ours in a process."""

import pathlib
import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["maru_sglang", "maru_sglang.maru_storage"])
def test_it_is_the_first_import_of_a_process(module):
    program = f"import cpu_torchvision\nfrom {module} import MaruStorage"
    # With -c the folder is the beginning of the path, as that of cpu_torchvision has to be.
    here = pathlib.Path(__file__).parent
    subprocess.run([sys.executable, "-c", program], cwd=here, check=True)
