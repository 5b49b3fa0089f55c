"""What intake does while no more may be opened: what passes, what waits, and what it takes in hand."""

import asyncio
from collections.abc import Mapping, Sequence

import pytest
from intake_world import (
    SOURCE,
    Rows,
    appended,
    approve,
    cancel,
    committed,
    dead_letters,
    events,
    looked,
    overtaken_once,
    passed_by_the_cancellations,
    records,
    request,
    running,
    told,
)

from poweron_events import topics, workflow_id
from poweron_events.fold.partial import Stub
from poweron_events.log import Message
from poweron_events.log.memory import MemoryLog
from poweron_events.request import CancellationRequested, Requester, RequestRefused, WorkflowRequested
from poweron_events.step_events import ApprovalGranted
from poweron_projections.request_answers import StepApproval
from poweron_services.intake import request_queue
from poweron_services.intake.request_queue import MAX_PENDING, PendingOffsets


@pytest.mark.req("E-09")
async def test_no_more_workflows_are_opened_than_may_be_open(log: MemoryLog, rows: Rows) -> None:
    for number in range(100):
        await request(log, f"{number}")
    async with running(log, rows, max_open=10):
        await told(log, 10)
        await looked(rows, rows.looks + 1)
        assert len(await events(log)) == 10
        rows.ended = 5
        await told(log, 15)
        assert len(await events(log)) == 15
        rows.ended = 100
        await committed(log, 100)
    assert {event.request.id for event in await events(log)} == {f"{number}" for number in range(100)}


@pytest.mark.req("E-15")
async def test_a_cancellation_does_not_wait_behind_openings_that_find_no_room(log: MemoryLog, rows: Rows) -> None:
    await request(log, "running")
    running_ = workflow_id(SOURCE, "running")
    async with running(log, rows, max_open=1):
        await told(log, 1)
        rows.stubs = {running_: Stub(running_, (0,), is_open=True, seq=1, last=0)}
        for number in range(200):
            await request(log, f"{number}")
        await cancel(log, "stop", running_)
        await told(log, 1, CancellationRequested)
        assert len(await events(log)) == 2
        rows.ended = 201
        await committed(log, 202)
    assert len(await events(log)) == 202


@pytest.mark.req("E-15")
async def test_an_approval_does_not_wait_behind_openings_that_find_no_room(log: MemoryLog, rows: Rows) -> None:
    waiting = workflow_id(SOURCE, "waiting")
    rows.stubs = {waiting: Stub(waiting, (0,), is_open=True, seq=5, last=4)}
    rows.asked = StepApproval("asked", "0" * 64, due_ms=1_000, by=None, waits=True)
    for number in range(200):
        await request(log, f"{number}")
    await approve(log, "yes", waiting, requester=Requester(name="Ada"), reason="Go on.")
    await approve(log, "no", waiting, parameters_sha256="1" * 64)
    async with running(log, rows, max_open=0):
        await told(log, 1, ApprovalGranted)
        await told(log, 1, RequestRefused)
        granted, refused = sorted(await events(log), key=lambda event: type(event).__name__)
        assert (granted.requester.name, granted.reason, granted.request.id) == ("Ada", "Go on.", "yes")
        assert (refused.reason, refused.request.id) == ("invalid", "no")
        rows.ended = 300
        await committed(log, 202)
    assert len(await events(log)) == 202


@pytest.mark.req("E-07")
@pytest.mark.req("E-15")
async def test_nothing_is_judged_by_rows_that_were_made_anew_and_are_behind(log: MemoryLog, rows: Rows) -> None:
    await request(log, "running")
    running_ = workflow_id(SOURCE, "running")
    async with running(log, rows):
        await committed(log, 1)
        rows.stubs = {running_: Stub(running_, (0,), is_open=True, seq=1, last=0)}
        rows.replaced = 2
        await cancel(log, "stop", running_)
        await committed(log, 2)
    assert not any(isinstance(event, RequestRefused) for event in await events(log))


@pytest.mark.req("E-15")
async def test_a_request_and_its_cancellation_are_appended_together_and_wait_for_no_room(
    log: MemoryLog, rows: Rows
) -> None:
    """Between the two nobody can begin to work."""
    appends, append = list[int](), log.append

    async def counting(topic: str, messages: Sequence[Message]) -> Sequence[int]:
        appends.append(len(messages))
        return await append(topic, messages)

    await request(log, "waiting")
    await cancel(log, "stop", workflow_id(SOURCE, "waiting"))
    log.append = counting  # type: ignore[method-assign]
    async with running(log, rows, max_open=0):
        await committed(log, 2)
    opened, cancelled = await events(log)
    assert (type(opened), type(cancelled)) == (WorkflowRequested, CancellationRequested)
    assert (opened.request.id, cancelled.request.id, cancelled.round) == ("waiting", "stop", 1)
    assert appends == [2]


@pytest.mark.req("E-15")
async def test_a_request_that_waits_for_room_is_opened_once_it_is_cancelled(log: MemoryLog, rows: Rows) -> None:
    await request(log, "waiting")
    await request(log, "another")
    async with running(log, rows, max_open=0):
        await looked(rows, 1)
        await cancel(log, "stop", workflow_id(SOURCE, "waiting"))
        await appended(log, 2)
        opened, cancelled = await events(log)
        assert (opened.request.id, cancelled.request.id) == ("waiting", "stop")
        rows.ended = 2
        await committed(log, 3)
    assert [event.request.id for event in await events(log)] == ["waiting", "stop", "another"]


@pytest.mark.req("E-15")
async def test_a_cancellation_that_was_refused_and_is_sent_again_cancels_nothing(log: MemoryLog, rows: Rows) -> None:
    """It came before what it would cancel; the opening waits for room as any other does."""
    workflow = workflow_id(SOURCE, "waiting")
    async with running(log, rows, max_open=0):
        await cancel(log, "stop", workflow)
        await committed(log, 1)
        await request(log, "waiting")
        await cancel(log, "stop", workflow)
        await passed_by_the_cancellations(log, 3)
        assert [type(event) for event in await events(log)] == [RequestRefused]
        rows.ended = 1
        await committed(log, 3)
    assert [type(event) for event in await events(log)] == [RequestRefused, WorkflowRequested]


@pytest.mark.req("E-15")
async def test_a_cancellation_of_another_round_is_answered_in_its_turn(log: MemoryLog, rows: Rows) -> None:
    await request(log, "waiting")
    await cancel(log, "stop", workflow_id(SOURCE, "waiting"), round=2)
    async with running(log, rows):
        await committed(log, 2)
    opened, refused = await events(log)
    assert (type(opened), type(refused)) == (WorkflowRequested, RequestRefused)


@pytest.mark.req("E-15")
async def test_a_cancellation_that_two_lanes_have_in_hand_gets_one_answer(log: MemoryLog, rows: Rows) -> None:
    """The slower one judges by rows in which the round is stopped, by the answer of the quicker one."""
    running_ = workflow_id(SOURCE, "running")
    rows.stubs = {running_: Stub(running_, (0,), is_open=True, seq=1, last=0)}
    rows.look_up = overtaken_once(log, rows.look_up)
    await cancel(log, "stop", running_)
    async with running(log, rows):
        await committed(log, 1)
    assert [type(event) for event in await events(log)] == [CancellationRequested]


@pytest.mark.req("E-15")
async def test_an_approval_that_two_processes_have_in_hand_gets_one_answer(log: MemoryLog, rows: Rows) -> None:
    waiting = workflow_id(SOURCE, "waiting")
    rows.stubs = {waiting: Stub(waiting, (0,), is_open=True, seq=5, last=4)}
    rows.asked = StepApproval("asked", "0" * 64, due_ms=1_000, by=None, waits=True)
    began = asyncio.Event()
    rows.look_up = overtaken_once(log, rows.look_up, began)
    await approve(log, "yes", waiting)
    async with running(log, rows):
        await began.wait()
        (slow,) = log._groups[topics.REQUESTS.name, topics.URGENT_INTAKE_GROUP]
        log.expel(slow)
        async with running(log, rows):
            await passed_by_the_cancellations(log, 1)
    assert [type(event) for event in await events(log)] == [ApprovalGranted]


@pytest.mark.req("E-09")
@pytest.mark.parametrize(("limit", "most"), [("MAX_HELD", 50), ("MAX_HELD_BYTES", 50 * 1_000)])
async def test_no_more_requests_are_in_memory_than_the_limits_say_and_one_poll_brings(
    log: MemoryLog, rows: Rows, monkeypatch: pytest.MonkeyPatch, limit: str, most: int
) -> None:
    monkeypatch.setattr(request_queue, limit, most)
    rows.ended = -1
    async with running(log, rows, max_open=1):
        for batch in range(5):
            for number in range(100):
                await request(log, f"{batch}-{number}", prompt="x" * 1_000)
            await passed_by_the_cancellations(log, 100 * (batch + 1))
        assert in_hand(log) <= 200


def in_hand(log: MemoryLog) -> int:
    """How many requests have been taken from the log and are not answered."""
    (follower,) = log._groups[topics.REQUESTS.name, topics.INTAKE_GROUP]
    return follower._positions[log.partition_of(topics.REQUESTS.name, b"k")]


@pytest.mark.req("E-15")
async def test_beside_a_senders_backlog_the_request_of_another_is_opened_next(log: MemoryLog, rows: Rows) -> None:
    for number in range(1_000):
        await request(log, f"{number}", source="/greedy")
    await request(log, "one", source="/modest")
    async with running(log, rows, max_open=1):
        await told(log, 1)
        rows.ended = 3
        await told(log, 4)
        assert "/modest" in {event.request.source for event in await events(log)}


@pytest.mark.req("E-15")
async def test_a_workflow_with_many_requests_keeps_one_of_the_hands(log: MemoryLog, rows: Rows) -> None:
    busy = workflow_id(SOURCE, "busy")
    for number in range(2 * MAX_PENDING):
        await cancel(log, f"{number}", busy)
    await request(log, "other")
    rows.away = True
    async with running(log, rows):
        await looked(rows, 3)
    assert {"0", "other"} <= set(rows.asked_for) <= {"0", "1", "other"}


@pytest.mark.req("S34")
async def test_a_request_that_nobody_can_read_does_not_stand_for_the_one_that_was_sent_after_it(
    log: MemoryLog, rows: Rows
) -> None:
    await request(log, "mended")
    (sent,) = await records(log, topics.REQUESTS.name)
    for mistyped in (b"poweron.request.wokflow.v1", b"poweron.request.nothing.v1"):
        value = (sent.value or b"").replace(b"poweron.request.workflow.v1", mistyped)
        assert value != sent.value
        log.write(topics.REQUESTS.name, b"k", value)
    await request(log, "mended")
    async with running(log, rows):
        await committed(log, 4)
    assert len(await dead_letters(log)) == 2
    assert [type(event) for event in await events(log)] == [WorkflowRequested]


@pytest.mark.req("E-15")
async def test_a_request_that_is_sent_again_while_it_waits_is_looked_up_once(log: MemoryLog, rows: Rows) -> None:
    for _ in range(1_000):
        await request(log, "again")
    async with running(log, rows):
        await committed(log, 1_000)
    assert len(await events(log)) == 1
    assert len(rows.asked_for) < 10


def test_offsets_that_nobody_delivers_hold_no_commit_back() -> None:
    partition = PendingOffsets(next=0)
    for offset in (7, 8, 12):  # 0 to 6 were deleted, 9 to 11 are markers of transactions
        partition.take(offset)
    done = []
    for offset in (8, 7, 12):
        partition.offsets.discard(offset)
        done.append(partition.done)
    assert done == [7, 12, 13]


@pytest.mark.req("E-07")
@pytest.mark.req("E-15")
async def test_an_approval_is_not_refused_by_rows_that_were_made_anew_and_are_behind(
    log: MemoryLog, rows: Rows
) -> None:
    """Given rows that fall back between two queries, then the question that they do not hold is looked for again."""
    waiting = workflow_id(SOURCE, "waiting")
    rows.stubs = {waiting: Stub(waiting, (0,), is_open=True, seq=5, last=4)}
    approval, positions, behind = rows.approval, rows.positions, [False]

    async def missing_once(workflow: str, place: tuple[int, int, int, int]) -> StepApproval | None:
        found, rows.asked = rows.asked, StepApproval("asked", "0" * 64, due_ms=1_000, by=None, waits=True)
        behind[0] = found is None
        return found and await approval(workflow, place)

    async def behind_once() -> Mapping[int, int]:
        known = await positions()
        is_behind, behind[0] = behind[0], False
        return dict.fromkeys(known, 0) if is_behind else known

    rows.approval, rows.positions = missing_once, behind_once  # type: ignore[method-assign]
    await request(log, "before")
    async with running(log, rows):
        await told(log, 1)
        await approve(log, "yes", waiting)
        await told(log, 1, ApprovalGranted)
    assert not any(isinstance(event, RequestRefused) for event in await events(log))
