"""A network of a test's own, where every port is free."""

import contextlib
import ctypes
import fcntl
import os
import socket
import struct
import unittest

CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS, IFF_UP = 0x8914, 1


def _call(function, *words):
    if function(*words) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


@contextlib.contextmanager
def own_network():
    """For this thread, and for the threads and processes that it starts. Skips the test where the
    user may not make one."""
    libc = ctypes.CDLL(None, use_errno=True)
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            _call(libc.unshare, CLONE_NEWNET)
        except PermissionError as error:
            raise unittest.SkipTest(f"needs a network of its own: {error}") from None
        try:
            with socket.socket() as any_socket:
                fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH", b"lo", IFF_UP))
            yield
        finally:
            _call(libc.setns, before, CLONE_NEWNET)
    finally:
        os.close(before)
