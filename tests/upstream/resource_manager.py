"""Upstream's resource-manager protocol over a plain socket."""

import enum
import os
import socket
import struct
from typing import NamedTuple

HEADER = struct.Struct("<IHHI")
MAGIC = 0x4D415255
VERSION = 2
PAYLOAD_BYTES_MAX = 8192


class Type(enum.IntEnum):
    ALLOC_REQ = 1
    ALLOC_RESP = 2
    FREE_REQ = 3
    FREE_RESP = 4
    STATS_REQ = 5
    STATS_RESP = 6
    GET_ACCESS_REQ = 9
    GET_ACCESS_RESP = 10
    ERROR_RESP = 255


class ProtocolError(Exception):
    """The server sent what the protocol does not allow."""


class ConnectionEnded(Exception):
    """The server closed the connection."""


class Handle(NamedTuple):
    region_id: int
    offset: int
    length: int
    auth_token: int

    def pack(self):
        return struct.pack("<QQQQ", *self)


class AllocReply(NamedTuple):
    status: int
    access_type: int
    handle: Handle
    requested_size: int
    path: str
    uuid: str


class Pool(NamedTuple):
    path: str
    type: int
    total: int
    free: int
    align: int


class AccessReply(NamedTuple):
    status: int
    path: str
    offset: int
    length: int
    uuid: str


class ErrorReply(NamedTuple):
    status: int
    message: str


class _Payload:
    """Takes fields from the front; more or fewer bytes than the fields need are an error."""

    def __init__(self, data):
        self._data = data
        self._at = 0

    def take(self, fields):
        size = struct.calcsize("<" + fields)
        return struct.unpack("<" + fields, self._bytes(size))

    def text(self, length_field):
        (size,) = self.take(length_field)
        return self._bytes(size).decode()

    def fixed_text(self, size):
        return self._bytes(size).decode()

    def _bytes(self, size):
        if self._at + size > len(self._data):
            raise ProtocolError(f"payload ends after {len(self._data)} bytes")
        self._at += size
        return self._data[self._at - size : self._at]

    def end(self, value):
        if self._at != len(self._data):
            raise ProtocolError(f"{len(self._data) - self._at} bytes too many")
        return value


def encode(message_type, payload=b""):
    return HEADER.pack(MAGIC, VERSION, message_type, len(payload)) + payload


def pack_client_id(client_id):
    name = client_id.encode()
    return struct.pack("<H", len(name)) + name


def alloc_request(size, client_id, request_id, path=""):
    name = path.encode()
    return encode(
        Type.ALLOC_REQ,
        struct.pack("<QII", size, len(name), 0)
        + name
        + pack_client_id(client_id)
        + struct.pack("<Q", request_id),
    )


def free_request(handle, client_id, request_id):
    return encode(
        Type.FREE_REQ, handle.pack() + pack_client_id(client_id) + struct.pack("<Q", request_id)
    )


def access_request(handle, client_id=None):
    tail = b"" if client_id is None else pack_client_id(client_id)
    return encode(Type.GET_ACCESS_REQ, handle.pack() + tail)


def stats_request():
    return encode(Type.STATS_REQ)


def _pools(payload):
    pools = []
    for _ in range(payload.take("I")[0]):
        path_bytes, kind, total, free, align = payload.take("IIQQQ")
        pools.append(Pool(payload.fixed_text(path_bytes), kind, total, free, align))
    return pools


def decode(message_type, data):
    """The reply in a payload: AllocReply, AccessReply, ErrorReply, a status or a list of Pool."""
    payload = _Payload(data)
    if message_type == Type.ALLOC_RESP:
        status, access_type = payload.take("iI")
        handle = Handle(*payload.take("QQQQ"))
        (requested,) = payload.take("Q")
        reply = AllocReply(
            status, access_type, handle, requested, payload.text("I"), payload.text("H")
        )
    elif message_type == Type.FREE_RESP:
        (reply,) = payload.take("i")
    elif message_type == Type.STATS_RESP:
        reply = _pools(payload)
    elif message_type == Type.GET_ACCESS_RESP:
        (status,) = payload.take("i")
        path = payload.text("I")
        offset, length = payload.take("QQ")
        reply = AccessReply(status, path, offset, length, payload.text("H"))
    elif message_type == Type.ERROR_RESP:
        (status,) = payload.take("i")
        reply = ErrorReply(status, payload.text("I"))
    else:
        raise ProtocolError(f"reply of type {message_type}")
    return payload.end(reply)


class ResourceManagerClient:
    """One connection, bound to `client_id` ("hostname:pid" of this process by default)."""

    def __init__(self, host, port, client_id=None, timeout_s=10):
        self.client_id = client_id or f"{socket.gethostname()}:{os.getpid()}"
        self.request_id = 0
        self._socket = socket.create_connection((host, port), timeout=timeout_s)

    def send(self, message):
        """Any bytes, whole messages or not."""
        self._socket.sendall(message)

    def receive(self):
        """(type, reply)."""
        magic, version, message_type, length = HEADER.unpack(self._exactly(HEADER.size))
        if (magic, version) != (MAGIC, VERSION) or length > PAYLOAD_BYTES_MAX:
            raise ProtocolError(f"header {magic:#x} {version} {message_type} {length}")
        return message_type, decode(message_type, self._exactly(length))

    def ask(self, message):
        """The reply to a message; an ErrorReply is returned like any other."""
        self.send(message)
        return self.receive()[1]

    def alloc(self, size, path="", request_id=None):
        return self.ask(alloc_request(size, self.client_id, self._next(request_id), path))

    def free(self, handle, request_id=None):
        return self.ask(free_request(handle, self.client_id, self._next(request_id)))

    def access(self, handle, with_client_id=True):
        return self.ask(access_request(handle, self.client_id if with_client_id else None))

    def stats(self):
        return self.ask(stats_request())

    def _next(self, request_id):
        if request_id is None:
            self.request_id += 1
            request_id = self.request_id
        return request_id

    def _exactly(self, size):
        data = b""
        while len(data) < size:
            part = self._socket.recv(size - len(data))
            if not part:
                raise ConnectionEnded(f"after {len(data)} of {size} bytes")
            data += part
        return data

    def end_sending(self):
        self._socket.shutdown(socket.SHUT_WR)

    def close(self):
        self._socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def connect(address, client_id=None):
    """To "HOST:PORT"."""
    host, _, port = address.rpartition(":")
    return ResourceManagerClient(host, int(port), client_id)
