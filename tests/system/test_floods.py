"""Floods of requests: whoever sends thousands of them keeps nobody else waiting."""

import asyncio
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import pytest
from processes import ONE_STEP, script, serving

from builders import requested
from poweron_events import RequestCancellation, RequestWorkflow, encode_request, topics, workflow_id
from poweron_events.codec import encode
from poweron_events.envelope import envelop
from poweron_events.errors import Unavailable
from poweron_events.log import Message
from poweron_events.stream import Request
from poweron_projections import request_answers
from poweron_projections.request_answers import RequestAnswer
from poweron_services.client.connect import Connections

pytestmark = [pytest.mark.system]

TIME = "2026-11-21T00:00:00.000Z"
GREEDY, MODEST = "/greedy", "/modest"
KEY = b"all of them in one partition"
AT_ONCE = 1_000  # requests appended at a time
SOON = 20.0  # seconds, on a machine that has much else to do: by itself it takes less than one (decision 20)
ANSWERED = "SELECT count(DISTINCT (source, id)) FROM requests WHERE source = $1"


def message(request: Request, request_id: str, source: str) -> Message:
    return Message(KEY, encode_request(request, source=source, request_id=request_id, time=TIME))


def opening(request_id: str, source: str = GREEDY) -> Message:
    return message(RequestWorkflow(prompt="Write it."), request_id, source)


def cancellations(workflows: Sequence[str], source: str) -> list[Message]:
    return [
        message(RequestCancellation(workflow_id=workflows[number % len(workflows)], round=1), f"stop {number}", source)
        for number in range(1_000)
    ]


def forged(request_id: str) -> Message:
    """An opening by somebody else of the workflow that a request is yet to open."""
    workflow = workflow_id(GREEDY, request_id)
    envelope = envelop(requested("elsewhere"), workflow_id=workflow, source="/poweron/intake/forged", time=TIME)
    return Message(workflow.encode(), encode(envelope))


FLOODS: dict[str, Callable[[str], list[Message]]] = {
    "1,000 cancellations of one workflow": lambda source: cancellations([workflow_id(MODEST, "warm")], source),
    "1,000 cancellations of unknown workflows": lambda source: cancellations(
        [str(uuid4()) for _ in range(1_000)], source
    ),
    "10,000 duplicates": lambda source: 10_000 * [opening("again", source)],
    "a backlog of 10,000": lambda source: [opening(f"{number}", source) for number in range(10_000)],
}
"""The messages of a source; the backlog takes the longest, so it comes last."""


@pytest.fixture
def served(environment: dict[str, str], tmp_path: Path) -> Generator[None, None, None]:
    """All roles in a process of their own."""
    settings = {"POWERON_MODEL": script(tmp_path, ONE_STEP), "POWERON_LOG_LEVEL": "warning"}
    with serving({**environment, **settings}, tmp_path, ["all"]):
        yield


async def answer(connections: Connections, request_id: str, source: str = GREEDY) -> RequestAnswer:
    """Wait for it."""
    async with asyncio.timeout(60):
        while True:
            with suppress(Unavailable):  # the tables are not there yet
                found = await request_answers.answer(connections.pool, source, request_id)
                if found is not None:
                    return found
            await asyncio.sleep(0.01)


async def flood(connections: Connections, messages: Sequence[Message]) -> None:
    for start in range(0, len(messages), AT_ONCE):
        await connections.log.append(topics.REQUESTS.name, messages[start : start + AT_ONCE])


async def seconds_to_open(connections: Connections, request_id: str) -> float:
    """How long a request of somebody else takes."""
    began = time.monotonic()
    await connections.log.append(topics.REQUESTS.name, [opening(request_id, MODEST)])
    assert (await answer(connections, request_id, MODEST)).answer == "accepted"
    return time.monotonic() - began


@pytest.mark.req("E-15")
@pytest.mark.usefixtures("served")
async def test_beside_each_flood_the_request_of_another_is_opened_soon(connections: Connections) -> None:
    await flood(connections, [opening("warm", MODEST)])
    await answer(connections, "warm", MODEST)
    for number, (name, messages_of) in enumerate(FLOODS.items()):
        source = f"{GREEDY}/{number}"
        messages = messages_of(source)
        await flood(connections, messages)
        assert await seconds_to_open(connections, f"{number}") < SOON, name
        assert await connections.pool.fetchval(ANSWERED, source) < max(len(set(messages)) / 2, 3), name


@pytest.mark.req("E-15", "X-06")
@pytest.mark.usefixtures("served")
async def test_requests_whose_workflows_were_forged_are_refused_and_nothing_more_is_written(
    connections: Connections,
) -> None:
    """70 of them once had 511 superseded openings a second appended, for ever."""
    ids = [f"{number}" for number in range(70)]
    await connections.log.append(topics.EVENTS.name, [forged(each) for each in ids])
    await flood(connections, [opening(each) for each in ids])
    assert await seconds_to_open(connections, "one") < SOON
    assert {(await answer(connections, each)).code for each in ids} == {"answer_superseded"}
    written = "SELECT max(count) FROM (SELECT count(*) FROM records WHERE type LIKE '%requested%' GROUP BY workflow_id) AS each"
    assert await connections.pool.fetchval(written) == 3  # the forged opening, and ours twice
