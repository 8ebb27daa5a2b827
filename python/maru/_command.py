"""The commands of the package: the program beside it takes the place of this process."""

import os
import pathlib
import sys
from typing import NoReturn

PROGRAM = pathlib.Path(__file__).resolve().parent / "bin" / "maru"


def main() -> NoReturn:
    """Runs `maru` under the name that it was called by, which says which command it is."""
    name = pathlib.Path(sys.argv[0]).name
    os.execv(PROGRAM, [name, *sys.argv[1:]])
