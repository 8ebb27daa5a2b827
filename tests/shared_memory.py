"""What happens in /dev/shm: every name that is made there, and one of a test's own and size."""

import ctypes
import os
import pathlib
import struct
import subprocess

IN_CREATE, IN_MOVED_TO = 0x100, 0x80
EVENT = struct.Struct("iIII")
SHM = pathlib.Path("/dev/shm")


class Watch:
    """The names that anybody makes in /dev/shm while this is open, also those that go at once."""

    def __enter__(self):
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.fd = self.libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        if self.libc.inotify_add_watch(self.fd, bytes(SHM), IN_CREATE | IN_MOVED_TO) < 0:
            raise OSError(ctypes.get_errno(), "inotify_add_watch")
        return self

    def __exit__(self, *_):
        os.close(self.fd)

    def names(self):
        """Since the last call."""
        names = []
        while True:
            try:
                events = os.read(self.fd, 1 << 16)
            except BlockingIOError:
                return names
            while events:
                length = EVENT.unpack_from(events)[3]
                names.append(events[EVENT.size:EVENT.size + length].rstrip(b"\0").decode())
                events = events[EVENT.size + length:]


def with_small_shm(size, *command):
    """Runs a command where /dev/shm is new and has `size`; None where nobody may make that."""
    script = f'mount -t tmpfs -o size={size} tmpfs {SHM} && exec "$@"'
    unshare = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    if subprocess.run([*unshare, script, "sh", "true"], capture_output=True).returncode != 0:
        return None
    return subprocess.run([*unshare, script, "sh", *map(str, command)], capture_output=True,
                          text=True)
