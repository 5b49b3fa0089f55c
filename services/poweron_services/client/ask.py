"""Ask: request a workflow, or a further round of one, and follow it to its end."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from poweron_events import topics
from poweron_events.client import hear, send
from poweron_events.errors import PowerOnError
from poweron_events.request import RequestIdentity, RequestRound, RequestWorkflow, StoredDocument, workflow_id
from poweron_services.client.connect import Connections
from poweron_services.client.follow import Callbacks, Outcome, RequestWaiter, outcome, wait_for_rows
from poweron_services.client.quota_reason import quota_reason
from poweron_services.client.workflow_snapshot import read_idle_snapshot
from poweron_services.decider.approval import joined
from poweron_services.settings.config import Settings

OpeningRequest = RequestWorkflow | RequestRound
"""A request that opens a round: the first one of a workflow, or a further one."""


@dataclass(frozen=True, slots=True)
class File:
    """A document to hand over: its name and its bytes."""

    name: str
    data: bytes


async def ask(
    connections: Connections,
    request: OpeningRequest,
    files: Sequence[File],
    *,
    identity: RequestIdentity,
    callbacks: Callbacks,
) -> Outcome:
    """Send a request with its documents, follow the round that it opens to its end, and return the outcome.

    Args:
        connections: where to send the request; `ask` adds the approval patterns of their settings to it.
        request: the request and the requester; a `RequestRound` follows up on a workflow whose rounds have ended.
        files: documents to hand over in addition to those that the request names.
        identity: the sender's source and own id of this request, never used before.
        callbacks: called with what happens meanwhile.

    Raises:
        NotAWorkflowId: a `RequestRound` names a workflow by an id that is not a UUID in lower case.
        UnknownWorkflow: a `RequestRound` names a workflow that does not exist.
        RoundOpen: a round of the named workflow is still running.
        NotServed: no process picked up the request in time; it remains in the log.
        WorkflowPending: the request waits for a quota of the policy; it remains in the log.
        RoundOverdue: a process picked up the request, but the round did not end in time.
        RowsBehind: the round has ended, but the rows do not show it yet.
        Unavailable: a server cannot be reached.
    """
    if isinstance(request, RequestRound):
        snapshot = await read_idle_snapshot(connections, request.workflow_id)
        workflow, start, before = request.workflow_id, snapshot.position, snapshot.after_last_round
    else:
        workflow, start, before = workflow_id(identity.source, identity.id), None, None
    documents = [await _store(connections, workflow, file) for file in files]
    request = with_settings(request, connections.settings)
    request = request.model_copy(update={"documents": (*request.documents, *documents)})
    began = time.monotonic()
    receipt = await send(
        connections.log, request, source=identity.source, request_id=identity.id, start=start, seal=connections.seal
    )
    callbacks.requested(workflow)
    reason = partial(_served_quota_reason, connections, request, identity)
    round_ = request.after_round + 1 if isinstance(request, RequestRound) else 1
    waiter = RequestWaiter(workflow, "request", callbacks, round_=round_, quota_reason=reason)
    record = await waiter.until_answered(hear(connections.log, receipt, before))
    await wait_for_rows(connections, receipt.partition, record.workflow)
    return outcome(record, round((time.monotonic() - began) * 1000))


async def _served_quota_reason(
    connections: Connections, request: OpeningRequest, identity: RequestIdentity
) -> str | None:
    """Return which quota a request waits for; None if it waits for none, or for a process that serves."""
    try:
        group = await connections.log.group_state(topics.REQUESTS.name, topics.INTAKE_GROUP)
    except PowerOnError:
        return None
    return await quota_reason(connections, request, identity) if group.has_members else None


async def follow_up(connections: Connections, request: RequestWorkflow, workflow_id: str) -> RequestRound:
    """Return the request as the next round of a workflow; raises like `read_idle_snapshot`."""
    snapshot = await read_idle_snapshot(connections, workflow_id)
    shared = {name: value for name, value in request if name in RequestRound.model_fields}
    return RequestRound(workflow_id=workflow_id, after_round=snapshot.last_round, **shared)


def with_settings(request: OpeningRequest, settings: Settings) -> OpeningRequest:
    """Return the request with the actions that need approval, and enough time for two calls of a slow model."""
    stage_timeout_ms = max(request.stage_timeout_ms, round(2_000 * settings.model_timeout))
    approve = joined(request.approve, settings.approve_patterns)
    return request.model_copy(update={"approve": approve, "stage_timeout_ms": stage_timeout_ms})


async def _store(connections: Connections, workflow: str, file: File) -> StoredDocument:
    return StoredDocument(document_name=file.name, content=await connections.content.put(workflow, file.data))
