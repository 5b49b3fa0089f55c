"""A million events: what is asked of so long a log is answered in time, and its replay takes no more memory.

What was measured is printed; docs/performance.md keeps it.
"""

import asyncio
import re
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from commands import Shell, ended
from repeated_workflows import RepeatedWorkflows, runs, stories
from terminal import Terminal
from test_bi import three_workflows

from poweron_events.log.memory import MemoryLog
from poweron_projections import bi
from poweron_projections.connection import Pool, acquire
from poweron_services.client.connect import Connections

pytestmark = [pytest.mark.system, pytest.mark.soak]

EVENTS = 1_000_000
FEW_EVENTS = 100_000
MOST_OF_A_REPLAY = 1.0  # seconds, without the start of Python
MOST_OF_A_VIEW = 2.0  # seconds
FEWEST_EXPORTED = 50_000  # rows a second
MOST_GROWTH = 1.2  # of the memory of a process, for ten times the events: the allocator does not give all back
PERIOD = 0.1  # seconds between looks at the memory
MEGABYTE = 1_000_000


def told(sentence: str) -> None:
    print(sentence, flush=True)  # noqa: T201 - for whoever runs it by hand


@pytest.mark.timeout(1_800)
async def test_a_replay_the_views_of_days_and_an_export_keep_their_limits(
    connections: Connections, shell: Shell, tmp_path: Path
) -> None:
    repeated = [*runs(), *stories(*three_workflows(MemoryLog()))]
    long = RepeatedWorkflows(connections, tmp_path / "kept", repeated)
    await long.grow(EVENTS)
    told(f"\n{long.events} events of {len(long.ids)} workflows")

    views = {view.name: await view_seconds(connections.pool, view.name) for view in bi.views()}
    assert len(views) >= 30
    by_day = {name: seconds for name, seconds in views.items() if name.endswith("_by_day")}
    told("\n".join(f"{name}: {seconds:.2f} s" for name, seconds in by_day.items()))

    first, middle = long.ids[0], long.ids[len(long.ids) // 2 // len(repeated) * len(repeated)]  # of the same run
    replays = [await replay_seconds(shell, id_) for id_ in (first, middle, first, middle)][1:]
    told(f"a replay: {', '.join(f'{each:.2f}' for each in replays)} s")
    told(f"a replay with the start of Python: {await typed_seconds(shell, middle):.2f} s")

    (exported,) = (await shell("bi", "export", "--output", tmp_path / "parquet", "--json")).lines
    rate = exported["rows"] / exported["seconds"]
    told(f"an export: {exported['rows']} rows, {rate:,.0f} rows/s")

    assert {name: seconds for name, seconds in by_day.items() if seconds > MOST_OF_A_VIEW} == {}
    assert max(replays) <= MOST_OF_A_REPLAY
    assert rate >= FEWEST_EXPORTED


async def view_seconds(pool: Pool, name: str) -> float:
    """How long all rows of a view take."""
    async with acquire(pool) as connection:
        began = time.perf_counter()
        await connection.fetch(f"SELECT * FROM bi.{name}")
        return time.perf_counter() - began


async def replay_seconds(shell: Shell, workflow_id: str) -> float:
    """How long `poweron replay` takes within this process."""
    began = time.perf_counter()
    found = await shell("replay", workflow_id, "--json")
    took = time.perf_counter() - began
    assert found.lines[-1]["same"] == found.lines[-1]["decisions"] > 0
    return took


async def typed_seconds(shell: Shell, workflow_id: str) -> float:
    """How long it takes in a process of its own."""
    began = time.perf_counter()
    assert (await ended(await shell.start("replay", workflow_id))).code == 0
    return time.perf_counter() - began


@pytest.mark.timeout(3_600)
async def test_a_replay_of_everything_tells_how_far_it_is_and_takes_no_more_memory_for_a_longer_log(
    connections: Connections, shell: Shell, tmp_path: Path
) -> None:
    repeated = runs()
    long = RepeatedWorkflows(connections, tmp_path / "kept", repeated)
    peaks = []
    for events in (FEW_EVENTS, EVENTS):
        await long.grow(events)
        decisions = [(await shell("replay", id_, "--json")).lines[-1]["decisions"] for id_ in long.ids[: len(repeated)]]
        total = sum(decisions[number % len(repeated)] for number in range(len(long.ids)))
        began = time.perf_counter()
        peaks.append(await replayed(shell, len(long.ids), total))
        took = time.perf_counter() - began
        own, other = (peak / MEGABYTE for peak in peaks[-1])
        told(f"\n{long.events} events: {total} decisions in {took:.0f} s, {own:.0f} MB and {other:.0f} MB")
    (few_own, few_other), (own, other) = peaks
    assert own < MOST_GROWTH * few_own
    assert other < MOST_GROWTH * few_other


async def replayed(shell: Shell, workflows: int, decisions: int) -> tuple[int, int]:
    """Replay everything in a terminal; the most memory of the command, and of any process that it started."""
    terminal = Terminal(shell, "replay", "--all")
    async with terminal.running() as process:
        most = await most_memory(process)
    shown = " ".join(terminal.shown.split())
    assert process.returncode == 0, shown[-2_000:]
    assert f"{decisions} decisions of {workflows} workflows: {decisions} same, 0 different, 0 inconclusive." in shown
    expect_progress(shown, workflows)
    return most


def expect_progress(shown: str, workflows: int) -> None:
    """Many places on the way were told, each further than the one before."""
    places = [int(place.replace(",", "")) for place in re.findall(rf"([\d,]+) of {workflows:,} workflows", shown)]
    assert len(set(places)) >= 10
    assert places == sorted(places)
    assert places[-1] == workflows


async def most_memory(process: asyncio.subprocess.Process) -> tuple[int, int]:
    """What the process had resident at most, and what any of its children had, in bytes; when it has ended."""
    own, most = psutil.Process(process.pid), dict[int, int]()
    while process.returncode is None:
        with suppress(psutil.Error):  # one has ended meanwhile
            for each in (own, *own.children(recursive=True)):
                most[each.pid] = max(most.get(each.pid, 0), each.memory_info().rss)
        await asyncio.sleep(PERIOD)
    return most.pop(process.pid), max(most.values())
