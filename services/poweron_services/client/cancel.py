"""Cancel: stop the open round of a workflow, or a request that has no answer yet, and wait for the outcome."""

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Final

from poweron_events import topics
from poweron_events.actor import Actor
from poweron_events.codec import InvalidRequest, Undecodable, decode_request, request_address
from poweron_events.errors import Refused, Unavailable
from poweron_events.log import EventLog, Record
from poweron_events.request import RequestCancellation, Requester, RequestIdentity, RequestRound, RequestWorkflow
from poweron_projections.workflow_check import checked_records
from poweron_services.client.client_errors import PendingRequest, RoundEnded, UnknownWorkflow, WorkflowPending
from poweron_services.client.connect import Connections
from poweron_services.client.follow import Callbacks, Outcome, outcome, send_and_wait
from poweron_services.client.quota_reason import quota_reason
from poweron_services.client.workflow_snapshot import WorkflowSnapshot, look_up_snapshot


async def cancel(
    connections: Connections,
    workflow_id: str,
    *,
    reason: str,
    actor: Actor,
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
        actor: who cancels.
        identity: the sender's source and own id of this cancellation, never used before.
        callbacks: called with what happens meanwhile.

    Raises:
        NotAWorkflowId: the id is not a UUID in lower case.
        UnknownWorkflow: there is no such workflow.
        RoundEnded: no round of it is open or requested.
        NotServed: no process picked up the cancellation in time; it remains in the log.
        RoundOverdue: a process picked up the cancellation, but the round did not end in time.
        RowsBehind: the round has ended, but the rows do not show it yet.
        Unavailable: a server cannot be reached.
    """
    snapshot, pending = await _find_round(connections, workflow_id)
    round_ = snapshot.last_round if pending is None else snapshot.last_round + 1
    requester = Requester(name=actor.id)
    request = RequestCancellation(
        workflow_id=workflow_id, round=round_, reason=reason, requester=requester, actor=actor
    )
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
        pending = await pending_request(connections, workflow_id, snapshot.last_round + 1)
        if pending is not None:
            return snapshot, pending
    raise RoundEnded(workflow_id, snapshot.last_round) if snapshot.is_known else UnknownWorkflow(workflow_id)


REQUESTS: Final = topics.REQUESTS.name


READ_WITHIN: Final = 10.0  # seconds that reading the pending requests may take


async def pending_request(connections: Connections, workflow_id: str, round_: int) -> PendingRequest | None:
    """Find the pending request that opens this round of the workflow; None if there is none.

    Reads the requests after the committed offsets of the group that answers them, without joining it. A login
    without access to that group finds none.

    Raises:
        Unavailable: the log cannot be reached, or holds too many requests to be read in time.
    """
    log = connections.log
    ends = await log.ends(REQUESTS)
    try:
        group = await log.group_state(REQUESTS, topics.INTAKE_GROUP)
    except Refused:
        return None
    try:
        async with asyncio.timeout(READ_WITHIN):
            found = await _find_opening(log, group.committed, ends, workflow_id, round_)
    except TimeoutError as error:
        waiting = sum(ends.values()) - sum(group.committed.values())
        raise Unavailable(
            f"Round {round_} of workflow {workflow_id} is not open. It is unknown whether it was requested: "
            f"{waiting:,} requests are pending, too many to read within {READ_WITHIN:g} s"
        ) from error
    if found is None:
        return None
    record, request, identity = found
    return PendingRequest(
        seconds=max(0.0, time.time() - record.time_ms / 1000),
        ahead=record.offset - group.committed[record.partition],
        is_served=group.has_members,
        key=record.key,
        quota_reason=await quota_reason(connections, request, identity),
    )


async def _find_opening(
    log: EventLog, start: Mapping[int, int], ends: Mapping[int, int], workflow_id: str, round_: int
) -> tuple[Record, RequestWorkflow | RequestRound, RequestIdentity] | None:
    """Return the request that asks for this round of the workflow, and who sent it; None if there is none."""
    async for records in log.read(REQUESTS, start, ends):
        for record in records:
            address = request_address(record.value, record.headers)
            if address is None or address.workflow_id != workflow_id:
                continue
            with suppress(Undecodable, InvalidRequest):
                received = decode_request(record.value, record.headers)
                request = received.request
                after_round = request.after_round if isinstance(request, RequestRound) else 0
                if isinstance(request, RequestWorkflow | RequestRound) and after_round + 1 == round_:
                    return record, request, received.identity
    return None


@asynccontextmanager
async def pending_requests_reported(connections: Connections) -> AsyncGenerator[None, None]:
    """Raise WorkflowPending instead of UnknownWorkflow if the workflow was requested.

    Raises:
        WorkflowPending: the request has no answer yet, or had none a moment ago.
        UnknownWorkflow: the workflow was never requested.
        RowsDiffer, RowsMissing: the log holds it, but its rows are changed or missing.
        Unavailable: a server cannot be reached.
    """
    try:
        yield
    except UnknownWorkflow as error:
        raise await why_unknown(connections, error.workflow_id) from None


async def why_unknown(connections: Connections, workflow_id: str) -> UnknownWorkflow | WorkflowPending:
    """Find out whether an unknown workflow was requested.

    Raises:
        RowsDiffer, RowsMissing: the log holds the workflow, but its rows are changed or missing.
        Unavailable: as for `pending_request`.
    """
    pending = await pending_request(connections, workflow_id, 1)
    if pending is None and not (await look_up_snapshot(connections, workflow_id)).is_known:
        await checked_records(connections.log, connections.pool, workflow_id)
        return UnknownWorkflow(workflow_id)
    return WorkflowPending(workflow_id, pending)
