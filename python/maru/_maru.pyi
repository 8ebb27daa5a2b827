"""The native module. Written by scripts/python-stub; do not edit."""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from typing_extensions import Buffer, CapsuleType


class MaruError(RuntimeError):
    """Something that Maru could not do."""

class CorruptionError(MaruError):
    """Bytes that no valid writer produces, or a checksum that differs."""

class InvalidArgumentError(MaruError, ValueError):
    """An argument that cannot be; the message names it."""

class PoolFullError(MaruError, ValueError):
    """The pool (or the budget) is full and nothing may go."""

class StateError(MaruError, ValueError):
    """A handle whose life is over, a pinned key, versions that do not fit, a forked child."""

class AccessError(MaruError, PermissionError):
    """The server does not admit this user, or is not trusted."""

class DeadlineError(MaruError, TimeoutError):
    """No answer within timeout_ms."""

class NotConnectedError(MaruError, ConnectionError):
    """Not connected, closing, or no server."""

class NotFoundError(MaruError, KeyError):
    """A page that was never this handler's."""

class _PageBuffer:
    pass

class AllocHandle:
    """A page to write: `buf` is its memory, until it is stored or freed."""

    def __init__(self, buf: object, _region_id: int, _page_index: int, _size: int) -> None: ...

    @property
    def buf(self) -> memoryview:
        """
        Writable memory of the page; released by store, batch_store, free and close. The page is used for nothing else while somebody has this or an array over it, a tensor of torch.frombuffer among them.
        """

    def tensor(self) -> torch.Tensor:
        """
        A torch tensor of the page's memory, uint8. The memory is not used for anything else while the tensor lives.
        """

    def __dlpack__(self, *, stream: object = None, max_version: tuple[int, int] | None = None, dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> CapsuleType: ...

    def __dlpack_device__(self) -> tuple[int, int]: ...

    @property
    def region_id(self) -> int: ...

    @property
    def page_index(self) -> int: ...

    @property
    def size(self) -> int:
        """Bytes, as asked of alloc."""

    @property
    def _region_id(self) -> int: ...

    @property
    def _page_index(self) -> int: ...

    @property
    def _size(self) -> int: ...

class _RegionBuffer:
    pass

class MemoryInfo:
    """
    The bytes of a key where they lie, read-only. They do not change while this, a view of it or an array over one lives.
    """

    def __init__(self, view: object, region_id: int = 0, page_index: int = 0) -> None: ...

    @property
    def view(self) -> memoryview: ...

    @property
    def region_id(self) -> int: ...

    @property
    def page_index(self) -> int: ...

    def tensor(self) -> torch.Tensor:
        """
        A torch tensor of the bytes where they lie, uint8, which keeps the lease. The memory is read-only, which torch has no word for: a write ends the process.
        """

    def __dlpack__(self, *, stream: object = None, max_version: tuple[int, int] | None = None, dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> CapsuleType: ...

    def __dlpack_device__(self) -> tuple[int, int]: ...

    def __len__(self) -> int: ...

class NativeHandler:
    """The calls of MaruHandler that go to the pool."""

    def __init__(self, *, server_url: str, label: str, namespace: str, page_bytes: int, budget_bytes: int, timeout_ms: int) -> None: ...

    def _open(self) -> None: ...

    def _close(self) -> None: ...

    @property
    def _connected(self) -> bool: ...

    def healthcheck(self) -> bool:
        """Whether the server answers. Never raises."""

    def _statistics(self) -> dict[str, int]: ...

    def _inspect(self, topic: int, cursor: int) -> tuple[str, int]: ...

    def _list_keys(self, prefix: str | bytes, cursor: int) -> tuple[list[bytes], int]: ...

    def alloc(self, size: int) -> AllocHandle:
        """A page to write `size` bytes to. Usually no message to the server."""

    def free(self, handle: AllocHandle) -> None:
        """
        Gives a page back. The key of one that was stored is deleted. Twice is a StateError.
        """

    def _free_if_held(self, handle: AllocHandle) -> bool: ...

    def store(self, key: str | bytes | int, handle: AllocHandle | None = None, data: Buffer | None = None) -> bool:
        """
        True: the key is in the pool now, whoever's page won. Takes the page, unless it raises.
        """

    def batch_store(self, keys: Iterable[str | bytes | int], handles: Iterable[AllocHandle | Buffer]) -> list[bool]:
        """
        store() of each, with one answer for each key. Takes all pages, unless it raises.
        """

    def retrieve(self, key: str | bytes | int, verify: bool = False) -> MemoryInfo | None:
        """
        Where the bytes of a key lie, leased. None: not there. With `verify` a checksum that does not match is a CorruptionError.
        """

    def batch_retrieve(self, keys: Iterable[str | bytes | int], verify: bool = False) -> list[MemoryInfo | None]:
        """retrieve() of each."""

    def exists(self, key: str | bytes | int) -> bool:
        """Whether the key is there."""

    def batch_exists(self, keys: Iterable[str | bytes | int]) -> list[bool]:
        """exists() of each."""

    def match_prefix(self, keys: Iterable[str | bytes | int]) -> int:
        """How many of the keys are there, from the first on."""

    def pin(self, key: str | bytes | int) -> bool:
        """
        Keeps the key from being deleted and evicted, as often as it is unpinned. False: not there.
        """

    def unpin(self, key: str | bytes | int) -> bool:
        """Ends one pin. False: this handler has none on the key."""

    def batch_pin(self, keys: Iterable[str | bytes | int]) -> list[bool]:
        """pin() of each up to the first that is not there, False from there on."""

    def batch_unpin(self, keys: Iterable[str | bytes | int]) -> list[bool]:
        """unpin() of each."""

    def delete(self, key: str | bytes | int) -> bool:
        """Deletes a key, whoever stored it. False: not there, or pinned."""

    def batch_delete(self, keys: Iterable[str | bytes | int]) -> list[bool]:
        """delete() of each."""

    def _regions(self) -> list[tuple[int, int, int]]: ...

    def get_buffer_view(self, region_id: int, offset: int, size: int) -> memoryview | None:
        """
        Read-only memory of a region, without a lease. None: there is none such.
        """

    def _list_leases(self) -> None: ...

    def _leased_at(self, region_id: int, page_index: int, length: int) -> MemoryInfo | None: ...

def _report_stats(server_url: str, client_id: str, told: Sequence[tuple[str, str, int, float]], timeout_ms: int) -> None:
    """
    Tells the metadata endpoint of calls: operation, result, bytes, microseconds each.
    """

def _endpoint_stats(server_url: str, timeout_ms: int) -> dict[str, Any]:
    """The metadata endpoint's answer to GET_STATS."""
