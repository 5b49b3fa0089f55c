"""Forks at every event of a workflow on real servers, while their processes are killed: all the same, nothing touched.

In each of the three workflows something counts what actions do: servers of pages, the server of a tool that may run
at most once, and a file of effects.
"""

import asyncio
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest
from commands import Shell
from followed_workflows import send_request
from museum_site import museum_web
from processes import Processes, serving
from researcher import QUESTION
from researchers import researchers
from surviving import DEADLINE, PERIOD, Survival, until, witnesses
from test_tool_kill import counted, prepared

from poweron_events import RequestWorkflow
from poweron_events.request import ForkedFrom
from poweron_events.step_events import ActionCompleted, ActionStarted
from poweron_projections.reader import JudgedRecord, judged_records
from poweron_projections.verify import verify
from poweron_services.client.connect import Connections

pytestmark = [pytest.mark.system, pytest.mark.soak, pytest.mark.timeout(600)]

KILLS = 8  # wanted while the forks run
FEWEST_KILLS = 4  # processes may have done much until they are dead
FEWEST_PHASES = 4  # that forks were in when their processes were killed


@dataclass(frozen=True)
class Story:
    """Processes that work on a workflow, what it is asked, and how often its actions have touched anything."""

    processes: Processes
    prompt: str
    touched: Callable[[], int]

    def kill(self) -> None:
        self.processes.replace([*self.processes.running])


Opened = Callable[[Mapping[str, str], Path], Iterator[Story]]


def in_the_web(environment: Mapping[str, str], folder: Path) -> Iterator[Story]:
    """Search, pages, links and an answer; servers count what they are asked for."""
    with museum_web() as museums, researchers(environment | museums.settings, folder) as processes:
        yield Story(processes, QUESTION, lambda: len(museums.asked))


def by_a_tool(environment: Mapping[str, str], folder: Path) -> Iterator[Story]:
    """A tool that may run at most once; its server counts."""
    settings = dict(environment)
    prepared(settings, folder, "count")
    with serving(settings, folder, ["all"]) as processes:
        yield Story(processes, "Count.", lambda: counted(folder, "count"))


def with_an_effect(environment: Mapping[str, str], folder: Path) -> Iterator[Story]:
    """An action that may run again, and writes down each time that it does."""
    with witnesses(environment, folder, ["first", "second"]) as processes:
        prompt = orjson.dumps({"action": "idempotent"}).decode()
        yield Story(processes, prompt, lambda: len((folder / "effects").read_text().splitlines()))


@pytest.fixture(params=[in_the_web, by_a_tool, with_an_effect], ids=lambda opened: opened.__name__)
def story(request: pytest.FixtureRequest, environment: dict[str, str], tmp_path: Path) -> Generator[Story, None, None]:
    opened: Opened = request.param
    with contextmanager(opened)(environment, tmp_path) as story:
        yield story


@pytest.mark.req("E-06")
@pytest.mark.req("E-08")
async def test_forks_at_every_event_whose_processes_are_killed_are_the_same_and_touch_nothing(
    story: Story, survival: Survival, connections: Connections, shell: Shell
) -> None:
    origin = await send_request(connections, RequestWorkflow(prompt=story.prompt))
    await until(lambda: survival.ended(origin), "the workflow ends")
    touched = story.touched()
    assert touched > 0
    records = await rows_of(connections, origin, survival.events(origin))
    forks = [await forked(connections, story.prompt, origin, each) for each in records]
    phases = await killed_while_they_run(story, survival, forks)
    assert len(phases) >= FEWEST_KILLS, "the forks were done before enough processes were killed"
    assert len(set().union(*phases)) >= FEWEST_PHASES
    assert story.touched() == touched
    for seq, fork in enumerate(forks):
        found = await shell("diff", origin, fork)
        assert (found.code, found.out.startswith("Both did the same")) == (0, True), (seq, found.out)
    started = [event for fork in forks for event in of(survival, fork, ActionStarted)]
    assert {event.worker for event in started} == {"recorded"}
    assert all(event.reused_from is not None for fork in forks for event in of(survival, fork, ActionCompleted))
    assert (await verify(connections.log, connections.pool)).differences == []


async def rows_of(connections: Connections, origin: str, events: int) -> list[JudgedRecord]:
    """The accepted records of the workflow, once the rows hold all of them."""
    async with asyncio.timeout(DEADLINE):
        while True:
            records = await judged_records(connections.pool, origin)
            accepted = [each for each in records if each.verdict == "accepted"]
            if len(accepted) == events:
                return accepted
            await asyncio.sleep(PERIOD)


async def forked(connections: Connections, prompt: str, origin: str, record: JudgedRecord) -> str:
    """A request for a fork at this record; the id of the fork."""
    place = ForkedFrom(workflow=origin, seq=record.seq, head=record.sha256)
    return await send_request(connections, RequestWorkflow(prompt=prompt, forked_from=place))


async def killed_while_they_run(story: Story, survival: Survival, forks: Sequence[str]) -> list[set[str]]:
    """Kill all processes whenever a further part of the forks' events is there; what the forks waited for each time."""
    expected, phases = len(forks) ** 2, list[set[str]]()

    def done() -> int:
        return sum(survival.events(fork) for fork in forks)

    while not survival.ended(*forks):
        most = done() + expected // KILLS
        await until(lambda most=most: done() >= most or survival.ended(*forks), "the forks go on")
        if not survival.ended(*forks):
            phases.append({survival.phase(fork) for fork in forks} - {"ended"})
            story.kill()
    return phases


def of(survival: Survival, fork: str, kind: type) -> list:
    """The accepted events of a kind."""
    return [each.event for each in survival.accepted[fork] if isinstance(each.event, kind)]
