"""One process computes a prefix, another one finds it. Needs a running `maru serve`."""

import multiprocessing
import os

from maru import MaruConfig, MaruHandler

SERVER = os.environ.get("MARU_SERVER", "tcp://localhost:5555")
CHUNK = 4096
KEYS = [f"two/prefix/chunk-{i}" for i in range(8)]


def connect() -> MaruHandler:
    # A handler belongs to the process that made it.
    handler = MaruHandler(MaruConfig(server_url=SERVER, chunk_size_bytes=CHUNK))
    if not handler.connect():
        raise SystemExit(f"no server at {SERVER}")
    return handler


def compute() -> None:
    """As the first engine that sees the prompt."""
    with connect() as handler:
        pages = [handler.alloc(CHUNK) for _ in KEYS]
        for i, page in enumerate(pages):
            page.buf[:] = bytes([i]) * CHUNK
        if not all(handler.batch_store(KEYS, pages)):
            raise SystemExit("not all of it was stored")


def main() -> None:
    first = multiprocessing.get_context("spawn").Process(target=compute)
    first.start()
    first.join()

    with connect() as handler:
        found = handler.match_prefix([*KEYS, "two/prefix/not-there"])
        infos = handler.batch_retrieve(KEYS[:found])
        same = all(info and info.view[0] == i for i, info in enumerate(infos))
        print(f"found {found} of {len(KEYS)} chunks of another process, bytes equal: {same}")
        for key in KEYS:
            handler.delete(key)
        if found != len(KEYS) or not same:
            raise SystemExit(1)


if __name__ == "__main__":
    main()
