"""Cancel: stop the open round of a workflow, and hear what came of it."""

import time

from poweron_events.request import RequestCancellation, Requester, RequestIdentity
from poweron_services.client.client_errors import RoundEnded
from poweron_services.client.connect import Connections
from poweron_services.client.follow import Callbacks, Outcome, outcome, send_and_wait
from poweron_services.client.workflow_snapshot import read_snapshot


async def cancel(
    connections: Connections,
    workflow_id: str,
    *,
    reason: str,
    requester: Requester,
    identity: RequestIdentity,
    callbacks: Callbacks,
) -> Outcome:
    """Ask for the end of the workflow's open round and follow it to there.

    The outcome is `cancelled` unless the round came to another end before, or was about to (`refusal`).

    Args:
        connections: where to.
        workflow_id: a UUID in lower case.
        reason: stands in the history; may be empty.
        requester: who cancels.
        identity: the sender's source and own id of this cancellation, never used before.
        callbacks: who is told of what happens meanwhile.

    Raises:
        NotAWorkflowId: that cannot be the id of a workflow.
        UnknownWorkflow: there is no such workflow.
        RoundEnded: no round of it is open.
        NobodyServes: nobody has taken the cancellation; it stands.
        RoundOverdue: somebody has, but nobody has ended the round in its time.
        RowsBehind: the round has ended, which is in the log only.
        Unavailable: a server cannot be reached.
    """
    found = await read_snapshot(connections, workflow_id)
    if not found.stub.is_open:
        raise RoundEnded(workflow_id, found.last_round)
    request = RequestCancellation(workflow_id=workflow_id, round=found.last_round, reason=reason, requester=requester)
    began = time.monotonic()
    heard = await send_and_wait(connections, request, found, identity=identity, callbacks=callbacks)
    return outcome(heard, round((time.monotonic() - began) * 1000))
