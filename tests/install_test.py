#!/usr/bin/env python3
"""Installs a build, builds a user's programs against it alone (one of them the example of
README.md), runs them with a server, and looks at the library's symbols.

  install_test.py CMAKE SOURCE_FOLDER BUILD_FOLDER
"""

import pathlib
import re
import subprocess
import sys
import tempfile

from server import Server


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def example_of(readme):
    """README's C++ lines as a program: it stores and reads its argument."""
    lines = re.search(r"```cpp\n(.*?)```", readme.read_text(), re.DOTALL).group(1).splitlines()
    includes = [line for line in lines if line.startswith("#include")]
    body = [f"  {line}" for line in lines if not line.startswith("#include")]
    return "\n".join([*includes, "#include <cstdio>", "#include <cstring>", "#include <string>",
                      "maru::Status Run(const std::string& bytes) {", *body,
                      "  if (view.bytes().size() != bytes.size()) return maru::DataLoss(bytes);",
                      "  return maru::OkStatus();", "}", "int main(int, char** argv) {",
                      "  const maru::Status status = Run(argv[1]);",
                      '  std::printf("%s\\n", status.ToString().c_str());', "}", ""])


def symbols(file, *which):
    return [re.sub(r"^[0-9a-f ]{17}[A-Za-z] ", "", line) for line in
            run("nm", "-D", "-C", *which, file).splitlines()]


def unused_symbols(library, program):
    """What the library shows and no user's program can need: not public, or not in the program,
    which is to have all that is."""
    used = set(symbols(program))  # of a table of the library it may have the copy
    # The first is for the others; the second is private.
    apart = ("typeinfo name for maru::", "maru::Client::Client(")
    return [name for name in symbols(library, "--defined-only")
            if name not in used and not name.startswith(apart)]


def foreign_symbols(library):
    """What the library shows beside names within maru."""
    shown = symbols(library, "--defined-only")
    if not any("maru::Status" in name for name in shown):
        sys.exit(f"{library} does not show maru::Status")
    hidden = ("maru::os::", "maru::catalogue::", "maru::layout::", "maru::wire::", "maru::net::",
              "maru::handler::", "maru::client::", "maru::pool::", "maru::engine::")
    names = {n: re.sub(r"^(typeinfo|typeinfo name|vtable) for ", "", n) for n in shown}
    return [n for n, of in names.items() if not of.startswith("maru::") or of.startswith(hidden)]


def main():
    cmake, source, build = sys.argv[1:]
    with tempfile.TemporaryDirectory() as scratch:
        prefix, user = pathlib.Path(scratch, "prefix"), pathlib.Path(scratch, "user")
        run(cmake, "--install", build, "--prefix", prefix)
        example = pathlib.Path(scratch, "example.cc")
        example.write_text(example_of(pathlib.Path(source, "README.md")))
        run(cmake, "-S", pathlib.Path(source, "tests", "install"), "-B", user,
            f"-DCMAKE_PREFIX_PATH={prefix}", f"-DREADME_EXAMPLE={example}")
        run(cmake, "--build", user)
        with Server(pathlib.Path(build, "maru"), listen="tcp://127.0.0.1:0") as server:
            said = run(user / "embedder", server.socket, "read where it lies")
            found = server.run("get", "greeting").stdout
            shown = run("env", f"MARU_SOCKET={server.socket}", user / "example", "a block")
            kept = server.run("get", "prompt-17/layer-3").stdout
            for program in ("whole", "whole_without_rtti"):
                used = run(user / program, server.metadata)
                if not re.fullmatch(f"info: {server.metadata} is on this host: .*\nOK\n", used):
                    sys.exit(f"{program} said: {used}")
        if said != "read where it lies\n" or found != b"read where it lies":
            sys.exit(f"the program said: {said}, the server has: {found}")
        if shown != "OK\n" or kept != b"a block":
            sys.exit(f"README's example said: {shown}, the server has: {kept}")
        version = run(prefix / "bin" / "maru", "--version")
        if not re.fullmatch(r"maru \d+\.\d+\.\d+\n", version):
            sys.exit(f"the installed command said: {version}")
        library = next(prefix.rglob("libmaru.so.0"))
        foreign = foreign_symbols(library)
        if foreign:
            sys.exit("shown beside the public names:\n" + "\n".join(foreign))
        unused = unused_symbols(library, user / "whole")
        if unused:
            sys.exit("shown, and not used by tests/install/whole.cc:\n" + "\n".join(unused))
        needed = [line.split()[-1] for line in run("objdump", "-p", library).splitlines()
                  if "NEEDED" in line]
        servers_own = [name for name in needed if name.startswith(("libzmq", "libsodium"))]
        if servers_own:
            sys.exit(f"{library.name} needs what only the server may: {' '.join(servers_own)}")
        print(f"{library.resolve().name} needs {' '.join(needed)}")


if __name__ == "__main__":
    main()
