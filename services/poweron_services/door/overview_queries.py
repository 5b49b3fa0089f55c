"""Queries about all workflows: what waits for whom, what cannot be read, what it costs, and what was allowed."""

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from poweron_events.actor import Actor
from poweron_events.envelope import parse_time_ms
from poweron_events.errors import Unavailable
from poweron_projections import operations, reader, usage_totals
from poweron_projections.entries import ApprovalEntry, BudgetEntry, DeadLetterEntry
from poweron_projections.operations import GroupLag, HaltedWorkflow, WaitingTurns
from poweron_projections.usage_totals import UsageKey, UsageTotal
from poweron_services.client.approve import waiting_for_people
from poweron_services.client.permissions import FUTURE, LATEST, Permission, as_object, is_future, permissions
from poweron_services.door.access import Auditor, Reader
from poweron_services.door.door_state import Opened
from poweron_services.door.json_responses import CamelModel, ListPage, json_response, page
from poweron_services.door.problems import Problem
from poweron_services.door.query_parameters import (
    DEAD_LETTER_CURSOR,
    MOST,
    Limit,
    Moment,
    cursor,
    dead_letter_cursor,
    dead_letter_place,
)
from poweron_services.door.query_route import QueryRoute
from poweron_services.door.workflow_queries import KAFKA_WITHIN

router = APIRouter(tags=["operations"], route_class=QueryRoute)

ActionQuery = Annotated[
    str, Field(max_length=100, pattern=r"^(\*|[a-z][A-Za-z0-9_-]*(\.(\*|[A-Za-z][A-Za-z0-9_-]*))?)$")
]
"""An action, or a pattern that an action can match."""


@router.get("/approvals", response_model=ListPage[ApprovalEntry | BudgetEntry])
async def list_approvals(
    *,
    request: Request,
    connections: Opened,
    caller: Reader,
    mine: Annotated[bool, Query(description="Only what you may answer, and have not yet.")] = False,
    overdue: Annotated[bool, Query(description="Only what was escalated because it waited too long.")] = False,
    limit: Limit = 50,
    place: Annotated[str | None, cursor(r"^[ab]_[0-9TZ:.+-]{20,40}_[0-9a-f-]{36}$")] = None,
) -> Response:
    """List the actions that wait for an approval, longest first, and then the rounds that ask for a larger budget.

    Of each, the 1,000 that wait longest are listed.
    """
    if mine and "approve" not in caller.scopes:
        return page(request, [], None)
    answerer = caller.actor if mine else None
    questions = await waiting_for_people(connections.pool, answerer=answerer, escalated=overdue)
    waiting = {_cursor(entry): entry for entry in questions.entries}
    rest = [(key, waiting[key]) for key in sorted(waiting) if place is None or key > place]
    shown = rest[:limit]
    return page(request, [entry for _, entry in shown], shown[-1][0] if len(rest) > limit else None)


def _cursor(entry: ApprovalEntry | BudgetEntry) -> str:
    kind, time = ("a", entry.asked) if isinstance(entry, ApprovalEntry) else ("b", entry.expires)
    return f"{kind}_{time}_{entry.workflow_id}"


@router.get("/deadletters", response_model=ListPage[DeadLetterEntry])
async def list_dead_letters(
    *,
    request: Request,
    connections: Opened,
    caller: Reader,
    limit: Limit = 50,
    place: Annotated[str | None, cursor(DEAD_LETTER_CURSOR)] = None,
) -> Response:
    """List records that cannot be read, and why, newest first.

    `raw` has their bytes as base64 for a key with the scope `audit`; it is null for others.
    """
    entries = await reader.dead_letters(connections.pool, limit=limit, before=dead_letter_place(place))
    if "audit" not in caller.scopes:
        entries = [entry.model_copy(update={"raw": None}) for entry in entries]
    return page(request, entries, dead_letter_cursor(entries[-1]) if len(entries) == limit else None)


@router.get("/usage", response_model=ListPage[UsageTotal])
async def sum_usage(
    *,
    request: Request,
    connections: Opened,
    _: Reader,
    by: Annotated[UsageKey, Query(description="What to add up by.")] = "day",
    after: Annotated[Moment | None, Query(description="Only calls from this time on.")] = None,
    before: Annotated[Moment | None, Query(description="Only calls before this time.")] = None,
    limit: Limit = MOST,
    place: Annotated[str | None, cursor(r"^[0-9]{1,20}_[0-9]{1,20}_")] = None,
) -> Response:
    """Add up what model calls used, also those that were superseded, refused, repeated or failed.

    Days are in order; all else is ordered by cost and tokens, most first.
    """
    since_ms, before_ms = 0 if after is None else after, LATEST if before is None else before
    totals = await usage_totals.usage_totals(connections.pool, by, since_ms=since_ms, before_ms=before_ms)
    if place is not None:
        cost, tokens, key = place.split("_", 2)
        last = (key,) if by == "day" else (-int(cost), -int(tokens), key)
        totals = [total for total in totals if total.place(by) > last]
    shown = totals[:limit]
    return page(request, shown, _usage_cursor(shown[-1]) if len(totals) > limit else None)


def _usage_cursor(total: UsageTotal) -> str:
    return f"{total.cost_nano_usd}_{total.tokens}_{total.key}"


class Lag(CamelModel):
    """How far the consumers are behind the log, and what open workflows wait for."""

    groups: list[GroupLag]
    turns: list[WaitingTurns]
    approvals: int
    budget_questions: int
    paused: int
    stuck: int
    frozen: int


@router.get("/lag", response_model=Lag)
async def read_lag(*, request: Request, connections: Opened, _: Reader) -> Response:
    """Return how far each consumer group is behind the log, and which roles have turns waiting.

    This asks Kafka: without it, the answer is 503.
    """
    processes = await reader.instances_at(connections.pool, LATEST)
    waiting = await operations.open_workflows(connections.pool)
    try:
        async with asyncio.timeout(KAFKA_WITHIN):
            groups = await operations.lags(connections.log, connections.pool, processes)
    except TimeoutError:
        raise Unavailable("Kafka does not answer, so the lag is unknown", retry_after=1) from None
    return json_response(request, {"groups": groups, **waiting.model_dump(mode="json", by_alias=True)})


@router.get("/stuck", response_model=ListPage[HaltedWorkflow])
async def list_stuck(
    *,
    request: Request,
    connections: Opened,
    _: Reader,
    limit: Limit = 50,
    place: Annotated[str | None, cursor(r"^[0-9]{1,18}_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")] = None,
) -> Response:
    """List open workflows that no role works on any more, longest first."""
    after = (-1, operations.FIRST_ID)
    if place is not None:
        time, workflow_id = place.split("_")
        after = int(time), workflow_id
    entries = await operations.halted_workflows(connections.pool, limit=limit, after=after)
    last = f"{parse_time_ms(entries[-1].since)}_{entries[-1].workflow_id}" if len(entries) == limit else None
    return page(request, entries, last)


class AppliedPolicySummary(CamelModel):
    """The policy of a time; its text is in the event that applied it."""

    number: int
    sha256: str
    previous: str | None
    name: str
    reason: str
    actor: Actor
    time: str


class ProcessThen(CamelModel):
    """A process of a time."""

    instance: str
    started: str
    ended: str | None
    release: str
    roles: list[str]


class PermissionsThen(CamelModel):
    """What was allowed at a time, by which policy, and which processes there were."""

    at: str | None = Field(description="Null for now.")
    policy: AppliedPolicySummary | None
    processes: list[ProcessThen]
    permissions: list[Permission]


@router.get("/permissions", response_model=PermissionsThen)
async def read_permissions(
    *,
    request: Request,
    connections: Opened,
    _: Auditor,
    at: Annotated[Moment | None, Query(description="As of this time; default now.")] = None,
    actor: Annotated[
        str | None, Query(min_length=1, max_length=255, description="Also say whether this actor could approve.")
    ] = None,
    action: Annotated[
        list[ActionQuery] | None, Query(description="Only these actions, such as `web.*` or `ai.process`.")
    ] = None,
) -> Response:
    """Return what was allowed for each action: by which policy or settings, and which processes could execute it."""
    time_ms = LATEST if at is None else at
    if is_future(time_ms):
        raise Problem("invalid_request", f"`at`: {FUTURE}.")
    policy = await reader.policy_at(connections.pool, time_ms)
    processes = await reader.instances_at(connections.pool, time_ms)
    asked = None if actor is None else Actor(id=actor, via="http")
    answers: Any = permissions(policy, processes, tuple(action or ("*",)), asked)
    return json_response(request, as_object(time_ms, policy, processes, answers))
