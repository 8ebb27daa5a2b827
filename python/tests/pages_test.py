"""Pages whose lives end while something is over them, or while others call."""

import ctypes
import gc
import os
import signal
import threading

import pytest
from handler_test import CHUNK, audit, put

import maru
from maru import MaruError
from maru_sglang.host_pages import _Addressed

numpy = pytest.importorskip("numpy")


def others_are_whole(handler, array):
    """Whether keys that are stored from now on keep their bytes when ARRAY is written to."""
    keys = [f"other{i}" for i in range(40)]
    assert all(put(handler, key, b"\0" * CHUNK) for key in keys)
    array[:] = 9
    whole = [bytes(info.view) == b"\0" * CHUNK for info in handler.batch_retrieve(keys)]
    return all(whole)


def filled(handler):
    """A handle, and an array over it."""
    handle = handler.alloc(CHUNK)
    array = numpy.frombuffer(handle.buf, dtype=numpy.uint8)
    array[:] = 7
    return handle, array


def all_pages(handler, size=CHUNK):
    """Handles of all pages that the pool can give, full of zeros."""
    handles = []
    while True:
        try:
            handles.append(handler.alloc(size))
        except maru.PoolFullError:
            return handles
        handles[-1].buf[:] = b"\0" * size


def are_whole(pages):
    return all(bytes(page.buf) == b"\0" * page.size for page in pages)


@pytest.mark.parametrize("end", ["store", "free"])
def test_a_second_end_leaves_the_memory_to_the_array(handler, end):
    handle, array = filled(handler)
    if end == "store":
        assert handler.store("key", handle)
    else:
        handler.free(handle)
    for _ in range(2):
        with pytest.raises(maru.StateError):
            handler.store("again", handle)
        assert handler.batch_store(["again"], [handle]) == [False]
    counts = handler._statistics()
    assert (counts["leases"], counts["pages_held"]) == ((1, 0) if end == "store" else (0, 1))
    assert end == "free" or handler.delete("key")
    assert others_are_whole(handler, array)
    del array
    counts = handler._statistics()
    assert counts["leases"] == counts["pages_held"] == 0


def test_so_does_a_second_store_beside_the_first(handler, server):
    handle, array = filled(handler)
    stores = handler._statistics()["stores"]
    server.process.send_signal(signal.SIGSTOP)
    answers = []
    first = threading.Thread(target=lambda: answers.append(handler.store("key", handle)))
    first.start()
    while handler._statistics()["stores"] == stores:
        pass
    try:
        with pytest.raises(maru.StateError):
            handler.store("again", handle)
    finally:
        server.process.send_signal(signal.SIGCONT)
        first.join()
    assert answers == [True]
    assert handler._statistics()["leases"] == 1
    assert handler.delete("key")
    assert others_are_whole(handler, array)


def test_who_keeps_a_released_memoryview_keeps_the_memory(handler):
    """Some arrays keep that object and nothing else, as torch.frombuffer's do."""
    handle = handler.alloc(CHUNK)
    view = handle.buf
    array = numpy.ctypeslib.as_array(
        (ctypes.c_uint8 * CHUNK).from_address(numpy.frombuffer(view, dtype=numpy.uint8).ctypes.data)
    )
    assert handler.store("key", handle)
    with pytest.raises(ValueError, match="released"):
        view[0] = 1
    assert handler._statistics()["leases"] == 1
    assert handler.delete("key")
    assert others_are_whole(handler, array)
    del view
    assert handler._statistics()["leases"] == 0


@pytest.mark.parametrize("end", ["store", "close"])
def test_a_handle_alone_keeps_no_memory(connect, end):
    handler = connect()
    handle = handler.alloc(CHUNK)
    handle.buf[:] = b"\1" * CHUNK
    if end == "store":
        assert handler.store("key", handle)
        assert handler._statistics()["leases"] == 0
    else:
        pages = (handle.region_id, handle.page_index)
        handler.close()
        assert pages in {(one.region_id, one.page_index) for one in all_pages(connect())}
    with pytest.raises(ValueError, match="stored or freed"):
        len(handle.buf)


def test_a_tensor_of_torchs_own_keeps_the_memory(handler):
    torch = pytest.importorskip("torch")
    handle = handler.alloc(CHUNK)
    tensor = torch.frombuffer(handle.buf, dtype=torch.uint8)
    assert handler.store("key", handle)
    assert handler._statistics()["leases"] == 1
    assert handler.delete("key")
    assert others_are_whole(handler, tensor)
    del tensor
    assert handler._statistics()["leases"] == 0


def test_a_page_of_another_handler_is_refused_and_stays_its_own(connect, server):
    one, other = connect(), connect()
    handle = one.alloc(4)
    handle.buf[:] = b"text"
    for call in (
        lambda: other.store("key", handle),
        lambda: other.batch_store(["key"], [handle]),
        lambda: other.batch_store(["a", "b"], [other.alloc(1), handle]),
        lambda: other.free(handle),
    ):
        with pytest.raises(maru.InvalidArgumentError, match="another handler"):
            call()
    assert not other._free_if_held(handle)
    assert other.batch_exists(["key", "a"]) == [False, False]
    assert bytes(handle.buf) == b"text"
    assert one._statistics()["pages_held"] == 1
    assert one.store("key", handle)
    audit(server)


def test_a_page_is_not_given_back_under_the_copies_to_it(connect, server):
    """Another thread may close between the parts that SGLang's pages are copied in."""
    handler, other = connect(), connect()
    handle = handler.alloc(2 * 4)
    part = ctypes.create_string_buffer(b"AAAA", 4)

    def parts():
        yield ctypes.addressof(part), 4
        handler.close()
        kept.extend(all_pages(other))
        yield ctypes.addressof(part), 4

    kept = []
    _Addressed.save(object.__new__(_Addressed), parts(), handle)
    assert kept
    assert are_whole(kept)
    del kept
    audit(server)


BIG = 16 << 20


def test_closing_waits_for_no_copy_and_takes_no_page_from_it(connect):
    """The thread that copies has what this one leaves of a processor, so that it is in the middle
    when its page would be the next owner's."""
    mine = os.sched_getaffinity(0)
    handler, other = (connect(chunk_size_bytes=BIG) for _ in range(2))
    handler.free(handler.alloc(1))
    allocs = handler._statistics()["allocs"]
    source = b"A" * BIG

    def store():
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        try:
            handler.store("a", data=source)
        except MaruError:
            pass  # closed

    os.sched_setaffinity(0, {min(mine)})  # and the thread's that it starts
    try:
        thread = threading.Thread(target=store)
        thread.start()
        while handler._statistics()["allocs"] == allocs:
            pass
        handler.close()
        kept = all_pages(other, BIG)
    finally:
        os.sched_setaffinity(0, mine)
    if thread.is_alive():
        os.sched_setaffinity(thread.native_id, mine)
    thread.join()
    assert kept and are_whole(kept)


def test_closing_beside_calls(connect, server):
    """Calls end as those of a closed handler do, whatever they are at."""
    failed = []
    for turn in range(20):
        handler = connect()
        working = threading.Barrier(5)

        def work(handler, name, working=working):
            try:
                assert put(handler, name, b"1")
                working.wait()
                while True:
                    handler.store(name, data=b"1" * CHUNK)
                    handler.batch_exists([name])
                    handler.retrieve(name)
                    handler.delete(name)
                    put(handler, name, b"12")
            except (MaruError, ValueError):
                pass  # closed, or the page that it was about to fill is
            except BaseException as error:  # noqa: BLE001, told by the main thread
                failed.append(error)

        threads = [
            threading.Thread(target=work, args=(handler, f"{turn}/{i}")) for i in range(4)
        ]
        for thread in threads:
            thread.start()
        working.wait()
        handler.close()
        for thread in threads:
            thread.join()
    assert failed == []
    gc.collect()
    audit(server)
