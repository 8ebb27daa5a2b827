"""Upstream's metadata protocol: a client with a REQ socket, and one that pipelines by a DEALER."""

import enum
import struct
from typing import NamedTuple

import msgpack
import zmq

HEADER = struct.Struct(">HBBB3xII")
MAGIC = 0xCF00
VERSION = 1
REPLY_BIT = 0x80
IN_FLIGHT_MAX = 64


class Type(enum.IntEnum):
    REQUEST_ALLOC = 0x01
    RETURN_ALLOC = 0x03
    LIST_ALLOCATIONS = 0x04
    REGISTER_KV = 0x10
    LOOKUP_KV = 0x11
    EXISTS_KV = 0x12
    DELETE_KV = 0x13
    PIN_KV = 0x14
    UNPIN_KV = 0x15
    BATCH_REGISTER_KV = 0x20
    BATCH_LOOKUP_KV = 0x21
    BATCH_EXISTS_KV = 0x22
    BATCH_PIN_KV = 0x23
    BATCH_UNPIN_KV = 0x24
    STORAGE = 0x30
    GET_STATS = 0xF0
    HEARTBEAT = 0xF1
    REPORT_STATS = 0xF2
    GET_USAGE = 0xF3
    HANDSHAKE = 0xFE
    SHUTDOWN = 0xFF


class Flag(enum.IntFlag):
    NONE = 0
    BATCH = 1
    COMPRESSED = 2
    URGENT = 4
    NO_REPLY = 8


class ProtocolError(Exception):
    """The server sent what the protocol does not allow."""


class Reply(NamedTuple):
    type: int
    flags: int
    sequence: int
    fields: dict


class Entry(NamedTuple):
    """What REGISTER_KV takes."""

    key: str
    region_id: int
    kv_offset: int
    kv_length: int


def encode(message_type, sequence, fields=None, flags=Flag.NONE):
    """A message; `fields` may be bytes, which are sent as the payload as they are."""
    payload = fields if isinstance(fields, bytes) else msgpack.packb(fields or {})
    return HEADER.pack(MAGIC, VERSION, message_type, flags, sequence, len(payload)) + payload


def decode(message):
    if len(message) < HEADER.size:
        raise ProtocolError(f"a message of {len(message)} bytes")
    magic, version, message_type, flags, sequence, length = HEADER.unpack_from(message)
    payload = message[HEADER.size :]
    if (magic, version) != (MAGIC, VERSION) or message[5:8] != bytes(3):
        raise ProtocolError(f"header {message[:16].hex()}")
    if length != len(payload):
        raise ProtocolError(f"length {length} before {len(payload)} bytes")
    fields = msgpack.unpackb(payload, strict_map_key=True)
    if not isinstance(fields, dict) or not all(isinstance(name, str) for name in fields):
        raise ProtocolError(f"payload {fields!r}")
    return Reply(message_type, flags, sequence, fields)


class Calls:
    """Every message of the protocol, by what `request` of the class below does with it."""

    def request(self, message_type, fields=None, flags=Flag.NONE):
        raise NotImplementedError

    def handshake(self, **fields):
        return self.request(Type.HANDSHAKE, fields)

    def heartbeat(self, **fields):
        return self.request(Type.HEARTBEAT, fields)

    def alloc(self, instance_id, size, **fields):
        return self.request(
            Type.REQUEST_ALLOC, {"instance_id": instance_id, "size": size, **fields}
        )

    def return_alloc(self, instance_id, region_id):
        return self.request(
            Type.RETURN_ALLOC, {"instance_id": instance_id, "region_id": region_id}
        )

    def list_allocations(self, exclude_instance_id):
        return self.request(Type.LIST_ALLOCATIONS, {"exclude_instance_id": exclude_instance_id})

    def register(self, key, region_id, kv_offset, kv_length):
        return self.request(
            Type.REGISTER_KV, Entry(key, region_id, kv_offset, kv_length)._asdict()
        )

    def lookup(self, key):
        return self.request(Type.LOOKUP_KV, {"key": key})

    def exists(self, key):
        return self.request(Type.EXISTS_KV, {"key": key})

    def delete(self, key):
        return self.request(Type.DELETE_KV, {"key": key})

    def pin(self, key):
        return self.request(Type.PIN_KV, {"key": key})

    def unpin(self, key):
        return self.request(Type.UNPIN_KV, {"key": key})

    def batch_register(self, entries):
        return self.request(
            Type.BATCH_REGISTER_KV, {"entries": [Entry(*entry)._asdict() for entry in entries]}
        )

    def batch_lookup(self, keys):
        return self.request(Type.BATCH_LOOKUP_KV, {"keys": list(keys)})

    def batch_exists(self, keys):
        return self.request(Type.BATCH_EXISTS_KV, {"keys": list(keys)})

    def batch_pin(self, keys):
        return self.request(Type.BATCH_PIN_KV, {"keys": list(keys)})

    def batch_unpin(self, keys):
        return self.request(Type.BATCH_UNPIN_KV, {"keys": list(keys)})

    def storage(self, action, payload=None):
        return self.request(Type.STORAGE, {"action": action, "payload": payload})

    def get_stats(self):
        return self.request(Type.GET_STATS)

    def get_usage(self):
        return self.request(Type.GET_USAGE)

    def report_stats(self, entries):
        return self.request(Type.REPORT_STATS, {"entries": list(entries)})

    def shutdown(self):
        return self.request(Type.SHUTDOWN)


def check_answers(reply, message_type, sequence, flags):
    expected = (message_type | REPLY_BIT, flags, sequence)
    if (reply.type, reply.flags, reply.sequence) != expected:
        raise ProtocolError(f"{reply} answers {expected}")


class MetadataClient(Calls):
    """One request at a time over a REQ socket. After a time-out it starts on a new connection."""

    def __init__(self, url, timeout_ms=10_000):
        self._url = url
        self._timeout_ms = timeout_ms
        self._sequence = 0
        self._context = zmq.Context()
        self._socket = None
        self._connect()

    def _connect(self):
        if self._socket is not None:
            self._socket.close(linger=0)
        self._socket = self._context.socket(zmq.REQ)
        self._socket.rcvtimeo = self._socket.sndtimeo = self._timeout_ms
        self._socket.connect(self._url)

    def set_timeout(self, timeout_ms):
        """Of the requests from now on; -1: none."""
        self._timeout_ms = timeout_ms
        self._socket.rcvtimeo = self._socket.sndtimeo = timeout_ms

    def raw(self, message):
        """Sends any bytes and returns the bytes that answer them."""
        self._socket.send(message)
        try:
            return self._socket.recv()
        except zmq.Again:
            self._connect()
            raise TimeoutError(f"no reply from {self._url}") from None

    def request(self, message_type, fields=None, flags=Flag.NONE):
        self._sequence += 1
        reply = decode(self.raw(encode(message_type, self._sequence, fields, flags)))
        check_answers(reply, message_type, self._sequence, flags)
        return reply.fields

    def close(self):
        self._socket.close(linger=0)
        self._context.term()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class PipelinedClient(Calls):
    """Up to IN_FLIGHT_MAX requests in flight over a DEALER socket, matched by sequence."""

    def __init__(self, url, timeout_ms=10_000, in_flight_max=IN_FLIGHT_MAX):
        self._url = url
        self._in_flight_max = in_flight_max
        self._sequence = 0
        self._waiting = {}  # sequence: (type, flags)
        self._answered = {}  # sequence: fields
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.rcvtimeo = self._socket.sndtimeo = timeout_ms
        self._socket.connect(url)

    def set_timeout(self, timeout_ms):
        """Of the requests from now on; -1: none."""
        self._socket.rcvtimeo = self._socket.sndtimeo = timeout_ms

    def submit(self, message_type, fields=None, flags=Flag.NONE):
        """Sends a request and returns its sequence, for `collect`."""
        while len(self._waiting) >= self._in_flight_max:
            self._receive()
        self._sequence += 1
        message = encode(message_type, self._sequence, fields, flags)
        self._socket.send_multipart([b"", message])
        if not flags & Flag.NO_REPLY:
            self._waiting[self._sequence] = (message_type, flags)
        return self._sequence

    def collect(self, sequence):
        while sequence not in self._answered:
            self._receive()
        return self._answered.pop(sequence)

    def poll(self, sequence):
        """What answers it if that is there already, else None."""
        while sequence not in self._answered and self._socket.poll(0) != 0:
            self._receive()
        return self._answered.pop(sequence, None)

    def request(self, message_type, fields=None, flags=Flag.NONE):
        return self.collect(self.submit(message_type, fields, flags))

    def _receive(self):
        try:
            frames = self._socket.recv_multipart()
        except zmq.Again:
            raise TimeoutError(f"{len(self._waiting)} replies missing from {self._url}") from None
        if frames[:-1] != [b""]:
            raise ProtocolError(f"{len(frames)} frames")
        reply = decode(frames[-1])
        if reply.sequence not in self._waiting:
            raise ProtocolError(f"{reply} answers nothing")
        check_answers(reply, self._waiting[reply.sequence][0], reply.sequence,
                      self._waiting.pop(reply.sequence)[1])
        self._answered[reply.sequence] = reply.fields

    def close(self):
        self._socket.close(linger=0)
        self._context.term()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
