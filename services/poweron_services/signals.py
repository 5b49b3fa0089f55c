"""SIGTERM and Ctrl-C: what is told of them, and work that they end."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any


def on_stop(told: Callable[[], object]) -> None:
    """Call this at each SIGTERM and each Ctrl-C, in place of what Python does by itself."""
    for stopping in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(stopping, told)


async def until_stopped(work: Coroutine[Any, Any, None]) -> None:
    """Do this until it ends, or until SIGTERM or Ctrl-C cancel it, which is no error."""
    task = asyncio.ensure_future(work)
    on_stop(task.cancel)
    with suppress(asyncio.CancelledError):
        await task
