#!/usr/bin/env python3
"""Reads every #include of the sources and fails on one that breaks the layers.

A file includes its own folder and lower layers, never its own level sideways or a higher one.
Only src/os/ includes system headers and makes system calls. So may tests (*_test.cc, *_test.h), and
what is for tests and measurements alone: sim/, fuzz/, bench/. The commands in tools/ may use the
parts of the standard library that reach the system (its streams, errno after them), and nothing
below it.
"""

import pathlib
import re
import sys
import tempfile

# Level of each folder. Public headers stand below everything.
LEVELS = {
    "maru": -1,
    "base": 0,
    "os": 1,
    "layout": 1,
    "catalogue": 2,
    "wire": 2,
    "pool": 3,
    "engine": 4,
    "handler": 4,
    "net": 4,
    "server": 5,
    "client": 5,
    "tools": 6,
    "native": 7,  # python/native/
    "sim": 7,
    "fuzz": 7,
    "bench": 7,
}
TOPS = ("include/maru", "src", "tools", "python/native", "sim", "fuzz", "bench")
# Whose files stand right below the root.
ROOT_FOLDERS = {"include": "maru", "tools": "tools", "sim": "sim", "fuzz": "fuzz", "bench": "bench"}
EXEMPT = ("os", "sim", "fuzz", "bench")

# Headers of the operating system.
SYSTEM = re.compile(
    r"^(sys|linux|netinet|arpa|net|asm|bits)/|"
    r"^(unistd|fcntl|pthread|poll|sched|signal|dirent|netdb|errno|spawn|termios|syslog|"
    r"dlfcn|ifaddrs|mntent|pwd|grp|numa|numaif|ucontext|semaphore|mqueue|aio)\.h$"
)
# Parts of the standard library that reach around os/.
STANDARD = re.compile(r"^(cerrno|csignal|fstream|filesystem|iostream)$")

CALL = re.compile(
    r"(?:(?<![\w:.>])::\s*|(?<![\w:.>~]))"
    r"(mmap|munmap|mprotect|madvise|msync|mlock|ftruncate|fallocate|posix_fallocate|"
    r"memfd_create|shm_open|shm_unlink|pread|pwrite|fcntl|ioctl|sendmsg|recvmsg|setsockopt|"
    r"getsockopt|epoll_\w+|eventfd|timerfd_\w+|signalfd|fork|vfork|execv\w*|waitpid|getpid|"
    r"clock_gettime|getrandom|sched_setaffinity|pthread_\w+|syscall|sigaction|usleep|"
    r"nanosleep)\s*\("
)
# Common words: only with the leading :: are they system calls for certain.
GLOBAL_CALL = re.compile(
    r"(?<![\w:.>])::\s*(open|openat|close|read|write|lseek|stat|fstat|unlink|rename|socket|bind|"
    r"listen|accept4?|connect|send|recv|poll|kill|pipe2?|dup[23]?|fsync|chmod|fchmod|chown|"
    r"mkdir|rmdir|getuid|geteuid|sysconf)\s*\("
)

TEST_FILES = re.compile(r"(^test_.*|.*_test)\.(cc|h)$")

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
COMMENT_OR_STRING = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.S)


def blank(match):
    """Comments and strings vanish, line numbers stay; includes keep their name."""
    return "\n" * match.group(0).count("\n")


def folder_of(path):
    """The layer a source file belongs to: include/maru/x.h -> maru, src/os/x.cc -> os."""
    return ROOT_FOLDERS.get(path.parts[0], path.parts[1])


def check_include(folder, path, kind, name):
    is_test = TEST_FILES.match(path.name)
    if kind == "<":
        if folder not in EXEMPT and not is_test:
            if SYSTEM.search(name) or folder != "tools" and STANDARD.search(name):
                return f"<{name}>: only src/os/ includes system headers"
        if name.split("/")[0] == "maru" or name.split("/")[0] in LEVELS and "/" in name:
            return f"<{name}>: write own headers with quotes"
        return None
    target = name.split("/")[0]
    if "/" not in name and folder == "fuzz":
        return None  # each target is a program of its own folder
    if "/" not in name or target not in LEVELS:
        return f'"{name}": write includes from the source root, as "layer/file.h"'
    if target == folder or LEVELS[target] < LEVELS[folder]:
        return None
    way = "sideways" if LEVELS[target] == LEVELS[folder] else "upwards"
    return f'"{name}": {folder}/ must not include {way}'


def check_file(root, path):
    text = (root / path).read_text(encoding="utf-8")
    folder = folder_of(path)
    found = []
    if folder not in LEVELS:
        return [f"{path}: folder {folder}/ has no layer"]
    for number, line in enumerate(text.split("\n"), 1):
        match = INCLUDE.match(line)
        if match:
            why = check_include(folder, path, *match.groups())
            if why:
                found.append(f"{path}:{number}: {why}")
    if folder not in EXEMPT and not TEST_FILES.match(path.name):
        code = COMMENT_OR_STRING.sub(blank, text)
        for number, line in enumerate(code.split("\n"), 1):
            match = CALL.search(line) or GLOBAL_CALL.search(line)
            if match:
                call = match.group(1)
                found.append(f"{path}:{number}: {call}() is a system call, for src/os/ only")
    return found


def check_tree(root):
    found, count = [], 0
    for top in TOPS:
        for path in sorted((root / top).rglob("*")):
            if path.suffix in (".h", ".cc"):
                count += 1
                found += check_file(root, path.relative_to(root))
    return found, count


BAD_SAMPLES = {
    "src/base/up.h": '#include "os/file.h"',
    "src/os/sideways.h": '#include "layout/frame.h"',
    "src/engine/sideways.cc": '#include "handler/handler.h"',
    "src/wire/up.cc": '  #  include "pool/pool.h"',
    "src/catalogue/system.cc": "#include <sys/mman.h>",
    "src/net/errno.cc": "#include <cerrno>",
    "src/server/files.cc": "#include <fstream>",
    "src/layout/rootless.h": '#include "frame.h"',
    "src/pool/angle.h": "#include <base/check.h>",
    "include/maru/inside.h": '#include "base/check.h"',
    "src/pool/call.cc": "void* p = mmap(nullptr, 1, 0, 0, -1, 0);",
    "src/pool/global_call.cc": 'int fd = ::open("x", 0);',
    "src/elsewhere/unknown.h": "",
    "tools/system.cc": "#include <unistd.h>",
    "tools/call.cc": "if (fork() == 0) return;",
    "tools/up.cc": '#include "sim/world.h"',
    "python/native/system.cc": "#include <cerrno>",
    "python/native/call.cc": "::getpid();",
    "sim/sideways.cc": '#include "bench/bench.h"',
}
GOOD_SAMPLES = {
    "src/os/file.cc": '#include <fcntl.h>\n#include "base/check.h"\nint f = ::open("x", 0);',
    "src/pool/pool.cc": '#include <vector>\n#include "catalogue/writer.h"',
    "src/base/status.cc": '#include "maru/status.h"',
    "src/server/server.cc": '#include "engine/engine.h"\n#include "net/loop.h"',
    "src/client/client.cc": '#include "handler/handler.h"\n// mmap(2) is used below',
    "src/engine/engine.cc": "file.open(); os::fork(); mapping.mmap(); Status open(int);",
    "src/pool/files_test.h": "#pragma once\n#include <fstream>",
    "src/pool/pool_test.cc": "#include <sys/wait.h>\n#include <unistd.h>",
    "tools/files.cc": '#include <cerrno>\n#include "os/errno_status.h"',
    "python/native/view.cc": '#include "client/client_impl.h"\n#include "native/view.h"',
    "sim/workers.cc": "#include <unistd.h>\nint child = fork();",
    "fuzz/frame_fuzz.cc": '#include "frame_fuzz.h"\n#include "wire/codec.h"',
}


def self_test():
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in {**BAD_SAMPLES, **GOOD_SAMPLES}.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text + "\n", encoding="utf-8")
        missed = [n for n in BAD_SAMPLES if not check_file(root, pathlib.PurePath(n))]
        wrong = [w for n in GOOD_SAMPLES for w in check_file(root, pathlib.PurePath(n))]
    return [f"self-test: {n} was not refused" for n in missed] + [
        f"self-test: refused wrongly: {w}" for w in wrong
    ]


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    found, count = check_tree(root)
    found += self_test()
    if count == 0:
        found.append(f"{root}: no sources found")
    for line in found:
        print(line)
    print(f"{count} files, {len(found)} violations")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
