"""Memory of every process, while requests pile up and after many workflows: it stays where it was.

The long runs (`-m soak`) print what they measured.
"""

import asyncio
import os
import statistics
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
from processes import ONE_STEP, Processes, script, serving

from poweron_events import RequestWorkflow, encode_request, topics, workflow_id
from poweron_events.errors import Unavailable
from poweron_events.log import Message
from poweron_events.request import StoredDocument
from poweron_projections import request_answers
from poweron_services.client.connect import Connections
from poweron_services.intake.request_queue import MAX_PENDING

pytestmark = [pytest.mark.system]

SOURCE = "/upstream"
TIME = "2026-11-21T00:00:00.000Z"
APART = ("intake", "projector", "planner,selector,parameterizer,executor,observer,refiner,reviewer")
MAX_OPEN = 100
PERIOD = 0.25  # seconds between looks at the memory
AT_ONCE = 500  # requests appended at a time
MEGABYTE = 1_000_000
LARGE_RECORDS = 800
MOST_OF_LARGE_WORK = 300  # MB of a process that plays all roles
MOST = 160  # MB of any process; ended workflows are held for some seconds, so it is more where more end in a second


_ALL: dict[str, Any] = {"actionObjective": "Read it.", "requiredInputDocuments": ["docList:round1_request"]}
READ_AND_ANSWER: dict[str, list[Any]] = {
    **ONE_STEP,
    "SelectionPrompt": [{"action": action, **_ALL} for action in ("document.extract", "ai.process")],
    "ParametersPrompt": [
        {"schema": "parameters_v1", "parameters": parameters} for parameters in ({}, {"aiPrompt": "Write it."})
    ],
    "RefinementPrompt": [
        {"decision": "continue", "reason": "It is read.", "classification": "success", "criteriaProgress": []},
        *ONE_STEP["RefinementPrompt"],
    ],
}


@dataclass
class Watched:
    """Processes whose memory is noted, with how many workflows were open and how many had ended at the time."""

    connections: Connections
    processes: Processes
    resident: dict[str, list[int]] = field(default_factory=dict)
    most_open: int = 0
    ended: int = 0

    async def look(self) -> None:
        for roles, running in self.processes.running.items():
            assert running.poll() is None, self.processes.log()[-3_000:]
            self.resident.setdefault(roles, []).append(psutil.Process(running.pid).memory_info().rss)
        try:
            self.most_open = max(self.most_open, await request_answers.count_open(self.connections.pool, 1_000_000))
            self.ended = await self.connections.pool.fetchval("SELECT count(*) FROM rounds WHERE ended_ms IS NOT NULL")
        except Unavailable:  # the tables are not there yet
            return

    async def until_ended(self, workflows: int, timeout: float) -> None:
        """Look until so many workflows have ended."""
        async with asyncio.timeout(timeout):
            while self.ended < workflows:
                await self.look()
                await asyncio.sleep(PERIOD)

    def quarters(self, roles: str) -> list[float]:
        """The median of each quarter of the time, in MB."""
        seen = self.resident[roles]
        size = len(seen) // 4
        return [statistics.median(seen[place * size : (place + 1) * size]) / MEGABYTE for place in range(4)]

    def expect_flat(self) -> None:
        """No process takes a tenth more in the last quarter of the time than in the second."""
        for roles in self.processes.running:
            _, second, _, last = self.quarters(roles)
            assert last < 1.1 * second, self.told()

    def told(self) -> str:
        lines = [f"{roles}: {', '.join(f'{each:.1f}' for each in self.quarters(roles))} MB" for roles in self.resident]
        return "\n".join([f"{self.ended} ended, at most {self.most_open} open", *lines])


async def pile_up(connections: Connections, requests: int, prefix: str = "") -> None:
    """So many requests into Kafka, as fast as it takes them."""
    for start in range(0, requests, AT_ONCE):
        ids = [f"{prefix}{number}" for number in range(start, min(start + AT_ONCE, requests))]
        await connections.log.append(topics.REQUESTS.name, [Message(each.encode(), _request(each)) for each in ids])


def _request(request_id: str) -> bytes:
    return encode_request(RequestWorkflow(prompt="Write it."), source=SOURCE, request_id=request_id, time=TIME)


@contextmanager
def watching(
    connections: Connections,
    environment: Mapping[str, str],
    tmp_path: Path,
    roles: Sequence[str],
    lines: Mapping[str, list[Any]] = ONE_STEP,
) -> Generator[Watched, None, None]:
    """Processes that play these roles, while the block lasts."""
    settings = {
        "POWERON_MODEL": script(tmp_path, lines),
        "POWERON_MAX_OPEN": str(MAX_OPEN),
        "POWERON_LOG_LEVEL": "warning",
    }
    with serving({**environment, **settings}, tmp_path, roles) as processes:
        yield Watched(connections, processes)


@pytest.mark.soak
@pytest.mark.req("E-09")
async def test_a_backlog_of_requests_stays_in_kafka(
    connections: Connections, environment: dict[str, str], tmp_path: Path
) -> None:
    await pile_up(connections, 2_000)
    with watching(connections, environment, tmp_path, APART) as watched:
        await watched.until_ended(150, timeout=170)
    assert 0 < watched.most_open <= MAX_OPEN + MAX_PENDING
    assert {roles: seen for roles, seen in watched.resident.items() if max(seen) > MOST * MEGABYTE} == {}


@pytest.mark.req("X-06")
@pytest.mark.soak
async def test_large_records_that_nobody_can_read_take_little_memory(
    connections: Connections, environment: dict[str, str], tmp_path: Path
) -> None:
    with watching(connections, environment, tmp_path, ["all"]) as watched:
        for number in range(LARGE_RECORDS):
            await connections.log.append(topics.EVENTS.name, [Message(f"{number}".encode(), os.urandom(MEGABYTE))])
            await watched.look()
        async with asyncio.timeout(170):
            while await connections.pool.fetchval("SELECT count(*) FROM dead_letters") < LARGE_RECORDS:
                await watched.look()
                await asyncio.sleep(PERIOD)
    assert max(watched.resident["all"]) < MOST_OF_LARGE_WORK * MEGABYTE


@pytest.mark.req("X-04")
@pytest.mark.soak
@pytest.mark.parametrize("text", [b"Many words, again and again. " * 1_400_000, b"\xff\x00" * 45_000_000])
async def test_large_documents_take_little_memory(
    connections: Connections, environment: dict[str, str], tmp_path: Path, text: bytes
) -> None:
    id_ = workflow_id(SOURCE, "large")
    content = await connections.content.put(id_, text)
    documents = tuple(StoredDocument(document_name=f"{number}.txt", content=content) for number in range(4))
    request = RequestWorkflow(prompt="Read it.", documents=documents)
    value = encode_request(request, source=SOURCE, request_id="large", time=TIME)
    with watching(connections, environment, tmp_path, ["all"], READ_AND_ANSWER) as watched:
        await connections.log.append(topics.REQUESTS.name, [Message(b"large", value)])
        await watched.until_ended(1, timeout=170)
        for _ in range(20):
            await watched.look()
            await asyncio.sleep(PERIOD)
    seen = [size / MEGABYTE for size in watched.resident["all"]]
    print(f"\n{max(seen):.0f} MB at most, {seen[-1]:.0f} MB in the end")  # noqa: T201 - for whoever runs it by hand
    assert max(seen) < MOST_OF_LARGE_WORK


@pytest.mark.req("E-09")
@pytest.mark.soak
@pytest.mark.timeout(1_200)
async def test_a_backlog_of_100_000_requests_takes_no_memory(
    connections: Connections, environment: dict[str, str], tmp_path: Path
) -> None:
    await pile_up(connections, 100_000)
    with watching(connections, environment, tmp_path, APART) as watched:
        await watched.until_ended(3_000, timeout=1_000)
        watched.resident.clear()
        await watched.until_ended(15_000, timeout=1_000)
    print(f"\n{watched.told()}")  # noqa: T201 - for whoever runs it by hand
    assert 0 < watched.most_open <= MAX_OPEN + MAX_PENDING
    watched.expect_flat()


@pytest.mark.req("E-09")
@pytest.mark.soak
@pytest.mark.timeout(3_600)
async def test_twenty_thousand_workflows_leave_nothing_behind(
    connections: Connections, environment: dict[str, str], tmp_path: Path
) -> None:
    with watching(connections, environment, tmp_path, ["all"]) as watched:
        for thousand in range(20):
            await pile_up(connections, 1_000, f"{thousand}-")
            await watched.until_ended(1_000 * (thousand + 1), timeout=600)
    print(f"\n{watched.told()}")  # noqa: T201 - for whoever runs it by hand
    watched.expect_flat()
