"""What upstream's handler does with the two protocols: a region of its own that it maps and cuts
into pages, keys over them, and bytes of others read where they lie."""

import mmap
import os
import threading

from upstream import metadata, resource_manager


class Region:
    """A mapping of what GET_ACCESS named."""

    def __init__(self, access):
        if access.status != 0:
            raise AssertionError(f"{access}")
        self.access = access
        descriptor = os.open(access.path, os.O_RDWR)
        try:
            self._bytes = mmap.mmap(descriptor, access.length, offset=access.offset)
        finally:
            os.close(descriptor)

    def read(self, offset, length):
        if offset + length > self.access.length:
            raise AssertionError(f"{offset} + {length} is outside of {self.access}")
        return self._bytes[offset : offset + length]

    def write(self, offset, data):
        self._bytes[offset : offset + len(data)] = data

    def close(self):
        self._bytes.close()


class Instance:
    """Thread safety: one thread."""

    def __init__(self, url, name, client_class=metadata.MetadataClient, page_bytes=4096):
        self.name = name
        self.page_bytes = page_bytes
        self.client = client_class(url)
        shaken = self.client.handshake(instance_id=name)
        if not shaken["success"]:
            raise AssertionError(f"{shaken}")
        self._rm_address = shaken["rm_address"]
        self._rm = None
        self._connect_rm()
        self._mapped = {}  # region id: Region
        self.handle = None  # of the region that is its own
        self._next_page = 0

    def _connect_rm(self):
        client_id = f"{self.name}:{os.getpid()}.{threading.get_ident()}"
        self._rm = resource_manager.connect(self._rm_address, client_id)

    def alloc(self, size, **fields):
        reply = self.client.alloc(self.name, size, **fields)
        if not reply["success"]:
            raise AssertionError(f"{reply}")
        self.handle = reply["handle"]
        self._next_page = 0
        return self.handle

    def region(self, handle):
        """The bytes of a handle, mapped once."""
        name = handle["region_id"]
        if name not in self._mapped:
            asked = resource_manager.Handle(**handle)
            try:
                access = self._rm.access(asked)
            except (resource_manager.ConnectionEnded, ConnectionError):
                # The server was restarted.
                self._rm.close()
                self._connect_rm()
                access = self._rm.access(asked)
            self._mapped[name] = Region(access)
        return self._mapped[name]

    def store(self, key, data):
        """Into its next page; is_new."""
        offset = self._next_page * self.page_bytes
        self.region(self.handle).write(offset, data)
        reply = self.client.register(key, self.handle["region_id"], offset, len(data))
        if not reply["success"]:
            raise AssertionError(f"{reply}")
        if reply["is_new"]:
            self._next_page += 1
        return reply["is_new"]

    def retrieve(self, key):
        """The bytes, or None."""
        return self.bytes_of(self.client.lookup(key))

    def bytes_of(self, found):
        if not found["found"]:
            return None
        return self.region(found["handle"]).read(found["kv_offset"], found["kv_length"])

    def return_region(self):
        return self.client.return_alloc(self.name, self.handle["region_id"])

    def close(self):
        for region in self._mapped.values():
            region.close()
        self._rm.close()
        self.client.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
