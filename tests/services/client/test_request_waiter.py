"""How long an answer is waited for, and what is said when none comes; without any server."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from builders import At, Told, cancellation, completed, planned, requested
from poweron_events.client import Heard
from poweron_events.codec import read_record
from poweron_events.log import Record
from poweron_events.stream import WorkflowEvent
from poweron_events.topics import EVENTS, PARTITIONS, partition_of
from poweron_services.client import follow
from poweron_services.client.client_errors import AskedFor, NotServed, RoundOverdue
from poweron_services.client.follow import Callbacks, RequestWaiter

MOMENT = 0.05  # seconds


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is waited for long."""
    monkeypatch.setattr(follow, "HINT_AFTER", dict.fromkeys(("request", "cancellation", "answer"), MOMENT / 2))
    monkeypatch.setattr(follow, "TAKEN_WITHIN", MOMENT)
    monkeypatch.setattr(follow, "GRACE", MOMENT - 1)  # of a round that may last a second


def heard(*events: WorkflowEvent) -> list[Heard]:
    """The workflow's records, as they are heard."""
    told, records = Told(), list[Heard]()
    for offset, event in enumerate(events):
        message = told.tell(event).messages[-1]
        record = Record(
            EVENTS.name, partition_of(told.id.encode(), PARTITIONS), offset, 0, message.key, message.value, {}
        )
        records.append(Heard(read_record(record), told.verdicts[-1], told.workflow))
    return records


async def silence_after(records: list[Heard]) -> AsyncGenerator[Heard, None]:
    for record in records:
        yield record
    await asyncio.Event().wait()


OPENED = (requested(deadline_ms=1_000), planned())


@pytest.mark.parametrize(
    ("asked", "events"), [("request", ()), ("cancellation", OPENED), ("answer", (*OPENED, At().selected()))]
)
async def test_what_nobody_takes_is_told_soon_and_then_given_up(
    asked: AskedFor, events: tuple[WorkflowEvent, ...]
) -> None:
    told: list[AskedFor] = []
    waiter = RequestWaiter("id", asked, Callbacks(untaken=told.append))

    with pytest.raises(NotServed) as unserved:
        await waiter.until_answered(silence_after(heard(*events)))

    assert told == [asked]
    facts = unserved.value
    assert (facts.code, facts.workflow_id, facts.asked, facts.seconds) == ("nobody_serves", "id", asked, MOMENT)


@pytest.mark.parametrize(("asked", "events"), [("request", OPENED), ("cancellation", (*OPENED, cancellation()))])
async def test_a_round_that_nobody_ends_in_its_time_is_overdue(
    asked: AskedFor, events: tuple[WorkflowEvent, ...]
) -> None:
    told: list[AskedFor] = []
    waiter = RequestWaiter("id", asked, Callbacks(untaken=told.append))

    with pytest.raises(RoundOverdue) as overdue:
        await waiter.until_answered(silence_after(heard(*events)))

    assert (overdue.value.workflow_id, overdue.value.round, told) == ("id", 1, [])


async def test_only_news_is_told_and_the_last_record_answers() -> None:
    told: list[Heard] = []
    records = heard(requested(), planned(), completed())

    async def given() -> AsyncGenerator[Heard, None]:
        for record in records:
            yield record

    answer = await RequestWaiter("id", "request", Callbacks(told.append), news=2).until_answered(given())

    assert (answer, told) == (records[2], records[2:])
