"""Hearing what comes of a request: which record answers it, whatever other intakes made of it."""

import pytest

from builders import Told, cancellation, identity, refused, requested
from poweron_events import topics
from poweron_events.client import Sent, hear
from poweron_events.log.memory import MemoryLog
from poweron_events.round_events import RoundCancelled, Totals
from poweron_events.stream import WorkflowEvent

ENDED = RoundCancelled(round=1, message="Cancelled as asked.", totals=Totals())


async def last_heard(request_id: str, *events: WorkflowEvent) -> WorkflowEvent | None:
    """What ends the hearing of a request that opens round 1 or cancels it."""
    told, log = Told("1").tell(*events), MemoryLog()
    await log.append(topics.EVENTS.name, told.messages)
    partition = log.partition_of(topics.EVENTS.name, told.id.encode())
    sent = Sent(told.id, identity(request_id), partition, start=0, round=1)
    heard = [each async for each in hear(log, sent)]
    return heard[-1].event


@pytest.mark.req("E-15")
@pytest.mark.parametrize("request_id", ["1", "3"])
async def test_a_refusal_after_the_request_was_accepted_ends_no_hearing(request_id: str) -> None:
    """Intakes raced: accepted outranks refused."""
    events = (requested("1"), cancellation(request_id="3"), refused(request_id), ENDED)
    assert await last_heard(request_id, *events) == ENDED


@pytest.mark.req("E-15")
async def test_a_refusal_ends_the_hearing_of_what_was_superseded() -> None:
    events = (requested("1"), cancellation(request_id="2"), cancellation(request_id="3"), refused("3"), ENDED)
    assert await last_heard("3", *events) == refused("3")
