"""The messages by which maru-server has an endpoint opened, which are of our own
(docs/formats/upstream_resource_manager.md)."""

import struct

from upstream import resource_manager
from upstream.resource_manager import HEADER, encode, pack_client_id

OPEN_REQ, OPEN_RESP = 0x4D01, 0x4D02


def open_request(address, client_id="host-a:1", paths=()):
    return encode(OPEN_REQ, pack_client_id(client_id) + pack_client_id(address)
                  + struct.pack("<I", len(paths))
                  + b"".join(struct.pack("<I", len(path)) + path.encode() for path in paths))


def open_reply(client):
    """(status, address, message), or the ErrorReply."""
    kind, length = HEADER.unpack(client._exactly(HEADER.size))[2:]
    data = client._exactly(length)
    if kind != OPEN_RESP:
        return resource_manager.decode(kind, data)
    (status,), at, texts = struct.unpack_from("<i", data), 4, []
    for _ in range(2):
        (size,) = struct.unpack_from("<H", data, at)
        texts.append(data[at + 2 : at + 2 + size].decode())
        at += 2 + size
    return (status, *texts)
