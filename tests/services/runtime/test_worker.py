"""What a worker does with the log, told as stories over the log in memory."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from doubles import EVENTS, ROLES, WHOLE_LOOP, Away, Clock, Counting, World, script, soon
from structlog.testing import capture_logs

from builders import cancellation, requested
from poweron_events.errors import Refused, Unavailable
from poweron_events.fold.state import Workflow
from poweron_events.request import workflow_id
from poweron_events.round_events import AnswerRejected
from poweron_services import telemetry
from poweron_services.cli.advice import advice_for
from poweron_services.models.chat_model import Completion
from poweron_services.models.prompts import Prompt
from poweron_services.models.scripted import ScriptedModel
from poweron_services.roles.selector import Selector
from poweron_services.runtime import worker

pytestmark = pytest.mark.usefixtures("logged")


@pytest.mark.req("E-06")
@pytest.mark.req("L-01")
async def test_a_worker_brings_a_request_to_its_end() -> None:
    action = Counting()
    world = World([action])
    async with world.process():
        workflow = await world.ended(await world.ask())
    assert world.names(workflow.id) == WHOLE_LOOP
    assert world.names(workflow.id, "superseded") == []
    assert world.accepted(workflow.id)[-1].message == "The total is 42."
    assert len(action.runs) == 1


@pytest.mark.req("L-10")
async def test_half_a_character_from_the_model_does_not_keep_a_round_from_its_end() -> None:
    world = World([Counting()], script(message=["The total \ud83d is 42."]))
    async with world.process():
        workflow = await world.ended(await world.ask())
    assert world.accepted(workflow.id)[-1].message == "The total ? is 42."


@pytest.mark.req("E-06")
async def test_a_role_that_says_the_same_three_times_without_effect_stops_and_a_cancellation_ends_the_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    select = Selector.__call__

    async def beside_the_point(selector: Selector, workflow: Workflow) -> Any:
        return [event.model_copy(update={"step": 7}) for event in await select(selector, workflow)]

    monkeypatch.setattr(Selector, "__call__", beside_the_point)
    world = World([Counting()])
    with capture_logs() as lines:
        async with world.process():
            workflow = await world.until(await world.ask(), lambda found: found.stuck)
            await soon(lambda: "workflow_stuck" in {line["event"] for line in lines})
        async with world.process():  # nor does the next process try again
            superseded = world.names(workflow.id, "superseded")
            await world.tell(workflow.id, cancellation())
            await world.ended(workflow.id)
    assert world.names(workflow.id, "superseded") == superseded
    assert len(superseded) > 3  # who thinks ahead has not read what came of the event before, and does not count
    assert set(superseded) == {"ActionSelected"}
    told = [line["event"] for line in lines if line["log_level"] == "error"]
    *vain, last = told
    assert (set(vain), last) == ({"event_without_effect"}, "workflow_stuck")
    assert len(vain) > 1


@pytest.mark.req("E-06")
async def test_roles_split_over_several_processes_do_the_same() -> None:
    world = World([Counting()])
    for one in ROLES:
        world.start(frozenset({one}))
    workflow = await world.ended(await world.ask())
    for process in world.processes:
        await process.stop()
    assert world.names(workflow.id) == WHOLE_LOOP


async def test_two_workers_of_one_group_share_the_work() -> None:
    world = World([Counting()])
    async with world.process(), world.process():
        ids = [await world.ask(str(number)) for number in range(12)]
        for id_ in ids:
            await world.ended(id_)
    by = {recorded.envelope.source for id_ in ids for recorded, _ in world.records(id_)}
    assert {"/poweron/planner/p0", "/poweron/planner/p1"} <= by
    assert all(world.names(id_) == WHOLE_LOOP for id_ in ids)


@pytest.mark.req("E-03")
async def test_a_cancellation_stops_a_running_action_and_drains_it() -> None:
    action = Counting(gate=asyncio.Event())
    world = World([action])
    async with world.process():
        id_ = await world.ask()
        await action.begun.wait()
        await world.tell(id_, cancellation())
        await world.ended(id_)
    assert world.names(id_)[-3:] == ["CancellationRequested", "ActionCompleted", "RoundCancelled"]
    assert world.accepted(id_)[-2].outcome == "cancelled"
    assert action.cancelled == 1


@pytest.mark.req("E-06")
async def test_a_result_that_crosses_a_cancellation_raises_no_alarm_and_the_round_ends() -> None:
    world = World([Counting()])
    process = world.start()
    id_ = workflow_id("/tests", "1")
    append = process.log.append

    async def cancelled_just_before(topic: str, messages: Any) -> Any:
        if b"action.completed" in messages[0].value:
            await world.tell(id_, cancellation())
        return await append(topic, messages)

    process.log.append = cancelled_just_before  # type: ignore[method-assign]
    await world.ask()
    await world.ended(id_)
    await process.stop()
    assert world.names(id_)[-3:] == ["CancellationRequested", "ActionCompleted", "RoundCancelled"]
    assert world.names(id_, "superseded") == ["ObservationRecorded"]


@pytest.mark.req("E-16")
async def test_a_round_ends_when_its_time_is_over() -> None:
    action = Counting(gate=asyncio.Event())
    world = World([action])
    async with world.process() as process:
        id_ = await world.ask(deadline_ms=1_000)
        await action.begun.wait()
        await world.ended(id_)
        assert len(process.worker._deadlines) == 0
    assert world.names(id_)[-3:] == ["DeadlinePassed", "ActionCompleted", "RoundFailed"]
    assert "The time for this round is over" in world.accepted(id_)[-1].message


@pytest.mark.req("E-16")
async def test_a_deadline_that_passed_while_nobody_was_there_still_counts() -> None:
    action = Counting(gate=asyncio.Event())
    world = World([action])
    first = world.start()
    id_ = await world.ask(deadline_ms=3_600_000)
    await action.begun.wait()
    await first.kill()
    async with world.process(clock=Clock(ahead_ms=2 * 3_600_000)):
        await world.ended(id_)
    assert "DeadlinePassed" in world.names(id_)


@pytest.mark.req("L-10")
async def test_a_stage_that_cannot_be_done_ends_the_round_with_a_message_for_people() -> None:
    world = World([Counting()], script(planning=["no plan"]))
    async with world.process():
        id_ = await world.ask()
        await world.ended(id_)
    assert world.names(id_) == [
        "WorkflowRequested",
        *("AnswerRejected", "AnswerRejected", "StageFailed"),
        "RoundFailed",
    ]
    message = world.accepted(id_)[-1].message
    assert "No plan could be made. The model did not answer as it must. The answer is not one" in message
    assert "POWERON_MODEL_OUTPUT" not in message  # which changes nothing for a model that is none of a provider's


@pytest.mark.req("L-10")
@pytest.mark.parametrize("error", [RuntimeError("a bug"), Refused("The model will not."), KeyError("\udcff")])
async def test_a_stage_that_raises_ends_in_an_event(error: Exception) -> None:
    world = World([Counting()], script(selection=[error]))
    async with world.process():
        id_ = await world.ask()
        await world.ended(id_)
    assert world.names(id_)[-2:] == ["StageFailed", "RoundFailed"]


@pytest.mark.req("L-10")
async def test_a_model_that_is_unavailable_for_a_while_is_waited_for() -> None:
    world = World([Counting()], script(selection=[Unavailable("busy"), Unavailable("busy"), script()[_selection()][0]]))
    async with world.process():
        id_ = await world.ask()
        await world.ended(id_)
    assert world.names(id_) == WHOLE_LOOP


def _selection() -> type:
    from poweron_services.models.prompts import SelectionPrompt

    return SelectionPrompt


@pytest.mark.req("E-16")
async def test_a_stage_is_tried_once_before_its_own_deadline_counts() -> None:
    world = World([Counting()], script(selection=[Unavailable("The model is away.")]))
    async with world.process(frozenset({"planner"})):
        id_ = await world.ask()
        await world.phase(id_, "select")
    async with world.process(clock=Clock(ahead_ms=10 * 60_000)):
        await world.ended(id_)
    failed = next(event for event in world.accepted(id_) if type(event).__name__ == "StageFailed")
    assert (failed.stage, failed.tries, failed.error) == ("select", 1, "The model is away.")


@pytest.mark.req("L-10")
async def test_a_model_of_a_provider_that_never_fits_is_named() -> None:
    world = World([Counting()], model=_Elsewhere(script(planning=["no plan"])))
    async with world.process():
        id_ = await world.ask()
        await world.ended(id_)
    ending = world.accepted(id_)[-1]
    assert "The model did not answer as it must." in ending.message
    assert "The answer came from the model openai:small." in ending.message
    assert ending.code == "answers_rejected"
    assert "POWERON_MODEL_OUTPUT=prompted or a larger model may help." in advice_for(ending.code)


@pytest.mark.req("L-10")
async def test_an_answer_that_was_cut_off_says_so() -> None:
    cut_off = Refused("The answer was cut off after 100 tokens.", code="answer_cut_off")
    world = World([Counting()], model=_Elsewhere(script(planning=["no plan"]), text="", refusal=cut_off))
    async with world.process():
        id_ = await world.ask()
        await world.ended(id_)
    rejected = [event for event in world.accepted(id_) if isinstance(event, AnswerRejected)]
    assert [(event.reason, event.code) for event in rejected] == [(str(cut_off), "answer_cut_off")] * 2
    assert str(cut_off) in world.accepted(id_)[-1].message


class _Elsewhere(ScriptedModel):
    """A model of a provider."""

    def __init__(self, lines: Any, **changes: Any) -> None:
        super().__init__(lines)
        self._changes = changes

    async def complete(self, prompt: Prompt) -> Completion:
        return replace(await super().complete(prompt), provider="openai", model="small", **self._changes)


@pytest.mark.req("L-10")
async def test_a_stage_whose_time_is_over_says_how_often_it_was_tried_and_what_kept_it() -> None:
    world = World(
        [Counting()],
        script(planning=[Unavailable("openai:test has trouble of its own (500).", code="model_unavailable")]),
    )
    async with world.process():
        id_ = await world.ask(stage_timeout_ms=1_000)
        await world.ended(id_)
    failed = next(event for event in world.accepted(id_) if type(event).__name__ == "StageFailed")
    assert failed.error == (
        f"It was tried {failed.tries} times within 1 s, the time limit of a stage. "
        "The last trouble: openai:test has trouble of its own (500)."
    )
    assert failed.code == "model_unavailable"
    assert failed.tries > 1
    assert "openai:test has trouble of its own (500)." in world.accepted(id_)[-1].message


@pytest.mark.req("L-10")
async def test_a_model_slower_than_a_stage_is_told_with_the_limit_that_it_met() -> None:
    world = World([Counting()], model=_Silent({}))
    async with world.process():
        id_ = await world.ask(stage_timeout_ms=1_000)
        await world.ended(id_)
    failed = world.accepted(id_)[1]
    assert failed.error == "The model has not answered within 1 s, the time limit of a stage."
    assert failed.code == "stage_timeout"


class _Silent(ScriptedModel):
    """A model that is still at work."""

    async def complete(self, prompt: Prompt) -> Completion:
        await asyncio.Event().wait()
        raise AssertionError


@pytest.mark.req("B-01")
@pytest.mark.req("L-10")
async def test_an_answer_that_cannot_be_kept_is_waited_with_counted_and_not_taken_for_the_models_fault(
    logged: list[Any],
) -> None:
    world = World([Counting()])
    world.content = Away.at("memory:///")
    async with world.process():
        id_ = await world.ask(stage_timeout_ms=1_000)
        await world.ended(id_)
    failed, ending = world.accepted(id_)[1:]
    assert failed.error == (
        "The model answered, but its answer could not be kept in time. The content store did not answer: away"
    )
    assert [(call.input_tokens, call.prompt_ref, call.answer_ref) for call in failed.model_calls] == [(10, None, None)]
    assert ending.totals.input_tokens == 10
    assert len(world.model.asked) == 1
    assert failed.code == ending.code == "content_store_unavailable"
    waits = [
        (line["workflow_id"], line["stage"], line["error"]) for line in logged if line["event"] == telemetry.STAGE_WAITS
    ]
    assert set(waits) == {(id_, "plan", "The content store did not answer: away")}


@pytest.mark.req("L-10")
@pytest.mark.parametrize(
    ("line", "why"),
    [
        (RuntimeError("a bug"), "An unexpected error; the log of the service has it."),
        (Refused("The model will not."), "The model will not."),
        ("", "Its answer was empty."),
    ],
)
async def test_a_final_message_that_no_model_writes_is_written_in_code_and_says_why(line: Any, why: str) -> None:
    world = World([Counting()], script(message=[line]))
    async with world.process():
        id_ = await world.ask()
        await world.ended(id_)
    assert world.accepted(id_)[-1].message == (
        "test.pure gave 1 document: a.md\n\n"
        f"The model wrote no final message, so these are the results as they are. {why}"
    )


@pytest.mark.req("E-06")
async def test_work_that_fails_unforeseen_is_tried_again() -> None:
    world = World([Counting()])
    process = world.start()
    executed, failures = process.executor.__class__.__call__, [RuntimeError("a bug")]

    async def fails_once(executor: Any, workflow: Workflow, assignment: Any) -> Any:
        if failures:
            raise failures.pop()
        return await executed(executor, workflow, assignment)

    process.worker._executor = _Called(process.executor, fails_once)  # type: ignore[assignment]
    id_ = await world.ask()
    await world.ended(id_)
    await process.stop()
    assert world.names(id_) == WHOLE_LOOP


class _Called:
    def __init__(self, executor: Any, call: Any) -> None:
        self._executor, self._call = executor, call
        self.forget, self.claim_at_once = executor.forget, executor.claim_at_once

    async def __call__(self, workflow: Workflow, assignment: Any) -> Any:
        return await self._call(self._executor, workflow, assignment)


@pytest.mark.req("E-07")
async def test_openings_wait_for_postgres_and_running_workflows_go_on() -> None:
    action = Counting(gate=asyncio.Event())
    world = World([action])
    async with world.process():
        running = await world.ask("1")
        await action.begun.wait()
        world.postgres.away = True
        waiting = await world.ask("2")
        action.gate.set()
        await world.ended(running)
        assert world.names(waiting) == ["WorkflowRequested"]
        world.postgres.away = False
        await world.ended(waiting)


@pytest.mark.req("E-10")
@pytest.mark.parametrize("mishap", ["lost", "unknown", "first only", "doubled"])
async def test_result_and_observation_recover_from_any_prefix(mishap: str) -> None:
    world = World([Counting()])
    mishaps = iter(["", "", "", "", mishap])
    async with world.process(mishap=lambda: next(mishaps, "")):
        id_ = await world.ask()
        await world.ended(id_)
    assert world.names(id_) == WHOLE_LOOP


@pytest.mark.req("E-10")
async def test_an_observation_that_was_lost_with_its_writer_is_made_by_the_next() -> None:
    world = World([Counting()])
    first = world.start()
    append = first.log.append

    async def only_the_result(topic: str, messages: Any) -> Any:
        if b"action.completed" in messages[0].value:
            await append(topic, messages[:1])
            first.log.cut_off = True
        return await append(topic, messages)

    first.log.append = only_the_result  # type: ignore[method-assign]
    id_ = await world.ask()
    await world.phase(id_, "observe")
    await first.kill()
    async with world.process():
        await world.ended(id_)
    assert world.names(id_) == WHOLE_LOOP


@pytest.mark.req("E-09")
async def test_reading_pauses_while_too_much_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "MAX_WAITING", 2)
    gate, paused = asyncio.Event(), list[frozenset[int]]()

    world = World([Counting()])
    planner = world.stage_functions(_caller(world))["planner"]

    async def slow(workflow: Workflow) -> Any:
        await gate.wait()
        return await planner(workflow)

    async with world.process(concurrency=1, stage_functions={"planner": slow}) as process:
        await soon(lambda: bool(process.log.followers))
        follower = process.log.followers[0]
        pause = follower.pause
        follower.pause = lambda numbers: (paused.append(numbers), pause(numbers))[1]  # type: ignore[method-assign, func-returns-value]
        ids = [await world.ask(str(number)) for number in range(6)]
        await soon(lambda: any(paused))
        gate.set()
        for id_ in ids:
            await world.ended(id_)
    assert paused[-1] == frozenset()


def _caller(world: World) -> Any:
    from poweron_services.models.call import Caller

    return Caller(world.model, world.content)


@pytest.mark.req("E-03")
async def test_every_record_told_twice_changes_nothing() -> None:
    world = World([Counting()])
    async with world.process(mishap=lambda: "doubled"):
        id_ = await world.ask()
        await world.ended(id_)
    assert world.names(id_) == WHOLE_LOOP


@pytest.mark.req("E-14")
async def test_a_record_that_nobody_can_read_is_passed_by() -> None:
    world = World([Counting()])
    async with world.process():
        id_ = workflow_id("/tests", "1")
        world.log.write(EVENTS, id_.encode(), b"no event")
        world.log.write(EVENTS, id_.encode(), None)
        await world.ask()
        await world.ended(id_)
    assert world.names(id_) == WHOLE_LOOP


@pytest.mark.req("E-09")
async def test_at_shutdown_a_running_action_gets_a_moment_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "DRAIN_TIMEOUT", 10.0)
    action = Counting(gate=asyncio.Event())
    world = World([action])
    process = world.start()
    id_ = await world.ask()
    await action.begun.wait()
    stopping = asyncio.create_task(process.stop())
    await soon(lambda: all(not partition.ours for partition in process.worker._held.partitions.values()))
    action.gate.set()
    await stopping
    assert world.names(id_)[-2:] == ["ActionCompleted", "ObservationRecorded"]
    assert world.folded(id_)[0].phase == "refine"  # nothing new was begun


async def test_a_worker_that_stops_leaves_no_task_and_no_claim_behind() -> None:
    world = World([Counting()])
    before = asyncio.all_tasks()
    async with world.process() as process:
        for number in range(5):
            await world.ended(await world.ask(str(number)))
        await soon(lambda: not process.executor._claims)
    assert asyncio.all_tasks() == before
    assert process.executor._claims._places._free == 4


async def test_an_opening_of_a_second_round_is_known_from_postgres() -> None:
    from builders import follow_up

    world = World([Counting()])
    async with world.process():
        id_ = await world.ask()
        await world.ended(id_)
    async with world.process():
        await world.tell(id_, follow_up())
        await world.until(id_, lambda found: found.phase == "ended" and len(found.openings) == 2)
    assert world.names(id_)[10:] == ["RoundRequested", *WHOLE_LOOP[1:]]
    assert requested().round == 1
