"""The same requests in both modes over the real Kafka and Postgres: the same documents, labels, messages and rows."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from commands import Shell
from modes import EXAMPLES, MODES, REQUESTS, Clumsy, Course, course, decided_by

from poweron_events import RequestWorkflow
from poweron_events.client import Heard
from poweron_events.event import Event
from poweron_projections import reader
from poweron_projections.entries import HistoryEntry
from poweron_projections.verify import verify
from poweron_services.client.ask import File, ask
from poweron_services.client.connect import Connections
from poweron_services.client.follow import Callbacks
from poweron_services.standalone import local_identity

pytestmark = [pytest.mark.system, pytest.mark.timeout(120)]


@pytest.fixture
def model() -> Clumsy:
    return Clumsy()


async def run(service: Connections, name: str, mode: str) -> tuple[Course, list[Event], list[Any]]:
    """The course of a request, its accepted events and its history as Postgres has it."""
    heard: list[Heard] = []
    outcome = await ask(
        service,
        RequestWorkflow(prompt=REQUESTS[name].prompt, workflow_mode=mode),
        [File(*file) for file in REQUESTS[name].files],
        identity=local_identity(),
        callbacks=Callbacks(heard.append),
    )
    accepted = [each.event for each in heard if each.event is not None and each.verdict == "accepted"]
    rows = await reader.history(service.pool, outcome.workflow_id)
    return await course(heard[-1].workflow, accepted, service.content), accepted, [_told(row) for row in rows]


def _told(row: HistoryEntry) -> tuple[Any, ...]:
    return row.kind, row.status, row.message, row.summary, row.documents_label, row.success, row.action


@pytest.mark.soak
@pytest.mark.req("A-02")
@pytest.mark.req("A-03")
async def test_requests_come_to_the_same_in_both_modes(service: Connections) -> None:
    ran = await asyncio.gather(*(run(service, name, mode) for name in REQUESTS for mode in MODES))
    for name, react, actionplan in zip(REQUESTS, ran[::2], ran[1::2], strict=True):
        assert react[0].ending == "completed", name
        assert actionplan[0] == react[0], name
        assert actionplan[2] == react[2], name
        assert (decided_by(react[1]), decided_by(actionplan[1])) == ({"model"}, {"plan"}), name
    assert (await verify(service.log, service.pool)).differences == []


@pytest.mark.req("A-01")
@pytest.mark.req("M-05")
async def test_the_mode_is_typed_and_told(service: Connections, environment: dict[str, str], tmp_path: Path) -> None:
    wanted = REQUESTS["a lookup"]
    files = [f"--document={EXAMPLES / name}" for name in wanted.documents]
    shell = Shell(environment, tmp_path)
    asked = await shell("ask", wanted.prompt, *files, "--mode", "Actionplan", "--no-serve", "--json")
    assert asked.code == 0, asked.err
    assert "planned     document.extract, ai.process" in asked.err
    (found,) = await reader.workflows(service.pool)
    assert found.workflow_id == asked.lines[0]["workflowId"]
    assert (found.workflow_mode, found.max_steps, found.current_action, found.current_step) == ("Actionplan", 5, 2, 2)
