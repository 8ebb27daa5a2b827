"""torch tensors over pages, without a copy. Needs a running `maru serve` and torch."""

import os

import torch

from maru import MaruConfig, MaruHandler

SERVER = os.environ.get("MARU_SERVER", "tcp://localhost:5555")
SHAPE = (2, 4, 16, 8)  # K and V, layers, tokens, width


def main() -> None:
    computed = torch.randn(SHAPE, dtype=torch.bfloat16)
    size = computed.numel() * computed.element_size()
    with MaruHandler(MaruConfig(server_url=SERVER, chunk_size_bytes=size)) as handler:
        page = handler.alloc(size)
        page.tensor().view(torch.bfloat16).view(SHAPE).copy_(computed)
        if not handler.store("torch/chunk-0", page):
            raise SystemExit("not stored")

        info = handler.retrieve("torch/chunk-0")
        if info is None:
            raise SystemExit("evicted meanwhile")
        # tensor() and torch.from_dlpack() keep the lease. torch.frombuffer(info.view) does only as
        # long as nobody releases that memoryview.
        shared = info.tensor().view(torch.bfloat16).view(SHAPE)
        del info
        same = torch.equal(shared, computed)
        print(f"equal to what was computed: {same}")
        handler.delete("torch/chunk-0")
        if not same:
            raise SystemExit(1)


if __name__ == "__main__":
    main()
