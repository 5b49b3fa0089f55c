"""Intake on a log in memory, with rows that are as far as a test wants them to be."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

import pytest
from structlog.testing import capture_logs

from poweron_events import RequestCancellation, RequestWorkflow, encode_request, topics, workflow_id
from poweron_events.codec import decode
from poweron_events.content import ContentStore
from poweron_events.dead_letter import DeadLetter, read_dead_letter
from poweron_events.errors import Unavailable
from poweron_events.fold.partial import Stub
from poweron_events.log import Message, Record
from poweron_events.log.memory import MemoryFollower, MemoryLog
from poweron_events.request import CancellationRequested, RequestRefused, WorkflowRequested
from poweron_services.roles.intake import CANCELLATIONS_GROUP, GROUP, Intake
from poweron_services.roles.lane import InHand

SOURCE = "/tests"
TIME = "2026-11-22T00:00:00.000Z"


class Rows:
    """Rows that hold what the log holds, unless they are told to stay behind, to be away or to fail."""

    def __init__(self, log: MemoryLog) -> None:
        self._log = log
        self.behind = False
        self.away = False
        self.failing: set[str] = set()
        self.looks = 0
        self.ended = 0
        self.stubs: dict[str, Stub] = {}
        self.replaced = 0  # look-ups that empty rows answer in place of these

    async def positions(self) -> Mapping[int, int]:
        self.looks += 1
        if self.away:
            raise Unavailable("Postgres is away")
        ends = await self._log.ends(topics.EVENTS.name)
        return dict.fromkeys(ends, 0) if self.behind else ends

    async def answered(self, source: str, request_id: str) -> bool:
        if request_id in self.failing:
            raise KeyError(request_id)
        return any(event.request.id == request_id for event in await events(self._log))

    async def look_up(self, partition: int, workflow_ids: Sequence[str]) -> tuple[int, Mapping[str, Stub]]:
        if self.replaced:
            self.replaced -= 1
            return 0, {}
        return (await self._log.ends(topics.EVENTS.name))[partition], self.stubs

    async def count_open(self, most: int) -> int:
        opened = [each for each in await events(self._log) if isinstance(each, WorkflowRequested)]
        return min(len(opened) - self.ended, most)

    async def closing(self, workflow_id: str) -> bool:
        return False

    async def compact_history(self, workflow_id: str) -> str:
        return ""


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog()


@pytest.fixture
def rows(log: MemoryLog) -> Rows:
    return Rows(log)


@asynccontextmanager
async def running(log: MemoryLog, rows: Rows, max_open: int = 1_000) -> AsyncGenerator[None, None]:
    intake = Intake(
        event_log=log,
        answers=rows,
        content=ContentStore.at("memory:///"),
        instance="1",
        now_ms=lambda: 0,
        default_language=None,
        max_open=max_open,
    )
    task = asyncio.create_task(intake.run())
    with capture_logs():
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait({task})


async def request(log: MemoryLog, request_id: str, prompt: str = "Write it.", key: bytes = b"k") -> None:
    asked = RequestWorkflow.model_construct(prompt=prompt)
    value = encode_request(asked, source=SOURCE, request_id=request_id, time=TIME)
    await log.append(topics.REQUESTS.name, [Message(key, value)])


def away_once(call: Callable[..., Awaitable[Any]], *needed: object) -> Callable[..., Awaitable[Any]]:
    """The call, which is not answered the first time that it is made with these arguments."""
    away = [True]

    async def called(*arguments: Any) -> Any:
        if away[0] and all(each in arguments for each in needed):
            away[0] = False
            raise Unavailable("Kafka is away")
        return await call(*arguments)

    return called


async def records(log: MemoryLog, topic: str) -> list[Record]:
    return [record async for batch in log.read(topic, {}, await log.ends(topic)) for record in batch]


async def values(log: MemoryLog, topic: str) -> list[bytes]:
    return [record.value or b"" for record in await records(log, topic)]


async def events(log: MemoryLog) -> list[Any]:
    return [event_of(value) for value in await values(log, topics.EVENTS.name)]


@cache
def event_of(value: bytes) -> Any:
    return decode(value).event


async def committed(log: MemoryLog, number: int, key: bytes = b"k") -> None:
    """Wait until intake has committed this many requests of the key's partition."""
    partition = log.partition_of(topics.REQUESTS.name, key)
    async with asyncio.timeout(10):
        while log._committed.get((topics.REQUESTS.name, GROUP, partition), 0) < number:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)


async def looked(rows: Rows, times: int) -> None:
    async with asyncio.timeout(10):
        while rows.looks < times:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)


async def dead_letters(log: MemoryLog) -> list[DeadLetter]:
    return [read_dead_letter(value) for value in await values(log, topics.DEAD_LETTERS.name)]


@pytest.mark.req("E-15")
async def test_a_request_repeated_at_once_is_answered_once(log: MemoryLog, rows: Rows) -> None:
    for _ in range(5):
        await request(log, "good")
        await request(log, "bad", prompt=" ")
    async with running(log, rows):
        await committed(log, 10)
    answers = await events(log)
    assert sorted(type(answer).__name__ for answer in answers) == [RequestRefused.__name__, WorkflowRequested.__name__]


@pytest.mark.req("E-15")
async def test_a_request_is_committed_only_when_the_rows_hold_its_answer(log: MemoryLog, rows: Rows) -> None:
    async with running(log, rows):
        await request(log, "first")
        await committed(log, 1)
        rows.behind = True
        await request(log, "second")
        before = rows.looks
        await looked(rows, before + 5)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await committed(log, 2)
        rows.behind = False
        await committed(log, 2)
    assert len(await events(log)) == 2


@pytest.mark.req("E-15")
async def test_a_request_waits_while_postgres_is_away(log: MemoryLog, rows: Rows) -> None:
    rows.away = True
    async with running(log, rows):
        await request(log, "1")
        await looked(rows, 3)
        assert await events(log) == []
        rows.away = False
        await committed(log, 1)
    (opened,) = await events(log)
    assert isinstance(opened, WorkflowRequested)


@pytest.mark.req("E-14")
async def test_a_request_that_only_raises_is_buried_and_stops_no_other(log: MemoryLog, rows: Rows) -> None:
    rows.failing = {"cursed"}
    async with running(log, rows):
        await request(log, "cursed")
        await request(log, "good")
        await committed(log, 2)
    (letter,) = await dead_letters(log)
    assert (letter.offset, "KeyError('cursed')" in letter.reason) == (0, True)
    assert len(await events(log)) == 1


@pytest.mark.req("E-14")
async def test_a_dead_letter_that_kafka_does_not_take_at_once_is_written_later(
    log: MemoryLog, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "append", away_once(log.append, topics.DEAD_LETTERS.name))
    rows.failing = {"cursed"}
    async with running(log, rows):
        await request(log, "cursed")
        await committed(log, 1)
    assert len(await dead_letters(log)) == 1


@pytest.mark.req("E-15")
async def test_requests_are_answered_although_their_offset_was_not_told_at_once(
    log: MemoryLog, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MemoryFollower, "committed", away_once(MemoryFollower.committed))
    await request(log, "1")
    async with running(log, rows):
        await committed(log, 1)
    (opened,) = await events(log)
    assert isinstance(opened, WorkflowRequested)


@pytest.mark.req("E-15")
async def test_a_prompt_too_large_for_an_event_is_refused_and_intake_goes_on(log: MemoryLog, rows: Rows) -> None:
    async with running(log, rows):
        await request(log, "large", prompt="\N{GRINNING FACE}" * 20_000)
        await request(log, "good")
        await committed(log, 2)
    refused = next(event for event in await events(log) if isinstance(event, RequestRefused))
    assert (refused.request.id, refused.reason) == ("large", "invalid")
    assert "shorten the prompt" in refused.detail


@pytest.mark.req("E-15")
async def test_many_requests_at_once_share_their_looks_at_the_rows(log: MemoryLog, rows: Rows) -> None:
    for number in range(200):
        await request(log, f"{number}")
    async with running(log, rows):
        await committed(log, 200)
    opened = {decode(value).workflow_id for value in await values(log, topics.EVENTS.name)}
    assert opened == {workflow_id(SOURCE, f"{number}") for number in range(200)}
    assert rows.looks < 100  # each of them looks at least twice


async def cancel(log: MemoryLog, request_id: str, workflow: str) -> None:
    value = encode_request(
        RequestCancellation(workflow_id=workflow, round=1), source=SOURCE, request_id=request_id, time=TIME
    )
    await log.append(topics.REQUESTS.name, [Message(b"k", value)])


async def told(log: MemoryLog, number: int, type_: type = WorkflowRequested) -> None:
    """Wait until intake has written so many events of a type."""
    async with asyncio.timeout(10):
        while sum(isinstance(event, type_) for event in await events(log)) < number:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)


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
    rows.stubs = {running_: Stub(running_, (0,), is_open=True, seq=1, last=0)}
    for number in range(200):
        await request(log, f"{number}")
    await cancel(log, "stop", running_)
    async with running(log, rows, max_open=1):
        await told(log, 1)
        await told(log, 1, CancellationRequested)
        assert len(await events(log)) == 2
        rows.ended = 201
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
async def test_a_cancellation_that_cannot_be_accepted_at_once_is_answered_in_its_turn(
    log: MemoryLog, rows: Rows
) -> None:
    rows.ended = -1
    await request(log, "waiting")
    await cancel(log, "stop", workflow_id(SOURCE, "waiting"))
    async with running(log, rows, max_open=1):
        await passed_by_the_cancellations(log, 2)
        assert await events(log) == []
        rows.ended = 1
        await committed(log, 2)
    first, second = await events(log)
    assert isinstance(first, WorkflowRequested)
    assert second.reason == "unknown_workflow"  # for these rows never come to hold it


async def passed_by_the_cancellations(log: MemoryLog, number: int) -> None:
    partition = log.partition_of(topics.REQUESTS.name, b"k")
    async with asyncio.timeout(10):
        while log._committed.get((topics.REQUESTS.name, CANCELLATIONS_GROUP, partition), 0) < number:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)


@pytest.mark.req("E-09")
async def test_no_more_requests_are_in_memory_than_one_poll_brings(log: MemoryLog, rows: Rows) -> None:
    rows.ended = -1
    async with running(log, rows, max_open=1):
        for batch in range(20):
            for number in range(100):
                await request(log, f"{batch}-{number}")
            await passed_by_the_cancellations(log, 100 * (batch + 1))
        assert in_hand(log) <= 200


def in_hand(log: MemoryLog) -> int:
    """How many requests have been taken from the log and are not answered."""
    (follower,) = log._groups[topics.REQUESTS.name, GROUP]
    return follower._positions[log.partition_of(topics.REQUESTS.name, b"k")]


def test_offsets_that_nobody_delivers_hold_no_commit_back() -> None:
    partition = InHand(next=0)
    for offset in (7, 8, 12):  # 0 to 6 were deleted, 9 to 11 are markers of transactions
        partition.take(offset)
    done = []
    for offset in (8, 7, 12):
        partition.offsets.discard(offset)
        done.append(partition.done)
    assert done == [7, 12, 13]
