"""Audit bundles for every door: what the ledger has not entered yet is entered first, if no other process does so."""

import asyncio
from typing import Final

from poweron_events.errors import Unavailable
from poweron_events.task_cancellation import cancel_task
from poweron_projections import projector
from poweron_projections.audit import ledger_role
from poweron_projections.audit.bundle import NotSigned, bundle_of
from poweron_services.client.connect import Connections
from poweron_services.client.ledger_process import keep_ledger
from poweron_services.settings.ledger_keys import ledger_keys

SIGNED_WITHIN: Final = 60.0  # seconds
LOOK: Final = 0.1  # seconds between two looks whether the ledger has got there
SIGN_AFTER: Final = 0.2  # seconds


async def audit_bundle(connections: Connections, workflow_id: str, *, with_content: bool) -> dict[str, bytes]:
    """Return the files of a workflow's bundle by their path.

    Raises:
        Refused: there is no such workflow, or the key of the ledger cannot be used.
        Unavailable: a server cannot be reached, or the ledger did not get there in time.
    """
    keys = ledger_keys(connections.settings)
    content = connections.content if with_content else None
    vkeys = [str(key.public) for key in keys]
    try:
        return await bundle_of(connections.pool, content, workflow_id, vkeys)
    except NotSigned:
        pass
    ledger = keep_ledger(connections, sign_after=SIGN_AFTER)
    helping = [asyncio.create_task(each) for each in (ledger, projector.run(connections.log, connections.pool))]
    try:
        async with asyncio.timeout(SIGNED_WITHIN):
            while True:
                await asyncio.sleep(LOOK)
                try:
                    return await bundle_of(connections.pool, content, workflow_id, vkeys)
                except NotSigned as error:
                    for task in helping:
                        if task.done():
                            raise Unavailable(str(error)) from task.exception()
    except TimeoutError as error:
        raise Unavailable(
            f"The ledger did not sign the newest records of workflow {workflow_id} within {SIGNED_WITHIN:g} s. "
            "See the log of the process that plays the role `ledger`."
        ) from error
    finally:
        for task in helping:
            await cancel_task(task, ledger_role.STOP_TIMEOUT)
