"""Handles of memory, by the name of upstream's package."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

__all__ = ["MaruHandle"]

_PACKED = struct.Struct("<QQQQ")


@dataclass
class MaruHandle:
    """Where memory lies on the wire of upstream's protocols: four unsigned 64-bit numbers."""

    region_id: int = 0
    offset: int = 0
    """Bytes from the begin of the device or file."""
    length: int = 0
    """Bytes."""
    auth_token: int = 0
    """What proves that the server gave it."""

    def pack(self) -> bytes:
        """32 bytes, little-endian."""
        return _PACKED.pack(self.region_id, self.offset, self.length, self.auth_token)

    @classmethod
    def unpack(cls, data: bytes) -> MaruHandle:
        """Of the first 32 bytes. ValueError: fewer."""
        if len(data) < _PACKED.size:
            raise ValueError(f"a handle takes {_PACKED.size} bytes, not {len(data)}")
        return cls(*_PACKED.unpack_from(data))

    def to_dict(self) -> dict[str, int]:
        return {
            "region_id": self.region_id,
            "offset": self.offset,
            "length": self.length,
            "auth_token": self.auth_token,
        }

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> MaruHandle:
        """KeyError: one of the four is missing; others are ignored."""
        return cls(*(fields[name] for name in ("region_id", "offset", "length", "auth_token")))

    def __repr__(self) -> str:
        return f"MaruHandle(region_id={self.region_id}, offset={self.offset}, length={self.length})"
