"""Decisions whose round got new rules, or was paused, while their role was at work: they are judged by what it knew."""

import asyncio
from typing import Any

import pytest
import replays
from doubles import CRITERION, Counting, World, script, soon

from builders import POLICY, cancellation, new_rules, paused, resumed
from poweron_events.envelope import Recorded
from poweron_events.policy import Rule
from poweron_events.request import RulesChanged
from poweron_events.step_events import ActionCompleted
from poweron_services.decider import validation
from poweron_services.models.chat_model import Completion
from poweron_services.models.prompts import (
    ParametersPrompt,
    PlanningPrompt,
    Prompt,
    RefinementPrompt,
    ReviewPrompt,
    SelectionPrompt,
    Template,
)
from poweron_services.models.scripted import ScriptedModel
from poweron_services.roles import planner, selector

pytestmark = pytest.mark.usefixtures("logged")

OTHER = Rule(actions=("test.other",), decision="deny")
PURE = Rule(actions=("test.pure",), decision="deny")
REFINED = {"reason": "It is as it is.", "classification": "success"}
TWO_STEPS = [
    {**REFINED, "decision": "continue"},
    {**REFINED, "decision": "stop", "criteriaProgress": [{"criterion": CRITERION, "met": True, "progress": 1000}]},
]
STAGES = (PlanningPrompt, SelectionPrompt, ParametersPrompt, RefinementPrompt, ReviewPrompt)


class Hanging(ScriptedModel):
    """Does not answer the first prompt of a kind until the gate opens."""

    def __init__(self, at: type[Prompt]) -> None:
        lines = script(refinement=TWO_STEPS)
        super().__init__({kind: said * 2 if kind is not RefinementPrompt else said for kind, said in lines.items()})
        self.at: type[Prompt] | None = at
        self.begun, self.gate = asyncio.Event(), asyncio.Event()

    async def complete(self, prompt: Prompt) -> Completion:
        if self.at is not None and isinstance(prompt, self.at):
            self.at = None
            self.begun.set()
            await self.gate.wait()
        return await super().complete(prompt)


def denying(world: World, id_: str, rule: Rule, number: int = 1) -> RulesChanged:
    """Rules which deny what was allowed before."""
    policy = POLICY.model_copy(update={"rules": (rule, Rule(actions=("*",), decision="allow"))})
    return new_rules(world.folded(id_)[0], number, policy)


async def changed_during(kind: type[Prompt]) -> tuple[World, str]:
    """A round of two steps, whose rules change while a stage asks its model."""
    model = Hanging(kind)
    world = World([Counting(), Counting("test.other")], model=model)
    async with world.process():
        id_ = await world.ask()
        await model.begun.wait()
        await world.tell(id_, denying(world, id_, OTHER))
        model.gate.set()
        await world.ended(id_)
    assert "RulesChanged" in world.names(id_)
    assert world.names(id_).count("ActionSelected") == 2
    return world, id_


def records(world: World, id_: str) -> list[tuple[Recorded, str]]:
    """All records of a workflow, with the names of their events."""
    return [(recorded, type(recorded.envelope.event).__name__) for recorded, _ in world.records(id_)]


async def found_in(world: World, id_: str) -> list[str]:
    """The events of the decisions that are not the same."""
    return [records(world, id_)[each.seq][1] for each in replays.others(await replays.of_world(world, id_))]


@pytest.mark.parametrize("kind", STAGES)
async def test_a_stage_is_judged_by_the_rules_that_it_began_under(kind: type[Prompt]) -> None:
    world, id_ = await changed_during(kind)
    assert await found_in(world, id_) == []


async def test_what_was_thought_ahead_is_judged_by_the_rules_that_it_was_thought_under() -> None:
    """The selection follows the plan before the new rules are read, although its record comes after them."""
    world, id_ = await changed_during(PlanningPrompt)
    events = world.names(id_)
    assert events.index("RulesChanged") < events.index("TasksPlanned") < events.index("ActionSelected")
    selected = _first(world, id_, "ActionSelected")
    assert selected.envelope.cause is not None
    assert selected.envelope.cause.offset is None
    assert await found_in(world, id_) == []


async def test_a_role_that_does_not_follow_rules_that_it_has_read_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first selection may not have known them, the second one must have."""
    with monkeypatch.context() as patched:
        patched.setattr(validation, "_is_denied", lambda *_: False)
        world, id_ = await changed_during(PlanningPrompt)
    assert await found_in(world, id_) == ["ActionSelected"]
    (found,) = replays.others(await replays.of_world(world, id_))
    assert found.seq == max(seq for seq, (_, name) in enumerate(records(world, id_)) if name == "ActionSelected")
    assert (found.decision, found.prompt) == ("same", "differs")


@pytest.mark.parametrize(("module", "event", "times"), [(planner, "TasksPlanned", 1), (selector, "ActionSelected", 2)])
async def test_a_template_that_was_changed_is_found_under_old_and_new_rules(
    module: Any, event: str, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, id_ = await changed_during(PlanningPrompt)
    template: Template = module.TEMPLATE
    monkeypatch.setattr(module, "TEMPLATE", Template(template.name, f"Hurry. {template.text}"))
    assert await found_in(world, id_) == [event] * times


async def test_an_action_that_the_new_rules_deny_may_have_begun_before_them() -> None:
    world, gate = World([action := Counting()]), asyncio.Event()
    action.gate = gate
    async with world.process():
        id_ = await world.ask()
        await action.begun.wait()
        await world.tell(id_, denying(world, id_, PURE))
        gate.set()
        await world.ended(id_)
    assert _outcome(world, id_) == "done"
    assert await found_in(world, id_) == []


async def test_it_may_also_have_begun_before_them_if_it_ends_after_a_cancellation_that_its_process_has_not_read() -> (
    None
):
    world, gate = World([action := Counting()]), asyncio.Event()
    action.gate = gate
    async with world.process() as process:
        id_ = await world.ask()
        await action.begun.wait()
        world.log.expel(process.log.followers[0])
        await soon(lambda: not process.worker._held.partitions)
        await world.tell(id_, denying(world, id_, PURE))
        await world.tell(id_, cancellation())
        gate.set()
        await world.phase(id_, "closing")
    async with world.process():
        await world.ended(id_)
    assert _outcome(world, id_) == "done"
    assert await found_in(world, id_) == []


async def test_an_action_that_the_rules_denied_before_its_claim_was_read_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(validation, "_is_denied", lambda *_: False)
        model = Hanging(ParametersPrompt)
        world = World([Counting()], model=model)
        async with world.process():
            id_ = await world.ask()
            await model.begun.wait()
            await world.tell(id_, denying(world, id_, PURE))
            model.gate.set()
            await world.ended(id_)
    assert "ActionCompleted" in await found_in(world, id_)


async def test_a_stage_that_was_paused_is_judged_by_the_rules_that_it_began_under() -> None:
    model = Hanging(SelectionPrompt)
    world = World([Counting(), Counting("test.other")], model=model)
    async with world.process():
        id_ = await world.ask()
        await model.begun.wait()
        await world.tell(id_, paused())
        await world.tell(id_, denying(world, id_, OTHER))
        await world.tell(id_, resumed())
        model.gate.set()
        await world.ended(id_)
    assert {"RoundPaused", "RulesChanged", "RoundResumed"} <= {*world.names(id_)}
    assert await found_in(world, id_) == []


def _first(world: World, id_: str, name: str) -> Recorded:
    return next(recorded for recorded, called in records(world, id_) if called == name)


def _outcome(world: World, id_: str) -> str:
    completed = _first(world, id_, "ActionCompleted").envelope.event
    assert isinstance(completed, ActionCompleted)
    return completed.outcome
