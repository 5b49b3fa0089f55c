"""The end of a task whose result nobody needs any more."""

import asyncio
from typing import Any


async def cancel_task(task: "asyncio.Future[Any]", timeout: float | None = None) -> None:
    """Cancel a task and wait for its end; asyncio never reports its error as one that nobody retrieved."""
    retrieve_error(task)
    task.cancel()
    await asyncio.wait({task}, timeout=timeout)


def retrieve_error(task: "asyncio.Future[Any]") -> None:
    """Retrieve the error of a task when it ends, even if nobody waits for that."""
    task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
