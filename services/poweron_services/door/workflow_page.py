"""The page of a workflow: the answer with its sources first, then what it did, and forms for what comes next."""

import asyncio
import hashlib
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Final, Literal, NamedTuple

from fastapi import APIRouter, Query, Request, Response
from markupsafe import Markup
from starlette.responses import HTMLResponse, RedirectResponse

from poweron_events.errors import MissingContent
from poweron_events.event import DocumentRef
from poweron_events.fold.stage_specs import STAGES
from poweron_events.fold.state import Place, Used
from poweron_events.request import Budgets
from poweron_projections import budget_rows, open_questions, reader, record_queries, workflow_excerpts
from poweron_projections.connection import Pool
from poweron_projections.entries import ApprovalEntry, DocumentEntry, RoundSummary, WorkflowSummary
from poweron_projections.workflow_lifetimes import ERASURES
from poweron_services.client.ask import follow_up
from poweron_services.client.client_errors import UnknownWorkflow
from poweron_services.client.connect import Connections
from poweron_services.client.erasures import lifetime
from poweron_services.client.source_check import MARKDOWN
from poweron_services.decider.authorship import written_by_model
from poweron_services.decider.result_files import MAX_TOLD, PARTLY
from poweron_services.door.access import CheckedUpload, HttpCaller, Reader, Sender
from poweron_services.door.answer_html import MOST, ShownSource, answer_html, shown_sources
from poweron_services.door.dispatch import Dispatching
from poweron_services.door.door_state import DoorOf, DoorState, Opened
from poweron_services.door.page_forms import REFUSALS, FormRefusal, files_of, refusal_of
from poweron_services.door.page_rendering import rendered
from poweron_services.door.problems import Problem
from poweron_services.door.query_parameters import WorkflowId, parse_place
from poweron_services.door.query_route import QueryRoute
from poweron_services.door.source_search import LARGE, SearchFailed, search_sources
from poweron_services.door.stream_follower import OPEN
from poweron_services.door.timeline import timeline
from poweron_services.door.workflow_list_page import request_of, sent, state_word
from poweron_services.door.workflow_queries import find_workflow
from poweron_services.text.provenance import without_mark

router = APIRouter(route_class=QueryRoute, default_response_class=HTMLResponse)

STEPS: Final = 15
HISTORY: Final = 15
ROUNDS: Final = 8
DOCUMENTS: Final = 20
SEARCHED_WITHIN: Final = 0.3  # seconds for which a page waits for the search of large documents
ANSWER: Final = "answer.md"
SEARCHED: Final = 200  # documents in which sources are looked for
TURN_SENTENCES: Final[dict[str, str]] = {
    phase: f"The {stage.role} is {stage.label.lower()}." for stage in STAGES for phase in stage.phases
}

VERB_WORDS: Final[dict[str, str]] = {
    "pause": "Pause lets a running action finish and starts nothing new.",
    "resume": "Resume goes on where it paused.",
    "cancel": "Cancel ends the round for good.",
    "restart": "Restart asks the first question again, in a new workflow.",
}
"""What each button does."""


@router.get("/w/{workflow_id}")
async def workflow_page(
    *,
    request: Request,
    workflow_id: WorkflowId,
    connections: Opened,
    door: DoorOf,
    caller: Reader,
    view: Literal["timeline", "conversation"] = "timeline",
    failures: bool = False,
    steps_before: Annotated[str | None, Query(max_length=60)] = None,
    history_before: Annotated[int | None, Query(ge=0, le=2**31 - 1)] = None,
) -> Response:
    """Show a workflow: the answer first."""
    place = _ShownPlace(view, failures, steps_before, history_before)
    return await _page(request, connections, door, caller, workflow_id=workflow_id, place=place)


class _ShownPlace(NamedTuple):
    """What of a long workflow its page shows."""

    view: str = "timeline"
    failures: bool = False
    steps_before: str | None = None
    history_before: int | None = None


async def _page(
    request: Request,
    connections: Connections,
    door: DoorState,
    caller: HttpCaller,
    *,
    workflow_id: str,
    place: _ShownPlace,
    refusal: FormRefusal | None = None,
) -> Response:
    """Render the page; a refused question is shown again with the reason."""
    pool, workflow = connections.pool, await find_workflow(connections, workflow_id)
    view, failures, steps_before, history_before = place
    rounds = await workflow_excerpts.newest_rounds(pool, workflow_id, limit=ROUNDS)
    documents, document_count = await workflow_excerpts.newest_documents(pool, workflow_id, limit=DOCUMENTS)
    approvals = await open_questions.approvals(pool, workflow_id, limit=1)
    history = await reader.messages(pool, workflow_id, limit=HISTORY + 1, before_seq=history_before)
    answer = await _answer(door, workflow, rounds, (document_count, documents), may_read="content" in caller.scopes)
    before = parse_place(steps_before or "") or workflow_excerpts.AFTER_ALL
    return await asyncio.to_thread(
        rendered,
        request,
        "workflow.html",
        status=200 if refusal is None else refusal.status,
        refusal=refusal,
        workflow=workflow,
        lifetime=await lifetime(pool, workflow_id),
        state=state_word(workflow),
        rounds=rounds,
        **answer,
        **await _timeline(connections, workflow, before, failures=failures),
        history=history[:HISTORY],
        history_next=history[HISTORY - 1].seq if len(history) > HISTORY else None,
        turn=_turn(workflow, approvals),
        approval=next(iter(approvals), None),
        limits=await _limits(pool, workflow, rounds),
        endings={each.round: each.status for each in rounds},
        documents=documents,
        document_count=document_count,
        verbs=_verbs(workflow),
        verb_words=VERB_WORDS,
        may_follow_up=workflow.status in ("completed", "failed", "cancelled"),
        scopes=caller.scopes,
        view=view,
        failures=failures,
        here=f"/w/{workflow_id}" + (f"?{request.url.query}" if request.url.query else ""),
        is_first_page=steps_before is None and history_before is None,
    )


async def _timeline(
    connections: Connections, workflow: WorkflowSummary, before: Place, *, failures: bool
) -> dict[str, Any]:
    pool, workflow_id = connections.pool, workflow.workflow_id
    steps = await workflow_excerpts.newest_steps(pool, workflow_id, limit=STEPS + 1, before=before, failures=failures)
    shown = steps[:STEPS][::-1]
    tasks = await workflow_excerpts.tasks_of_rounds(pool, workflow_id, shown[0].round, shown[-1].round) if shown else []
    rows = timeline(shown, _end_of_open_stage(workflow))
    results = {row.step.place: row.result for row in rows if row.has_failed or row.result == "cancelled"}
    return {
        "timeline": rows,
        "step_results": results,
        "tasks": {(task.round, task.task): task for task in tasks},
        "steps_next": shown[0].name if len(steps) > STEPS else None,
    }


def _end_of_open_stage(workflow: WorkflowSummary) -> int:
    """Return until when a stage without an end has taken time (ms since 1970): not while nothing works on it."""
    if workflow.status == "paused" or workflow.budget_question is not None or workflow.stuck:
        return int(datetime.fromisoformat(workflow.updated).timestamp() * 1_000)
    return int(time.time() * 1_000)


def _turn(workflow: WorkflowSummary, approvals: Sequence[ApprovalEntry]) -> str:
    """Return whose turn it is, as a sentence."""
    if workflow.status not in ("running", "paused"):
        return "It was never opened." if workflow.status == "never_opened" else "It has ended."
    if workflow.stuck:
        return "No role works on it any more: three events in a row had no effect. Cancel it, or restart it."
    if workflow.status == "paused":
        return f"Paused: {workflow.pause_reason}" if workflow.pause_reason else "Paused."
    if workflow.budget_question is not None:
        return "It waits for a larger budget."
    if approvals:
        return "It waits for a person."
    return TURN_SENTENCES.get(workflow.phase, "It is running.")


def _verbs(workflow: WorkflowSummary) -> list[str]:
    """Return what an operator can do with the workflow now."""
    if workflow.status == "running":
        return ["pause", "cancel"]
    return ["resume", "cancel"] if workflow.status == "paused" else ["restart"]


class Limit(NamedTuple):
    """A limit of the round or the workflow, and how much of it is used."""

    name: str
    used: int
    most: int
    """With what people granted."""
    granted: int = 0
    is_money: bool = False


async def _limits(pool: Pool, workflow: WorkflowSummary, rounds: Sequence[RoundSummary]) -> list[Limit]:
    """Return the limits of the newest round and of the workflow."""
    opening = await reader.opening(pool, workflow.workflow_id)
    if opening is None or not rounds:
        return []
    newest, budgets = rounds[0], opening.budgets
    granted = Used() if budgets == Budgets() else await budget_rows.granted(pool, workflow.workflow_id, newest.round)
    tokens, money = granted.tokens, granted.cost_nano_usd
    used = newest.input_tokens + newest.output_tokens
    given = [
        ("Steps of the task", workflow.current_step, opening.max_steps, 0, False),
        ("Steps of the workflow", workflow.steps, budgets.workflow_steps, 0, False),
        ("Tokens of the round", used, budgets.round_tokens, tokens, False),
        ("Tokens of the workflow", workflow.tokens, budgets.workflow_tokens, tokens, False),
        ("Cost of the round", newest.cost_nano_usd, budgets.round_cost_nano_usd, money, True),
        ("Cost of the workflow", workflow.cost_nano_usd, budgets.workflow_cost_nano_usd, money, True),
    ]
    return [
        Limit(name, count, limit + more, more, is_money)
        for name, count, limit, more, is_money in given
        if limit is not None
    ]


class CheckedAnswer(NamedTuple):
    """An answer as HTML, with its sources."""

    html: Markup
    sources: Sequence[ShownSource] = ()
    missing: Sequence[str] = ()
    """What could not be searched, since the content store no longer holds it."""
    unchecked: str = ""
    """Why its sources are not there, as a sentence; empty if they are."""
    is_pending: bool = False
    """Whether they are still being searched."""


async def _answer(
    door: DoorState,
    workflow: WorkflowSummary,
    rounds: Sequence[RoundSummary],
    newest: tuple[int, Sequence[DocumentRef]],
    *,
    may_read: bool,
) -> dict[str, Any]:
    """Return the answer of the last round that ended, and its sources if the caller may read contents.

    `newest` is the number of documents, and the newest of them.
    """
    ended = next((each for each in rounds if each.message is not None), None)
    text, answers, unread = "" if ended is None else ended.message or "", list[DocumentRef](), list[str]()
    if ended is not None and may_read:
        answers, text, unread = await _written_answer(door.opened, workflow.workflow_id, ended)
    checked = None if ended is None else await _checked(door, workflow, text, answers, newest)
    return {
        "answer": None if checked is None else checked.html,
        "answered": ended,
        "unread": unread[:MAX_TOLD],
        "unread_more": max(0, len(unread) - MAX_TOLD),
        "sources": [] if checked is None else checked.sources,
        "missing": () if checked is None else checked.missing,
        "unchecked": "" if checked is None else checked.unchecked,
        "is_pending": checked is not None and checked.is_pending,
        "is_cut": len(text) > MOST,
        "results": answers,
    }


async def _written_answer(
    connections: Connections, workflow_id: str, ended: RoundSummary
) -> tuple[list[DocumentRef], str, list[str]]:
    """Return the documents of a round that has ended, its whole answer, and why documents were not read."""
    answers, text = await workflow_excerpts.answer_documents(connections.pool, workflow_id), ended.message or ""
    written = await _written(connections, workflow_id, answers) if ended.status == "completed" else None
    if written is None:
        return answers, text, []
    unread = await workflow_excerpts.unread_documents(connections.pool, workflow_id, ended.round)
    return answers, written, list(dict.fromkeys(document.reason for document in unread if document.code != PARTLY))


async def _checked(
    door: DoorState,
    workflow: WorkflowSummary,
    text: str,
    answers: Sequence[DocumentRef],
    newest: tuple[int, Sequence[DocumentRef]],
) -> CheckedAnswer:
    """Return the answer with its sources, as it was checked before if nothing of it has changed.

    Where large documents are searched, the sources follow later.
    """
    pool, workflow_id = door.opened.pool, workflow.workflow_id

    async def check() -> CheckedAnswer:
        sources, missing = list[ShownSource](), tuple[str, ...]()
        unchecked = ""
        if answers:
            documents, _ = await workflow_excerpts.newest_documents(pool, workflow_id, limit=SEARCHED)
            given = [entry for entry in documents if entry.page is None and not _by_model(entry)]
            try:
                checked = await search_sources(door, workflow_id, answers, given)
                sources, missing = shown_sources(checked), checked.missing
            except SearchFailed as error:
                unchecked = f"{error}."
        async with door.busy:
            return CheckedAnswer(await asyncio.to_thread(answer_html, text, sources), sources, missing, unchecked)

    contents = [(document.document_id, document.content) for document in answers]
    if workflow.status in OPEN:  # most events of an open workflow change nothing of an answer
        version = await record_queries.count_of_types(pool, workflow_id, ERASURES)
    else:
        version = workflow.seq
    document_count, documents = newest
    key = (workflow_id, version, document_count, hashlib.sha256(text.encode()).digest(), *contents)
    is_large = sum(document.size for document in documents) >= LARGE
    try:
        async with asyncio.timeout(SEARCHED_WITHIN if is_large else None):
            checked: CheckedAnswer = await door.answers.get(key, check)
            return checked
    except TimeoutError:
        async with door.busy:
            return CheckedAnswer(await asyncio.to_thread(answer_html, text), is_pending=True)


def _by_model(entry: DocumentEntry) -> bool:
    return written_by_model(entry, {entry.label: [entry]})


async def _written(connections: Connections, workflow_id: str, answers: Sequence[DocumentRef]) -> str | None:
    """Return the answer that was written as a document, of which the message may be a part; None if there is none."""
    answer = next((each for each in answers if each.mime_type == MARKDOWN and each.document_name == ANSWER), None)
    try:
        data = None if answer is None else await connections.content.get(workflow_id, answer.content)
    except MissingContent:
        return None
    return None if data is None else without_mark(data.decode("utf-8", errors="replace"))


@router.post("/w/{workflow_id}/rounds")
async def follow_up_form(
    *,
    request: Request,
    workflow_id: WorkflowId,
    caller: Sender,
    form: CheckedUpload,
    connections: Opened,
    door: DoorOf,
    dispatch: Dispatching,
) -> Response:
    """Ask a further question in this workflow."""
    try:
        further = await follow_up(connections, request_of(form, caller), workflow_id)
        return await sent(dispatch, caller, further, files_of(form))
    except UnknownWorkflow:
        raise
    except REFUSALS as error:
        if "read" not in caller.scopes:
            raise
        refusal = refusal_of(request, error)
        place = _ShownPlace()
        return await _page(request, connections, door, caller, workflow_id=workflow_id, place=place, refusal=refusal)


@router.get("/w/{workflow_id}/steps/{place}")
async def step_of_place(*, workflow_id: WorkflowId, place: str, connections: Opened, _: Reader) -> Response:
    """Lead to the first event of a step."""
    await find_workflow(connections, workflow_id)
    numbers = parse_place(place)
    seq = None if numbers is None else await workflow_excerpts.seq_of_step(connections.pool, workflow_id, numbers)
    if seq is None:
        raise Problem("not_found", f"Workflow {workflow_id} has no step {place[:40]!r}.", status=404)
    return RedirectResponse(f"/w/{workflow_id}/at/{seq}", 303)
