"""Closing a client whose broker may be unavailable: it ends in time and leaves nothing running."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from poweron_events.task_cancellation import retrieve_error

STOP_TIMEOUT = 5.0  # seconds that closing a client may take


async def closed(client: Any) -> None:
    """Close a client within a time limit; callers must repeat what it has not sent by then."""
    stop = getattr(client, "stop", None) or client.close  # an admin client has only `close`
    ended = False
    try:
        ended = await _ended(stop())
    finally:
        if not ended:
            await _abandoned(client)


async def given_up(client: Any) -> None:
    """Close a client at once; what it has not sent is discarded."""
    await _abandoned(client)
    await closed(client)


async def _abandoned(client: Any) -> None:
    """Stop the background work of a client without notifying its broker."""
    for name in ("_sender", "_fetcher", "_client", "client"):
        part = getattr(client, name, None)
        if part is not None:
            await _ended(part.close())


async def _ended(closing: Coroutine[Any, Any, None]) -> bool:
    """Close in a task of its own, since aiokafka swallows cancellations then; return whether it succeeds in time."""
    task = asyncio.create_task(closing)
    retrieve_error(task)
    try:
        await asyncio.wait({task}, timeout=STOP_TIMEOUT)
    finally:
        task.cancel()
    return task.done() and not task.cancelled() and task.exception() is None
