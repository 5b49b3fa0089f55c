"""The pages of permissions and policies: what was allowed at a time, and each policy in words beside the one before."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Annotated, Final

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import ValidationError
from starlette.responses import HTMLResponse

from poweron_events.actor import Actor
from poweron_events.envelope import parse_time_ms
from poweron_events.policy import Policy
from poweron_projections import reader
from poweron_projections.entries import InstanceEntry, PolicyEntry
from poweron_services.client.permissions import FUTURE, LATEST, Permission, is_future, permissions
from poweron_services.client.policy_words import (
    MARKS,
    decision_of_rule,
    example_policy,
    groups_in_words,
    limits_in_words,
    quotas_in_words,
    rule_in_words,
)
from poweron_services.door.access import Auditor, Reader
from poweron_services.door.door_state import Opened
from poweron_services.door.page_rendering import rendered
from poweron_services.door.problems import Problem
from poweron_services.door.query_route import QueryRoute
from poweron_services.door.text_difference import differences
from poweron_services.settings.setting_types import action_patterns

router = APIRouter(route_class=QueryRoute, default_response_class=HTMLResponse)

PROCESSES: Final = 5  # names of processes in a row
POLICIES: Final = 50


@router.get("/permissions")
async def permissions_page(
    *,
    request: Request,
    connections: Opened,
    _: Auditor,
    at: Annotated[str, Query(max_length=40)] = "",
    actor: Annotated[str, Query(max_length=255)] = "",
    action: Annotated[str, Query(max_length=255)] = "",
) -> Response:
    """Show what was allowed at a time, and which processes could do it."""
    at, actor, action = at.strip(), actor.strip(), action.strip()
    errors = dict[str, str]()
    time_ms, patterns, asked = _time(at, errors), _patterns(action, errors), _actor(actor, errors)
    policy: PolicyEntry | None = None
    processes: Sequence[InstanceEntry] = ()
    allowed: Sequence[Permission] = ()
    if not errors:
        policy = await reader.policy_at(connections.pool, time_ms)
        processes = await reader.instances_at(connections.pool, time_ms)
        allowed = permissions(policy, processes, patterns, asked)
    return rendered(
        request,
        "permissions.html",
        status=422 if errors else 200,
        given={"at": at, "actor": actor, "action": action},
        errors=errors,
        moment=None if time_ms == LATEST else reader.time(time_ms),
        policy=policy,
        processes=processes,
        permissions=allowed,
        decision=lambda permission: decision_words(policy, permission),
        may=lambda permission: _may(permission, actor),
        shown=PROCESSES,
    )


def _time(given: str, errors: dict[str, str]) -> int:
    try:
        time_ms = parse_time_ms(given) if given else LATEST
    except (ValueError, OverflowError):
        time_ms = -1
    if time_ms < 0:
        errors["at"] = "This is not a time. Write it like 2026-11-21T09:30Z or 2026-11-21."
        return LATEST
    if is_future(time_ms):
        errors["at"] = f"{FUTURE}."
    return time_ms


def _patterns(given: str, errors: dict[str, str]) -> tuple[str, ...]:
    try:
        return action_patterns(given) if given else ("*",)
    except ValueError as error:
        errors["action"] = f"{error}."
        return ("*",)


def _actor(given: str, errors: dict[str, str]) -> Actor | None:
    try:
        return Actor(id=given, via="http") if given else None
    except ValidationError:
        errors["actor"] = "The name of an actor has 1 to 255 characters."
        return None


def decision_words(policy: PolicyEntry | None, permission: Permission) -> str:
    """Say what was decided about an action, and by what."""
    if permission.by == "settings":
        return "denied by settings" if permission.decision == "denied" else "1 approval by anyone, by settings"
    if policy is None:
        return "no policy was applied"
    return decision_of_rule(policy.policy, permission.rule)


def _may(permission: Permission, actor: str) -> str:
    answer = permission.actor
    if answer is None:
        return ""
    if not answer.may:
        return answer.reason or ""
    return f"{actor} may approve it{', but not in rounds that they requested' if answer.not_own_requests else ''}."


@router.get("/policy")
async def policy_page(request: Request, connections: Opened, caller: Reader) -> Response:
    """Show the current policy, and those before it."""
    return await _policy(request, connections, caller.actor, None)


@router.get("/policy/{number}")
async def earlier_policy_page(
    *, request: Request, number: Annotated[int, Path(ge=1, le=2**31 - 1)], connections: Opened, caller: Reader
) -> Response:
    """Show an earlier policy, and what it changed."""
    return await _policy(request, connections, caller.actor, number)


async def _policy(request: Request, connections: Opened, actor: Actor, number: int | None) -> Response:
    entries = await reader.policies(connections.pool, limit=POLICIES + 1)
    shown = entries[:1] if number is None else await reader.policies(connections.pool, limit=1, number=number)
    if number is not None and not shown:
        raise Problem("not_found", f"There is no policy {number}.", status=404)
    entry = next(iter(shown), None)
    before: PolicyEntry | None = None
    changes = []
    if entry is not None and entry.number > 1:
        before = next(iter(await reader.policies(connections.pool, limit=1, number=entry.number - 1)), None)
    if entry is not None and before is not None:
        texts = ("\n".join(policy_lines(applied.policy)) for applied in (before, entry))
        changes = await asyncio.to_thread(differences, *texts)
    return rendered(
        request,
        "policy.html",
        entry=entry,
        example=example_policy(actor),
        before=before,
        changes=changes,
        is_current=number is None or bool(entries and entries[0].number == number),
        entries=entries[:POLICIES],
        has_more=len(entries) > POLICIES,
        rules=[] if entry is None else [rule_in_words(entry.policy, rule) for rule in entry.policy.rules],
        otherwise="" if entry is None else MARKS[entry.policy.otherwise],
        apply="" if entry is None else groups_in_words(entry.policy, entry.policy.apply),
        limits=[] if entry is None else [*limits_in_words(entry.policy), *quotas_in_words(entry.policy)],
    )


def policy_lines(policy: Policy) -> Iterator[str]:
    """Yield a policy in words, line by line, as two policies are compared."""
    if policy.name:
        yield f"name: {policy.name}"
    yield f"the next one may be applied by {groups_in_words(policy, policy.apply)}"
    yield from (rule_in_words(policy, rule) for rule in policy.rules)
    yield f"otherwise: {MARKS[policy.otherwise]}"
    yield from limits_in_words(policy)
    yield from quotas_in_words(policy)
