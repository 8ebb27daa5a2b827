"""The handler that a serving engine embeds."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

from maru import _maru
from maru.call_stats import CallStats
from maru_common.config import MaruConfig
from maru_common.logs import setup_package_logging

__all__ = ["MaruHandler"]

logger = setup_package_logging("maru_handler")

# Views of the server, by their numbers on the wire.
_SUMMARY, _REGIONS = 1, 3
_PAGE_STEP = 512  # the server cuts pages of a multiple of it
_LABEL_BYTES_MAX = 63
_REGION_ID_MAX, _OFFSET_MAX = (1 << 32) - 1, (1 << 63) - 1
# What is shown of a server that does not answer.
_AWAY: dict[str, Any] = {"pools": [], "clients": {"attached": 0}}

RegionAdded = Callable[[int, int], None]


class MaruHandler(_maru.NativeHandler):
    """Stores and finds KV chunks in the pool that all engines of a host share.

    Look-ups read shared memory and ask nobody. All methods may be called from several threads. In a
    forked child a handler is inert: make one of its own.

    While the server is away, look-ups answer that nothing is there (and say so in the log), alloc
    and stores raise. Calls before connect() or after close() raise NotConnectedError, which is a
    RuntimeError; every error of this package is.
    """

    def __init__(self, config: MaruConfig | None = None) -> None:
        """Makes a handler; connect() or a ``with`` block connects it."""
        self._config = MaruConfig() if config is None else config
        self._closed = False
        self._region_added: RegionAdded | None = None
        self._regions_told: set[int] = set()
        self._unreported_told = False
        label = self.instance_id.encode(errors="replace")[:_LABEL_BYTES_MAX]
        super().__init__(
            server_url=self._config.server_url,
            label=label.decode(errors="ignore"),
            namespace=self._config.namespace,
            page_bytes=max(self._config.chunk_size_bytes, _PAGE_STEP),
            budget_bytes=(
                0 if self._config.auto_expand else max(self._config.pool_size, self._page_bytes())
            ),
            timeout_ms=self._config.timeout_ms,
        )
        self._call_stats: CallStats | None = None
        if self._config.enable_stats:
            self._call_stats = CallStats(
                self, self._config.server_url, self.instance_id, self._config.timeout_ms
            )

    # --- Connection.

    def connect(self) -> bool:
        """Connects, anew where the server was lost. False when that fails: the log says why. A
        closed handler stays closed."""
        if self._closed:
            logger.error("this handler is closed; make another one")
            return False
        try:
            self._open()
        except _maru.MaruError as error:
            logger.error("cannot connect to %s: %s", self._config.server_url, error)
            return False
        if self._call_stats is not None:
            self._call_stats.start()
        return True

    def close(self) -> None:
        """Gives back what is in hand and disconnects. Views stay valid. Twice is once."""
        self._closed = True
        self._close()
        if self._call_stats is not None:
            self._call_stats.stop()

    def __enter__(self) -> MaruHandler:
        if self._config.auto_connect:
            self.connect()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def connected(self) -> bool:
        """Whether the server is there."""
        return bool(self._connected)

    @property
    def instance_id(self) -> str:
        """The label of this handler."""
        return str(self._config.instance_id)

    # --- Regions.

    def get_chunk_size(self) -> int:
        """chunk_size_bytes. Pages are cut at the next multiple of 512 bytes: page N of a region
        begins at N times that, which is this size where it is such a multiple."""
        return self._config.chunk_size_bytes

    def _page_bytes(self) -> int:
        """What a page of this handler takes of a region."""
        return -(-self._config.chunk_size_bytes // _PAGE_STEP) * _PAGE_STEP

    def _page_regions(self) -> dict[int, int]:
        """Pages of each region whose pages are of this handler's size, by region id."""
        if not self.connected:
            return {}
        size = self._page_bytes()
        return {region: pages for region, pages, page in self._regions() if page == size}

    def get_region_page_count(self, region_id: int) -> int | None:
        """Pages of a region, None when there is none such."""
        return self._page_regions().get(region_id)

    def get_owned_region_ids(self) -> list[int]:
        """Regions that pages of this handler's size are cut from."""
        return list(self._page_regions())

    def get_buffer_view(self, region_id: int, offset: int, size: int) -> memoryview | None:
        """Read-only memory of a region, without a lease. None: there is none such."""
        if not 0 <= region_id <= _REGION_ID_MAX or max(offset, size) > _OFFSET_MAX:
            return None
        if min(offset, size) < 0:
            return None
        return super().get_buffer_view(region_id, offset, size)

    def set_on_region_added(self, callback: RegionAdded | None) -> None:
        """Has CALLBACK(region_id, page_count) called for each region, those already there at once.

        None takes the callback away. It is called by the thread that calls alloc().
        """
        self._region_added = callback
        self._regions_told.clear()
        self._tell_regions()

    def _tell_regions(self) -> None:
        callback = self._region_added
        if callback is None:
            return
        for region_id, page_count in self._page_regions().items():
            if region_id not in self._regions_told:
                self._regions_told.add(region_id)
                callback(region_id, page_count)

    def alloc(self, size: int) -> _maru.AllocHandle:
        """A page to write SIZE bytes to. Usually no message to the server.

        Raises:
            InvalidArgumentError: SIZE is not positive, or over the size of a page.
            PoolFullError: the pool is full and nothing may go.
            NotConnectedError: not connected, or the server is away.
        """
        try:
            handle = super().alloc(size)
        except TypeError:
            if isinstance(size, int):  # but not one that the native call can take
                message = f"size is {size}; it takes 1 to the size of a page"
                raise _maru.InvalidArgumentError(message) from None
            raise
        if self._region_added is not None and handle.region_id not in self._regions_told:
            self._tell_regions()
        return handle

    # --- Keys.

    def keys(self, prefix: str | bytes = "") -> Iterator[bytes]:
        """The keys that begin with PREFIX, in no order. Those that come or go meanwhile may be
        among them or not."""
        cursor = -1
        while cursor != 0:
            some, cursor = self._list_keys(prefix, max(cursor, 0))
            yield from some

    # --- Statistics.

    def get_stats(self) -> dict[str, Any]:
        """Counts of the server and of this handler, by upstream's names and some of its own.

        While the server is away its counts are 0, and the log says so.
        """
        own = dict(self._statistics())
        try:
            summary = json.loads(self._inspect(_SUMMARY, 0)[0])
            regions = self._store_regions()
            reported = self._reported()
        except (_maru.NotConnectedError, _maru.DeadlineError) as error:
            logger.warning("no statistics of the server: %s", error)
            summary, regions, reported = _AWAY, _sums([]), {"clients": {}}
        return {
            **_server_stats(summary),
            "stats_manager": reported,
            "store_regions": regions,
            "allocator": regions["regions"][0] if regions["regions"] else {},
            "handler": own,
        }

    def _reported(self) -> dict[str, Any]:
        """What handlers with enable_stats have told; nothing where no metadata endpoint is."""
        if not self._config.server_url.startswith("tcp://"):
            return {"clients": {}}
        try:
            answer = _maru._endpoint_stats(self._config.server_url, self._config.timeout_ms)
        except _maru.MaruError as error:
            logger.log(
                logging.DEBUG if self._unreported_told else logging.WARNING,
                "no statistics of calls from %s: %s",
                self._config.server_url,
                error,
            )
            self._unreported_told = True
            return {"clients": {}}
        self._unreported_told = False
        reported: dict[str, Any] = answer.get("stats_manager", {"clients": {}})
        return reported

    def _regions_shown(self) -> dict[int, dict[str, int]]:
        """Counts of pages by state of each region that the server has now."""
        shown: dict[int, dict[str, int]] = {}
        cursor = -1
        while cursor != 0:
            text, cursor = self._inspect(_REGIONS, max(cursor, 0))
            shown |= {one["region_id"]: one["pages"] for one in json.loads(text)}
        return shown

    def _store_regions(self) -> dict[str, Any]:
        """Regions of pages of this handler's size, which it shares with all that use that size."""
        size = self._page_bytes()
        shown = self._regions_shown()
        regions: list[dict[str, Any]] = []
        for region_id, pages in self._page_regions().items():
            free = shown.get(region_id, {}).get("free", 0)
            regions.append(
                {
                    "region_id": region_id,
                    "pool_size": pages * size,
                    "chunk_size": size,
                    "page_count": pages,
                    "free_pages": free,
                    "allocated_pages": pages - free,
                    "utilization": (pages - free) / pages if pages else 0.0,
                }
            )
        return _sums(regions)


def _sums(regions: list[dict[str, Any]]) -> dict[str, Any]:
    pages = sum(region["page_count"] for region in regions)
    free = sum(region["free_pages"] for region in regions)
    return {
        "num_regions": len(regions),
        "total_pool_size": sum(region["pool_size"] for region in regions),
        "total_page_count": pages,
        "total_free_pages": free,
        "total_allocated_pages": pages - free,
        "utilization": (pages - free) / pages if pages else 0.0,
        "regions": regions,
    }


def _server_stats(summary: dict[str, Any]) -> dict[str, Any]:
    """The server's counts, under the names that upstream's have."""
    pools = summary["pools"]
    pages = [size for pool in pools for size in pool["page_sizes"]]
    return {
        "kv_manager": {
            "total_entries": sum(pool["pages"]["live"] + pool["extents"] for pool in pools),
            "total_size": sum(size["live"] * size["page_bytes"] for size in pages)
            + sum(pool["extent_bytes"] for pool in pools),
        },
        "allocation_manager": {
            "num_allocations": sum(pool["client_regions"] for pool in pools) + len(pages),
            "total_allocated": sum(
                pool["pages_bytes"] + pool["client_cut_bytes"] for pool in pools
            ),
            "active_clients": summary["clients"]["attached"],
        },
        "cxl_pool": {
            "total_size": sum(pool["pool_bytes"] for pool in pools),
            "free_size": sum(pool["free_bytes"] for pool in pools),
        },
        "server": summary,
    }
