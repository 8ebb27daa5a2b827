"""Store a KV chunk and read it where it lies. Needs a running `maru serve`."""

import os

from maru import MaruConfig, MaruHandler

SERVER = os.environ.get("MARU_SERVER", "tcp://localhost:5555")


def main() -> None:
    chunk = bytes(range(256)) * 16
    with MaruHandler(MaruConfig(server_url=SERVER, chunk_size_bytes=len(chunk))) as handler:
        page = handler.alloc(len(chunk))
        page.buf[:] = chunk
        if not handler.store("single/chunk-0", page):
            raise SystemExit("not stored")

        # The bytes do not change while INFO or a view of it lives, whatever becomes of the key.
        info = handler.retrieve("single/chunk-0")
        if info is None:
            raise SystemExit("evicted meanwhile")
        handler.delete("single/chunk-0")
        if info.view != chunk:
            raise SystemExit("other bytes than were stored")
        print(f"read {len(info)} bytes where they lie, page {info.page_index}")


if __name__ == "__main__":
    main()
