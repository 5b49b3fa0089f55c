"""`kill -9` at every turn of the loop: the workflow completes once, and the rows are what the log says."""

from pathlib import Path
from typing import Any

import pytest
from followed_workflows import completed_once, followed, send_request
from modes import EXAMPLES
from processes import ONE_STEP, Processes, script, serving
from providers import KEY, Playing
from pytest_httpserver import HTTPServer
from test_real_model import REPLY, SAID
from werkzeug import Response

from poweron_events import InlineDocument, RequestWorkflow
from poweron_events.fold.costs import model_calls
from poweron_events.fold.stage_specs import turn
from poweron_events.fold.state import Workflow
from poweron_projections import reader
from poweron_services.client.connect import Connections
from poweron_services.wiring import ROLES

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]

ESTIMATE = EXAMPLES / "estimate.pdf"
LETTER = EXAMPLES / "letter.txt"


@pytest.mark.req("E-06")
@pytest.mark.parametrize("when", ["once in each phase", pytest.param("at every turn", marks=pytest.mark.soak)])
async def test_one_process_of_all_roles_is_killed(
    when: str, connections: Connections, environment: dict[str, str], tmp_path: Path
) -> None:
    document = InlineDocument.of(ESTIMATE.name, ESTIMATE.read_bytes())
    request = RequestWorkflow(prompt="What is the grand total of the estimate?", documents=(document,))
    killed: list[str] = []
    with serving(environment, tmp_path, ["all"]) as processes:

        def kill(workflow: Workflow) -> None:
            if when == "at every turn" or workflow.phase not in killed:
                killed.append(workflow.phase)
                processes.replace(["all"])

        workflow_id = await send_request(connections, request)
        seen = await followed(connections, workflow_id, kill)
        message = await completed_once(connections, workflow_id, seen)
    assert "1,980.84" in message
    assert {"plan", "select", "parameterize", "refine", "review"} <= set(killed)


@pytest.mark.soak
@pytest.mark.req("E-06")
async def test_the_process_whose_turn_it_is_is_killed_at_every_turn(
    connections: Connections, environment: dict[str, str], tmp_path: Path
) -> None:
    environment["POWERON_MODEL"] = script(tmp_path, ONE_STEP)
    killed: set[str] = set()
    with serving(environment, tmp_path, ROLES) as processes:

        def kill(workflow: Workflow) -> None:
            role = turn(workflow)
            assert role is not None
            killed.add(role)
            processes.replace([role])

        workflow_id = await send_request(connections, RequestWorkflow(prompt="Write it."))
        seen = await followed(connections, workflow_id, kill)
        message = await completed_once(connections, workflow_id, seen)
    assert message == "It is written."
    assert {"planner", "selector", "parameterizer", "executor", "refiner", "reviewer"} <= killed


@pytest.mark.soak
@pytest.mark.req("E-06")
async def test_the_processes_of_all_roles_are_killed_at_every_turn(
    connections: Connections, environment: dict[str, str], tmp_path: Path
) -> None:
    environment["POWERON_MODEL"] = script(tmp_path, ONE_STEP)
    killed: list[str] = []
    with serving(environment, tmp_path, ROLES) as processes:

        def kill(workflow: Workflow) -> None:
            killed.append(workflow.phase)
            processes.replace(ROLES)

        workflow_id = await send_request(connections, RequestWorkflow(prompt="Write it."))
        seen = await followed(connections, workflow_id, kill)
        message = await completed_once(connections, workflow_id, seen)
    assert message == "It is written."
    assert len(killed) >= 6


@pytest.mark.req("E-06")
@pytest.mark.req("B-01")
@pytest.mark.parametrize("killed_at", [{5}, pytest.param({*range(1, 12, 2)}, marks=pytest.mark.soak)])
async def test_a_process_killed_at_a_question_repeats_that_call_only_and_each_answer_counts_once(
    connections: Connections, environment: dict[str, str], tmp_path: Path, httpserver: HTTPServer, killed_at: set[int]
) -> None:
    """Killed when an action has asked for the second time; in the long run at all six questions."""
    started: list[Processes] = []

    def kill_and_reply(asked: dict[str, Any]) -> Response:
        if len(playing.asked) in killed_at:
            started[0].replace(["all"])
        return REPLY(asked)

    playing = Playing(httpserver, "openai", [kill_and_reply])
    environment |= {
        "POWERON_MODEL": "openai:test",
        "OPENAI_BASE_URL": httpserver.url_for("/v1"),
        "OPENAI_API_KEY": KEY,
    }
    document = InlineDocument.of(LETTER.name, LETTER.read_bytes())
    request = RequestWorkflow(prompt="When does the exhibition open?", documents=(document,))
    with serving(environment, tmp_path, ["all"]) as processes:
        started.append(processes)
        workflow_id = await send_request(connections, request)
        seen = await followed(connections, workflow_id, lambda _: None)
        assert await completed_once(connections, workflow_id, seen) == SAID
    assert len(playing.asked) == 6 + len(killed_at)
    calls = [call for _, event in seen if event is not None for call in model_calls(event)]
    assert [(call.input_tokens, call.output_tokens) for call in calls] == [(1_000, 20)] * 6
    row = await reader.workflow(connections.pool, workflow_id)
    assert row is not None
    assert row.tokens == 6 * 1_020
