"""Cancellation: ending a task whose result is no longer needed, and finishing work in spite of a cancellation."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


async def cancel_task(task: "asyncio.Future[Any]", timeout: float | None = None) -> None:
    """Cancel a task and wait for its end; asyncio will not report its error as never retrieved."""
    retrieve_error(task)
    task.cancel()
    await asyncio.wait({task}, timeout=timeout)


def retrieve_error(task: "asyncio.Future[Any]") -> None:
    """Retrieve the error of a task when it ends, even if no caller awaits the task."""
    task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())


async def finish(work: Coroutine[Any, Any, Result]) -> Result:
    """Finish work that must not stop half-way; a cancellation is raised once it is done."""
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise
    finally:
        retrieve_error(task)
