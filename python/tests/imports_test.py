"""Each public name is whole when it is the first that a process imports of ours."""

import subprocess
import sys

import pytest

FIRST = [
    "import maru",
    "import maru_common",
    "import maru_handler",
    "import maru_handler.memory",
    "import maru_lmcache",
    "import maru_sglang",
    "import maru_shm",
    "from maru import AllocHandle, MaruConfig, MaruHandler",
    "from maru_common import MaruConfig",
    "from maru_handler import MaruHandler",
    "from maru_handler.memory import AllocHandle, MemoryInfo",
    "from maru_shm import MaruHandle",
]


@pytest.mark.parametrize("first", FIRST)
def test_each_name_can_be_the_first(first):
    done = subprocess.run(
        [sys.executable, "-c", first], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
