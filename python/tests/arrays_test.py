"""Arrays over pages: zero copy, and as safe as what they are over."""

import gc

import pytest

numpy = pytest.importorskip("numpy")

CHUNK = 64 << 10


def test_an_array_over_a_view_keeps_its_lease(handler):
    assert handler.store("key", data=b"text")
    array = numpy.frombuffer(handler.retrieve("key").view, dtype=numpy.uint8)
    assert not array.flags.writeable
    gc.collect()
    assert handler._statistics()["leases"] == 1
    assert handler.delete("key")
    for i in range(8):
        assert handler.store(f"other{i}", data=b"\0" * CHUNK)
    assert array.tobytes() == b"text"
    del array
    assert handler._statistics()["leases"] == 0


def test_an_array_over_a_stored_page_keeps_it_from_reuse(handler):
    handle = handler.alloc(4)
    array = numpy.frombuffer(handle.buf, dtype=numpy.uint8)
    array[:] = 7
    assert handler.store("key", handle)
    assert handler._statistics()["leases"] == 1, "leased by its writer"
    assert handler.delete("key")
    for i in range(8):
        assert handler.store(f"other{i}", data=b"\0" * CHUNK)
    assert array.tobytes() == b"\7" * 4
    del array, handle
    assert handler._statistics()["leases"] == 0


@pytest.mark.parametrize("end", ["free", "duplicate"])
def test_an_array_over_a_page_that_is_free_again_keeps_it_out_of_the_hand(handler, end):
    assert handler.store("key", data=b"1")
    handle = handler.alloc(4)
    array = numpy.frombuffer(handle.buf, dtype=numpy.uint8)
    array[:] = 7
    if end == "free":
        handler.free(handle)
    else:
        assert handler.store("key", handle)
    held = handler._statistics()["pages_held"]
    assert held == 1
    others = [handler.alloc(4) for _ in range(8)]
    for other in others:
        other.buf[:] = b"\0" * 4
        del other
    assert array.tobytes() == b"\7" * 4
    del array, others
    gc.collect()
    assert handler._statistics()["pages_held"] == 0


def test_an_array_outlives_its_handler(connect):
    handler = connect()
    handle = handler.alloc(4)
    array = numpy.frombuffer(handle.buf, dtype=numpy.uint8)
    array[:] = 7
    handler.close()
    other = connect()
    for _ in range(32):
        other.store("key", data=b"\0" * CHUNK)
        other.delete("key")
    array[:] = 8
    assert array.tobytes() == b"\x08" * 4


def test_a_cast_and_a_slice_keep_the_lease(handler):
    assert handler.store("key", data=bytes(range(8)))
    part = handler.retrieve("key").view.cast("H")[1:3]
    gc.collect()
    assert handler._statistics()["leases"] == 1
    assert part.tolist() == [0x0302, 0x0504]
    part.release()
