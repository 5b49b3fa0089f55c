"""The memory of a process that serves: what stays is left alone, and what large work took goes back to the system.

glibc keeps large blocks for the next large work (from the second on, up to 32 MB each) and cuts them up for small
things, so that a service which has met a few large records would stay as large as it then was.
"""

import ctypes
import gc
from typing import Final

COLLECT_AFTER: Final = 10_000  # objects more than there were
M_MMAP_THRESHOLD: Final = -3  # of malloc.h
M_ARENA_MAX: Final = -8
LARGE: Final = 524_288  # bytes of a block that is given back when it is free; asyncio asks for 262,144 for each read
ARENAS: Final = 2  # in place of eight for each processor


def tune_memory() -> None:
    """For processes that do nothing but serve, once all is there that stays; other allocators are left as they are."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER)
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, LARGE)
        mallopt(M_ARENA_MAX, ARENAS)
