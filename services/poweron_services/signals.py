"""SIGTERM and Ctrl-C: callbacks for them, and work that they cancel."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any


def on_stop(told: Callable[[], object]) -> None:
    """Call a function at each SIGTERM and each Ctrl-C, instead of Python's default behaviour."""
    for stopping in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(stopping, told)


async def until_stopped(work: Coroutine[Any, Any, None]) -> None:
    """Do this work until it ends, or until SIGTERM or Ctrl-C cancels it, which is not an error."""
    task = asyncio.ensure_future(work)
    on_stop(task.cancel)
    with suppress(asyncio.CancelledError):
        await task
