"""The commands of the package: the program that came with it takes the place of this process."""

import os
import pathlib
import sys
from typing import NoReturn

import maru


def main() -> NoReturn:
    """Runs `maru` under the name that it was called by, which says which command it is."""
    # An editable install has two folders: that of the source, and that of what was built.
    programs = [pathlib.Path(folder).absolute() / "bin" / "maru" for folder in maru.__path__]
    program = next((one for one in programs if one.is_file()), None)
    if program is None:
        sought = " and no ".join(map(str, programs))
        sys.exit(f"the package maru was installed without its program: there is no {sought}")
    try:
        os.execv(program, [pathlib.Path(sys.argv[0]).name, *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"{program} cannot be run: {error.strerror}")
