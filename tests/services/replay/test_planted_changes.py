"""A rule, a default or a template that is changed on purpose is found, at each decision that it changes and nowhere else."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import replays
from doubles import World
from recorded import ID, RUNS, limited

from poweron_events.catalog import CATALOG, ActionSpec
from poweron_services.decider import approval, defaults, rules
from poweron_services.decider.rules import Stop
from poweron_services.decider.validation import NotAllowed
from poweron_services.models.prompts import Template
from poweron_services.replay.action_specs import KnownActions
from poweron_services.replay.replay_processes import replay
from poweron_services.roles import (
    observation_builder,
    parameterizer,
    planner,
    prompt_context,
    refiner,
    reviewer,
    round_end,
    selector,
)

pytestmark = pytest.mark.usefixtures("logged")

Patch = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Plant:
    """A change, the run in which it must be found, and the decisions that it changes."""

    run: str
    change: Patch
    changes: Callable[[Any], bool]


def put(module: Any, name: str, value: Any) -> Patch:
    return lambda patch: patch.setattr(module, name, value)


def edited(module: Any, name: str, *, called: str | None = None) -> Patch:
    """A template with another sentence, under its name or under that of its next version."""
    before: Template = getattr(module, name)
    return put(module, name, Template(called or before.name, before.text.replace("\n", "\nBe quick.\n", 1)))


def kind(*names: str, **fields: Any) -> Callable[[Any], bool]:
    """Events of these classes, with these values."""
    return lambda event: (
        type(event).__name__ in names and all(getattr(event, name, None) == value for name, value in fields.items())
    )


def _refuse(*_: object) -> None:
    raise NotAllowed("No documents today.", code="documents_needed")


def _stopping(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(refiner, "should_continue", lambda *_: False)
    patch.setattr(refiner, "why_stop", lambda *_: Stop("step_limit", "One step is enough."))


def _of_ai_process(event: Any) -> bool:
    return type(event).__name__ == "ParametersSet" and "processingMode" in event.parameters


def _of_long_documents(event: Any) -> bool:
    seen = event.observation.previews if type(event).__name__ == "ObservationRecorded" else ()
    return any(len(preview.snippet) > 10 for preview in seen)


def _asked_or_granted(event: Any) -> bool:
    return kind("ApprovalRequested")(event) or (kind("ActionCompleted")(event) and event.result_label.endswith("_read"))


def _after_a_step(event: Any) -> bool:
    return kind("TaskReviewed")(event) or (kind("ActionSelected")(event) and event.step > 1)


PLANTS = {
    "the loop stops after every step": Plant("react", _stopping, kind("RefinementDecided", decision="continue")),
    "no task is tried again": Plant(
        "retry_after_a_failure",
        put(reviewer, "retries_used_up", lambda _: Stop("retry_limit", "Once is enough.")),
        kind("TaskReviewed", status="retry"),
    ),
    "a budget of tokens is no longer one": Plant(
        "a budget",
        put(rules, "_is_limited", lambda _: False),
        kind("RefinementDecided", "TaskReviewed", code="token_budget"),
    ),
    "documents are refused": Plant("react", put(selector, "check_documents", _refuse), kind("ActionSelected")),
    "whoever denies is not heard": Plant(
        "approval",
        put(approval.Approval, "why_not", lambda *_: None),
        kind("ActionCompleted", outcome="denied"),
    ),
    "an approval is for other bytes": Plant(
        "approval", put(approval, "parameters_sha256", lambda _: "0" * 64), _asked_or_granted
    ),
    "answers are asked for as JSON by default": Plant(
        "react",
        lambda patch: patch.setitem(
            defaults._FILL, "demanded_formats", lambda _: {"expectedDocumentFormats": ["json"]}
        ),
        _of_ai_process,
    ),
    "snippets are shorter": Plant("react", put(observation_builder, "MAX_SNIPPET", 10), _of_long_documents),
    "no ending names a document": Plant("react", put(round_end, "MAX_DOCUMENTS", 0), kind("RoundCompleted")),
    "the planner's template": Plant("react", edited(planner, "TEMPLATE"), kind("TasksPlanned")),
    "the selector's template": Plant("react", edited(selector, "TEMPLATE"), kind("ActionSelected")),
    "the parameterizer's template": Plant("react", edited(parameterizer, "TEMPLATE"), kind("ParametersSet")),
    "the refiner's template, in a version of its own": Plant(
        "react", edited(refiner, "TEMPLATE", called="refiner.v6.md"), kind("RefinementDecided")
    ),
    "the reviewer's template": Plant("react", edited(reviewer, "REVIEW_TEMPLATE"), kind("TaskReviewed")),
    "the template of the message": Plant("actionplan", edited(round_end, "MESSAGE_TEMPLATE"), kind("RoundCompleted")),
    "the history is shown the other way round": Plant(
        "react",
        put(prompt_context, "reverse_chronological", lambda messages: sorted(messages, key=lambda each: each.seq)),
        _after_a_step,
    ),
    "the plans of Actionplan": Plant("actionplan", edited(planner, "ACTIONS_TEMPLATE"), kind("ActionsPlanned")),
}


async def world_of(run: str) -> World:
    if run != "a budget":
        return await RUNS[run]()
    return await limited(2_800)


async def found_in(world: World, specs: dict[str, ActionSpec] | None = None) -> set[int]:
    """The seqs of the decisions that differ."""
    known = KnownActions({**CATALOG, **{name: each.spec for name, each in world.actions.items()}, **(specs or {})})
    rows = replays.rows_of(world, ID)
    return {each.seq async for each in replay(ID, rows, world.content, known) if each.verdict == "differs"}


def expected_in(world: World, changes: Callable[[Any], bool]) -> set[int]:
    return {seq for seq, (recorded, _) in enumerate(world.records(ID)) if changes(recorded.envelope.event)}


@pytest.mark.parametrize("name", PLANTS)
async def test_a_change_is_found_where_it_changes_something(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant = PLANTS[name]
    world = await world_of(plant.run)
    assert await found_in(world) == set()
    plant.change(monkeypatch)
    expected = expected_in(world, plant.changes)
    assert expected
    assert await found_in(world) == expected


async def test_a_default_of_an_action_that_is_changed_is_found() -> None:
    world = await world_of("react")
    spec = CATALOG["ai.process"]
    mode = {**spec.properties["processingMode"], "default": "basic"}
    changed = replace(spec, parameters={**spec.parameters, "properties": {**spec.properties, "processingMode": mode}})
    assert await found_in(world, {"ai.process": changed}) == expected_in(world, _of_ai_process)


async def test_a_parameter_that_an_action_takes_besides_is_found_where_models_are_told_of_it() -> None:
    world = await world_of("react")
    spec = CATALOG["document.extract"]
    more = {**spec.properties, "pages": {"type": "string"}}
    changed = replace(spec, parameters={**spec.parameters, "properties": more})
    expected = expected_in(world, kind("TasksPlanned", "ActionSelected"))
    assert expected <= await found_in(world, {"document.extract": changed})
