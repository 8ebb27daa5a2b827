#!/usr/bin/env python3
"""How long others wait while a client of upstream's protocols gets a large region.

    bench/alloc_wait.py build/release/maru [--gib 3]

One client asks for the region over ZeroMQ, another asks for a key all the time, as fast as it is
answered. The pool is a file in /dev/shm of its own, given back at the end.
"""

import argparse
import pathlib
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from server import Server  # noqa: E402
from upstream.metadata import MetadataClient, PipelinedClient, Type  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("maru", type=pathlib.Path)
    parser.add_argument("--gib", type=int, default=3)
    options = parser.parse_args()
    size = options.gib << 30
    with Server(options.maru.resolve(), f"{options.gib + 1}GiB", listen="tcp://127.0.0.1:0",
                rm_listen="127.0.0.1:0") as server, \
            PipelinedClient(server.metadata, timeout_ms=120_000) as asking, \
            MetadataClient(server.metadata, timeout_ms=120_000) as other:
        other.exists("key")
        asking.get_stats()
        begin = time.perf_counter()
        number = asking.submit(Type.REQUEST_ALLOC, {"instance_id": "large", "size": size})
        waits = []
        answered = None
        while answered is None:
            before = time.perf_counter()
            other.exists("key")
            waits.append(time.perf_counter() - before)
            answered = asking.poll(number)
        whole = time.perf_counter() - begin
        if not answered["success"]:
            sys.exit(answered["error"])
        waits.sort()
        print(f"a region of {options.gib} GiB after {whole:.2f} s; meanwhile {len(waits)} times "
              f"exists, longest {waits[-1] * 1e3:.1f} ms, half of them under "
              f"{waits[len(waits) // 2] * 1e3:.2f} ms")


if __name__ == "__main__":
    main()
