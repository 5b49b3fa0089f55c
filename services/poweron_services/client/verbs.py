"""The verbs of an operator: pause, resume, restart or cancel one workflow or many, with a result for each."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Literal

from poweron_events.actor import Actor
from poweron_events.archive_events import RequestRetention
from poweron_events.client import Sent, hear, send
from poweron_events.codes import Code
from poweron_events.errors import MissingContent, PowerOnError
from poweron_events.event import DocumentRef
from poweron_events.request import (
    RequestIdentity,
    RequestPause,
    RequestRefused,
    RequestResume,
    RequestRules,
    RequestWorkflow,
    StoredDocument,
    Terms,
    WorkflowRequested,
    own_budgets,
    workflow_id,
)
from poweron_projections import reader, request_answers, workflow_lifetimes
from poweron_projections.workflow_filter import Among
from poweron_services.client.cancel import cancel
from poweron_services.client.client_errors import NotServed
from poweron_services.client.connect import Connections
from poweron_services.client.erasures import changed_retention_words
from poweron_services.client.follow import TAKEN_WITHIN, Callbacks, send_and_wait
from poweron_services.client.workflow_snapshot import read_snapshot, verified_records

Verb = Literal["pause", "resume", "restart", "cancel", "apply policy", "retain"]
Status = Literal[
    "paused", "resumed", "restarted", "cancelled", "applied", "retained", "ended", "refused", "failed", "pending"
]
"""The outcome for a workflow: `ended` if its round ended otherwise before it could be cancelled, `refused` if intake
refused the request, `failed` if nothing could be requested or no answer came, `pending` if the time was over."""

DONE: Final[Mapping[Verb, Status]] = {
    "pause": "paused",
    "resume": "resumed",
    "restart": "restarted",
    "cancel": "cancelled",
    "apply policy": "applied",
    "retain": "retained",
}
AMONG: Final[Mapping[Verb, Among]] = {"pause": "open", "resume": "paused", "restart": "all", "cancel": "open"}
"""The workflows that a filter chooses from: those that the verb can be about."""

NO_ANSWER: Final = "No answer came in time. What was sent remains in the log and is carried out."
MAX_WORKFLOWS: Final = 1_000  # of one call
AT_ONCE: Final = 16  # workflows


@dataclass(frozen=True, slots=True)
class Instruction:
    """A verb, on whose behalf it is carried out, and why."""

    verb: Verb
    reason: str
    actor: Actor
    identity: Callable[[str], RequestIdentity]
    """Returns the identity of the request about a workflow."""
    change: Mapping[str, str] = field(default_factory=dict)
    """What `retain` changes: `until`, `hold` or `released`."""


@dataclass(frozen=True, slots=True)
class VerbResult:
    """The outcome for one workflow."""

    workflow_id: str
    status: Status
    code: Code | None = None
    """Why the request was refused or failed; None otherwise."""
    detail: str = ""
    """The reason as a sentence."""
    new_workflow_id: str | None = None
    """The workflow that repeats its request; None unless it was restarted."""
    error: PowerOnError | None = None
    """Why nothing could be requested, or no answer came."""

    def as_object(self) -> dict[str, Any]:
        """Return the result with the fields of `--json`."""
        return {
            "workflowId": self.workflow_id,
            "status": self.status,
            "code": self.code,
            "detail": self.detail,
            "newWorkflowId": self.new_workflow_id,
        }


async def carry_out(
    connections: Connections,
    instruction: Instruction,
    workflow_ids: Sequence[str],
    callbacks: Callbacks,
    *,
    within: float | None = None,
) -> AsyncGenerator[VerbResult, None]:
    """Yield the result for each workflow, in the order in which they were given; none stops the others.

    A workflow that has no result `within` seconds is `pending`. An instruction that is repeated under the same
    identities does nothing twice.
    """
    places = asyncio.Semaphore(AT_ONCE)
    deadline = None if within is None else asyncio.get_running_loop().time() + within

    async def one(id_: str) -> VerbResult:
        try:
            async with asyncio.timeout_at(deadline), places:
                return await _result(connections, instruction, id_, callbacks)
        except TimeoutError:
            return VerbResult(id_, "pending", detail=NO_ANSWER)
        except PowerOnError as error:
            return VerbResult(id_, "failed", error.code, str(error), error=error)

    tasks = [asyncio.create_task(one(id_)) for id_ in workflow_ids]
    try:
        for task in tasks:
            yield await task
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _result(connections: Connections, instruction: Instruction, id_: str, callbacks: Callbacks) -> VerbResult:
    identity = instruction.identity(id_)
    earlier = await request_answers.answer(connections.pool, identity.source, identity.id)
    if earlier is None:
        return await _CARRIED_OUT[instruction.verb](connections, instruction, id_, callbacks, identity=identity)
    if earlier.answer == "refused":
        return VerbResult(id_, "refused", earlier.code, earlier.detail)
    new_id = earlier.workflow_id if instruction.verb == "restart" else None
    return VerbResult(id_, DONE[instruction.verb], new_workflow_id=new_id)


async def _switch(
    connections: Connections,
    instruction: Instruction,
    id_: str,
    callbacks: Callbacks,
    *,
    identity: RequestIdentity,
    request: type[RequestPause | RequestResume | RequestRules],
) -> VerbResult:
    snapshot = await read_snapshot(connections, id_)
    asked = request(workflow_id=id_, round=snapshot.last_round, reason=instruction.reason, actor=instruction.actor)
    record = await send_and_wait(connections, asked, snapshot, identity=identity, callbacks=callbacks)
    if isinstance(record.event, RequestRefused):
        return VerbResult(id_, "refused", record.event.precise_code, record.event.detail)
    return VerbResult(id_, DONE[instruction.verb])


async def _retain(
    connections: Connections, instruction: Instruction, id_: str, callbacks: Callbacks, *, identity: RequestIdentity
) -> VerbResult:
    snapshot = await read_snapshot(connections, id_)
    before = await workflow_lifetimes.workflow_retention(connections.pool, id_)
    asked = RequestRetention(
        workflow_id=id_, reason=instruction.reason, actor=instruction.actor, **dict(instruction.change)
    )
    record = await send_and_wait(connections, asked, snapshot, identity=identity, callbacks=callbacks)
    if isinstance(record.event, RequestRefused):
        return VerbResult(id_, "refused", record.event.precise_code, record.event.detail)
    await read_snapshot(connections, id_)  # brings the rows on
    after = await workflow_lifetimes.workflow_retention(connections.pool, id_)
    return VerbResult(id_, DONE[instruction.verb], detail=changed_retention_words(before, after))


async def _cancel(
    connections: Connections, instruction: Instruction, id_: str, callbacks: Callbacks, *, identity: RequestIdentity
) -> VerbResult:
    outcome = await cancel(
        connections,
        id_,
        reason=instruction.reason,
        actor=instruction.actor,
        identity=identity,
        callbacks=callbacks,
    )
    if outcome.refusal is not None:
        return VerbResult(id_, "refused", outcome.code, outcome.message)
    return VerbResult(id_, "cancelled" if outcome.status == "cancelled" else "ended", outcome.code)


async def _restart(
    connections: Connections, instruction: Instruction, id_: str, callbacks: Callbacks, *, identity: RequestIdentity
) -> VerbResult:
    """Send the workflow's first request again, and wait until the new workflow is opened or refused."""
    await read_snapshot(connections, id_)
    await verified_records(connections, id_)
    opening = await _first_opening(connections, id_)
    new_id = workflow_id(identity.source, identity.id)
    terms: dict[str, Any] = {name: getattr(opening, name) for name in Terms.model_fields}
    if opening.user_language_detected:
        terms["user_language"] = None  # it is detected again
    request = RequestWorkflow(
        **terms | {"actor": instruction.actor, "budgets": own_budgets(opening)},
        workflow_mode=opening.workflow_mode,
        documents=tuple([await copied(connections, id_, new_id, document) for document in opening.documents]),
        restarted_from=id_,
    )
    sent = await send(connections.log, request, source=identity.source, request_id=identity.id, seal=connections.seal)
    callbacks.requested(new_id)
    refusal = await _refusal(connections, sent)
    if refusal is not None:
        return VerbResult(id_, "refused", refusal.precise_code, refusal.detail)
    return VerbResult(id_, "restarted", new_workflow_id=new_id)


async def _refusal(connections: Connections, sent: Sent) -> RequestRefused | None:
    """Wait for the answer to a request for a workflow; return None once it is opened.

    Raises:
        NotServed: no process picked up the request in time; it remains in the log.
    """
    try:
        async with asyncio.timeout(TAKEN_WITHIN), aclosing(hear(connections.log, sent)) as hearing:
            async for record in hearing:
                if record.verdict == "accepted" and isinstance(record.event, RequestRefused):
                    return record.event
                if record.workflow.is_open:
                    break
    except TimeoutError as error:
        raise NotServed(sent.workflow_id, "request", TAKEN_WITHIN) from error
    return None


async def _first_opening(connections: Connections, id_: str) -> WorkflowRequested:
    records = await reader.judged_records(connections.pool, id_)
    openings = (record.envelope.event for record in records if record.verdict == "accepted")
    return next(event for event in openings if isinstance(event, WorkflowRequested))


async def copied(connections: Connections, origin: str, new_id: str, document: DocumentRef) -> StoredDocument:
    """Copy a document of a request under the new workflow's key; intake refuses a request with an erased one."""
    content = document.content
    with suppress(MissingContent):
        content = await connections.content.put(new_id, await connections.content.get(origin, content))
    return StoredDocument(document_name=document.document_name, mime_type=document.mime_type, content=content)


_CARRIED_OUT: Final[Mapping[Verb, Callable[..., Awaitable[VerbResult]]]] = {
    "pause": partial(_switch, request=RequestPause),
    "resume": partial(_switch, request=RequestResume),
    "restart": _restart,
    "cancel": _cancel,
    "apply policy": partial(_switch, request=RequestRules),
    "retain": _retain,
}
