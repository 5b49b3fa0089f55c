"""Forks: what is taken over, what is decided anew, and that nothing happens twice."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from doubles import Counting, World, script
from intake_world import Rows, committed, events, request, running
from replays import of_world, others

from builders import At, cancellation
from poweron_events.actor import Actor
from poweron_events.codec import dumps, sha256
from poweron_events.errors import MissingContent, Refused
from poweron_events.event import ModelCall
from poweron_events.fold.costs import model_calls
from poweron_events.fold.state import Workflow
from poweron_events.log.memory import MemoryLog
from poweron_events.request import Budgets, ForkedFrom, RequestRefused, WorkflowRequested, workflow_id
from poweron_events.round_events import RoundCompleted, RoundFailed, StageFailed
from poweron_events.step_events import (
    ActionCompleted,
    ActionResult,
    ActionSelected,
    ActionStarted,
    ApprovalGranted,
    RefinementDecided,
)
from poweron_services.actions.action import Done
from poweron_services.decider.approval import Approval
from poweron_services.fork.run_comparison import compare
from poweron_services.models.chat_model import ChatModel, Completion
from poweron_services.models.prompts import Prompt, ReviewPrompt
from poweron_services.models.scripted import ScriptedModel
from poweron_services.runtime import worker

TASK = {"objective": "Find the total", "successCriteria": ["The total is named"], "taskType": "lookup"}
GO_ON = {"decision": "continue", "reason": "More.", "classification": "success"}
AGAIN = {"decision": "continue", "reason": "Once more.", "classification": "retry"}
STOP = script()[next(kind for kind in script() if kind.__name__ == "RefinementPrompt")][0]
ACT = {"action": "test.pure", "actionObjective": "Do it"}
FAILED = {"status": "failed", "reason": "It is not enough."}
RETRY = {"status": "retry", "reason": "Once more."}
FENCE = "fence"
ORIGIN = "0f6f9c1e-5d3b-5c55-9d0a-0d4cf0a1b2c3"


class Repeating:
    """A model that answers an equal prompt as it answered it before, and any other one from its script."""

    def __init__(self, lines: dict[type, list[Any]]) -> None:
        self._script = ScriptedModel(lines)
        self._said: dict[str, Completion] = {}
        self.asked = 0
        self.new = 0

    async def complete(self, prompt: Prompt) -> Completion:
        self.asked += 1
        shown = str(prompt.render(FENCE))
        if shown not in self._said:
            self.new += 1
            self._said[shown] = await self._script.complete(prompt)
        return self._said[shown]


def failing_once() -> Callable[[], Done]:
    """A result that is none the first time."""
    results = [Done(ActionResult(success=False, error="It is shut."), code="action_failed")]
    return lambda: results.pop() if results else Counting().result()


def simple() -> tuple[World, dict[str, Any]]:
    return World([Counting()], model=Repeating(script())), {}


def winding() -> tuple[World, dict[str, Any]]:
    """Two tasks, an answer that is no JSON, a selection of what there is not, an action that fails and is retried."""
    lines = script(
        planning=["no JSON", {"tasks": [TASK, {**TASK, "objective": "Find the sum"}]}],
        selection=[{"action": "no.such", "actionObjective": "Do it"}, ACT],
        refinement=[AGAIN, GO_ON, STOP],
    )
    return World([Counting(result=failing_once())], model=Repeating(lines)), {}


def planned() -> tuple[World, dict[str, Any]]:
    actions = [{"actions": [{"action": "test.pure", "actionObjective": "Do it"}] * 2}]
    return World([Counting()], model=Repeating(script(actions=actions))), {"workflow_mode": "Actionplan"}


async def ran(world: World, **fields: Any) -> str:
    """A workflow that was asked for and has ended."""
    origin = await world.ask("origin", **fields)
    await world.ended(origin)
    return origin


async def forked(world: World, origin: str, seq: int, **fields: Any) -> tuple[str, Workflow]:
    """A fork of it that has ended."""
    fork = await begun(world, origin, seq, **fields)
    return fork, await world.ended(fork)


async def begun(
    world: World, origin: str, seq: int, *, live: bool = False, model: str | None = None, **fields: Any
) -> str:
    head = next(each.sha256 for each in await world.accepted_events(origin) if each.seq == seq)
    of = ForkedFrom(workflow=origin, seq=seq, head=head, live=live, model=model)
    name = f"{origin}-{seq}-{live}-{model}-{sha256(dumps({key: str(fields[key]) for key in fields}))}"
    return await world.ask(name, forked_from=of, **fields)


def calls(world: World, fork: str) -> list[ModelCall]:
    return [call for event in world.accepted(fork) for call in model_calls(event)]


def runs(world: World) -> int:
    return sum(len(action.runs) for action in world.actions.values())  # type: ignore[attr-defined] # they count


@pytest.mark.parametrize("story", [simple, winding, planned])
async def test_a_fork_at_every_event_with_equal_answers_is_the_same_and_touches_nothing(story: Any) -> None:
    world, fields = story()
    async with world.process():
        origin = await ran(world, **fields)
        run_before, new_before = runs(world), world.model.new
        for seq in range(len(world.records(origin))):
            fork, _ = await forked(world, origin, seq, **fields)
            compared = compare(world.accepted(origin), world.accepted(fork))
            assert compared.same, (seq, compared.divergence)
            assert world.names(fork, "superseded") == []
            recorded = sum(call.provider == "recorded" for call in calls(world, fork))
            up_to = [each.event for each in await world.accepted_events(origin) if each.seq <= seq]
            later = [event for event in up_to if isinstance(event, ActionCompleted)]
            assert recorded >= sum(len(model_calls(event)) for event in up_to if event not in later)
    assert runs(world) == run_before
    assert world.model.new == new_before  # each prompt is byte for byte the one of the other workflow


async def test_what_is_taken_over_costs_nothing_and_is_kept_under_the_keys_of_the_fork() -> None:
    world, _ = simple()
    async with world.process():
        origin = await ran(world)
        asked = world.model.asked
        last = len(world.records(origin)) - 1
        fork, workflow = await forked(world, origin, last)
    assert world.model.asked == asked
    assert {(call.provider, call.cost_nano_usd, call.input_tokens) for call in calls(world, fork)} == {
        ("recorded", 0, 0)
    }
    assert workflow.current.totals.input_tokens == 0
    for ours, theirs in zip(calls(world, fork), calls(world, origin), strict=True):
        assert ours.answer_ref is not None
        assert theirs.answer_ref is not None
        assert await world.content.get(fork, ours.answer_ref) == await world.content.get(origin, theirs.answer_ref)
        with pytest.raises(MissingContent):
            await world.content.get(fork, theirs.answer_ref)
    (completed,) = (event for event in world.accepted(fork) if isinstance(event, ActionCompleted))
    assert await world.content.get(fork, completed.documents[0].content) == b"42"
    assert completed.reused_from == 5


async def edited(world: World, origin: str, seq: int, answer: object) -> tuple[str, Workflow]:
    """A fork in which a person gave this answer to the first decision that is not taken over."""
    head = next(each.sha256 for each in await world.accepted_events(origin) if each.seq == seq)
    name = f"{origin}-{seq}-edited"
    stored = await world.content.put(workflow_id("/tests", name), dumps(answer))
    of = ForkedFrom(workflow=origin, seq=seq, head=head, live=True, answer=stored)
    fork = await world.ask(name, forked_from=of, actor=Actor(id="ada", via="http"))
    return fork, await world.ended(fork)


async def test_an_edited_answer_decides_once_instead_of_a_model_and_says_who_wrote_it() -> None:
    world, _ = simple()
    async with world.process():
        origin = await ran(world)
        seq = next(
            seq for seq, (each, _) in enumerate(world.records(origin)) if each.envelope.type == ActionSelected.TYPE
        )
        fork, workflow = await edited(world, origin, seq - 1, {**ACT, "actionObjective": "Look again"})
    selected = next(event for event in world.accepted(fork) if isinstance(event, ActionSelected))
    (call,) = model_calls(selected)
    assert (selected.action_objective, call.provider, call.model) == ("Look again", "edited", "ada")
    assert (call.input_tokens, call.cost_nano_usd) == (0, 0)
    assert [each.provider for each in calls(world, fork)].count("edited") == 1
    assert workflow.current.ending == "completed"
    assert {each.verdict for each in await of_world(world, fork)} == {"same"}


async def test_an_edited_answer_that_is_no_answer_is_rejected_and_the_model_is_asked() -> None:
    world, _ = simple()
    async with world.process():
        origin = await ran(world)
        fork, workflow = await edited(world, origin, 0, "no plan")
    rejected, planned_event = world.accepted(fork)[1:3]
    assert [each.provider for each in model_calls(rejected)] == ["edited"]
    assert "edited" not in {each.provider for each in model_calls(planned_event)}
    assert workflow.current.ending == "completed"


@pytest.mark.parametrize("seq", range(10))
async def test_a_fork_whose_processes_are_killed_at_every_turn_is_the_same(
    seq: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "DRAIN_TIMEOUT", 0.05)  # who is killed waits for nothing
    world, _ = simple()
    async with world.process():
        origin = await ran(world)
    run_before = runs(world)
    process = world.start()
    fork = await begun(world, origin, seq)
    for length in range(2, 10):
        await world.until(fork, lambda workflow, length=length: workflow.seq >= length or workflow.phase == "ended")
        await process.kill()
        process = world.start()
    await world.ended(fork)
    await process.stop()
    assert compare(world.accepted(origin), world.accepted(fork)).same
    assert runs(world) == run_before


async def test_an_action_without_a_recorded_result_ends_the_fork_unless_it_is_live() -> None:
    world, _ = simple()
    world.actions["test.other"] = other = Counting("test.other")
    async with world.process():
        origin = await ran(world)
        world.model = Repeating(script("test.other"))
    async with world.process():
        fork, stopped = await forked(world, origin, 1)
        assert other.runs == []
        assert stopped.current.code == "fork_needs_live"
        (failed,) = (event for event in world.accepted(fork) if isinstance(event, StageFailed))
        assert "test.other" in failed.error
        live, done = await forked(world, origin, 1, live=True)
    assert done.current.ending == "completed"
    assert len(other.runs) == 1
    parted = compare(world.accepted(origin), world.accepted(live)).divergence
    assert parted is not None
    assert (parted.what, parted.a, parted.b) == ("action", "test.pure", "test.other")
    assert (parted.round, parted.task, parted.attempt, parted.step) == (1, 1, 1, 1)


@pytest.mark.parametrize("live", [False, True])
async def test_an_action_whose_effect_must_not_happen_twice_is_never_run(live: bool) -> None:
    world, _ = simple()
    world.actions["test.once"] = once = Counting("test.once", "at_most_once")
    async with world.process():
        origin = await ran(world)
        world.model = Repeating(script("test.once"))
    async with world.process():
        fork, workflow = await forked(world, origin, 1, live=live)
    assert once.runs == []
    assert workflow.current.code == "fork_never_runs"
    assert isinstance(world.accepted(fork)[-1], RoundFailed)


@pytest.mark.parametrize("live", [False, True])
async def test_the_result_of_an_action_that_ran_once_is_taken_over_with_its_approval(live: bool) -> None:
    world = World([Counting("test.once", "at_most_once")], model=Repeating(script("test.once")))
    async with world.process(approval=Approval(frozenset({"*"}))):
        origin = await world.ask("origin")
        waiting = await world.phase(origin, "approve")
        await world.tell(origin, granted(waiting))
        await world.ended(origin)
        for seq in range(len(world.records(origin))):
            fork, _ = await forked(world, origin, seq, live=live)
            assert compare(world.accepted(origin), world.accepted(fork)).same
            own = [event.request.source for event in world.accepted(fork) if isinstance(event, ApprovalGranted)]
            assert own in ([], [f"/poweron/fork/{fork}"])
    assert runs(world) == 1


def granted(workflow: Workflow) -> ApprovalGranted:
    assert workflow.step.parameters is not None
    return At.head(workflow).approval_granted(parameters_sha256=sha256(dumps(workflow.step.parameters.parameters)))


async def test_a_fork_of_a_fork_is_a_fork() -> None:
    world, _ = simple()
    async with world.process():
        origin = await ran(world)
        first, _ = await forked(world, origin, 4)
        second, _ = await forked(world, first, 7)
    assert compare(world.accepted(origin), world.accepted(second)).same
    assert runs(world) == 1
    assert world.accepted(second)[0].forked_from.workflow == first


async def test_an_open_workflow_is_forked_as_far_as_it_has_come() -> None:
    world, _ = simple()
    async with world.process(frozenset({"planner", "selector"})):
        origin = await world.ask("origin")
        await world.phase(origin, "parameterize")
        fork, live = await begun(world, origin, 2), await begun(world, origin, 2, live=True)
        await world.phase(fork, "parameterize")
    gate = world.actions["test.pure"].gate = asyncio.Event()
    async with world.process():
        await world.phase(origin, "started")
        stopped = await world.ended(fork)  # the action of the other workflow has brought nothing yet
        gate.set()
        await world.ended(origin)
        await world.ended(live)
    assert stopped.current.code == "fork_needs_live"
    assert compare(world.accepted(origin), world.accepted(live)).same


async def test_a_fork_can_be_cancelled_while_it_takes_over() -> None:
    world, _ = simple()
    async with world.process():
        origin = await ran(world)
    async with world.process(frozenset({"planner", "selector", "parameterizer"})):
        fork = await begun(world, origin, 9)
        await world.phase(fork, "ready")
    await world.tell(fork, cancellation(1, "stop"))
    async with world.process():
        workflow = await world.ended(fork)
    assert workflow.current.ending == "cancelled"
    assert [event for event in world.accepted(fork) if isinstance(event, ActionStarted)] == []


async def test_what_a_cancelled_workflow_came_to_is_taken_over_to_its_end() -> None:
    world, _ = simple()
    gate_closed = world.actions["test.pure"]
    async with world.process(frozenset({"planner", "selector"})):
        origin = await world.ask("origin")
        await world.phase(origin, "parameterize")
    await world.tell(origin, cancellation(1, "stop"))
    async with world.process():
        await world.ended(origin)
        fork, workflow = await forked(world, origin, len(world.records(origin)) - 1)
    assert workflow.current.ending == "cancelled"
    assert compare(world.accepted(origin), world.accepted(fork)).same
    assert gate_closed.runs == []  # type: ignore[attr-defined] # it counts


@pytest.mark.parametrize("changes", [{"max_steps": 1}, {"prompt": "Who signed it?"}])
async def test_what_a_fork_took_over_is_judged_where_it_was_decided(changes: dict[str, Any]) -> None:
    """Replayed with the words and limits of the fork, it would be another decision, which nobody took."""
    world, fields = winding()
    async with world.process():
        origin = await ran(world, **fields)
        seq = next(seq for seq, event in enumerate(world.accepted(origin)) if isinstance(event, RefinementDecided))
        fork, _ = await forked(world, origin, seq, live=True, **changes)
        replayed = await of_world(world, fork)
    assert others(replayed) == []
    taken_over = [each for each in replayed if "Taken over" in each.detail]
    assert len(taken_over) >= 3


async def test_another_prompt_is_asked_from_the_event_on() -> None:
    world, _ = simple()
    async with world.process():
        origin = await ran(world)
        asked = world.model.asked
        fork, _ = await forked(world, origin, 7, prompt="What is the sum?", max_steps=2)
    assert world.accepted(fork)[0].prompt == "What is the sum?"
    assert world.model.asked == asked + 2  # the review and the message
    assert isinstance(world.accepted(fork)[-1], RoundCompleted)


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ((ORIGIN, 3, "ab" * 32), WorkflowRequested),
        ((ORIGIN, 3, "cd" * 32), RequestRefused),  # another record than the sender saw
        ((ORIGIN, 4, "ab" * 32), RequestRefused),
        (("no workflow", 3, "ab" * 32), RequestRefused),
    ],
)
async def test_intake_opens_a_fork_of_an_accepted_record_only(asked: tuple[str, int, str], answer: type) -> None:
    log = MemoryLog()
    rows = Rows(log)
    rows.hashes[ORIGIN, 3] = "ab" * 32
    workflow, seq, head = asked
    of = ForkedFrom(workflow=workflow, seq=seq, head=head)
    async with running(log, rows):
        await request(log, "fork", forked_from=of)
        await committed(log, 1)
        (found,) = await events(log)
    assert type(found) is answer
    assert getattr(found, "forked_from", None) == (of if answer is WorkflowRequested else None)
    assert getattr(found, "code", None) == (None if answer is WorkflowRequested else "unknown_seq")


@dataclass
class Named:
    """Models that a fork may name; the one called `dear` has no price."""

    models: dict[str, ChatModel]
    opened_count: int = 0

    async def check(self, name: str) -> None:
        if name not in self.models:
            raise Refused(f"The model {name!r} is not configured.", code="model_misconfigured")

    def unpriced(self, name: str) -> list[str]:
        return [name] if name == "dear" else []

    @asynccontextmanager
    async def opened(self, name: str) -> AsyncGenerator[ChatModel, None]:
        await self.check(name)
        self.opened_count += 1
        yield self.models[name]


async def test_a_model_that_a_fork_names_decides_in_it_and_in_no_other_workflow() -> None:
    other = ScriptedModel(script())
    named = Named({"other": other})
    world = World([Counting()], model=ScriptedModel(script()), named_models=named)
    async with world.process():
        origin = await ran(world)
        asked = len(world.model.asked)
        fork, _ = await forked(world, origin, 2, model="other")
        again = len(world.model.asked)
        await world.ended(await world.ask("later"))
    assert (again, len(world.model.asked)) == (asked, 2 * asked)
    opening, *later = world.accepted(fork)
    assert opening.forked_from.model == "other"
    new = [call for event in later for call in model_calls(event) if not call.is_taken_over]
    assert len(new) == len(other.asked) == named.opened_count > 2


async def test_a_fork_whose_model_this_process_cannot_ask_says_so_and_asks_no_other() -> None:
    """Roles of one workflow may run in processes with settings of their own."""
    world = World([Counting()], model=ScriptedModel(script()), named_models=Named({}))
    async with world.process():
        origin = await ran(world)
        asked = len(world.model.asked)
        fork, _ = await forked(world, origin, 2, model="gone")
    failed = next(event for event in world.accepted(fork) if isinstance(event, StageFailed))
    assert (failed.code, failed.error) == ("model_misconfigured", "The model 'gone' is not configured.")
    assert len(world.model.asked) == asked


@pytest.mark.parametrize(
    ("model", "budgets", "code"),
    [
        ("other", Budgets(workflow_cost_nano_usd=1), None),
        ("dear", Budgets(), None),
        ("dear", Budgets(workflow_cost_nano_usd=1), "price_unknown"),
        ("gone", Budgets(), "unknown_model"),
    ],
)
async def test_intake_opens_a_fork_for_a_configured_model_only(model: str, budgets: Budgets, code: str | None) -> None:
    log = MemoryLog()
    rows, scripted = Rows(log), ScriptedModel(script())
    rows.hashes[ORIGIN, 3] = "ab" * 32
    of = ForkedFrom(workflow=ORIGIN, seq=3, head="ab" * 32, model=model)
    async with running(log, rows, unpriced=("configured",), named_models=Named({"other": scripted, "dear": scripted})):
        await request(log, "fork", forked_from=of, budgets=budgets)
        await committed(log, 1)
        (found,) = await events(log)
    assert getattr(found, "forked_from", None) == (of if code is None else None)
    assert getattr(found, "code", None) == code


async def test_a_fork_with_fewer_steps_of_a_workflow_that_failed_ends_by_itself() -> None:
    """The failure at its second step has no place in a fork that may take only one."""
    world = World([Counting()], model=ScriptedModel(script(refinement=[GO_ON], review=[FAILED])))
    async with world.process():
        origin = await ran(world, max_steps=3, budgets=Budgets(task_tokens=95))
        (failure,) = (each for each in await world.accepted_events(origin) if isinstance(each.event, StageFailed))
        assert failure.event.step == 3
        fork, workflow = await forked(world, origin, failure.seq, max_steps=1)
    assert workflow.current.ending == "failed"
    assert world.names(fork, "superseded") == []
    assert world.names(fork)[-3:] == ["RefinementDecided", "TaskReviewed", "RoundFailed"]


async def test_a_fork_that_went_another_way_takes_nothing_over_of_a_later_attempt() -> None:
    lines = script(refinement=[GO_ON, STOP, STOP], review=[RETRY, *script()[ReviewPrompt]])
    world = World([Counting()], model=ScriptedModel(lines))
    async with world.process():
        origin = await ran(world, max_steps=2)
        last = (await world.accepted_events(origin))[-1].seq
        world.model = ScriptedModel(script(review=[RETRY, *script()[ReviewPrompt]]))
    async with world.process():
        fork, _ = await forked(world, origin, last, max_steps=1)
    assert world.names(fork, "superseded") == []
    selected = [event for event in world.accepted(fork) if isinstance(event, ActionSelected)]
    providers = [event.model_call and event.model_call.provider for event in selected]
    assert providers == ["recorded", "scripted"]
