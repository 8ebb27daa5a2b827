"""LMCache's memory allocator over pages of a pool.

Who owns a page is decided in one place, the handler: the object that allocate() answers has it
until it is stored or freed, and an object that get_by_location() answers is a lease. So no object
here is ever pooled or reused, and a free that comes twice, or after a store, changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import torch
from lmcache.v1.memory_management import (
    MemoryAllocatorInterface,
    MemoryFormat,
    MemoryObj,
    MemoryObjMetadata,
    TensorMemoryObj,
)

from maru_common import setup_package_logging
from maru_handler import MaruHandler
from maru_handler.memory import AllocHandle

__all__ = ["CxlMemoryAdapter"]

logger = setup_package_logging("maru_lmcache")

Shapes: TypeAlias = "torch.Size | Sequence[torch.Size]"
Dtypes: TypeAlias = "torch.dtype | Sequence[torch.dtype]"

_PAGE_BITS = 32


class PageObject(TensorMemoryObj):  # type: ignore[misc, unused-ignore]
    """Memory of a page: to write, where it has a handle, else leased and read-only.

    The tensor owns the memory. LMCache leaves the count of what it has stored raised for ever, so
    the count says when the memory is not needed any more at the earliest; its end is the end of
    this object and of the tensors made of it.
    """

    def __init__(
        self,
        raw_data: torch.Tensor,
        metadata: MemoryObjMetadata,
        allocator: CxlMemoryAdapter,
        handle: AllocHandle | None,
    ) -> None:
        super().__init__(raw_data, metadata, allocator)
        self.handle = handle

    def __del__(self) -> None:
        """Nothing but what its members do: that of the base class warns of each raised count."""


def _sizes(shapes: Shapes) -> list[torch.Size]:
    return [shapes] if isinstance(shapes, torch.Size) else [torch.Size(one) for one in shapes]


def _dtypes(dtypes: Dtypes) -> list[torch.dtype]:
    return [dtypes] if isinstance(dtypes, torch.dtype) else list(dtypes)


def _bytes_of(shapes: list[torch.Size], dtypes: list[torch.dtype]) -> int:
    pairs = zip(shapes, dtypes, strict=True)
    return sum(math.prod(shape) * dtype.itemsize for shape, dtype in pairs)


class CxlMemoryAdapter(MemoryAllocatorInterface):  # type: ignore[misc, unused-ignore]
    """Pages of HANDLER as memory objects of LMCache.

    ``shapes``, ``dtypes`` and ``fmt`` are those of a whole chunk, ``chunk_size`` is its bytes. All
    methods may be called from several threads.
    """

    def __init__(
        self,
        handler: MaruHandler,
        shapes: Sequence[torch.Size],
        dtypes: Sequence[torch.dtype],
        fmt: MemoryFormat,
        chunk_size: int,
    ) -> None:
        self._handler = handler
        self._shapes = _sizes(shapes)
        self._dtypes = _dtypes(dtypes)
        self._fmt = fmt
        self._chunk_size = chunk_size
        self._open = True
        handler._list_leases()

    # --- Addresses.

    @staticmethod
    def encode_address(region_id: int, page_index: int) -> int:
        """What ``metadata.address`` says."""
        return region_id << _PAGE_BITS | page_index

    @staticmethod
    def decode_address(address: int) -> tuple[int, int]:
        """Region id and page index."""
        return address >> _PAGE_BITS, address & ((1 << _PAGE_BITS) - 1)

    # --- To write.

    def allocate(
        self,
        shapes: Shapes,
        dtypes: Dtypes,
        fmt: MemoryFormat | None = MemoryFormat.UNDEFINED,
        allocator_type: str | None = None,
    ) -> MemoryObj | None:
        """Writable memory of the shapes asked for. None: there is none, or they are over a page.

        Raises:
            ValueError: not as many dtypes as shapes.
        """
        wanted, kinds = _sizes(shapes), _dtypes(dtypes)
        size = _bytes_of(wanted, kinds)
        if size == 0 or not self._open:
            return None
        try:
            handle = self._handler.alloc(size)
            tensor = handle.tensor()
        except Exception as error:  # noqa: BLE001, a close beside it makes it a BufferError
            logger.warning("no memory of %d bytes: %s", size, error)
            return None
        if fmt in (None, MemoryFormat.UNDEFINED):  # LMCache's engine says None for its own format
            fmt = self._fmt
        address = self.encode_address(handle.region_id, handle.page_index)
        return self._object(tensor, address, wanted, kinds, fmt, handle)

    def batched_allocate(
        self,
        shapes: Shapes,
        dtypes: Dtypes,
        batch_size: int,
        fmt: MemoryFormat | None = MemoryFormat.UNDEFINED,
        allocator_type: str | None = None,
    ) -> list[MemoryObj] | None:
        """All of them or none."""
        objects: list[MemoryObj] = []
        for _ in range(batch_size):
            one = self.allocate(shapes, dtypes, fmt, allocator_type)
            if one is None:
                return None  # those that were made give their pages back as they go
            objects.append(one)
        return objects

    def free(self, memory_obj: MemoryObj, allocator_type: str | None = None) -> None:
        """Gives the page of an object back that was neither stored nor freed; else does nothing."""
        handle = memory_obj.handle if isinstance(memory_obj, PageObject) else None
        if handle is None:
            return
        try:
            freed = self._handler._free_if_held(handle)
        except RuntimeError as error:
            logger.warning("a page was not freed: %s", error)
            return
        if freed:
            memory_obj.invalidate()

    def batched_free(
        self,
        memory_objs: Sequence[MemoryObj],
        allocator_type: str | None = None,
        update_stats: bool = True,
    ) -> None:
        """free() of each."""
        for memory_obj in memory_objs:
            self.free(memory_obj, allocator_type)

    def create_store_handle(self, memory_obj: MemoryObj) -> AllocHandle:
        """What store() takes for an object: with its handle, whose second use is an error."""
        size = memory_obj.get_size()
        handle = memory_obj.handle if isinstance(memory_obj, PageObject) else None
        if handle is not None and handle.size == size:
            return handle
        region_id, page_index = self.decode_address(memory_obj.metadata.address)
        return AllocHandle(memoryview(b""), region_id, page_index, size)

    # --- To read.

    def get_by_location(
        self, region_id: int, page_index: int, actual_size: int, single_token_size: int
    ) -> MemoryObj | None:
        """Read-only memory of a key, whose MemoryInfo lives: that lease is this object's as well.

        None: no such lease, or a size that is no number of tokens.
        """
        if not self._open:
            return None
        info = self._handler._leased_at(region_id, page_index, actual_size)
        if info is None:
            return None
        shapes = self._shapes
        if actual_size != self._chunk_size:
            shapes = self._cut(actual_size // single_token_size)
        if _bytes_of(shapes, self._dtypes) != actual_size:
            logger.warning("%d bytes are no whole number of tokens", actual_size)
            return None
        address = self.encode_address(region_id, page_index)
        return self._object(info.tensor(), address, shapes, self._dtypes, self._fmt, None)

    def ensure_region_pool(self, region_id: int) -> bool:
        """Whether pages lie in a region of that id."""
        return self._handler.get_region_page_count(region_id) is not None

    def close(self) -> None:
        """No more objects; those that live stay as they are."""
        self._open = False

    def memcheck(self) -> bool:
        """Always: there is nothing of its own to be wrong."""
        return True

    def _cut(self, tokens: int) -> list[torch.Size]:
        """The shapes of a chunk of fewer tokens."""
        at = self._fmt.token_dim()
        return [torch.Size((*shape[:at], tokens, *shape[at + 1 :])) for shape in self._shapes]

    def _object(
        self,
        tensor: torch.Tensor,
        address: int,
        shapes: list[torch.Size],
        dtypes: list[torch.dtype],
        fmt: MemoryFormat,
        handle: AllocHandle | None,
    ) -> PageObject:
        metadata = MemoryObjMetadata(
            shape=shapes[0],
            dtype=dtypes[0],
            address=address,
            phy_size=tensor.numel(),
            ref_count=0 if handle is None else 1,  # a reader counts up what it is handed
            fmt=fmt,
            shapes=shapes,
            dtypes=dtypes,
        )
        return PageObject(tensor, metadata, self, handle)
