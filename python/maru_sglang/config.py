"""What SGLang's extra config says of Maru."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from maru_common import MaruConfig

__all__ = ["MaruSGLangConfig", "parse_size"]

_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([KMGT]?)(?:I?B)?\s*", re.IGNORECASE)
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_PAGE_STEP = 4 << 10  # so that sizes that nearly agree share regions
_TRUE, _FALSE = frozenset({"1", "true", "yes", "on"}), frozenset({"0", "false", "no", "off"})


def parse_size(given: int | float | str) -> int:
    """Bytes of ``4G``, ``1.5GiB``, ``512 MB`` or a number. Units are powers of 1024.

    Raises:
        ValueError: it is no size.
    """
    if isinstance(given, (int, float)):
        return int(given)
    match = _SIZE.fullmatch(given)
    if match is None:
        raise ValueError(f"{given!r} is no size; sizes read 4G, 512M, 1048576")
    return int(float(match[1]) * _UNITS[match[2].upper()])


def _switch(given: Any) -> bool:
    word = str(given).strip().lower()
    if word not in _TRUE | _FALSE:
        raise ValueError(f"{given!r} is neither true nor false")
    return word in _TRUE


@dataclass
class MaruSGLangConfig:
    """What the keys that begin with ``maru_`` say, without that; other keys are not looked at."""

    server_url: str = "tcp://localhost:5555"
    """The metadata endpoint, by which the server's socket is found; or that socket itself."""
    pool_size: int = 4 << 30
    """Bytes that this instance may hold at first."""
    chunk_size_bytes: int | None = None
    """Bytes of a page of Maru, at least. None: as many as a page of the host pool has."""
    instance_id: str | None = None
    """A label for people. None: a UUID is made."""
    timeout_ms: int = 2000
    """How long a call waits for one answer of the server. It may wait several times: for its turn,
    for the connection, and for each of the messages that many keys take."""
    use_async_rpc: bool = True
    """Accepted, without effect."""
    max_inflight: int = 64
    """Accepted, without effect."""
    eager_map: bool = True
    """Accepted, without effect."""
    namespace: str = ""
    """Keys of one namespace are not visible in another. Not in upstream's."""

    @staticmethod
    def from_extra_config(extra: Mapping[str, Any] | None) -> MaruSGLangConfig:
        """What SGLang's ``storage_config.extra_config`` says.

        Raises:
            ValueError: a value that cannot be; the message names its key.
        """
        read: dict[str, Callable[[Any], Any]] = {
            "pool_size": parse_size,
            "chunk_size_bytes": parse_size,
            "timeout_ms": int,
            "max_inflight": int,
            "use_async_rpc": _switch,
            "eager_map": _switch,
        }
        config = MaruSGLangConfig()
        for field in fields(config):
            key = f"maru_{field.name}"
            given = None if extra is None else extra.get(key)
            if given is None:
                continue
            try:
                setattr(config, field.name, read.get(field.name, str)(given))
            except (TypeError, ValueError) as error:
                raise ValueError(f"{key}: {error}") from error
        return config

    def page_bytes(self, wanted: int) -> int:
        """Bytes of the pages of Maru that WANTED bytes are stored in."""
        return -(-max(self.chunk_size_bytes or 0, wanted) // _PAGE_STEP) * _PAGE_STEP

    def handler_config(self, page_bytes: int) -> MaruConfig:
        """Of a handler whose pages have that many bytes."""
        return MaruConfig(
            server_url=self.server_url,
            instance_id=self.instance_id,
            pool_size=max(self.pool_size, page_bytes),
            chunk_size_bytes=page_bytes,
            auto_connect=False,
            timeout_ms=self.timeout_ms,
            use_async_rpc=self.use_async_rpc,
            max_inflight=self.max_inflight,
            eager_map=self.eager_map,
            namespace=self.namespace,
        )
