"""How a handler is configured."""

from __future__ import annotations

import operator
import os
import uuid
from dataclasses import KW_ONLY, dataclass
from typing import Any

__all__ = ["MaruConfig"]

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})
_TEXTS = ("server_url", "rm_address", "namespace")
_SWITCHES = ("auto_connect", "use_async_rpc", "eager_map", "auto_expand", "enable_stats")
# The least and the most of each number.
_NUMBERS = {
    "pool_size": (1, (1 << 64) - 1),
    "chunk_size_bytes": (1, 1 << 40),
    "timeout_ms": (1, 3_600_000),
    "max_inflight": (0, (1 << 64) - 1),
    "expand_size": (1, (1 << 64) - 1),
}


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


def _number(name: str, given: Any) -> int:
    """GIVEN, which may be another library's number, where it is whole and in its bounds."""
    least, most = _NUMBERS[name]
    try:
        number = None if isinstance(given, bool) else operator.index(given)
    except TypeError:
        number = None
    if number is None or not least <= number <= most:
        raise ValueError(f"{name} is {given!r}; it takes a whole number from {least} to {most}")
    return number


@dataclass(frozen=True)
class MaruConfig:
    """What a MaruHandler is made with. Checked once, when it is made; sizes are bytes.

    ``MARU_EAGER_MAP`` and ``MARU_STAT`` in the environment win over ``eager_map`` and
    ``enable_stats``.

    Raises:
        ValueError: a value of another type than its field's, or out of its bounds; pool_size is
            less than chunk_size_bytes; expand_size is given without auto_expand, or is less than
            chunk_size_bytes; a switch in the environment is neither on nor off. The message has the
            name and the value.
    """

    server_url: str = "tcp://localhost:5555"
    """The metadata endpoint, by which the server's socket is found; or that socket itself."""
    instance_id: str | None = None
    """A label for people. None: a UUID is made."""
    pool_size: int = 100 << 20
    """Bytes that this handler may hold at first: granted and its own live pages."""
    chunk_size_bytes: int = 1 << 20
    """Size of a page, which holds one KV chunk: up to 1 TiB."""
    auto_connect: bool = True
    """Whether a ``with`` block connects."""
    timeout_ms: int = 2000
    """How long a call waits for one answer of the server, up to an hour. A server that stands still
    holds a call up for about twice that: once for its own turn or message, once to connect anew."""
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
        self._check_types()
        if self.instance_id is None:
            object.__setattr__(self, "instance_id", str(uuid.uuid4()))
        object.__setattr__(self, "eager_map", _switch("MARU_EAGER_MAP", self.eager_map))
        object.__setattr__(self, "enable_stats", _switch("MARU_STAT", self.enable_stats))
        chunk = self.chunk_size_bytes
        if self.pool_size < chunk:
            raise ValueError(
                f"pool_size ({self.pool_size}) must be >= chunk_size_bytes ({chunk})"
            )
        if self.expand_size is not None:
            if not self.auto_expand:
                raise ValueError(
                    f"expand_size ({self.expand_size}) requires auto_expand=True: "
                    "without it nothing grows"
                )
            if self.expand_size < chunk:
                raise ValueError(
                    f"expand_size ({self.expand_size}) must be >= chunk_size_bytes ({chunk})"
                )

    def _check_types(self) -> None:
        for name in _TEXTS:
            given = getattr(self, name)
            if not isinstance(given, str):
                raise ValueError(f"{name} is {given!r}; it takes a str")
        for name in _SWITCHES:
            given = getattr(self, name)
            if not isinstance(given, int) or given not in (0, 1):
                raise ValueError(f"{name} is {given!r}; it takes True or False")
            object.__setattr__(self, name, bool(given))
        for name in _NUMBERS:
            given = getattr(self, name)
            if name == "expand_size" and given is None:
                continue
            object.__setattr__(self, name, _number(name, given))
