"""The memory of a process that serves, or reads a whole log: large blocks return to the system.

The garbage collector does not scan permanent objects.

glibc keeps large blocks for reuse (from the second one on, up to 32 MB each) and splits them for small objects, so that
a service would never shrink again after a few large records.
"""

import ctypes
import gc
from typing import Final

COLLECT_AFTER: Final = 10_000  # new objects
M_MMAP_THRESHOLD: Final = -3  # of malloc.h
M_ARENA_MAX: Final = -8
LARGE: Final = 524_288  # bytes from which a freed block is returned; asyncio allocates 262,144 for each read
ARENAS: Final = 2  # instead of eight per processor


def tune_memory() -> None:
    """Tune a process that has one purpose, once its permanent objects exist; other allocators than glibc's stay."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER)
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, LARGE)
        mallopt(M_ARENA_MAX, ARENAS)
