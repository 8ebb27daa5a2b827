"""numpy arrays over pages, without a copy. Needs a running `maru serve` and numpy."""

import os

import numpy as np

from maru import MaruConfig, MaruHandler

SERVER = os.environ.get("MARU_SERVER", "tcp://localhost:5555")
SHAPE = (2, 4, 16, 8)  # K and V, layers, tokens, width


def main() -> None:
    size = int(np.prod(SHAPE)) * np.dtype(np.float16).itemsize
    with MaruHandler(MaruConfig(server_url=SERVER, chunk_size_bytes=size)) as handler:
        page = handler.alloc(size)
        kv = np.from_dlpack(page).view(np.float16).reshape(SHAPE)
        kv[...] = np.arange(kv.size, dtype=np.float16).reshape(SHAPE)
        del kv  # nobody writes to what is shared
        if not handler.store("numpy/chunk-0", page):
            raise SystemExit("not stored")

        info = handler.retrieve("numpy/chunk-0")
        if info is None:
            raise SystemExit("evicted meanwhile")
        shared = np.from_dlpack(info).view(np.float16).reshape(SHAPE)
        del info  # the array keeps the lease
        print(f"read-only: {not shared.flags.writeable}, last value {shared.flat[-1]}")
        if shared.flags.writeable or shared.flat[-1] != shared.size - 1:
            raise SystemExit(1)
        handler.delete("numpy/chunk-0")


if __name__ == "__main__":
    main()
