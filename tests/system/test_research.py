"""Research in the open web on the real Kafka and Postgres: answered with sources, and nothing fetched twice."""

import asyncio
import secrets
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from museum_site import LINK, MuseumWeb, museum_web
from processes import Processes
from researcher import COURSE, QUESTION
from surviving import until

from poweron_events import RequestWorkflow, encode_request, topics, workflow_id
from poweron_events.codec import read_record
from poweron_events.fold.evolve import evolve
from poweron_events.fold.state import Workflow
from poweron_events.log import Message
from poweron_projections.verify import verify
from poweron_services.client.connect import Connections
from poweron_services.wiring import ROLES

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]

SOURCE = "/tests/research"
TESTS = Path(__file__).parents[1]
OTHERS = ",".join(role for role in ROLES if role != "executor")


@pytest.fixture
def museums() -> Generator[MuseumWeb, None, None]:
    with museum_web() as web:
        yield web


class Researchers(Processes):
    """Processes of `research_process.py`, one for each set of roles."""

    def start(self, roles: str) -> None:
        with (self._folder / f"{roles[:20]}.log").open("ab") as log:
            self._running[roles] = subprocess.Popen(
                [sys.executable, TESTS / "system" / "research_process.py", roles],
                env={**self._environment, "PYTHONPATH": str(TESTS)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )


@contextmanager
def researchers(environment: Mapping[str, str], folder: Path) -> Generator[Researchers, None, None]:
    """A process of the executor and one of all other roles, which are gone at the end."""
    processes = Researchers(environment, folder)
    try:
        for roles in ("executor", OTHERS):
            processes.start(roles)
        yield processes
    finally:
        processes.stop()


async def asked(connections: Connections, mode: str) -> str:
    """A request that somebody else wrote; the id of its workflow."""
    identity = secrets.token_hex(8)
    request = RequestWorkflow(prompt=QUESTION, workflow_mode=mode)
    value = encode_request(request, source=SOURCE, request_id=identity, time="2026-11-21T00:00:00.000Z")
    await connections.log.append(topics.REQUESTS.name, [Message(identity.encode(), value)])
    return workflow_id(SOURCE, identity)


class Followed:
    """A workflow as the log tells it."""

    def __init__(self, connections: Connections, workflow_id: str) -> None:
        self._log = connections.log
        self.workflow = Workflow(workflow_id)
        self.accepted: list[Any] = []

    async def follow(self) -> None:
        partition = self._log.partition_of(topics.EVENTS.name, self.workflow.id.encode())
        async for records in self._log.tail(topics.EVENTS.name, partition, 0):
            for recorded in map(read_record, records):
                self.workflow, verdict = evolve(self.workflow, recorded)
                if verdict == "accepted":
                    self.accepted.append(recorded.envelope.event)

    def of(self, name: str) -> list[Any]:
        return [event for event in self.accepted if type(event).__name__ == name]

    async def started(self, action: str) -> None:
        await until(lambda: action in [event.action for event in self.of("ActionStarted")], f"{action} is started")

    async def ended(self) -> None:
        await until(lambda: self.workflow.phase == "ended", "the round ends")


HELD = {"/search": 0, "/slow": 9, "/fares.pdf": 15}
"""What is held back in each of the first three steps, and how many pages, redirects and rules all others have come to."""


def kept(home: Path) -> int:
    """How many pages, redirects and rules are kept; what was refused is kept, too."""
    return len([path for path in home.glob("**/pages/*") if b'"refusal":null' in path.read_bytes()])


@pytest.mark.req("E-08")
@pytest.mark.req("C-02")
@pytest.mark.req("C-03")
@pytest.mark.parametrize("mode", ["React", pytest.param("Actionplan", marks=pytest.mark.soak)])
async def test_an_executor_killed_within_each_step_leaves_nothing_to_be_fetched_again(
    mode: str, connections: Connections, environment: dict[str, str], tmp_path: Path, museums: MuseumWeb
) -> None:
    """Killed while the engine answers, while pages are read, while links are followed, and while the model writes."""
    for path in HELD:
        museums.hold(path)
    with researchers(environment | museums.settings, tmp_path) as processes:

        def kill(path: str) -> None:
            """What was on its way to the killed process never came to it."""
            processes.kill("executor")
            museums.drop(path)
            processes.start("executor")

        async def held(path: str, others: int) -> None:
            await until(lambda: museums.waits(path), f"{path} is asked for")
            await until(lambda: kept(tmp_path) == museums.answered() == others, f"{others} others are kept")

        async with asyncio.TaskGroup() as group:
            found = Followed(connections, await asked(connections, mode))
            following = group.create_task(found.follow())
            for path, others in HELD.items():
                await held(path, others)
                kill(path)
            await found.started("ai.process")
            processes.replace(["executor"])
            await found.ended()
            following.cancel()
    expect_done(found, museums)
    assert museums.dropped == [("engine", museums.searches()[0]), ("site", "/slow"), ("site", "/fares.pdf")]
    assert (await verify(connections.log, connections.pool)).differences == []


def expect_done(found: Followed, museums: MuseumWeb) -> None:
    assert type(found.accepted[-1]).__name__ == "RoundCompleted"
    results = found.of("ActionCompleted")
    assert [event.action for event in found.of("ActionSelected")] == [*COURSE]
    assert [(event.step, event.outcome) for event in results] == [(step, "done") for step in (1, 2, 3, 4)]
    assert museums.more_than_once() == {}
    assert museums.times("/private/plans") == 0
    assert set(museums.of("attacker")) <= {LINK}
