"""Ask: request a workflow, or a further round of one, and follow it to its end."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from poweron_events.client import hear, send
from poweron_events.request import RequestIdentity, RequestRound, RequestWorkflow, StoredDocument, workflow_id
from poweron_services.client.connect import Connections
from poweron_services.client.follow import PATIENCE, Following, Outcome, Told, at_rest, outcome, projected
from poweron_services.decider.approval import joined

Asked = RequestWorkflow | RequestRound


@dataclass(frozen=True, slots=True)
class File:
    """A document handed over: its name and its bytes."""

    name: str
    data: bytes


async def ask(
    connections: Connections, request: Asked, files: Sequence[File], *, identity: RequestIdentity, told: Told
) -> Outcome:
    """Send a request with its documents, follow the round that it opens to its end; the outcome.

    Args:
        connections: where to.
        request: what is asked for; a `RequestRound` follows up on a workflow whose rounds have ended.
        files: documents to hand over beside those that the request names.
        identity: who asks, and the sender's own id of this request, never used before.
        told: who is told of what happens meanwhile.

    Raises:
        Unavailable: a server cannot be reached.
        Refused: the workflow that a `RequestRound` names is unknown, or one of its rounds still runs.
        Unserved: nobody serves; the request stands.
    """
    if isinstance(request, RequestRound):
        workflow, standing = request.workflow_id, await at_rest(connections, request.workflow_id)
        start, before = standing.position, standing.after_last_round
    else:
        workflow, start, before = workflow_id(identity.source, identity.id), None, None
    stored = [await _stored(connections, workflow, file) for file in files]
    approve = joined(request.approve, connections.settings.approve_patterns)
    request = request.model_copy(update={"documents": (*request.documents, *stored), "approve": approve})
    began = time.monotonic()
    sent = await send(connections.log, request, source=identity.source, request_id=identity.id, start=start)
    told.requested(workflow)
    heard = await Following(workflow, told).until_answered(hear(connections.log, sent, before), PATIENCE)
    await projected(connections, sent.partition, heard.workflow)
    return outcome(heard, round((time.monotonic() - began) * 1000))


async def follow_up(connections: Connections, request: RequestWorkflow, workflow_id: str) -> RequestRound:
    """The same request as the next round of a workflow; raises like `at_rest`."""
    found = await at_rest(connections, workflow_id)
    return RequestRound(workflow_id=workflow_id, after_round=found.last_round, **dict(request))


async def _stored(connections: Connections, workflow: str, file: File) -> StoredDocument:
    return StoredDocument(document_name=file.name, content=await connections.content.put(workflow, file.data))
