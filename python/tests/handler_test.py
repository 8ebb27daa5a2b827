"""MaruHandler: what each call answers, and whose the memory is."""

import gc
import json
import subprocess

import pytest

import maru
from maru import AllocHandle, MaruConfig, MaruHandler

CHUNK = 64 << 10


def audit(server):
    ended = subprocess.run(
        server.command("audit", "--server", server.socket, "--json"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout
    return json.loads(ended.stdout)


def put(handler, key, data):
    handle = handler.alloc(len(data))
    handle.buf[:] = data
    return handler.store(key, handle)


def test_names_of_upstreams_packages():
    import maru_common
    import maru_handler
    import maru_handler.memory
    import maru_shm

    assert maru_handler.MaruHandler is MaruHandler
    assert maru_common.MaruConfig is MaruConfig
    assert maru_handler.memory.AllocHandle is AllocHandle
    assert maru_handler.memory.MemoryInfo is maru.MemoryInfo
    handle = maru_shm.MaruHandle(1, 2, 3, 4)
    assert maru_shm.MaruHandle.unpack(handle.pack()) == handle


def test_what_one_stores_the_other_reads_where_it_lies(connect, server):
    one, other = connect(), connect()
    assert put(one, "key", b"some bytes") is True
    info = other.retrieve("key")
    assert bytes(info.view) == b"some bytes"
    assert info.view.readonly
    assert (info.region_id, info.page_index) == (
        one.retrieve("key").region_id,
        one.retrieve("key").page_index,
    )
    audit(server)


def test_a_missing_key_is_none_and_false(handler):
    assert handler.retrieve("nothing") is None
    for call in (handler.exists, handler.pin, handler.unpin, handler.delete):
        assert call("nothing") is False


def test_stored_memory_is_not_writable_any_more(handler):
    handle = handler.alloc(4)
    buffer = handle.buf
    buffer[:] = b"text"
    assert handler.store("key", handle)
    with pytest.raises(ValueError, match="released"):
        buffer[0] = 1
    with pytest.raises(ValueError, match="stored or freed"):
        len(handle.buf)


@pytest.mark.parametrize("end", ["free", "batch_store", "close"])
def test_so_does_every_other_end(connect, end):
    handler = connect()
    handle = handler.alloc(4)
    buffer = handle.buf
    if end == "free":
        handler.free(handle)
    elif end == "batch_store":
        handler.batch_store(["key"], [handle])
    else:
        handler.close()
    with pytest.raises(ValueError, match="released"):
        buffer[0] = 1


def test_a_page_is_stored_or_freed_once(handler, server):
    handle = handler.alloc(4)
    assert handler.store("key", handle)
    with pytest.raises(ValueError, match="over"):
        handler.store("again", handle)
    assert not handler.exists("again")
    freed = handler.alloc(4)
    handler.free(freed)
    with pytest.raises(ValueError, match="over"):
        handler.free(freed)
    with pytest.raises(KeyError):
        handler.free(AllocHandle(memoryview(b""), 1, 1, 1))
    audit(server)


def test_free_of_a_stored_page_takes_its_key_along(handler):
    handle = handler.alloc(4)
    assert handler.store("key", handle)
    handler.free(handle)
    assert not handler.exists("key")


def test_a_dropped_handle_gives_its_page_back(handler):
    handle = handler.alloc(4)
    assert handler._statistics()["pages_held"] == 1
    view = handle.buf
    del handle
    assert handler._statistics()["pages_held"] == 1, "its memory is still in use"
    del view
    gc.collect()
    assert handler._statistics()["pages_held"] == 0


def test_a_handle_of_an_address_alone(handler):
    handle = handler.alloc(4)
    handle.buf[:] = b"text"
    bare = AllocHandle(memoryview(b""), handle.region_id, handle.page_index, 4)
    assert handler.store("key", bare)
    assert bytes(handler.retrieve("key").view) == b"text"
    longer = handler.alloc(4)
    whole = AllocHandle(memoryview(b""), longer.region_id, longer.page_index, CHUNK)
    assert handler.batch_store(["whole"], [whole]) == [True]
    assert len(handler.retrieve("whole")) == CHUNK
    with pytest.raises(ValueError, match="over"):
        handler.store("again", handle)


def test_bytes_may_be_stored_without_a_handle(handler):
    assert handler.store("a", data=b"one")
    assert handler.batch_store(["b", "c"], [bytearray(b"two"), memoryview(b"three")]) == [True] * 2
    views = [bytes(info.view) for info in handler.batch_retrieve(["a", "b", "c"])]
    assert views == [b"one", b"two", b"three"]
    with pytest.raises(TypeError):
        handler.store("d")
    with pytest.raises(TypeError):
        handler.store("d", handler.alloc(1), data=b"1")


def test_batches_have_one_answer_for_each_key(handler):
    assert handler.batch_store(["a", "b", "a"], [b"1", b"2", b"3"]) == [True] * 3
    asked = ["a", "no", "b"]
    assert handler.batch_exists(asked) == [True, False, True]
    assert [info is not None for info in handler.batch_retrieve(asked)] == [True, False, True]
    assert handler.batch_pin(asked) == [True, False, False]
    assert handler.batch_unpin(asked) == [True, False, False]
    assert handler.match_prefix(["a", "b", "no", "a"]) == 2
    for call in (handler.batch_exists, handler.batch_retrieve, handler.batch_pin):
        assert call([]) == []
    assert handler.batch_store([], []) == []
    for nothing in (None, 7, "text"):
        with pytest.raises(TypeError):
            handler.batch_store(["a"], [nothing])
    for call in (handler.alloc, handler.free, handler.batch_exists):
        with pytest.raises(TypeError):
            call(None)
    with pytest.raises(ValueError, match="2 keys and 1 handles"):
        handler.batch_store(["a", "b"], [b"1"])
    for call in (handler.batch_exists, handler.batch_retrieve, handler.match_prefix):
        for one in ("abc", b"abc", bytearray(b"abc"), memoryview(b"abc")):
            with pytest.raises(TypeError, match="not one key"):
                call(one)


def test_a_pinned_key_is_not_deleted(handler):
    assert put(handler, "key", b"1")
    assert handler.pin("key")
    assert handler.delete("key") is False
    assert handler.exists("key")
    assert handler.batch_delete(["no", "key"]) == [False, False]
    assert handler.unpin("key")
    assert handler.delete("key") is True


def test_keys_are_listed_and_deleted_at_once(handler, connect):
    keys = [f"{number}".encode() for number in range(1, 301)]
    assert handler.batch_store(keys, [b"1"] * 300) == [True] * 300
    assert put(connect(namespace="theirs"), "4", b"1")
    assert sorted(handler.keys()) == sorted(keys)
    assert sorted(handler.keys("29")) == sorted(key for key in keys if key.startswith(b"29"))
    assert list(handler.keys(b"no")) == []
    deleted = [key for key in handler.keys() if handler.delete(key)]
    assert sorted(deleted) == sorted(keys) and list(handler.keys()) == []
    assert handler.batch_store(keys, [b"1"] * 300) == [True] * 300
    assert handler.batch_delete([*keys[:299], "no", keys[0]]) == [True] * 299 + [False] * 2
    assert list(handler.keys()) == keys[299:]
    assert handler.batch_delete([]) == []


@pytest.mark.parametrize(
    "key",
    ["k", "a/b@c", "ключ", "\0", b"\xff\xfe", b"", "", "x" * 70000, "\ud800", 7, None, True, 1.5],
)
def test_odd_keys(handler, key):
    try:
        stored = handler.store(key, data=b"1")
    except (ValueError, TypeError) as error:
        assert key in (b"", "", "x" * 70000, "\ud800", None, 1.5) or key is True, error
        with pytest.raises((ValueError, TypeError)):
            handler.exists(key)
        return
    assert stored and handler.exists(key)
    assert bytes(handler.retrieve(key).view) == b"1"


def test_numbers_are_keys_of_their_own(handler):
    keys = [42, "42", b"42 ", -1, (1 << 64) - 1, -(1 << 63), 0]
    for place, key in enumerate(keys):
        assert handler.batch_exists(keys) == [True] * place + [False] * (len(keys) - place)
        assert handler.store(key, data=str(place).encode())
    assert [bytes(info.view) for info in handler.batch_retrieve(keys)] == [
        str(place).encode() for place in range(len(keys))
    ]
    assert handler.match_prefix([0, 42, 7]) == 2
    assert handler.delete(42) and not handler.exists(42) and handler.exists("42")
    assert b"\xc1-1" in list(handler.keys())
    for key in (1 << 64, -(1 << 63) - 1):
        with pytest.raises(OverflowError, match="2\\*\\*64"):
            handler.exists(key)


@pytest.mark.parametrize("size", [0, CHUNK + 1, 1 << 62, 1 << 64, -1, -1 << 70])
def test_sizes_that_cannot_be(handler, size):
    with pytest.raises(ValueError, match=str(size)):
        handler.alloc(size)


def test_a_full_pool_says_so(connect):
    small = connect(pool_size=4 * CHUNK, auto_expand=False)
    handles = [small.alloc(1) for _ in range(4)]
    with pytest.raises(maru.PoolFullError) as error:
        small.alloc(1)
    assert isinstance(error.value, ValueError) and isinstance(error.value, RuntimeError)
    del handles


def test_not_connected_is_a_runtime_error(server):
    handler = MaruHandler(MaruConfig(server_url=str(server.socket)))
    for call in (
        lambda: handler.alloc(1),
        lambda: handler.exists("k"),
        lambda: handler.retrieve("k"),
        lambda: handler.batch_store([], []),
    ):
        with pytest.raises(RuntimeError):
            call()
    assert handler.healthcheck() is False
    assert handler.get_owned_region_ids() == []
    handler.close()
    handler.close()
    assert handler.connect() is False


def test_connect_says_false_where_nobody_is(tmp_path, caplog):
    handler = MaruHandler(MaruConfig(server_url=str(tmp_path / "nobody")))
    assert handler.connect() is False
    assert "nobody" in caplog.text
    with handler as same:
        assert same is handler and not handler.connected


def test_connect_is_asked_again_when_the_server_was_away(handler, server):
    assert handler.connect()
    server.kill()
    assert not handler.healthcheck()
    assert handler.connect() is False and not handler.connected
    server.start()
    assert handler.connect() is True and handler.connected
    assert handler.store("key", data=b"1")


def test_what_was_never_made_has_no_memory():
    for kind in (maru.MemoryInfo, maru._maru._PageBuffer, maru._maru._RegionBuffer):
        with pytest.raises(BufferError):
            memoryview(kind.__new__(kind))
    with pytest.raises(BufferError):
        maru.MemoryInfo.__new__(maru.MemoryInfo).__dlpack__()
    with pytest.raises(BufferError):
        maru.MemoryInfo.__new__(maru.MemoryInfo).view  # noqa: B018, a property that raises


def test_leases_are_found_by_address_as_long_as_one_lives(handler):
    handler._list_leases()
    assert handler.batch_store(["a", "b"], [b"1234", b"12"]) == [True, True]
    infos = [handler.retrieve("a") for _ in range(5)]
    other = handler.retrieve("b")
    at = (infos[0].region_id, infos[0].page_index)
    for place in (2, 0, 2, 1, 0):
        assert bytes(handler._leased_at(*at, 4).view) == b"1234"
        assert handler._leased_at(*at, 2) is None
        del infos[place]
    assert handler._leased_at(*at, 4) is None
    assert handler._leased_at(other.region_id, other.page_index, 2) is other


def test_views_live_on(connect, server):
    writer, reader = connect(), connect()
    assert put(writer, "key", b"first")
    view = reader.retrieve("key").view
    assert writer.delete("key")
    assert put(writer, "key", b"other")
    writer.close()
    assert bytes(view) == b"first"
    server.kill()
    assert bytes(view) == b"first"
    server.start()
    reader.close()
    assert bytes(view) == b"first"


def test_a_server_that_comes_back_has_all_keys(handler, server):
    assert put(handler, "key", b"1")
    server.kill()
    assert handler.retrieve("key") is not None, "look-ups ask nobody"
    assert handler.healthcheck() is False
    with pytest.raises(RuntimeError):
        handler.store("other", data=b"2")
    server.start()
    assert handler.healthcheck() is True
    assert handler.store("other", data=b"2")
    assert handler.exists("key")
    audit(server)


def test_regions_are_told(handler):
    told = []
    handler.set_on_region_added(lambda region_id, pages: told.append((region_id, pages)))
    handle = handler.alloc(1)
    assert [region for region, _ in told] == handler.get_owned_region_ids()
    assert handler.get_region_page_count(handle.region_id) == dict(told)[handle.region_id]
    again = []
    handler.set_on_region_added(lambda region_id, pages: again.append((region_id, pages)))
    assert again == told
    assert handler.get_region_page_count(1) is None
    handle.buf[:] = b"x"
    at = handle.page_index * CHUNK
    view = handler.get_buffer_view(handle.region_id, at, 1)
    assert bytes(view) == b"x" and view.readonly
    for offset, size in [(1 << 40, 1), (-1, 1), (0, -1), (1 << 63, 1), (0, 1 << 64), (-1 << 70, 1)]:
        assert handler.get_buffer_view(handle.region_id, offset, size) is None
    for region_id in (1, -1, 1 << 32, 1 << 70):
        assert handler.get_buffer_view(region_id, 0, 1) is None


def test_regions_are_those_of_this_handlers_page_size(connect):
    sizes = {1: 512, 1000: 1024, CHUNK: CHUNK, 16 * CHUNK: 16 * CHUNK}
    handlers = {chunk: connect(chunk_size_bytes=chunk) for chunk in sizes}
    handles = {chunk: handler.alloc(chunk) for chunk, handler in handlers.items()}
    for chunk, handler in handlers.items():
        assert handler.get_chunk_size() == chunk
        told = {}
        handler.set_on_region_added(told.__setitem__)
        region_id, page_bytes = handles[chunk].region_id, sizes[chunk]
        assert list(told) == handler.get_owned_region_ids() == [region_id]
        regions = handler.get_stats()["store_regions"]
        assert regions["num_regions"] == 1
        only = regions["regions"][0]
        assert (only["region_id"], only["chunk_size"]) == (region_id, page_bytes)
        assert only["pool_size"] == regions["total_pool_size"] == told[region_id] * page_bytes
        assert only["page_count"] == told[region_id] == handler.get_region_page_count(region_id)
        page = handler.alloc(1)
        page.buf[:] = b"x"
        assert bytes(handler.get_buffer_view(region_id, page.page_index * page_bytes, 1)) == b"x"
    one_page = connect(chunk_size_bytes=1000, pool_size=1000, auto_expand=False)
    assert put(one_page, "key", b"1")


def test_statistics(handler):
    assert put(handler, "key", b"1234")
    stats = handler.get_stats()
    assert stats["kv_manager"] == {"total_entries": 1, "total_size": CHUNK}
    assert stats["allocation_manager"]["active_clients"] == 1
    assert 0 < stats["cxl_pool"]["free_size"] < stats["cxl_pool"]["total_size"]
    regions = stats["store_regions"]
    assert regions["num_regions"] == len(handler.get_owned_region_ids())
    total = regions["total_page_count"]
    assert 0 < regions["total_allocated_pages"] == total - regions["total_free_pages"] < total
    assert regions["regions"][0]["page_count"] == total
    assert 0 < regions["utilization"] < 1
    assert stats["allocator"] == regions["regions"][0]
    assert stats["handler"]["stores"] == 1


def numbers(told):
    """All of them, at any depth."""
    if isinstance(told, dict):
        told = list(told.values())
    return [n for one in told for n in numbers(one)] if isinstance(told, list) else [told]


def test_statistics_without_a_server_are_zeros(handler, server, caplog):
    assert put(handler, "key", b"1234")
    there = handler.get_stats()
    server.kill()
    away = handler.get_stats()
    assert "no statistics of the server" in caplog.text
    assert away.pop("handler")["stores"] == there["handler"]["stores"] == 1
    assert set(numbers(away)) == {0}
    for name in ("kv_manager", "allocation_manager", "cxl_pool", "store_regions"):
        assert away[name].keys() == there[name].keys()
    server.start()
    assert handler.healthcheck() and handler.get_stats()["kv_manager"]["total_entries"] == 1
    handler.close()
    with pytest.raises(RuntimeError):
        handler.get_stats()


def test_namespaces_do_not_see_each_other(connect):
    one, other = connect(namespace="a"), connect(namespace="b")
    assert put(one, "key", b"1")
    assert one.exists("key") and not other.exists("key")
