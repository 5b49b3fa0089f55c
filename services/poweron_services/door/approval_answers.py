"""Answers of people: to the action of a waiting step, or to a question for a larger budget."""

from collections.abc import Mapping
from typing import Any, Final

from fastapi import APIRouter, Request, Response

from poweron_events.actor import Actor
from poweron_events.errors import Refused
from poweron_events.event import NANO
from poweron_events.fold.state import Place
from poweron_events.request import RequestApproval, RequestBudget, RequestIdentity
from poweron_projections.entries import ApprovalEntry, BudgetEntry
from poweron_services.client.approve import (
    ApprovalOutcome,
    answer,
    answer_to,
    answer_to_budget,
    last_answer,
    open_budget_question,
    waiting_approval,
)
from poweron_services.client.client_errors import NothingToApprove
from poweron_services.client.connect import Connections
from poweron_services.client.follow import Callbacks
from poweron_services.door.access import Approver
from poweron_services.door.body_reader import received
from poweron_services.door.command_outcomes import AnswerOutcome
from poweron_services.door.dispatch import Dispatching
from poweron_services.door.problems import Problem
from poweron_services.door.query_parameters import StepPlace, WorkflowId, parse_place
from poweron_services.door.request_bodies import ApprovalBody, described
from poweron_services.door.workflow_queries import find_workflow

router = APIRouter(tags=["commands"])

EXAMPLE: Final = {
    "decision": "approve",
    "reason": "The recipient is right.",
    "parametersSha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
}


@router.post(
    "/workflows/{workflow_id}/approvals/{place}", status_code=202, **described(ApprovalBody, EXAMPLE, AnswerOutcome)
)
async def answer_approval(
    *, request: Request, workflow_id: WorkflowId, place: StepPlace, caller: Approver, dispatch: Dispatching
) -> Response:
    """Approve, deny or change the action of a step, or answer its question for a larger budget.

    `parametersSha256` is the hash that was shown with the action: the answer is about exactly these parameters. The
    answer to a budget question has none, and grants `tokens`, `costUsd` or both.
    """
    numbers = parse_place(place)
    assert numbers is not None
    async with received(request, ApprovalBody) as asked:

        async def work(identity: RequestIdentity, callbacks: Callbacks) -> Mapping[str, Any]:
            connections = dispatch.door.opened
            await find_workflow(connections, workflow_id)
            request = await _request(connections, workflow_id, numbers, asked.body, caller.actor)
            return _json(await answer(connections, request, identity=identity, callbacks=callbacks))

        return await dispatch.answer(
            dispatch.identity(caller), asked.sha256, work, workflow=workflow_id, is_decision=True
        )


async def _request(
    connections: Connections, workflow_id: str, place: Place, body: ApprovalBody, approver: Actor
) -> RequestApproval | RequestBudget:
    """Return the answer to what waits at this place; raises Problem or Refused if that is something else."""
    if body.decision == "deny" and not body.reason.strip():
        raise Problem("invalid_request", "reason is missing: say why it is denied.")
    granted = {"tokens": body.tokens, "cost_nano_usd": round(body.cost_usd * NANO)}
    if body.parameters_sha256 is None:
        question = await _question(connections, workflow_id, place)
        if body.changes is not None:
            raise Problem("invalid_request", "set: the step asks for a larger budget and has no parameters to change.")
        if body.decision == "approve" and not any(granted.values()):
            raise Problem("invalid_request", "tokens and costUsd are missing: say how much more the round may use.")
        return answer_to_budget(question, body.decision, reason=body.reason, approver=approver, **granted)
    if any(granted.values()):
        raise Problem("invalid_request", "tokens and costUsd belong to a budget question, which has no parameters.")
    if body.decision == "deny" and body.changes is not None:
        raise Problem("invalid_request", "set: a denial changes no parameters.")
    waiting = await _waiting(connections, workflow_id, place)
    if waiting.parameters_sha256 != body.parameters_sha256:
        raise Refused(
            f"{_words(place)} waits with other parameters than those that the answer is about; look at them again",
            code="other_parameters",
        )
    parameters = waiting.parameters if isinstance(waiting.parameters, dict) else {}
    changed = None if body.changes is None else {**parameters, **body.changes}
    return answer_to(waiting, body.decision, reason=body.reason, approver=approver, changed_parameters=changed)


async def _question(connections: Connections, workflow_id: str, place: Place) -> BudgetEntry:
    question = await open_budget_question(connections, workflow_id)
    if question is not None and question.place == place:
        return question
    waiting = await _waiting(connections, workflow_id, place)
    raise Problem(
        "invalid_request", f"parametersSha256 is missing: {_words(place)} waits for an approval of {waiting.action}."
    )


async def _waiting(connections: Connections, workflow_id: str, place: Place) -> ApprovalEntry:
    try:
        waiting = await waiting_approval(connections, workflow_id)
    except NothingToApprove as error:
        last = await last_answer(connections, workflow_id, place)
        if last is None:
            raise
        by = f" by {last.approver}" if last.approver else ""
        raise Problem(error.code, f"{_words(place)} was answered already: it is {last.status}{by}.") from error
    if waiting.place != place:
        other = _words(waiting.place)
        raise Refused(f"{_words(place)} does not wait for an approval. {other} does", code="nothing_to_approve")
    return waiting


def _json(outcome: ApprovalOutcome) -> dict[str, Any]:
    if outcome.status == "refused":
        raise Refused(outcome.detail, code=outcome.code)
    return outcome.as_object()


def _words(place: Place) -> str:
    round_, task, attempt, step = place
    return f"Step {step} of task {task} in round {round_}, attempt {attempt},"
