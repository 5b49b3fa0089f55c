"""The same requests in both modes come to the same documents, labels, messages and events of each step."""

from typing import Any

import pytest
from doubles import World, our_actions
from modes import BROKEN, MODES, READ_AND_ANSWER, REQUESTS, Careless, Clumsy, Course, Wanted, course, decided_by

from builders import follow_up, requested
from poweron_events.event import DocumentRef
from poweron_events.request import workflow_id
from poweron_services.models.builtin import BuiltinModel
from poweron_services.models.builtin.task_judgement import NONE_READABLE

pytestmark = pytest.mark.usefixtures("logged")

ID = workflow_id("/tests", "1")
STEP = ["ActionSelected", "ParametersSet", "ActionStarted", "ActionCompleted", "ObservationRecorded"]


async def stored(world: World, wanted: Wanted, round_number: int = 1) -> tuple[DocumentRef, ...]:
    return tuple(
        [
            DocumentRef(
                document_id=f"r{round_number}d{number}",
                document_name=name,
                mime_type="application/octet-stream",
                size=len(data),
                content=await world.content.put(ID, data),
            )
            for number, (name, data) in enumerate(wanted.files, start=1)
        ]
    )


async def run(*rounds: tuple[Wanted, str], model: BuiltinModel | None = None) -> tuple[Course, list[Any]]:
    """The course of the last of these rounds of a workflow, and the accepted events of all."""
    world = World(await our_actions(), model=model or Clumsy())
    async with world.process():
        for number, (wanted, mode) in enumerate(rounds, start=1):
            asked: dict[str, Any] = {
                "prompt": wanted.prompt,
                "workflow_mode": mode,
                "documents": await stored(world, wanted, number),
            }
            opening = requested(**asked) if number == 1 else follow_up(number, **asked)
            await world.tell(ID, opening)
            await world.until(ID, lambda workflow, last=number: len(workflow.openings) == last)  # type: ignore[misc]
            workflow = await world.ended(ID)
    accepted = world.accepted(ID)
    assert world.names(ID, "superseded") == []
    return await course(workflow, accepted, world.content), accepted


@pytest.mark.req("A-02")
@pytest.mark.req("P-05")
@pytest.mark.parametrize("name", REQUESTS)
async def test_a_request_comes_to_the_same_in_both_modes(name: str) -> None:
    wanted = REQUESTS[name]
    react, selecting = await run((wanted, "React"))
    actionplan, planning = await run((wanted, "Actionplan"))
    assert actionplan == react
    assert react.ending == "completed"
    assert [action for action, *_ in react.selected] == list(wanted.actions)
    assert react.steps == [STEP] * len(wanted.actions)
    assert react.documents
    assert (decided_by(selecting), decided_by(planning)) == ({"model"}, {"plan"})


@pytest.mark.req("S42")
@pytest.mark.req("A-02")
@pytest.mark.parametrize("mode", MODES)
async def test_an_answer_that_is_careless_but_harmless_comes_to_the_same_as_the_exact_one(mode: str) -> None:
    exact, expected = await run((REQUESTS["a file"], mode))
    careless, accepted = await run((REQUESTS["a file"], mode), model=Careless())
    assert [type(event) for event in accepted] == [type(event) for event in expected]
    assert (careless.selected, careless.parameters) == (exact.selected, exact.parameters)
    assert (careless.documents, careless.ending) == (exact.documents, "completed")
    assert set(normalised(expected)) == {()}
    assert () not in normalised(accepted)


def normalised(accepted: list[Any]) -> list[tuple[str, ...]]:
    """Of each decision that a model made, the fields that it did not write exactly."""
    return [event.model_call.normalised for event in accepted if getattr(event, "model_call", None)]


@pytest.mark.req("A-03")
async def test_an_action_of_a_plan_that_fails_is_reviewed_and_the_task_is_planned_again_with_the_improvements() -> None:
    found, accepted = await run((REQUESTS["a failure that is tried again"], "Actionplan"))
    names = [type(event).__name__ for event in accepted]
    assert names == [
        "WorkflowRequested",
        "TasksPlanned",
        "ActionsPlanned",
        *STEP,
        "TaskReviewed",
        "ActionsPlanned",
        *STEP,
        "TaskReviewed",
        "RoundCompleted",
    ]
    reviewed, again = [event for event in accepted if type(event).__name__ in ("TaskReviewed", "ActionsPlanned")][1:3]
    assert (reviewed.status, again.attempt, again.actions[0].learnings) == ("retry", 2, reviewed.improvements)
    assert [label for label, *_ in found.results] == ["round1_task1_action1_extract", "round1_task1_action2_process"]


@pytest.mark.req("A-01")
async def test_all_actions_of_a_task_are_planned_in_one_call() -> None:
    _, accepted = await run((REQUESTS["a report"], "Actionplan"))
    plans = [event for event in accepted if type(event).__name__ == "ActionsPlanned"]
    assert [tuple(action.action for action in plan.actions) for plan in plans] == [
        READ_AND_ANSWER,
        ("document.generateReport",),
    ]
    assert plans[0].actions[1].required_input_documents == ("docList:round1_task1_action1_extract",)
    assert not any(getattr(event, "model_call", None) for event in accepted if hasattr(event, "step"))


@pytest.mark.req("A-02")
@pytest.mark.req("M-05")
@pytest.mark.parametrize("first", MODES)
async def test_switching_the_mode_between_rounds_changes_no_result(first: str) -> None:
    wanted = REQUESTS["a lookup"], REQUESTS["a file"]
    stayed, _ = await run((wanted[0], first), (wanted[1], first))
    second = "Actionplan" if first == "React" else "React"
    switched, accepted = await run((wanted[0], first), (wanted[1], second))
    assert switched == stayed
    assert switched.ending == "completed"
    assert decided_by(accepted) == {"model", "plan"}


@pytest.mark.req("L-10")
@pytest.mark.parametrize("mode", MODES)
async def test_the_final_message_names_what_could_not_be_read_once_in_both_modes(mode: str) -> None:
    _, events = await run((REQUESTS["a failure that is tried again"], mode))
    assert type(events[-1]).__name__ == "RoundCompleted"
    _, told = events[-1].message.split("Documents that could not be read (1 of 2):\n\n")
    assert told.startswith(f"- {BROKEN!r} ")
    assert len(told.splitlines()) == 1


@pytest.mark.req("L-10")
@pytest.mark.parametrize("mode", MODES)
async def test_where_no_document_can_be_read_none_is_tried_again_and_the_reason_stands_once(mode: str) -> None:
    found, _ = await run((Wanted("What is the total?", (BROKEN,), ()), mode), model=BuiltinModel())
    assert [action for action, *_ in found.selected] == ["document.extract"]
    assert found.ending == "failed"
    assert found.message.startswith(f"The request could not be completed. {NONE_READABLE}\n\nThe last problem met was:")
    assert found.message.count(BROKEN) == 1
