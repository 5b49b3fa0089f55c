"""How long the event loop stands still, and with it everybody else, while something is done."""

import asyncio
import time
from collections.abc import Awaitable

from processor_time import slowness


async def longest_gap(work: Awaitable[object]) -> float:
    """The seconds between two turns of the loop that lie furthest apart while the work is done.

    Of the processor's time for this process, counted as on a quiet machine: other processes do not count.
    """
    task, longest = asyncio.ensure_future(work), 0.0
    while not task.done():
        began = time.process_time()
        await asyncio.sleep(0.001)
        longest = max(longest, time.process_time() - began)
    await task
    return longest / slowness()
