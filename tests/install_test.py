#!/usr/bin/env python3
"""Installs a build, builds a user's program against it alone, runs it with a server, and looks at
the library's symbols.

  install_test.py CMAKE SOURCE_FOLDER BUILD_FOLDER
"""

import pathlib
import subprocess
import sys
import tempfile

from server import Server


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def foreign_symbols(library):
    """What the library shows beside names within maru."""
    shown = [line.split(maxsplit=2)[-1] for line in
             run("nm", "-D", "-C", "--defined-only", library).splitlines()]
    if not any("maru::Status" in name for name in shown):
        sys.exit(f"{library} does not show maru::Status")
    inside = ("maru::", "typeinfo for maru::", "typeinfo name for maru::", "vtable for maru::")
    hidden = ("maru::os::", "maru::catalogue::", "maru::layout::", "maru::wire::", "maru::net::",
              "maru::handler::", "maru::client::", "maru::pool::", "maru::engine::")
    return [n for n in shown if not n.startswith(inside) or n.startswith(hidden)]


def main():
    cmake, source, build = sys.argv[1:]
    with tempfile.TemporaryDirectory() as scratch:
        prefix, user = pathlib.Path(scratch, "prefix"), pathlib.Path(scratch, "user")
        run(cmake, "--install", build, "--prefix", prefix)
        run(cmake, "-S", pathlib.Path(source, "tests", "install"), "-B", user,
            f"-DCMAKE_PREFIX_PATH={prefix}")
        run(cmake, "--build", user)
        with Server(pathlib.Path(build, "maru")) as server:
            said = run(user / "embedder", server.socket, "read where it lies")
            found = server.run("get", "greeting").stdout
        if said != "read where it lies\n" or found != b"read where it lies":
            sys.exit(f"the program said: {said}, the server has: {found}")
        library = next(prefix.rglob("libmaru.so.0"))
        foreign = foreign_symbols(library)
        if foreign:
            sys.exit("shown beside the public names:\n" + "\n".join(foreign))
        needed = [line.split()[-1] for line in run("objdump", "-p", library).splitlines()
                  if "NEEDED" in line]
        print(f"{library.resolve().name} needs {' '.join(needed)}")


if __name__ == "__main__":
    main()
