"""Send a request and answer as soon as it is in the log, or wait for its outcome if the sender prefers that."""

import asyncio
import re
import secrets
from collections.abc import Callable, Coroutine
from typing import Annotated, Any, Final, TypeVar

from fastapi import Header

from poweron_events.errors import Unserved
from poweron_events.request import RequestIdentity
from poweron_events.task_cancellation import cancel_task
from poweron_services.client.follow import Callbacks
from poweron_services.door.access import Caller

Result = TypeVar("Result")

MOST_WAIT: Final = 120.0  # seconds for which `Prefer: wait` may ask
_WAIT: Final = re.compile(r"(?:^|[,;\s])wait=(\d{1,6})(?:$|[,;\s])")

IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=255,
        pattern=r"^[!-~]+$",
        description="The sender's own id of this request: the same id is the same request. Generated if absent.",
    ),
]
Prefer = Annotated[str | None, Header(max_length=200, description="`wait=30`: wait that many seconds for the outcome.")]


def identity_of(caller: Caller, key: str | None) -> RequestIdentity:
    """Return the identity of the request: the caller's source, and the caller's id of it or a new one."""
    return RequestIdentity(source=caller.source, id=key or secrets.token_hex(16))


def wait_seconds(prefer: str | None) -> float:
    """Return for how many seconds the sender prefers to wait for the outcome; 0 if that is not said."""
    match = _WAIT.search(prefer or "")
    return 0 if match is None else min(float(match[1]), MOST_WAIT)


async def dispatched(work: Callable[[Callbacks], Coroutine[Any, Any, Result]], wait: float) -> Result | None:
    """Run `work`, which sends a request and follows it; return its result, or None once the wait is over.

    It is cancelled then, which changes nothing about the request, since that is in the log.
    """
    requested = asyncio.Event()
    working = asyncio.create_task(work(Callbacks(requested=lambda _: requested.set())))
    sent = asyncio.create_task(requested.wait())
    try:
        await asyncio.wait({working, sent}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done() and wait:
            await asyncio.wait({working}, timeout=wait)
        return working.result() if working.done() else None
    except Unserved:
        return None
    finally:
        await cancel_task(sent)
        await cancel_task(working)
