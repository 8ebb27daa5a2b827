"""What instances that wait for each other need."""

import contextlib


@contextlib.contextmanager
def waited_for(barrier):
    """Whoever fails is not waited for."""
    try:
        yield
    except BaseException:
        barrier.abort()
        raise
