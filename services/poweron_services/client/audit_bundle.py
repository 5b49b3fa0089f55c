"""Audit bundles for every door: each export is recorded first, and the bundle ends with that record."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

from poweron_events.actor import Actor
from poweron_events.archive_events import RequestExport
from poweron_events.errors import Refused, Unavailable
from poweron_events.request import RequestIdentity, RequestRefused
from poweron_projections.audit.bundle import NotSigned, bundle_of
from poweron_projections.audit.ledger_rows import entered_count
from poweron_services.client.connect import Connections
from poweron_services.client.follow import Callbacks, send_and_wait
from poweron_services.client.workflow_snapshot import read_snapshot
from poweron_services.settings.ledger_keys import ledger_keys

FORMAT: Final = "bundle"
AT_ONCE: Final = 16  # exports that are recorded at a time
STANDS_STILL: Final = 60.0  # seconds without a new entry in the ledger after which waiting for it ends
LOOK: Final = 0.1  # seconds between two looks whether the ledger has got there

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class ExportOrder:
    """What is exported of each workflow, on whose behalf, and why."""

    actor: Actor
    identity: Callable[[], RequestIdentity]
    """Returns the identity of the request about one workflow."""
    with_content: bool = True
    reason: str = ""
    held: Sequence[int] = ()
    """The sizes of checkpoints that the auditor holds."""


async def record_exports(
    connections: Connections, workflow_ids: Sequence[str], order: ExportOrder, callbacks: Callbacks
) -> Mapping[str, int]:
    """Record the export of each workflow; return the offset of each record, by workflow.

    So the next checkpoint lists the workflow, however old it is.

    Raises:
        Refused: there is no such workflow; the exports of others may be recorded.
        Unserved: no process recorded them in time.
        Unavailable: a server cannot be reached.
    """
    places, offsets = asyncio.Semaphore(AT_ONCE), dict[str, int]()

    async def record(workflow_id: str) -> None:
        async with places:
            request = RequestExport(
                workflow_id=workflow_id,
                format=FORMAT,
                with_content=order.with_content,
                reason=order.reason,
                actor=order.actor,
            )
            snapshot = await read_snapshot(connections, workflow_id)
            heard = await send_and_wait(connections, request, snapshot, identity=order.identity(), callbacks=callbacks)
            if isinstance(heard.event, RequestRefused):
                raise Refused(heard.event.detail, code=heard.event.precise_code)
            offsets[workflow_id] = heard.recorded.offset

    try:
        async with asyncio.TaskGroup() as group:
            for workflow_id in workflow_ids:
                group.create_task(record(workflow_id))
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from errors
    return offsets


async def signed_bundle(
    connections: Connections, workflow_id: str, order: ExportOrder, *, through: int, with_script: bool = True
) -> dict[str, bytes]:
    """Return the files of a workflow's bundle by their path, once the ledger has signed its records through an offset.

    Raises:
        Refused: there is no such workflow, or the key of the ledger cannot be used.
        Unavailable: a server cannot be reached, or the ledger makes no progress.
    """
    content = connections.content if order.with_content else None
    vkeys = [str(key.public) for key in ledger_keys(connections.settings)]
    bundle = partial(bundle_of, connections.pool, content, workflow_id, vkeys)
    make = partial(bundle, through=through, held=order.held, with_script=with_script)
    return await until_signed(connections, make)


async def until_signed(connections: Connections, make: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
    """Return what is made of the ledger once it has signed what that needs.

    Raises:
        Unavailable: the ledger enters nothing any more, and has not signed it.
    """
    loop, entered, deadline = asyncio.get_running_loop(), -1, 0.0
    while True:
        try:
            return await make()
        except NotSigned as error:
            now = await entered_count(connections.pool)
            if now != entered:
                entered, deadline = now, loop.time() + STANDS_STILL
            elif loop.time() > deadline:
                raise Unavailable(
                    f"{error} It has entered nothing for {STANDS_STILL:g} s. See the log of the process that plays "
                    "the role `ledger`."
                ) from error
        await asyncio.sleep(LOOK)
