"""The page of all workflows: a box to ask with, counts, filters, the list, and verbs for many workflows at once."""

import asyncio
import hashlib
import secrets
from collections.abc import Collection, Mapping, Sequence
from contextlib import aclosing, suppress
from functools import lru_cache
from types import MappingProxyType
from typing import Annotated, Any, Final, get_args
from urllib.parse import parse_qsl, urlencode

from fastapi import APIRouter, Query, Request, Response
from markupsafe import Markup
from pydantic import Field
from starlette.datastructures import FormData, UploadFile
from starlette.responses import HTMLResponse, RedirectResponse

from poweron_events.codes import CODES
from poweron_events.fold.state import Phase
from poweron_events.request import (
    MAX_PROMPT,
    MAX_REASON,
    Requester,
    RequestIdentity,
    RequestRound,
    RequestWorkflow,
    workflow_id,
)
from poweron_projections import reader
from poweron_projections.connection import Pool
from poweron_projections.entries import WorkflowStatus, WorkflowSummary
from poweron_projections.reader import WorkflowCount
from poweron_projections.workflow_filter import Condition
from poweron_services.client.approve import waiting_for_people
from poweron_services.client.ask import OpeningRequest, ask
from poweron_services.client.connect import Connections
from poweron_services.client.follow import Callbacks
from poweron_services.client.verbs import DONE, MAX_WORKFLOWS, Instruction, Verb, VerbResult, carry_out
from poweron_services.door.access import CheckedForm, CheckedUpload, HttpCaller, Operator, Reader, Sender
from poweron_services.door.batch_commands import BATCH_WITHIN
from poweron_services.door.body_reader import store
from poweron_services.door.dispatch import Dispatch, Dispatching
from poweron_services.door.door_state import Opened
from poweron_services.door.page_forms import REFUSALS, FormRefusal, field_of, files_of, limited_field, refusal_of
from poweron_services.door.page_rendering import rendered
from poweron_services.door.problems import Problem
from poweron_services.door.query_parameters import PageFilter
from poweron_services.door.query_route import QueryRoute
from poweron_services.row_query import SharedQuery

router = APIRouter(route_class=QueryRoute, default_response_class=HTMLResponse)

PAGE: Final = 30  # workflows
OPEN_WITHIN: Final = 2.0  # seconds in which a new round is usually open
STATUSES: Final = get_args(WorkflowStatus)
CHOICES: Final[Mapping[str, Sequence[str]]] = {"status": STATUSES, "phase": get_args(Phase), "code": tuple(CODES)}
VERBS: Final[tuple[Verb, ...]] = ("pause", "resume", "cancel", "restart")
Text = Annotated[str, Field(max_length=200)]


class Filters(PageFilter):
    """The filters of the list."""

    status: Text = ""
    code: Text = ""
    phase: Text = ""
    action: Text = ""
    model: Text = ""
    actor: Text = ""
    q: Text = ""
    show: Text = ""

    @property
    def is_detailed(self) -> bool:
        """Whether a filter is set that neither the search nor a quick link sets."""
        return bool(self.given.keys() - {"q", "show", "status"})

    @property
    def query(self) -> str:
        """The filters as the query of an address."""
        return urlencode(self.given)

    def address(self, **changed: str | None) -> str:
        """Return the address of the list with some filters changed; without those that are None."""
        return self.address_at("/", **changed)

    def conditions(self, waiting: Sequence[str]) -> list[Condition]:
        """Return what a workflow must be to be in the list; those that wait for the reader are `waiting`."""
        keys = ("status", "code", "phase", "action", "model", "actor")
        result = [
            Condition.one_of(key, [part.strip() for part in value.split(",")])
            for key in keys
            if (value := self.given.get(key))
        ]
        if self.q:
            result.append(Condition.words(self.q))
        if self.show == "stuck":
            result.append(Condition.stuck())
        if self.show == "waiting":
            result.append(Condition.among(waiting))
        return result


async def waiting_ids(pool: Pool, caller: HttpCaller) -> tuple[list[str], WorkflowCount]:
    """Return the workflows that wait for an answer which the caller may give, and how many there are at least."""
    if "approve" not in caller.scopes:
        return [], WorkflowCount(0, is_exact=True)
    waiting = await waiting_for_people(pool, answerer=caller.actor)
    ids = list(dict.fromkeys(entry.workflow_id for entry in waiting.entries))
    return ids, WorkflowCount(len(ids), is_exact=not waiting.is_cut)


def state_word(workflow: WorkflowSummary) -> str:
    """Return the status of a workflow in the words of pages: also whether it is stuck, and what it waits for."""
    if workflow.stuck:
        return "stuck"
    if workflow.status == "running" and workflow.budget_question is not None:
        return "waits for budget"
    if workflow.status == "running" and workflow.phase == "approve":
        return "waits for approval"
    return workflow.status


@router.get("/")
async def workflows_page(
    *,
    request: Request,
    connections: Opened,
    caller: Reader,
    filters: Annotated[Filters, Query()],
    before: Annotated[str | None, Query(max_length=100)] = None,
) -> Response:
    """Show a box to ask with, and the list of workflows."""
    return await list_page(request, connections, caller, filters, before=before)


async def list_page(
    request: Request,
    connections: Connections,
    caller: HttpCaller,
    filters: Filters,
    *,
    before: str | None = None,
    refused: Mapping[str, FormRefusal] = MappingProxyType({}),
    selected: Collection[str] = (),
) -> Response:
    """Render the list; a refused form, `ask` or `verbs`, is shown again with the reason and what was typed."""
    pool = connections.pool
    waiting, number_waiting = await waiting_ids(pool, caller)
    conditions = filters.conditions(waiting)
    workflows = await reader.workflows(pool, limit=PAGE + 1, before=before, conditions=conditions)
    counts = await reader.workflow_counts(pool)
    shown = workflows[:PAGE]
    return rendered(
        request,
        "workflows.html",
        status=next((refusal.status for refusal in refused.values()), 200),
        workflows=shown,
        filters=filters,
        links=_links(filters, counts, number_waiting),
        state_word=state_word,
        options={name: _options(name, filters.given.get(name, "")) for name in CHOICES},
        verbs=VERBS,
        scopes=caller.scopes,
        here=filters.address(before=before),
        next=filters.address(before=shown[-1].cursor) if len(workflows) > PAGE else None,
        before=before,
        refused=refused,
        selected=selected,
    )


@lru_cache(maxsize=64)
def _options(name: str, chosen: str) -> Markup:
    """Render the values that a filter can have: more than a hundred codes, the same for every reader."""
    options = (
        Markup("<option{}>{}</option>").format(Markup(" selected") if value == chosen else "", value)
        for value in CHOICES[name]
    )
    return Markup("").join(options)


def _links(
    filters: Filters, counts: Mapping[str, WorkflowCount], waiting: WorkflowCount
) -> list[tuple[str, str, WorkflowCount, bool]]:
    """Return the quick links: name, address, count, and whether the list shows just that."""
    given, none = filters.given, WorkflowCount(0, is_exact=True)
    links = [
        ("All", "/", counts["all"], not given),
        ("Waiting for me", "/?show=waiting", waiting, filters.show == "waiting"),
    ]
    links += [
        (
            status.replace("_", " ").capitalize(),
            f"/?status={status}",
            counts.get(status, none),
            given == {"status": status},
        )
        for status in STATUSES
        if counts.get(status) or status in ("running", "failed")
    ]
    return [*links, ("Stuck", "/?show=stuck", counts["stuck"], filters.show == "stuck")]


@router.post("/ask")
async def ask_form(
    *, request: Request, caller: Sender, form: CheckedUpload, connections: Opened, dispatch: Dispatching
) -> Response:
    """Ask for work with the box of the list, and show the new workflow."""
    try:
        return await sent(dispatch, caller, request_of(form, caller), files_of(form))
    except REFUSALS as error:
        if "read" not in caller.scopes:
            raise
        return await list_page(request, connections, caller, Filters(), refused={"ask": refusal_of(request, error)})


def request_of(form: FormData, caller: HttpCaller) -> RequestWorkflow:
    """Return what a form asks for."""
    prompt = limited_field(form, "prompt", MAX_PROMPT)
    if not prompt:
        raise Problem("invalid_request", "The question is empty.", status=422)
    return RequestWorkflow(prompt=prompt, actor=caller.actor, requester=Requester(name=caller.actor.id))


async def sent(
    dispatch: Dispatch, caller: HttpCaller, asked: OpeningRequest, files: Sequence[UploadFile]
) -> RedirectResponse:
    """Send a request for a round, and lead to its workflow once that is open, or soon in any case."""
    identity, connections = dispatch.identity(caller), dispatch.door.for_requests
    further = asked if isinstance(asked, RequestRound) else None
    id_ = workflow_id(identity.source, identity.id) if further is None else further.workflow_id
    round_ = 1 if further is None else further.after_round + 1
    given = asked.model_copy(update={"documents": await store(dispatch.door, id_, files)})

    async def work(identity: RequestIdentity, callbacks: Callbacks) -> Mapping[str, Any]:
        await ask(connections, given, (), identity=identity, callbacks=callbacks)
        return {}

    async def read() -> WorkflowSummary | None:
        return await reader.workflow(connections.pool, id_)

    digest = hashlib.sha256(given.model_dump_json().encode()).digest()
    await dispatch.answer(identity, digest, work, workflow=None if further is None else id_)
    with suppress(TimeoutError):  # the page says that the workflow is not open yet
        async with asyncio.timeout(OPEN_WITHIN):
            await SharedQuery(read).until(lambda found: found is not None and found.current_round >= round_)
    return RedirectResponse(f"/w/{id_}", 303)


@router.post("/verbs")
async def verbs_form(*, request: Request, caller: Operator, form: CheckedForm, connections: Opened) -> Response:
    """Pause, resume, cancel or restart the selected workflows, and show the result for each."""
    ids = [str(id_) for id_ in form.getlist("id")][:MAX_WORKFLOWS]
    filters, single = _filters_of(field_of(form, "query")), bool(form.get("single"))
    try:
        instruction = _instruction(form, caller, ids)
    except Problem as problem:
        if single or "read" not in caller.scopes:
            raise
        refusal = refusal_of(request, problem)
        return await list_page(request, connections, caller, filters, refused={"verbs": refusal}, selected=ids)
    async with aclosing(carry_out(connections, instruction, ids, Callbacks(), within=BATCH_WITHIN)) as carried_out:
        results = [result async for result in carried_out]
    if single and results[0].status == DONE[instruction.verb]:
        return RedirectResponse(f"/w/{results[0].new_workflow_id or results[0].workflow_id}", 303)
    return rendered(
        request,
        "verbs.html",
        verb=instruction.verb,
        reason=instruction.reason,
        results=results,
        done=DONE[instruction.verb],
        advice=_advice,
        back=f"/w/{ids[0]}" if single else filters.address(),
        single=single,
    )


def _instruction(form: FormData, caller: HttpCaller, ids: Sequence[str]) -> Instruction:
    verb = field_of(form, "verb")
    if verb not in VERBS:
        raise Problem("invalid_request", f"{verb[:40]!r} is none of {', '.join(VERBS)}.", status=422)
    if not ids:
        raise Problem(
            "invalid_request", f"No workflow is selected. Tick the boxes of those to {verb}, and try again.", status=422
        )
    reason = limited_field(form, "reason", MAX_REASON)
    return Instruction(
        verb, reason, caller.actor, lambda _: RequestIdentity(source=caller.source, id=secrets.token_hex(16))
    )


def _filters_of(query: str) -> Filters:
    """Return the filters of the list from which a form came; none if the query is not one of the list."""
    try:
        return Filters.model_validate(dict(parse_qsl(query, max_num_fields=20)))
    except ValueError:
        return Filters()


def _advice(result: VerbResult) -> str:
    """Return what to do about a result; nothing if a round has ended, since these forms name no round."""
    code: Any = result.code
    if code == "round_ended":
        return ""
    return CODES[code].remedy if code in CODES else ""
