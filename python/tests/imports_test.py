"""Each name that users import is there when it is the first that their process imports."""

import subprocess
import sys

import pytest

NAMES = [
    "maru:AllocHandle,MaruConfig,MaruHandler,MemoryInfo",
    "maru.handler:MaruHandler",
    "maru_common:MaruConfig",
    "maru_common.config:MaruConfig",
    "maru_handler:MaruHandler",
    "maru_handler.handler:MaruHandler",
    "maru_handler.memory:AllocHandle,MemoryInfo",
    "maru_lmcache:__all__",
    "maru_sglang:MaruSGLangConfig",
    "maru_sglang.config:MaruSGLangConfig",
    "maru_shm:MaruHandle",
]


@pytest.mark.parametrize("line", NAMES)
def test_it_is_the_first_import_of_a_process(line):
    module, _, names = line.partition(":")
    done = subprocess.run(
        [sys.executable, "-c", f"from {module} import {names}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
