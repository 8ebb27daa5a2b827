"""Several processes and threads on one server."""

import contextlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading

import pytest
from handler_test import CHUNK, audit, put

from maru import MaruConfig, MaruError, MaruHandler

INSTANCES = 2
KEYS = [f"chunk-{i}" for i in range(64)]
ROUNDS = 10


def bytes_of(key):
    return key.encode() * (1000 // len(key))


def race(socket, barrier, batched, answers):
    """Stores the same keys as the other instances, at the same time."""
    told = []
    with MaruHandler(MaruConfig(server_url=socket, chunk_size_bytes=CHUNK)) as handler:
        for turn in range(ROUNDS):
            keys = [f"{turn}/{key}" for key in KEYS]
            handles = []
            for key in keys:
                handle = handler.alloc(len(bytes_of(key)))
                handle.buf[:] = bytes_of(key)
                handles.append(handle)
            barrier.wait()
            if batched:
                told += handler.batch_store(keys, handles)
            else:
                told += [handler.store(*pair) for pair in zip(keys, handles, strict=True)]
            views = handler.batch_retrieve(keys)
            pairs = zip(keys, views, strict=True)
            told += [bytes(info.view) == bytes_of(key) for key, info in pairs]
            barrier.wait()
            for key in keys:
                handler.delete(key)
            barrier.wait()
        answers.put((all(told), len(told), handler._statistics()["duplicates"]))


@pytest.mark.parametrize("batched", [False, True])
def test_who_loses_a_race_has_stored_too_and_loses_no_page(server, batched):
    context = multiprocessing.get_context("spawn")
    barrier, answers = context.Barrier(INSTANCES), context.Queue()
    racers = [
        context.Process(target=race, args=(str(server.socket), barrier, batched, answers))
        for _ in range(INSTANCES)
    ]
    for racer in racers:
        racer.start()
    told = [answers.get() for _ in racers]
    for racer in racers:
        racer.join()
        assert racer.exitcode == 0
    assert all(ok for ok, _, _ in told)
    assert sum(duplicates for _, _, duplicates in told) == ROUNDS * len(KEYS) * (INSTANCES - 1)
    audit(server)
    pages = json.loads(server.run("stat", "--json").stdout)["pools"][0]["pages"]
    assert pages["granted"] == pages["live"] == 0


def test_threads_of_one_handler(handler, server):
    failed = []

    def work(name):
        try:
            for i in range(100):
                key = f"{name}/{i}"
                assert put(handler, key, key.encode())
                assert bytes(handler.retrieve(key).view) == key.encode()
                assert handler.batch_exists([key, "no"]) == [True, False]
                assert handler.delete(key)
        except BaseException as error:  # noqa: BLE001, told by the main thread
            failed.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    audit(server)


CALLS = {
    "alloc": lambda handler: handler.alloc(1),  # the first asks for pages
    "store": lambda handler: handler.store("other", data=b"1"),
    "delete": lambda handler: handler.delete("other"),
    "healthcheck": lambda handler: handler.healthcheck(),
}


@pytest.mark.parametrize("call", CALLS)
def test_other_threads_run_while_one_waits_for_the_server(handler, server, call):
    """A stopped server holds up the thread that waits, and the interpreter not."""
    server.process.send_signal(signal.SIGSTOP)
    counted, done = 0, threading.Event()

    def wait():
        with contextlib.suppress(MaruError):
            CALLS[call](handler)
        done.set()

    waiting = threading.Thread(target=wait)
    waiting.start()
    while not done.is_set():
        counted += 1
        handler.exists("key")
        if counted == 1000:
            server.process.send_signal(signal.SIGCONT)
    waiting.join()
    assert counted >= 1000


def store_and_stay(socket, stored):
    """A writer that keeps pages in hand, unfinished ones too, until it is killed."""
    handler = MaruHandler(MaruConfig(server_url=socket, chunk_size_bytes=CHUNK))
    assert handler.connect()
    for key in KEYS:
        assert put(handler, key, bytes_of(key))
    unfinished = handler.alloc(CHUNK)
    unfinished.buf[:4] = b"half"
    stored.send(len(KEYS))
    signal.pause()


def test_views_live_on_when_their_writer_is_killed(connect, server):
    context = multiprocessing.get_context("spawn")
    stored, end = context.Pipe()
    writer = context.Process(target=store_and_stay, args=(str(server.socket), end))
    writer.start()
    assert stored.recv() == len(KEYS)
    reader = connect()
    infos = reader.batch_retrieve(KEYS)
    os.kill(writer.pid, signal.SIGKILL)
    writer.join()
    assert writer.exitcode == -signal.SIGKILL
    assert reader.batch_delete(KEYS) == [True] * len(KEYS)
    others = [f"other/{i}" for i in range(2 * len(KEYS))]
    assert reader.batch_store(others, [b"\xff" * CHUNK] * len(others)) == [True] * len(others)
    assert [bytes(info.view) for info in infos] == [bytes_of(key) for key in KEYS]
    server.kill()
    server.start()
    assert [bytes(info.view) for info in infos] == [bytes_of(key) for key in KEYS]
    assert reader.healthcheck()
    infos.clear()
    assert reader._statistics()["leases"] == 0
    audit(server)


BIG = 16 << 20


def test_other_threads_run_during_a_large_copy(connect):
    """Where nobody is made to let go of the interpreter lock, who does has done it by itself."""
    handler = connect(chunk_size_bytes=BIG)
    handler.free(handler.alloc(1))
    asked = handler._statistics()["alloc_messages"]
    data = b"1" * BIG
    woken, ran = threading.Lock(), []
    woken.acquire()

    def wait():
        with woken:
            ran.append(True)

    former = sys.getswitchinterval()
    thread = threading.Thread(target=wait)
    thread.start()
    try:
        sys.setswitchinterval(1e6)
        woken.release()
        for _ in range(1000):  # it may wake up after one copy
            with pytest.raises(TypeError):  # after the first was copied, before the server is told
                handler.batch_store(["a", "b"], [data, None])
            if ran:
                break
        assert ran
    finally:
        sys.setswitchinterval(former)
        thread.join()
    assert handler._statistics()["alloc_messages"] == asked, "the copy alone let go of it"


ENDS = """
import sys, threading
from maru import MaruConfig, MaruHandler
handler = MaruHandler(MaruConfig(server_url=sys.argv[1], chunk_size_bytes=65536))
assert handler.connect()
begun = threading.Barrier(5)
def work(key):
    begun.wait()
    while True:
        handler.store(key, data=b"1" * 100)
        handler.exists(key)
        handler.batch_exists(key for _ in range(50))
        handler.delete(key)
        handler.free(handler.alloc(1))
for key in "abcd":
    threading.Thread(target=work, args=(key,), daemon=True).start()
begun.wait()
while handler._statistics()["stores"] < 100:
    pass
"""


def ends_well(program, server):
    ended = subprocess.run(
        [sys.executable, "-c", program, str(server.socket)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("turn", range(5))
def test_the_interpreter_ends_with_threads_in_calls(server, turn):
    ends_well(ENDS, server)


TWO_INTERPRETERS = """
import sys
from maru import MaruConfig, MaruHandler
try:
    import _interpreters as interpreters
    def make(): return interpreters.create("legacy")  # one that lets every module in
except ImportError:
    import _xxsubinterpreters as interpreters
    def make(): return interpreters.create(isolated=False)
handler = MaruHandler(MaruConfig(server_url=sys.argv[1], chunk_size_bytes=65536))
assert handler.connect() and handler.store("key", data=b"1")
second = make()
told = interpreters.run_string(second, f'''if True:
    import sys
    sys.path[:] = {sys.path!r}
    try:
        import maru
    except ImportError as error:
        assert "main interpreter" in str(error), error
    else:
        raise AssertionError("imported")
''')
assert told is None, told
assert handler.exists("key")
interpreters.destroy(second)
assert handler.exists("key")
"""


def test_a_second_interpreter_is_refused_and_the_first_goes_on(server):
    ends_well(TWO_INTERPRETERS, server)


def in_child(body):
    """Runs BODY in a forked child; whether it returned."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            body()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_in_a_forked_child_all_is_inert(handler, server):
    assert put(handler, "key", b"text")
    view = handler.retrieve("key").view
    handle = handler.alloc(4)

    def child():
        nonlocal view, handle
        assert bytes(view) == b"text"
        for call in (
            lambda: handler.exists("key"),
            lambda: handler.alloc(1),
            lambda: handler.store("other", handle),
        ):
            with pytest.raises(RuntimeError):
                call()
        assert not handler.connect()
        view = handle = None
        with MaruHandler(MaruConfig(server_url=str(server.socket), chunk_size_bytes=CHUNK)) as own:
            assert own.exists("key")

    assert in_child(child)
    assert handler._statistics()["leases"] == 1
    handle.buf[:] = b"1234"
    assert handler.store("other", handle)
    audit(server)
