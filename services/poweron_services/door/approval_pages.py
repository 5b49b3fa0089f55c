"""The page of approvals: what waits for a person, with all that an answer is about, and the forms that answer."""

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any, Final
from urllib.parse import urlencode

import orjson
from fastapi import APIRouter, Query, Request, Response
from pydantic import JsonValue
from starlette.datastructures import FormData
from starlette.responses import HTMLResponse, RedirectResponse

from poweron_events.actor import Actor
from poweron_events.event import MAX_NANO_USD, MAX_TOKENS, NANO
from poweron_events.policy import AnswerTerms
from poweron_events.request import MAX_REASON, RequestApproval, RequestBudget, RequestIdentity
from poweron_projections import open_questions, workflow_excerpts
from poweron_projections.entries import ApprovalEntry, BudgetEntry, DocumentEntry
from poweron_projections.past_approvals import answered_approvals
from poweron_services.client.approve import (
    MOST_WAITING,
    ApprovalOutcome,
    Decision,
    OpenQuestions,
    answer,
    answer_to,
    answer_to_budget,
    changed_parameters,
    last_answer,
    waiting_for_people,
)
from poweron_services.client.connect import Connections
from poweron_services.client.follow import Callbacks
from poweron_services.client.policy_words import example_policy, who_answers
from poweron_services.door.access import Approver, CheckedForm, HttpCaller, Reader
from poweron_services.door.dispatch import Dispatch, Dispatching
from poweron_services.door.door_state import Opened, state_of
from poweron_services.door.page_forms import LABELS, REFUSALS, FormRefusal, field_of, limited_field, refusal_of
from poweron_services.door.page_rendering import rendered
from poweron_services.door.problems import Problem
from poweron_services.door.query_parameters import StepPlace, WorkflowId, parse_place, place_name
from poweron_services.door.query_route import QueryRoute

router = APIRouter(route_class=QueryRoute, default_response_class=HTMLResponse)

MOST: Final = 50  # entries of a page
ANSWERED: Final = 10  # answers that are shown
WAIT: Final = 15.0  # seconds for which a form waits for the outcome
NONE: Final = OpenQuestions((), (), is_cut=False)
SHOWN: Final = ("mine", "all", "overdue")


@dataclass(frozen=True, slots=True)
class Card:
    """A question to people, and whether the person who looks at it may answer."""

    entry: ApprovalEntry | BudgetEntry
    objection: str
    """Why their approval would not count; empty if it would."""
    may_deny: bool
    may_change: bool
    documents: Sequence[tuple[str, Sequence[DocumentEntry]]] = ()
    """The documents of each list that the action reads, with the name of the list."""
    refusal: FormRefusal | None = None
    """Why the answer was refused that was just sent; its texts are in the form again."""

    @property
    def is_action(self) -> bool:
        return isinstance(self.entry, ApprovalEntry)

    @property
    def place(self) -> str:
        return place_name(self.entry.place)

    @property
    def typed(self) -> Mapping[str, str]:
        """What was typed into its form, by the name of the field."""
        return {} if self.refusal is None else self.refusal.typed


@dataclass(frozen=True, slots=True)
class Notice:
    """The outcome of an answer, in words."""

    kind: str
    sentence: str
    advice: str = ""
    typed: Sequence[tuple[str, str]] = ()
    """The texts of an answer to what no longer waits, by their labels."""


@dataclass(frozen=True, slots=True)
class _Refused:
    """A refused answer, and what it was about."""

    workflow_id: str
    place: str
    refusal: FormRefusal


@router.get("/approvals")
async def approvals_page(
    *,
    request: Request,
    connections: Opened,
    caller: Reader,
    show: Annotated[str, Query(pattern="^(mine|all|overdue)$")] = "mine",
    outcome: Annotated[str, Query(max_length=40)] = "",
    workflow: Annotated[str, Query(max_length=36)] = "",
    missing: Annotated[int, Query(ge=0, le=100)] = 0,
    proof: Annotated[str, Query(max_length=64)] = "",
) -> Response:
    """Show what waits for a person: by default for the one who looks."""
    told = {"workflow": workflow, "outcome": outcome, "missing": str(missing)}
    notice = _notice(outcome, missing) if hmac.compare_digest(proof.encode(), _proof(request, told)) else None
    return await _page(request, connections, caller, show, notice=notice, workflow=workflow)


async def _page(
    request: Request,
    connections: Connections,
    caller: HttpCaller,
    show: str,
    *,
    notice: Notice | None = None,
    workflow: str = "",
    refused: _Refused | None = None,
) -> Response:
    """Render the page; a refused answer is shown again, or named above the rest if nothing waits there any more."""
    pool = connections.pool
    waiting = {
        "mine": await waiting_for_people(pool, answerer=caller.actor) if "approve" in caller.scopes else NONE,
        "all": await waiting_for_people(pool),
        "overdue": await waiting_for_people(pool, escalated=True),
    }
    entries = waiting[show].entries
    cards = [await _card(connections, entry, caller.actor, refused) for entry in entries[:MOST]]
    if refused is not None and not any(card.refusal for card in cards):
        typed = [(LABELS[name], text) for name, text in refused.refusal.typed.items()]
        notice = Notice("warn", f"Nothing was decided. {refused.refusal.problem}", typed=typed)
    return rendered(
        request,
        "approvals.html",
        status=200 if refused is None else refused.refusal.status,
        cards=cards,
        counts={name: len(waiting[name].entries) for name in SHOWN},
        cut=[name for name in SHOWN if waiting[name].is_cut],
        show=show,
        left_out=max(0, len(entries) - MOST),
        most_waiting=MOST_WAITING,
        notice=notice,
        workflow=workflow,
        actor=caller.actor,
        scopes=caller.scopes,
        answered=await answered_approvals(pool, limit=ANSWERED),
        who_answers=who_answers,
        example=example_policy(caller.actor),
    )


async def _card(
    connections: Connections, entry: ApprovalEntry | BudgetEntry, actor: Actor, refused: _Refused | None
) -> Card:
    terms: AnswerTerms = entry.terms
    objections = {decision: terms.objection(actor, decision) for decision in ("approve", "deny", "change")}
    documents: Sequence[tuple[str, Sequence[DocumentEntry]]] = ()
    if isinstance(entry, ApprovalEntry) and (labels := _labels(entry.parameters)):
        documents = _lists(
            labels, await workflow_excerpts.documents_labelled(connections.pool, entry.workflow_id, labels)
        )
    objection = objections["approve"]
    is_refused = refused is not None and (refused.workflow_id, refused.place) == (
        entry.workflow_id,
        place_name(entry.place),
    )
    return Card(
        entry,
        "" if objection is None else objection.sentence,
        may_deny=objections["deny"] is None,
        may_change=objections["change"] is None,
        documents=documents,
        refusal=refused.refusal if refused is not None and is_refused else None,
    )


def _labels(parameters: JsonValue) -> list[str]:
    """Return the labels of the lists of documents that an action reads."""
    references = parameters.get("documentList") if isinstance(parameters, dict) else None
    parts = [str(reference).partition(":") for reference in (references if isinstance(references, list) else ())]
    return [label for kind, _, label in parts if kind == "docList"]


def _lists(labels: Sequence[str], documents: Sequence[DocumentEntry]) -> list[tuple[str, Sequence[DocumentEntry]]]:
    by_label = dict[str | None, list[DocumentEntry]]()
    for document in documents:
        by_label.setdefault(document.label, []).append(document)
    return [(label, by_label.get(label, ())) for label in labels]


def _proof(request: Request, told: Mapping[str, str]) -> bytes:
    """Return what proves in an address that this door reports the outcome, and no one else."""
    outcome = orjson.dumps(dict(told), option=orjson.OPT_SORT_KEYS)
    return state_of(request).secret.derived("outcome", outcome).hex().encode()


def _notice(outcome: str, missing: int) -> Notice | None:
    """Word the outcome of an answer."""
    people = "1 more person has" if missing == 1 else f"{missing} more people have"
    serve = "Start `poweron serve` on these servers, if none runs there; the answer remains in the log."
    notices = {
        "approved": Notice("ok", "Approved. The workflow continues."),
        "denied": Notice("ok", "Denied. The workflow takes the reason into account."),
        "counted": Notice("ok", f"Your approval counts. {people} to approve."),
        "proposed": Notice("ok", f"The parameters are changed. {people} to approve them."),
        "sent": Notice("warn", "Your answer is in the log, but no process has judged it yet.", serve),
    }
    return notices.get(outcome)


@router.post("/approvals/{workflow_id}/{place}")
async def answer_form(
    *,
    request: Request,
    workflow_id: WorkflowId,
    place: StepPlace,
    caller: Approver,
    form: CheckedForm,
    connections: Opened,
    dispatch: Dispatching,
) -> Response:
    """Answer exactly what was shown: the form has the hash of the parameters, or the number of the budget question."""
    show = field_of(form, "show")
    show = show if show in SHOWN else "mine"
    try:
        facts = await _answer(connections, caller, dispatch, workflow_id, place, form)
    except REFUSALS as error:
        if "read" not in caller.scopes:
            raise
        refused = _Refused(workflow_id, place, refusal_of(request, error))
        return await _page(request, connections, caller, show, workflow=workflow_id, refused=refused)
    told = {"workflow": workflow_id, **facts}
    query = urlencode({"show": show, **told, "proof": _proof(request, told).decode()})
    return RedirectResponse(f"/approvals?{query}", 303)


async def _answer(  # noqa: PLR0917 - of one form
    connections: Connections, caller: HttpCaller, dispatch: Dispatch, workflow_id: str, place: str, form: FormData
) -> Mapping[str, str]:
    """Send the answer; return its outcome for the address of the page that shows it.

    Raises:
        Problem, Refused: nothing was decided.
    """
    asked = await _request(connections, caller, workflow_id, place, form)
    outcomes = list[ApprovalOutcome]()

    async def work(identity: RequestIdentity, callbacks: Callbacks) -> Mapping[str, Any]:
        outcomes.append(await answer(connections, asked, identity=identity, callbacks=callbacks))
        return {}

    digest = hashlib.sha256(asked.model_dump_json().encode()).digest()
    waiting = replace(dispatch, wait=WAIT)
    await waiting.answer(dispatch.identity(caller), digest, work, workflow=workflow_id, is_decision=True)
    for outcome in outcomes:
        if outcome.status == "refused":
            raise Problem(outcome.code or "refused", outcome.detail)
        return {"outcome": outcome.status, "missing": str(outcome.missing)}
    return {"outcome": "sent", "missing": "0"}


async def _request(
    connections: Connections, caller: HttpCaller, workflow_id: str, place: str, form: FormData
) -> RequestApproval | RequestBudget:
    decision: Decision = "deny" if field_of(form, "decision") == "deny" else "approve"
    reason = limited_field(form, "reason", MAX_REASON)
    if decision == "deny" and not reason:
        raise Problem("invalid_request", "The reason is empty. Say why it must not happen; the workflow reads it.")
    if question := field_of(form, "question"):
        return await _budget_answer(connections, caller, workflow_id, form, decision, question=question)
    entries = await open_questions.approvals(connections.pool, workflow_id)
    shown = next((entry for entry in entries if entry.place == parse_place(place)), None)
    if shown is None:
        raise Problem("nothing_to_approve", await _what_happened(connections, workflow_id, place))
    shown = shown.model_copy(update={"parameters_sha256": field_of(form, "parametersSha256")})
    changes = [line.strip() for line in field_of(form, "set").splitlines() if line.strip()]
    is_change = field_of(form, "decision") == "change"
    if is_change and not changes:
        raise Problem("parameter_invalid", "No change is given. Write each on a line, as KEY=VALUE.", status=422)
    changed = changed_parameters(shown.parameters, changes) if is_change else None
    return answer_to(shown, decision, reason=reason, approver=caller.actor, changed_parameters=changed)


async def _what_happened(connections: Connections, workflow_id: str, place: str) -> str:
    """Say why an action does not wait any more."""
    numbers = parse_place(place)
    last = None if numbers is None else await last_answer(connections, workflow_id, numbers)
    if last is None:
        return "This action does not wait for an approval any more."
    at = f"at {last.time[:19].replace('T', ' ')} UTC"
    if last.status == "expired":
        return f"No one answered in time: {at} the approval expired, which counts as denied."
    return f"{last.approver} {last.status} this action {at}, before your answer."


async def _budget_answer(
    connections: Connections, caller: HttpCaller, workflow_id: str, form: FormData, decision: Decision, *, question: str
) -> RequestBudget:
    entries = await open_questions.budget_questions(connections.pool, workflow_id)
    shown = next((entry for entry in entries if str(entry.question) == question), None)
    if shown is None:
        raise Problem("nothing_to_approve", "This round does not ask for a larger budget any more.")
    tokens, cost = _whole_number(field_of(form, "tokens")), _nano_usd(field_of(form, "cost"))
    if decision == "approve" and not (tokens or cost):
        raise Problem("invalid_request", "Nothing is granted. Say how many tokens or how much money it may use.")
    if decision == "deny":
        tokens = cost = 0
    reason = field_of(form, "reason")
    return answer_to_budget(shown, decision, reason=reason, approver=caller.actor, tokens=tokens, cost_nano_usd=cost)


def _whole_number(given: str) -> int:
    if not given:
        return 0
    if not (given.isascii() and given.isdecimal()) or int(given[:12]) > MAX_TOKENS:
        raise Problem("invalid_request", f"{given[:40]!r} is no number of tokens between 0 and {MAX_TOKENS:,}.")
    return int(given)


def _nano_usd(given: str) -> int:
    if not given:
        return 0
    try:
        amount = Decimal(given) * NANO
    except InvalidOperation:
        amount = Decimal(-1)
    if not amount.is_finite() or not 0 <= amount <= MAX_NANO_USD:
        raise Problem("invalid_request", f"{given[:40]!r} is no amount in US dollars, such as 0.50.")
    return int(amount)
