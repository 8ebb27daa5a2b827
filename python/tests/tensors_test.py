"""DLPack and torch over pages: zero copy, and as safe as what they are over."""

import gc
import threading

import pytest

numpy = pytest.importorskip("numpy")

CHUNK = 64 << 10
NEW = {"max_version": (1, 0)}


def lease(handler):
    gc.collect()
    return handler._statistics()["leases"]


def fill(handler):
    for i in range(8):
        assert handler.store(f"other{i}", data=b"\0" * CHUNK)


def test_numpy_reads_where_it_lies_and_keeps_the_lease(handler):
    assert handler.store("key", data=b"text")
    array = numpy.from_dlpack(handler.retrieve("key"))
    assert array.dtype == numpy.uint8 and not array.flags.writeable
    assert lease(handler) == 1
    assert handler.delete("key")
    fill(handler)
    assert array.tobytes() == b"text"
    del array
    assert lease(handler) == 0


def test_numpy_writes_to_a_page_and_keeps_it(handler):
    handle = handler.alloc(4)
    array = numpy.from_dlpack(handle)
    array[:] = 7
    assert handler.store("key", handle)
    assert lease(handler) == 1, "leased by its writer"
    assert handler.delete("key")
    fill(handler)
    assert array.tobytes() == b"\7" * 4
    del array
    assert lease(handler) == 0
    with pytest.raises(BufferError, match="stored or freed"):
        numpy.from_dlpack(handle)


@pytest.mark.parametrize(
    "asked",
    [{}, {"max_version": (0, 8)}, {**NEW, "copy": True}, {**NEW, "dl_device": (2, 0)}],
)
def test_who_cannot_have_read_only_memory_as_it_is_is_told(handler, asked):
    assert handler.store("key", data=b"text")
    info = handler.retrieve("key")
    with pytest.raises(BufferError):
        info.__dlpack__(**asked)
    assert info.__dlpack_device__() == (1, 0)
    del info
    assert lease(handler) == 0


def test_a_capsule_that_nobody_takes_lets_go(handler):
    assert handler.store("key", data=b"text")
    capsule = handler.retrieve("key").__dlpack__(**NEW)
    assert '"dltensor_versioned"' in repr(capsule)
    assert lease(handler) == 1
    del capsule
    assert lease(handler) == 0
    handle = handler.alloc(4)
    for asked in ({}, NEW):
        assert "dltensor" in repr(handle.__dlpack__(**asked))
    handler.free(handle)
    assert handler._statistics()["pages_held"] == 0


def test_any_thread_lets_go(handler):
    assert handler.store("key", data=b"text")
    arrays = [numpy.from_dlpack(handler.retrieve("key"))]
    thread = threading.Thread(target=arrays.clear)
    thread.start()
    thread.join()
    assert lease(handler) == 0


def test_a_tensor_keeps_the_lease(handler):
    torch = pytest.importorskip("torch")
    assert handler.store("key", data=b"text")
    tensor = handler.retrieve("key").tensor()
    assert tensor.dtype == torch.uint8
    part = tensor.view(torch.int16)[1:]
    del tensor
    assert lease(handler) == 1
    assert handler.delete("key")
    fill(handler)
    assert part.view(torch.uint8).tolist() == list(b"xt")
    del part
    assert lease(handler) == 0


def test_a_tensor_over_a_page(handler):
    torch = pytest.importorskip("torch")
    handle = handler.alloc(8)
    tensor = handle.tensor().view(torch.float32)
    tensor[:] = torch.tensor([1.0, 2.0])
    assert handler.store("key", handle)
    assert handler.retrieve("key").tensor().view(torch.float32).tolist() == [1.0, 2.0]
    del tensor, handle
    assert lease(handler) == 0
