"""How a handler is configured."""

from __future__ import annotations

import os
import uuid
from dataclasses import KW_ONLY, dataclass, fields

__all__ = ["MaruConfig"]

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})


def _switch(name: str, otherwise: bool) -> bool:
    """The value of an environment variable that is a switch, OTHERWISE when it is not set."""
    value = os.environ.get(name)
    if value is None:
        return otherwise
    word = value.strip().lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise ValueError(f"{name} is {value!r}; it takes 1/0, true/false, yes/no or on/off")


@dataclass(frozen=True)
class MaruConfig:
    """What a MaruHandler is made with. Checked once, when it is made; sizes are bytes.

    ``MARU_EAGER_MAP`` and ``MARU_STAT`` in the environment win over ``eager_map`` and
    ``enable_stats``.

    Raises:
        ValueError: chunk_size_bytes is not positive; pool_size is less than chunk_size_bytes;
            expand_size is given without auto_expand, or is less than chunk_size_bytes; a switch in
            the environment is neither on nor off.
    """

    server_url: str = "tcp://localhost:5555"
    """The metadata endpoint, by which the server's socket is found; or that socket itself."""
    instance_id: str | None = None
    """A label for people. None: a UUID is made."""
    pool_size: int = 100 << 20
    """Bytes that this handler may hold at first: granted and its own live pages."""
    chunk_size_bytes: int = 1 << 20
    """Size of a page, which holds one KV chunk."""
    auto_connect: bool = True
    """Whether a ``with`` block connects."""
    timeout_ms: int = 2000
    """How long one call waits for the server."""
    use_async_rpc: bool = True
    """Accepted; calls go over shared memory and one socket in either case."""
    max_inflight: int = 64
    """Accepted, as use_async_rpc."""
    eager_map: bool = True
    """Accepted; the pool is mapped whole at connect."""
    auto_expand: bool = True
    """Whether the budget grows when it is used up."""
    expand_size: int | None = None
    """By how much it grows at a time. None: by pool_size."""
    rm_address: str = "127.0.0.1:9850"
    """Accepted; the server's own socket is used instead."""
    enable_stats: bool = False
    """Whether calls are counted and timed for the server's statistics."""
    _: KW_ONLY
    namespace: str = ""
    """Keys of one namespace are not visible in another. Not in upstream's."""

    def __post_init__(self) -> None:
        if self.instance_id is None:
            object.__setattr__(self, "instance_id", str(uuid.uuid4()))
        object.__setattr__(self, "eager_map", _switch("MARU_EAGER_MAP", self.eager_map))
        object.__setattr__(self, "enable_stats", _switch("MARU_STAT", self.enable_stats))
        chunk = self.chunk_size_bytes
        if chunk <= 0:
            raise ValueError(f"chunk_size_bytes must be positive, not {chunk}")
        if self.pool_size < chunk:
            raise ValueError(
                f"pool_size ({self.pool_size}) must be >= chunk_size_bytes ({chunk})"
            )
        if self.expand_size is not None:
            if not self.auto_expand:
                raise ValueError("expand_size requires auto_expand=True: without it nothing grows")
            if self.expand_size < chunk:
                raise ValueError(
                    f"expand_size ({self.expand_size}) must be >= chunk_size_bytes ({chunk})"
                )
