"""Approve or deny: find the pending approval of an action, answer it, and wait until the answer is accepted."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

import orjson
from pydantic import JsonValue

from poweron_events.actor import Actor
from poweron_events.codes import Code
from poweron_events.errors import Refused
from poweron_events.fold.questions import approval_terms
from poweron_events.fold.state import Place
from poweron_events.policy import AnswerTerms
from poweron_events.request import RequestApproval, RequestBudget, Requester, RequestIdentity, RequestRefused
from poweron_events.step_events import ApprovalDenied, ApprovalGranted, ParametersChanged
from poweron_projections import open_questions, reader
from poweron_projections.connection import Pool
from poweron_projections.entries import ApprovalEntry, BudgetEntry, EventEntry
from poweron_services.client.client_errors import LastAnswer, NothingToApprove
from poweron_services.client.connect import Connections
from poweron_services.client.follow import Callbacks, send_and_wait
from poweron_services.client.workflow_snapshot import read_snapshot, verified_records
from poweron_services.decider.approval import by_whom

Decision = Literal["approve", "deny"]
AnswerStatus = Literal["approved", "denied", "refused", "counted", "proposed"]
"""`counted`: the approval counts, but more are needed; `proposed`: others have to approve the new parameters."""


MOST_WAITING: Final = 1_000  # approvals, and as many budget questions, that are listed


@dataclass(frozen=True, slots=True)
class ApprovalOutcome:
    """The outcome of a person's answer."""

    workflow_id: str
    status: AnswerStatus
    about: Literal["action", "larger budget"]
    code: Code | None = None
    """Why the answer was refused; None if it was accepted."""
    detail: str = ""
    """The reason as a sentence."""
    missing: int = 0
    """How many more people have to approve."""

    def as_object(self) -> dict[str, Any]:
        """Return the outcome as `--json` prints it."""
        names = {"workflowId": self.workflow_id, "status": self.status, "code": self.code, "detail": self.detail}
        return {**names, "missing": self.missing}


class OpenQuestions(NamedTuple):
    """What waits for people: the actions and the rounds that wait longest."""

    approvals: Sequence[ApprovalEntry]
    questions: Sequence[BudgetEntry]
    is_cut: bool
    """Whether more wait than these."""

    @property
    def entries(self) -> list[ApprovalEntry | BudgetEntry]:
        """Return the actions, and then the rounds that ask for a larger budget."""
        return [*self.approvals, *self.questions]


async def waiting_for_people(
    pool: Pool, *, answerer: Actor | None = None, escalated: bool = False, most: int = MOST_WAITING
) -> OpenQuestions:
    """Return the actions that wait for an approval, and the rounds that ask for a larger budget, `most` of each.

    Args:
        pool: where the rows are.
        answerer: return only what this actor may answer, and has not yet.
        escalated: return only what was escalated, so that further groups may answer.
        most: the most actions, and the most rounds, that are returned: those that wait longest.

    Raises:
        Unavailable: Postgres cannot be reached.
    """

    def is_wanted(terms: AnswerTerms) -> bool:
        is_answerable = answerer is None or terms.objection(answerer, "approve") is None
        return is_answerable and (terms.escalated or not escalated)

    wanted = is_wanted if answerer is not None or escalated else None
    approvals = await open_questions.approvals(pool, limit=most + 1, wanted=wanted)
    questions = await open_questions.budget_questions(pool, limit=most + 1, wanted=wanted)
    return OpenQuestions(approvals[:most], questions[:most], max(len(approvals), len(questions)) > most)


async def waiting_approval(connections: Connections, workflow_id: str) -> ApprovalEntry:
    """Return the action of the workflow that waits for approval, from rows caught up with the log.

    Raises:
        NotAWorkflowId: the id is not a UUID in lower case.
        UnknownWorkflow: there is no such workflow.
        RowsDiffer, RowsMissing: its rows differ from the log.
        NothingToApprove: no action of it waits for approval; the error says what became of the last one that did.
        Unavailable: the log or Postgres cannot be reached.
    """
    await read_snapshot(connections, workflow_id)
    await verified_records(connections, workflow_id)
    approvals = await open_questions.approvals(connections.pool, workflow_id)
    if not approvals:
        raise NothingToApprove(workflow_id, await last_answer(connections, workflow_id))
    return approvals[0]


async def last_answer(connections: Connections, workflow_id: str, place: Place | None = None) -> LastAnswer | None:
    """Return what became of the action at this place, or else of the last one that waited; None without an answer."""
    last = None
    async with aclosing(_records(connections, workflow_id)) as records:
        async for record in records:
            if record.verdict != "accepted" or record.type not in (ApprovalGranted.TYPE, ApprovalDenied.TYPE):
                continue
            answer = _as_last_answer(record)
            if place is None or answer.place == place:
                last = answer
    return last


def answer_to(
    entry: ApprovalEntry,
    decision: Decision,
    *,
    reason: str,
    approver: Actor,
    changed_parameters: Mapping[str, JsonValue] | None = None,
) -> RequestApproval:
    """Build the answer to exactly what was shown: it names the step and the hash of its parameters.

    `changed_parameters` are all parameters as the approver proposes them, for others to approve.
    """
    place = {name: getattr(entry, name) for name in ("round", "task", "attempt", "step")}
    return RequestApproval(
        **place,
        workflow_id=entry.workflow_id,
        parameters_sha256=entry.parameters_sha256,
        decision=decision,
        reason=reason,
        requester=Requester(name=approver.id),
        actor=approver,
        changed_parameters=None if changed_parameters is None else dict(changed_parameters),
    )


def changed_parameters(parameters: JsonValue, changes: Sequence[str]) -> dict[str, JsonValue]:
    """Return the parameters with these changes, each written as KEY=VALUE.

    A value is read as JSON if it is JSON and the parameter is not a text now; otherwise it is a text.

    Raises:
        Refused: a change is not written like that.
    """
    changed = dict(parameters) if isinstance(parameters, dict) else {}
    for change in changes:
        key, equals, value = change.partition("=")
        if not equals or not key:
            raise Refused(f"{change!r} is not KEY=VALUE.", code="parameter_invalid")
        changed[key] = value if isinstance(changed.get(key), str) else _read_value(value)
    return changed


def _read_value(value: str) -> JsonValue:
    try:
        read: JsonValue = orjson.loads(value)
    except orjson.JSONDecodeError:
        return value
    return read


async def answer(
    connections: Connections,
    request: RequestApproval | RequestBudget,
    *,
    identity: RequestIdentity,
    callbacks: Callbacks,
) -> ApprovalOutcome:
    """Send an answer and wait until it is accepted or refused.

    Args:
        connections: where to send the answer.
        request: the answer, which names what it is about; `answer_to` and `answer_to_budget` build one from what was
            shown.
        identity: the sender's source and own id of this answer, never used before.
        callbacks: called with what happens meanwhile.

    Raises:
        NotAWorkflowId: the id is not a UUID in lower case.
        UnknownWorkflow: there is no such workflow.
        NotServed: no process picked up the answer in time; it remains in the log.
        RowsBehind: the answer was accepted or refused, but the rows do not show it yet.
        Unavailable: a server cannot be reached.
    """
    snapshot = await read_snapshot(connections, request.workflow_id)
    record = await send_and_wait(connections, request, snapshot, identity=identity, callbacks=callbacks)
    about: Literal["action", "larger budget"] = "action" if isinstance(request, RequestApproval) else "larger budget"
    if isinstance(record.event, RequestRefused):
        return ApprovalOutcome(request.workflow_id, "refused", about, record.event.precise_code, record.event.detail)
    status: AnswerStatus = "approved"
    if request.decision == "deny":
        status = "denied"
    elif isinstance(record.event, ParametersChanged):
        status = "proposed"
    elif record.workflow.phase == "approve":
        status = "counted"
    missing = approval_terms(record.workflow).missing if status in ("counted", "proposed") else 0
    return ApprovalOutcome(request.workflow_id, status, about, missing=missing)


async def open_budget_question(connections: Connections, workflow_id: str) -> BudgetEntry | None:
    """Return the question for a larger budget that the workflow waits with, from rows caught up with the log.

    Raises:
        NotAWorkflowId: the id is not a UUID in lower case.
        UnknownWorkflow: there is no such workflow.
        RowsDiffer, RowsMissing: its rows differ from the log.
        Unavailable: the log or Postgres cannot be reached.
    """
    await read_snapshot(connections, workflow_id)
    await verified_records(connections, workflow_id)
    return next(iter(await open_questions.budget_questions(connections.pool, workflow_id)), None)


def answer_to_budget(
    entry: BudgetEntry, decision: Decision, *, reason: str, approver: Actor, tokens: int = 0, cost_nano_usd: int = 0
) -> RequestBudget:
    """Build the answer to a budget question; an approval grants tokens, money or both."""
    place = {name: getattr(entry, name) for name in ("round", "task", "attempt", "step", "question")}
    return RequestBudget(
        **place,
        workflow_id=entry.workflow_id,
        decision=decision,
        tokens=tokens,
        cost_nano_usd=cost_nano_usd,
        reason=reason,
        actor=approver,
    )


async def _records(connections: Connections, workflow_id: str) -> AsyncGenerator[EventEntry, None]:
    """Yield all records of the workflow, oldest first."""
    seq = -1
    while page := await reader.events(connections.pool, workflow_id, after_seq=seq):
        for record in page:
            yield record
        seq = page[-1].seq


def _as_last_answer(record: EventEntry) -> LastAnswer:
    event = (ApprovalGranted if record.type == ApprovalGranted.TYPE else ApprovalDenied).model_validate(record.data)
    is_expired, is_granted = event.request is None, isinstance(event, ApprovalGranted)
    return LastAnswer(
        place=(event.round, event.task, event.attempt, event.step),
        status="expired" if is_expired else "approved" if is_granted else "denied",
        approver=None if is_expired else by_whom(event),
        time=record.time,
    )
