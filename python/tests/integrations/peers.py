"""Processes of their own, told what to do by a test."""

import contextlib
import multiprocessing
import traceback


class Peer:
    """A spawned process that makes objects of KIND; calls go to the methods of the last, one at a
    time."""

    def __init__(self, kind):
        context = multiprocessing.get_context("spawn")
        self.pipe, end = context.Pipe()
        self.process = context.Process(target=_serve, args=(kind, end))
        self.process.start()
        end.close()

    def start(self, name, *args):
        self.pipe.send((name, args))

    def answer(self):
        ok, told = self.pipe.recv()
        if not ok:
            raise AssertionError(told)
        return told

    def __call__(self, name, *args):
        self.start(name, *args)
        return self.answer()

    def end(self):
        self.pipe.close()
        self.process.join()


@contextlib.contextmanager
def two(kind):
    """They take long to import what they run, so all tests of a file use the same."""
    made = [Peer(kind) for _ in range(2)]
    yield made
    for one in made:
        one.end()
        assert one.process.exitcode == 0


@contextlib.contextmanager
def opened(peers, *args):
    """Each with a new object made of ARGS: the address of a server first."""
    at_once(peers, "open", *args)
    try:
        yield peers
    finally:
        at_once(peers, "close")


def at_once(peers, name, *args):
    """The same call in all of them, at the same time."""
    for peer in peers:
        peer.start(name, *args)
    return [peer.answer() for peer in peers]


def _serve(kind, pipe):
    one = None
    with contextlib.suppress(EOFError):
        while True:
            name, args = pipe.recv()
            try:
                if name == "open":
                    one = kind(*args)
                    pipe.send((True, None))
                else:
                    pipe.send((True, getattr(one, name)(*args)))
            except Exception:  # noqa: BLE001, the test is told
                pipe.send((False, traceback.format_exc()))
