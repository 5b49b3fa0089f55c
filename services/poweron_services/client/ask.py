"""Ask: request a workflow, or a further round of one, and follow it to its end."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from poweron_events.client import hear, send
from poweron_events.request import RequestIdentity, RequestRound, RequestWorkflow, StoredDocument, workflow_id
from poweron_services.client.connect import Connections
from poweron_services.client.follow import Callbacks, Outcome, RequestWaiter, outcome, wait_for_rows
from poweron_services.client.workflow_snapshot import read_idle_snapshot
from poweron_services.decider.approval import joined

OpeningRequest = RequestWorkflow | RequestRound
"""A request that opens a round: the first one of a workflow, or a further one."""


@dataclass(frozen=True, slots=True)
class File:
    """A document handed over: its name and its bytes."""

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
    """Send a request with its documents, follow the round that it opens to its end; the outcome.

    Args:
        connections: where to; actions that their settings mark are marked in the request.
        request: what is asked for, and who asks; a `RequestRound` follows up on a workflow whose rounds have ended.
        files: documents to hand over beside those that the request names.
        identity: the sender's source and own id of this request, never used before.
        callbacks: who is told of what happens meanwhile.

    Raises:
        NotAWorkflowId: a `RequestRound` names what cannot be the id of a workflow.
        UnknownWorkflow: it names no workflow.
        RoundOpen: a round of the workflow that it names still runs.
        NobodyServes: nobody has taken the request; it stands.
        RoundOverdue: somebody has, but nobody has ended the round in its time.
        RowsBehind: the round has ended, which is in the log only.
        Unavailable: a server cannot be reached.
    """
    if isinstance(request, RequestRound):
        found = await read_idle_snapshot(connections, request.workflow_id)
        workflow, start, before = request.workflow_id, found.position, found.after_last_round
    else:
        workflow, start, before = workflow_id(identity.source, identity.id), None, None
    request = await _completed(connections, request, workflow, files)
    began = time.monotonic()
    sent = await send(connections.log, request, source=identity.source, request_id=identity.id, start=start)
    callbacks.requested(workflow)
    waiter = RequestWaiter(workflow, "request", callbacks)
    heard = await waiter.until_answered(hear(connections.log, sent, before))
    await wait_for_rows(connections, sent.partition, heard.workflow)
    return outcome(heard, round((time.monotonic() - began) * 1000))


async def follow_up(connections: Connections, request: RequestWorkflow, workflow_id: str) -> RequestRound:
    """The same request as the next round of a workflow; raises like `read_idle_snapshot`."""
    found = await read_idle_snapshot(connections, workflow_id)
    return RequestRound(workflow_id=workflow_id, after_round=found.last_round, **dict(request))


async def _completed(
    connections: Connections, request: OpeningRequest, workflow: str, files: Sequence[File]
) -> OpeningRequest:
    """The request with the files that are handed over, once they are stored, and with what the settings mark."""
    stored = [await _stored(connections, workflow, file) for file in files]
    approve = joined(request.approve, connections.settings.approve_patterns)
    return request.model_copy(update={"documents": (*request.documents, *stored), "approve": approve})


async def _stored(connections: Connections, workflow: str, file: File) -> StoredDocument:
    return StoredDocument(document_name=file.name, content=await connections.content.put(workflow, file.data))
