"""One iteration as the whole loop plays it: what runs, what the loop sees of it, what it cost, how the round ends."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from doubles import CRITERION, TASK, Counting, World, script

from poweron_events.fold.costs import model_calls
from poweron_events.fold.state import Workflow
from poweron_events.round_events import RoundCompleted, TaskReviewed, TasksPlanned
from poweron_events.step_events import ActionCompleted, ActionResult, ActionSelected, ParametersSet, RefinementDecided
from poweron_services import telemetry
from poweron_services.actions.action import Done, document
from poweron_services.models.prompts import (
    ActionsPrompt,
    MessagePrompt,
    ParametersPrompt,
    Prompt,
    RefinementPrompt,
    ReviewPrompt,
    SelectionPrompt,
)

SERVICES = Path(__file__).parents[3] / "services" / "poweron_services"
DONE = {
    "decision": "stop",
    "reason": "It is done.",
    "classification": "success",
    "criteriaProgress": [{"criterion": CRITERION, "met": True, "progress": 1000}],
}
ON = {"decision": "continue", "reason": "Not yet.", "classification": "success"}
SELECT = {"action": "test.pure", "actionObjective": "Do it"}
PARAMETERS: dict[str, Any] = {"schema": "parameters_v1", "parameters": {}}


async def worked(world: World, **terms: Any) -> tuple[Workflow, list[Any]]:
    """A round in the world, and its accepted events."""
    id_ = await world.ask(**terms)
    async with world.process():
        workflow = await world.ended(id_)
    return workflow, world.accepted(id_)


# --- acting ------------------------------------------------------------------------------------------------


@pytest.mark.req("L-03")
@pytest.mark.parametrize("mode", ["React", "Actionplan"])
async def test_just_the_selected_action_runs_and_once_its_parameters_are_set(mode: str) -> None:
    chosen, other = Counting("test.chosen"), Counting("test.other")
    world = World([chosen, other])
    _, told = await worked(world, workflow_mode=mode)
    assert (len(chosen.runs), len(other.runs)) == (1, 0)
    names = [type(event).__name__ for event in told]
    assert names.index("ActionSelected") < names.index("ParametersSet") < names.index("ActionStarted")


@pytest.mark.req("L-03")
async def test_without_parameters_nothing_runs() -> None:
    action = Counting()
    world = World([action], script(parameters=["nonsense"], review=[{"status": "failed", "reason": "No."}]))
    workflow, told = await worked(world)
    assert (workflow.current.ending, action.runs) == ("failed", [])
    assert [type(event).__name__ for event in told].count("ParametersRejected") == 2


# --- observing ---------------------------------------------------------------------------------------------


@pytest.mark.req("L-04")
@pytest.mark.parametrize("mode", ["React", "Actionplan"])
async def test_the_loop_sees_how_a_result_begins_and_no_more_of_it(mode: str) -> None:
    text = "It begins so." + " and goes on" * 100 + " to the canary"
    result = Done(ActionResult(success=True, documents=(document("a.md", text, "text/markdown"),)))
    lines = script(refinement=[ON, DONE], review=[{"status": "retry"}, {"status": "success"}])
    world = World([Counting(result=lambda: result)], lines)
    await worked(world, workflow_mode=mode)
    of_the_loop = (SelectionPrompt, ParametersPrompt, ActionsPrompt, RefinementPrompt, ReviewPrompt)
    shown = [prompt.render().data for prompt in world.model.asked if isinstance(prompt, of_the_loop)]
    assert len(shown) > 3
    assert any("It begins so." in data for data in shown)
    assert not any("canary" in data for data in shown)


# --- what it cost ------------------------------------------------------------------------------------------


def lines_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def used(events: list[Any]) -> tuple[int, int]:
    calls = [call for event in events for call in model_calls(event)]
    return sum(call.input_tokens for call in calls), sum(call.output_tokens for call in calls)


@pytest.mark.req("B-01")
async def test_answers_that_were_refused_count_for_their_iteration_in_its_event_and_its_line(tmp_path: Path) -> None:
    lines = script(
        selection=["nonsense", SELECT],
        parameters=["nonsense", PARAMETERS],
        refinement=["nonsense", ON, DONE],
    )
    world = World([Counting()], lines)
    telemetry.configure("info", telemetry.LogFile(tmp_path / "log"))
    _, told = await worked(world)
    decided = [event for event in told if isinstance(event, RefinementDecided)]
    steps = [[event for event in told if getattr(event, "step", 0) == number] for number in (1, 2)]
    assert [used(step) for step in steps] == [(60, 30), (30, 15)]
    assert [(one.iteration.input_tokens, one.iteration.output_tokens) for one in decided] == [(60, 30), (30, 15)]
    iterations = [line for line in lines_of(tmp_path / "log") if line["event"] == "iteration_ended"]
    assert [(line["input_tokens"], line["output_tokens"]) for line in iterations] == [(60, 30), (30, 15)]
    assert all(line["duration_ms"] >= 0 for line in iterations)


@pytest.mark.req("B-01")
@pytest.mark.parametrize(("refused", "tokens"), [("selection", (20, 10)), ("parameters", (30, 15))])
async def test_an_iteration_that_ends_by_a_refusal_tells_of_both_answers(
    refused: str, tokens: tuple[int, int], tmp_path: Path
) -> None:
    world = World([Counting()], script(**{refused: ["nonsense"]}))
    telemetry.configure("info", telemetry.LogFile(tmp_path / "log"))
    workflow, told = await worked(world)
    (line,) = [line for line in lines_of(tmp_path / "log") if line["event"] == "iteration_ended"]
    assert (line["input_tokens"], line["output_tokens"]) == tokens
    assert "nonsense" not in line["reason"]
    assert used([event for event in told if hasattr(event, "step")]) == tokens
    totals = workflow.current.totals
    assert (totals.input_tokens, totals.output_tokens) == used(told)


# --- what is kept of a call --------------------------------------------------------------------------------


@pytest.mark.req("P-08")
async def test_each_decision_names_its_template_its_model_and_where_prompt_and_answer_are_kept() -> None:
    world = World([Counting()])
    workflow, told = await worked(world)
    deciding = (TasksPlanned, ActionSelected, ParametersSet, RefinementDecided, TaskReviewed, RoundCompleted)
    decisions = [event for event in told if isinstance(event, deciding)]
    calls = [call for event in decisions for call in model_calls(event)]
    assert len(calls) == len(decisions) == 6
    for call, prompt in zip(calls, world.model.asked, strict=True):
        (template,) = SERVICES.rglob(call.template)
        assert call.template_sha256 == hashlib.sha256(template.read_bytes()).hexdigest()
        assert (call.provider, call.model) == ("scripted", "script")
        assert (await world.content.get(workflow.id, str(call.prompt_ref))).decode() == str(prompt.render())
        assert call.answer_ref is not None
    answers = [(await world.content.get(workflow.id, call.answer_ref or "")).decode() for call in calls]
    assert answers[-1] == "The total is 42."
    assert json.loads(answers[1]) == SELECT


# --- how a round ends --------------------------------------------------------------------------------------


@pytest.mark.req("L-08")
async def test_the_task_that_makes_the_file_takes_one_step_whatever_the_model_says() -> None:
    last = {**TASK, "objective": "Write it as JSON", "expectedFormats": ["json"], "maxSteps": 1}
    world = World([Counting()], script(planning=[{"tasks": [TASK, last]}], refinement=[ON]))
    _, told = await worked(world, max_steps=2)
    assert [(one.task, one.step) for one in told if isinstance(one, ActionCompleted)] == [(1, 1), (1, 2), (2, 1)]
    asked = [prompt for prompt in world.model.asked if isinstance(prompt, SelectionPrompt)]
    assert (asked[-1].objective, asked[-1].expected_formats, asked[-1].steps_left) == ("Write it as JSON", ("json",), 1)
    assert isinstance(told[-1], RoundCompleted)
    assert told[-1].message == "The total is 42."


@pytest.mark.req("L-08")
@pytest.mark.parametrize("mode", ["React", "Actionplan"])
async def test_the_outcome_names_the_files_of_every_task_and_tells_equal_names_apart(mode: str) -> None:
    written = [
        Done(ActionResult(success=True, documents=(document("answer.md", text, "text/markdown"),))) for text in "12"
    ]
    process = Counting("ai.process", result=iter(written).__next__)
    world = World([process], script("ai.process", planning=[{"tasks": [TASK, TASK]}]))
    workflow, told = await worked(world, workflow_mode=mode)
    ended = told[-1]
    assert [(each.document_id, each.document_name) for each in ended.documents] == [
        ("r1t1a1d1", "answer.md"),
        ("r1t2a1d1", "answer (2).md"),
    ]
    assert [await world.content.get(workflow.id, each.content) for each in ended.documents] == [b"1", b"2"]
    (prompt,) = [prompt for prompt in world.model.asked if isinstance(prompt, MessagePrompt)]
    assert prompt.documents == ("answer.md", "answer (2).md")


FAILED = Done(ActionResult(success=False, error="The archive holds no letter."), code="action_failed")
FOUND = Done(ActionResult(success=True, documents=(document("answer.md", "42", "text/markdown"),)))
SAYS_FAILED = re.compile(r"^- .*\bfailed\b.*$", re.MULTILINE)


def truthful(prompt: Prompt) -> str:
    """What a model says that knows nothing but its prompt, and tells of each failure that stands there."""
    failed = SAYS_FAILED.findall(prompt.render().data)
    return "\n".join(["Not all of it worked:", *failed]) if failed else "Everything was done."


@pytest.mark.req("L-08")
@pytest.mark.parametrize("mode", ["React", "Actionplan"])
async def test_a_truthful_model_does_not_claim_success_where_a_step_failed(mode: str) -> None:
    results = iter([FAILED, FOUND])
    reviews = [{"status": "retry", "reason": "Half of it is missing."}, {"status": "success", "reason": "It will do."}]
    world = World(
        [Counting("ai.process", result=lambda: next(results))],
        script("ai.process", refinement=[{**DONE, "criteriaProgress": []}], review=reviews, message=[truthful]),
    )
    _, told = await worked(world, workflow_mode=mode)
    assert isinstance(told[-1], RoundCompleted)
    assert told[-1].message.splitlines() == [
        "Not all of it worked:",
        "- attempt 1, step 1, ai.process failed: The archive holds no letter.",
    ]
    (result,) = world.model.asked[-1].results
    assert result.reviews == (
        "Task 1 of 1 is done: It will do.",
        "Task 1 of 1 is tried again: Half of it is missing.",
    )


async def test_a_truthful_model_says_that_all_is_done_where_no_step_failed() -> None:
    _, told = await worked(World([Counting()], script(message=[truthful])))
    assert told[-1].message == "Everything was done."
