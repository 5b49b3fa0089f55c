"""The page of one event: what the model saw, said and decided, what it changed, and what else could have happened."""

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from types import MappingProxyType
from typing import Annotated, Any, Final, NamedTuple

import orjson
from fastapi import APIRouter, Path, Query, Request, Response
from starlette.datastructures import FormData
from starlette.responses import HTMLResponse, RedirectResponse

from poweron_events.errors import Refused
from poweron_events.event import FailedCalls, ModelCall
from poweron_events.fold.costs import failed_calls, model_calls
from poweron_events.fold.state import Workflow
from poweron_events.request import MAX_PROMPT, RequestIdentity
from poweron_events.request import workflow_id as id_of_request
from poweron_projections import reader
from poweron_projections.reader import StoredRecord
from poweron_services import wiring
from poweron_services.client.connect import Connections
from poweron_services.client.follow import Callbacks
from poweron_services.client.fork_request import ForkWish, fork, plan_fork
from poweron_services.client.workflow_snapshot import folded_history
from poweron_services.door.access import Auditor, CheckedForm, ContentReader, HttpCaller, Reader, Sender
from poweron_services.door.audit_queries import stored
from poweron_services.door.dispatch import Dispatching
from poweron_services.door.door_state import DoorOf, DoorState, Opened
from poweron_services.door.page_forms import REFUSALS, FormRefusal, field_of, limited_field, refusal_of
from poweron_services.door.page_rendering import rendered
from poweron_services.door.problems import Problem
from poweron_services.door.query_parameters import MAX_SEQ, WorkflowId
from poweron_services.door.query_route import QueryRoute
from poweron_services.door.step_view import MOST_CHANGES, StepView
from poweron_services.fork.run_comparison import decides_the_same
from poweron_services.models.chat_model import ChatModel
from poweron_services.replay.action_specs import known_actions
from poweron_services.replay.decision_repeats import Answered, AskAgain
from poweron_services.replay.decision_replay import DecisionReplay, Replayed, is_decision
from poweron_services.replay.workflow_records import Damaged, Folded, StoredContent, folded

router = APIRouter(route_class=QueryRoute, default_response_class=HTMLResponse)

AROUND: Final = 5  # events before and after that are listed
MOST_TIMES: Final = 10  # answers of each model
MOST_MODELS: Final = 5
MAX_DIGITS: Final = 2  # of the number of answers
Seq = Annotated[int, Path(ge=0, le=MAX_SEQ)]


class CallTexts(NamedTuple):
    """A model call with its prompt and its answer, byte for byte."""

    call: ModelCall
    prompt: str | None
    answer: str | None


@router.get("/w/{workflow_id}/at")
async def chosen_event(
    *, workflow_id: WorkflowId, _: Reader, seq: Annotated[int, Query(ge=0, le=MAX_SEQ)]
) -> RedirectResponse:
    """Lead to the event that the slider chose."""
    return RedirectResponse(f"/w/{workflow_id}/at/{seq}", 303)


@router.get("/w/{workflow_id}/at/{seq}")
async def step_page(
    *, request: Request, workflow_id: WorkflowId, seq: Seq, connections: Opened, door: DoorOf, caller: Reader
) -> Response:
    """Show one event, and the workflow after it."""
    return await _page(request, connections, door, caller, workflow_id=workflow_id, seq=seq)


async def _page(
    request: Request,
    connections: Connections,
    door: DoorState,
    caller: HttpCaller,
    *,
    workflow_id: str,
    seq: int,
    refused: Mapping[str, FormRefusal] = MappingProxyType({}),
) -> Response:
    """Render the page; `refused` has the forms, by name, that are shown again with the reason."""
    view, records = await _view(connections, door, workflow_id, seq)
    summary = await reader.workflow(connections.pool, workflow_id)
    assert summary is not None
    event = view.heard.event
    may_read = "content" in caller.scopes
    record = records[-1]
    async with door.busy:
        changes, (state, is_cut) = await asyncio.to_thread(lambda: (view.changes, view.state))
    return rendered(
        request,
        "step.html",
        status=next((refusal.status for refusal in refused.values()), 200),
        refused=refused,
        workflow=summary,
        view=view,
        last=summary.seq - 1,
        around=await _around(connections, workflow_id, seq),
        calls=await _shown_calls(connections, workflow_id, model_calls(event) if event else (), may_read=may_read),
        failed_calls=_failed(failed_calls(event) if event else ()),
        scopes=caller.scopes,
        changes=changes[:MOST_CHANGES],
        changes_left_out=max(0, len(changes) - MOST_CHANGES),
        state=state,
        is_cut=is_cut,
        record=record,
        raw=record.value.decode("utf-8", errors="replace") if "audit" in caller.scopes else None,
        is_decision=is_decision(event) and view.heard.verdict == "accepted",
        cause=_cause(view, records),
        default_model=_default_model(door),
        models=dict.fromkeys(["builtin", *door.settings.named_models]),
    )


async def _view(
    connections: Connections, door: DoorState, workflow_id: str, seq: int
) -> tuple[StepView, Sequence[StoredRecord]]:
    records = await stored(connections, workflow_id, until=seq)

    def fold() -> StepView:
        before, heard, unplanned = Workflow(workflow_id), None, 0
        for record, after in zip(records, folded_history(workflow_id, records), strict=True):
            before, heard = (Workflow(workflow_id) if heard is None else heard.workflow), after
            if after.verdict == "accepted" and after.workflow.round is not None and not after.workflow.round.tasks:
                unplanned = record.seq
        assert heard is not None
        return StepView(seq, heard, before, orjson.loads(records[-1].value)["data"], unplanned)

    async with door.busy:
        return await asyncio.to_thread(fold), records


async def _around(connections: Connections, workflow_id: str, seq: int) -> Sequence[Any]:
    after = max(-1, seq - AROUND - 1)
    return await reader.events(connections.pool, workflow_id, after_seq=after, limit=2 * AROUND + 1)


async def _shown_calls(
    connections: Connections, workflow_id: str, calls: Sequence[ModelCall], *, may_read: bool
) -> list[CallTexts]:
    content = StoredContent(connections.content)

    async def text(name: str | None) -> str | None:
        data = await content.find(workflow_id, name) if may_read else None
        return None if data is None else data.decode("utf-8", errors="replace")

    return [CallTexts(call, await text(call.prompt_ref), await text(call.answer_ref)) for call in calls]


def _failed(calls: Sequence[FailedCalls]) -> list[tuple[str, int, int, int]]:
    return [(call.code, call.count, call.input_tokens + call.output_tokens, call.cost_nano_usd) for call in calls]


def _cause(view: StepView, records: Sequence[StoredRecord]) -> int | None:
    """Return the seq of the event that caused this one; None if no event of the workflow did."""
    cause = view.heard.recorded.envelope.cause
    if cause is None:
        return None
    wanted, earlier = f'"{cause.id}"'.encode(), reversed(records[:-1])
    return next((record.seq for record in earlier if wanted in record.value and _is(record, cause.id)), None)


def _is(record: StoredRecord, event_id: str) -> bool:
    found: bool = orjson.loads(record.value).get("id") == event_id
    return found


def _default_model(door: DoorState) -> str:
    return next(iter(door.settings.named_models), "builtin")


async def _decision(connections: Connections, door: DoorState, workflow_id: str, seq: int) -> Folded:
    """Return a decision of the workflow.

    Raises:
        Problem: the event is no decision, or its row is damaged.
    """
    records = await stored(connections, workflow_id, until=seq)

    def fold() -> Folded | Damaged:
        *_, last = folded(workflow_id, records)
        return last

    async with door.busy:
        record = await asyncio.to_thread(fold)
    if isinstance(record, Damaged):
        raise Problem("rows_differ", f"Event {record.stored.seq} is damaged: {record.why}")
    if not is_decision(record.recorded.envelope.event) or record.verdict != "accepted":
        raise Problem("invalid_request", f"Event {seq} is no decision that could be made again.", status=422)
    return record


@router.get("/w/{workflow_id}/at/{seq}/replay")
async def replay_page(
    *, request: Request, workflow_id: WorkflowId, seq: Seq, connections: Opened, door: DoorOf, _: Auditor
) -> Response:
    """Make one decision again from what is recorded, without a model."""
    decision = await _decision(connections, door, workflow_id, seq)
    async with door.busy, known_actions(door.settings) as known:
        replayed: Replayed = await DecisionReplay(StoredContent(connections.content), known).again(decision)
    return rendered(
        request, "again.html", workflow_id=workflow_id, seq=seq, replayed=replayed, answers=[], recorded=decision.data
    )


@router.post("/w/{workflow_id}/at/{seq}/again")
async def ask_again_form(
    *,
    request: Request,
    workflow_id: WorkflowId,
    seq: Seq,
    caller: Sender,
    _: Reader,
    __: ContentReader,
    form: CheckedForm,
    connections: Opened,
    door: DoorOf,
) -> Response:
    """Ask models for one decision again, and show their answers beside the recorded one; nothing is stored."""
    decision = await _decision(connections, door, workflow_id, seq)
    try:
        answers = await _answers(connections, door, caller, decision, form)
    except REFUSALS as error:
        if isinstance(error, Problem) and error.code == "too_many_requests":
            raise
        refused = {"again": refusal_of(request, error)}
        return await _page(request, connections, door, caller, workflow_id=workflow_id, seq=seq, refused=refused)
    return rendered(
        request, "again.html", workflow_id=workflow_id, seq=seq, replayed=None, answers=answers, recorded=decision.data
    )


async def _answers(
    connections: Connections, door: DoorState, caller: HttpCaller, decision: Folded, form: FormData
) -> list[tuple[Answered, bool]]:
    """Ask the models of the form; return their answers, and whether each decides the same."""
    names = list(dict.fromkeys(field_of(form, "models").replace(",", " ").split()))[:MOST_MODELS]
    given = field_of(form, "times") or "1"
    times = int(given) if given.isascii() and given.isdecimal() and len(given) <= MAX_DIGITS else 0
    if not names or not 1 <= times <= MOST_TIMES:
        raise Problem("invalid_request", f"Name a model, and a number of answers from 1 to {MOST_TIMES}.", status=422)
    if caller.key is not None:
        await door.limits.count_calls(caller.key.key_id, len(names) * times)
    event = decision.recorded.envelope.event
    call = next(iter(model_calls(event)), None) if event is not None else None
    content = connections.content
    prompt = await StoredContent(content).find(decision.after.id, call.prompt_ref if call else None)
    async with AsyncExitStack() as stack:
        models = [(name, await stack.enter_async_context(_opened(door, name))) for name in names]
        known = await stack.enter_async_context(known_actions(door.settings))
        ask = AskAgain(decision, content, known, prompt)
        answers = await ask.ask(models, times)
    return [(answer, answer.event is not None and decides_the_same(answer.event, ask.event)) for answer in answers]


@asynccontextmanager
async def _opened(door: DoorState, name: str) -> AsyncGenerator[ChatModel, None]:
    """Open a model that a form names; raise Problem if it is not configured."""
    async with AsyncExitStack() as stack:
        try:
            model = await stack.enter_async_context(wiring.NameableModels(door.settings).opened(name))
        except Refused as error:
            raise Problem("unknown_model", f"{error}".rstrip(".") + ".", status=422) from error
        yield model


@router.post("/w/{workflow_id}/at/{seq}/forks")
async def fork_form(
    *,
    request: Request,
    workflow_id: WorkflowId,
    seq: Seq,
    caller: Sender,
    form: CheckedForm,
    connections: Opened,
    dispatch: Dispatching,
) -> Response:
    """Start a new workflow that takes over everything up to this event, and show it."""
    prompt, model = (field_of(form, name) or None for name in ("prompt", "model"))
    wish, door = ForkWish(workflow_id, seq, prompt=prompt, live=bool(form.get("live")), model=model), dispatch.door
    try:
        limited_field(form, "prompt", MAX_PROMPT)
        if model is not None and door.roles:  # otherwise those who play the roles judge it by their settings
            async with _opened(door, model):
                pass
        plan = await plan_fork(connections, wish)
    except REFUSALS as error:
        if "read" not in caller.scopes:
            raise
        refused = {"fork": refusal_of(request, error)}
        return await _page(request, connections, door, caller, workflow_id=workflow_id, seq=seq, refused=refused)
    identity = dispatch.identity(caller)

    async def work(identity: RequestIdentity, callbacks: Callbacks) -> Mapping[str, Any]:
        await fork(connections, wish, plan, actor=caller.actor, identity=identity, callbacks=callbacks)
        return {}

    digest = hashlib.sha256(repr(wish).encode()).digest()
    await dispatch.answer(identity, digest, work, keeps_working=True)
    return RedirectResponse(f"/w/{id_of_request(identity.source, identity.id)}", 303)
