"""Limits on processor time that also hold on a machine that is slow, or busy with other work."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

QUIET = 0.05  # seconds that the sample takes on a quiet machine


def slowness() -> float:
    """Return how many times longer work takes now than on a quiet machine, at least 1."""
    began = time.thread_time()
    sum(number * number for number in range(400_000))
    return max(1.0, (time.thread_time() - began) / QUIET)


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Require that the work takes at most so many seconds of this process, counted as on a quiet machine."""
    began = time.process_time()
    yield
    took = time.process_time() - began
    assert took < seconds or took < seconds * slowness()
