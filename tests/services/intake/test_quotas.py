"""What intake does while the policy's quota of an actor or a source is used up: what waits, and what passes."""

import asyncio
from typing import Any

import pytest
from intake_world import Rows, appended, cancel, committed, dead_letters, events, request, running, told

from builders import POLICY, applied
from poweron_events import topics, workflow_id
from poweron_events.actor import Actor
from poweron_events.codec import encode
from poweron_events.content import ContentStore
from poweron_events.envelope import envelop
from poweron_events.errors import Refused
from poweron_events.fold.day_use import DAY_MS, DayUse, Use
from poweron_events.fold.state import Used
from poweron_events.log import Message
from poweron_events.log.memory import MemoryLog
from poweron_events.policy import ActorQuota, SourceQuota
from poweron_events.request import POLICY_ID, CancellationRequested, PolicyApplied, RequestRefused, WorkflowRequested
from poweron_services.intake import request_judge, round_limits

TIME = "2026-11-22T00:00:00.000Z"
NOON = DAY_MS // 2  # of the first day, in ms since 1970


async def apply(log: MemoryLog, before: PolicyApplied | None = None, **quotas: Any) -> PolicyApplied:
    """Apply a policy with these quotas."""
    number = before.number + 1 if before else 1
    event = applied(number, POLICY.model_copy(update=quotas), before)
    envelope = envelop(event, workflow_id=POLICY_ID, source="/poweron/intake/1", time=TIME)
    await log.append(topics.EVENTS.name, [Message(POLICY_ID.encode(), encode(envelope))])
    return event


async def ask(log: MemoryLog, request_id: str, actor: str = "ada", source: str = "/portal") -> None:
    await request(log, request_id, source=source, actor=Actor(id=actor, kind="person", via="kafka"))


async def opened(log: MemoryLog) -> list[str]:
    return sorted(event.request.id for event in await events(log) if isinstance(event, WorkflowRequested))


@pytest.mark.req("E-15")
async def test_an_actor_starts_no_more_rounds_than_a_day_allows_and_the_rest_the_next_day(
    log: MemoryLog, rows: Rows
) -> None:
    """Given three starts a day, when five requests arrive at once, then three are opened; others are not held up."""
    await apply(log, per_actor=(ActorQuota(starts_per_day=3),))
    for number in range(5):
        await ask(log, f"{number}")
    now = [NOON]
    async with running(log, rows, now_ms=lambda: now[0]):
        await told(log, 3)
        await ask(log, "of bob", "bob")
        await told(log, 4)
        assert await opened(log) == ["0", "1", "2", "of bob"]
        now[0] = NOON + DAY_MS
        rows.before_today = 4
        await committed(log, 6)
    assert await opened(log) == ["0", "1", "2", "3", "4", "of bob"]


async def test_case_and_spaces_of_an_id_give_no_quota_of_their_own(log: MemoryLog, rows: Rows) -> None:
    await apply(log, per_actor=(ActorQuota(starts_per_day=1),))
    await ask(log, "first", "ada")
    await ask(log, "second", " ADA ")
    await ask(log, "third", "bob")
    async with running(log, rows, now_ms=lambda: NOON):
        await told(log, 2)
        assert await opened(log) == ["first", "third"]


@pytest.mark.req("E-15")
async def test_an_open_workflow_makes_room_once_it_ends(log: MemoryLog, rows: Rows) -> None:
    await apply(log, per_source=(SourceQuota(sources=("/batch*",), open_workflows=2),))
    for number in range(4):
        await ask(log, f"{number}", source="/batch/1")
    await ask(log, "other", source="/portal")
    async with running(log, rows, now_ms=lambda: NOON):
        await told(log, 3)
        assert await opened(log) == ["0", "1", "other"]
        rows.over = {"1"}
        await told(log, 4)
        rows.over = {"0", "1"}
        await committed(log, 5)


@pytest.mark.parametrize(
    ("quota", "used"),
    [
        (ActorQuota(tokens_per_day=1_000), Used(900, 100)),
        (ActorQuota(cost_usd_per_day="0.50"), Used(1, 1, 500_000_000)),
    ],
    ids=["tokens", "money"],
)
async def test_no_round_is_opened_for_an_actor_who_used_up_a_day(
    log: MemoryLog, rows: Rows, quota: ActorQuota, used: Used
) -> None:
    await apply(log, per_actor=(quota,))
    rows.used = [("ada", "/elsewhere", Use(used=used)), ("bob", "/portal", Use(used=Used(10, 10, 10)))]
    await ask(log, "of ada")
    await ask(log, "of bob", "bob")
    async with running(log, rows, now_ms=lambda: NOON):
        await told(log, 1)
        assert await opened(log) == ["of bob"]
        rows.used = []
        await committed(log, 2)


@pytest.mark.req("E-15")
async def test_many_that_wait_for_a_quota_let_all_others_pass(log: MemoryLog, rows: Rows) -> None:
    """More wait than are handled at a time, and requests behind them are answered."""
    await apply(log, per_actor=(ActorQuota(starts_per_day=1),))
    for number in range(200):
        await ask(log, f"{number}")
    await ask(log, "of bob", "bob")
    async with running(log, rows, now_ms=lambda: NOON):
        await told(log, 2)
        assert await opened(log) == ["0", "of bob"]


@pytest.mark.req("E-15")
async def test_a_request_that_waits_for_a_quota_can_be_cancelled(log: MemoryLog, rows: Rows) -> None:
    await apply(log, per_actor=(ActorQuota(starts_per_day=1),))
    await ask(log, "first")
    await ask(log, "waits")
    async with running(log, rows, now_ms=lambda: NOON):
        await told(log, 1)
        await cancel(log, "stop", workflow_id("/portal", "waits"))
        await told(log, 1, CancellationRequested)
        await committed(log, 3)
    assert await opened(log) == ["first", "waits"]


async def test_a_policy_that_allows_more_lets_in_what_waits(log: MemoryLog, rows: Rows) -> None:
    before = await apply(log, per_actor=(ActorQuota(starts_per_day=1),))
    await ask(log, "first")
    await ask(log, "waits")
    async with running(log, rows, now_ms=lambda: NOON):
        await told(log, 1)
        await apply(log, before, per_actor=(ActorQuota(starts_per_day=2),))
        await told(log, 2)


async def test_more_than_may_wait_are_refused_with_the_time_when_there_is_room(
    log: MemoryLog, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(round_limits, "MAX_WAITING", 2)
    await apply(log, per_actor=(ActorQuota(starts_per_day=1),))
    for number in range(4):
        await ask(log, f"{number}")
    async with running(log, rows, now_ms=lambda: NOON):
        await told(log, 1, RequestRefused)
        (refused,) = [event for event in await events(log) if isinstance(event, RequestRefused)]
    assert refused.code == "too_many_waiting"
    assert refused.detail == (
        "Too many requests wait already (2): ada has started 1 of 1 round that policy 1 allows per day; the next day "
        "begins at 1970-01-02 00:00 UTC."
    )


@pytest.mark.req("E-15")
async def test_what_waits_is_opened_in_its_order_and_nothing_overtakes_it(log: MemoryLog, rows: Rows) -> None:
    await apply(log, per_actor=(ActorQuota(open_workflows=1),))
    async with running(log, rows, now_ms=lambda: NOON):
        for number in range(4):
            await ask(log, f"{number}")
            await appended(log, 2)  # the policy and the first opening: the others wait
        for ended in range(3):
            rows.over |= {f"{ended}"}
            await ask(log, f"late {ended}")
            await told(log, ended + 2)
            assert await opened(log) == [f"{number}" for number in range(ended + 2)]


@pytest.mark.req("E-15")
async def test_a_request_that_becomes_a_dead_letter_gives_its_place_back(
    log: MemoryLog, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given room for one, when what is let in turns out to be impossible, then the next one is opened."""
    store = request_judge.store_documents

    async def refusing(content: ContentStore, workflow: str, *arguments: Any) -> Any:
        if workflow == workflow_id("/portal", "impossible"):
            raise Refused("The store takes nothing of this one.")
        return await store(content, workflow, *arguments)

    monkeypatch.setattr(request_judge, "store_documents", refusing)
    await apply(log, per_actor=(ActorQuota(open_workflows=1, starts_per_day=1),))
    async with running(log, rows, max_open=1, now_ms=lambda: NOON):
        await ask(log, "impossible")
        await committed(log, 1)
        await ask(log, "possible")
        await told(log, 1)
    assert (await opened(log), len(await dead_letters(log))) == (["possible"], 1)


async def test_rows_that_move_while_they_are_read_are_not_taken_for_rebuilt_ones(log: MemoryLog, rows: Rows) -> None:
    """Answers that come while the day is read are not in what was read, and need not be."""
    read = rows.day_use

    async def slowly(since_ms: int, **named: Any) -> DayUse:
        day = await read(since_ms, **named)
        await asyncio.sleep(0.03)
        return day

    rows.day_use = slowly  # type: ignore[method-assign]
    await apply(log, per_actor=(ActorQuota(starts_per_day=1_000),))
    async with running(log, rows, now_ms=lambda: NOON) as lines:
        for number in range(100):
            await ask(log, f"{number}")
            await asyncio.sleep(0.001)
        await told(log, 100)
    assert [line for line in lines if line["event"] == "request_waits"] == []
