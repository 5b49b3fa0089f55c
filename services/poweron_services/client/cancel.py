"""Cancel: stop the open round of a workflow, and wait for the outcome."""

import time

from poweron_events.request import RequestCancellation, Requester, RequestIdentity
from poweron_services.client.client_errors import PendingRequest, RoundEnded, UnknownWorkflow
from poweron_services.client.connect import Connections
from poweron_services.client.follow import Callbacks, Outcome, outcome, send_and_wait
from poweron_services.client.pending_request import pending_request
from poweron_services.client.workflow_snapshot import WorkflowSnapshot, look_up_snapshot


async def cancel(
    connections: Connections,
    workflow_id: str,
    *,
    reason: str,
    requester: Requester,
    identity: RequestIdentity,
    callbacks: Callbacks,
) -> Outcome:
    """Cancel the workflow's open round, or its pending one, and follow it to its end.

    The outcome is `cancelled` unless the round ended otherwise first, or was about to (`refusal`).
    A round that is only requested so far ends as soon as it is opened.

    Args:
        connections: where to send the cancellation.
        workflow_id: a UUID in lower case.
        reason: shown in the history; may be empty.
        requester: who cancels.
        identity: the sender's source and own id of this cancellation, never used before.
        callbacks: called with what happens meanwhile.

    Raises:
        NotAWorkflowId: the id is not a UUID in lower case.
        UnknownWorkflow: there is no such workflow.
        RoundEnded: no round of it is open or requested.
        NobodyServes: no process picked up the cancellation in time; it remains in the log.
        RoundOverdue: a process picked up the cancellation, but the round did not end in time.
        RowsBehind: the round has ended, but the rows do not show it yet.
        Unavailable: a server cannot be reached.
    """
    snapshot, pending = await _find_round(connections, workflow_id)
    round_ = snapshot.last_round if pending is None else snapshot.last_round + 1
    request = RequestCancellation(workflow_id=workflow_id, round=round_, reason=reason, requester=requester)
    if pending is not None:
        callbacks.pending(pending)
    began = time.monotonic()
    key = None if pending is None else pending.key
    record = await send_and_wait(connections, request, snapshot, identity=identity, callbacks=callbacks, key=key)
    return outcome(record, round((time.monotonic() - began) * 1000))


async def _find_round(connections: Connections, workflow_id: str) -> tuple[WorkflowSnapshot, PendingRequest | None]:
    """Find the round to cancel: the open one, or else the one that a pending request opens."""
    for _ in range(2):  # a round that is neither open nor pending may have been opened between the two reads
        snapshot = await look_up_snapshot(connections, workflow_id)
        if snapshot.stub.is_open:
            return snapshot, None
        pending = await pending_request(connections.log, workflow_id, snapshot.last_round + 1)
        if pending is not None:
            return snapshot, pending
    raise RoundEnded(workflow_id, snapshot.last_round) if snapshot.is_known else UnknownWorkflow(workflow_id)
