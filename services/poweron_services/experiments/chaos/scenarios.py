"""The scenarios: work whose course is known in advance, so that it can be judged afterwards.

A scenario takes as many steps as its request allows. The model's answers and the duration of the actions depend only
on the request, so a retry behaves like the first try; only the effects are recorded, outside the log.
"""

import asyncio
import os
import random
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson
from pydantic import Field

from poweron_events.catalog import ActionSpec
from poweron_events.codec import dumps
from poweron_events.event import Model
from poweron_events.step_events import ActionResult
from poweron_services.actions.action import Action, Done, Order, document
from poweron_services.models.chat_model import Completion
from poweron_services.models.prompts import (
    ParametersPrompt,
    PlanningPrompt,
    Prompt,
    RefinementPrompt,
    ReviewPrompt,
    SelectionPrompt,
)

LIMIT_MS = 2_000  # for one action
CRITERION = "Every step was taken."


class ScenarioParameters(Model):
    """How long the action works before its effect and after it."""

    before_ms: int = Field(ge=0, le=LIMIT_MS)
    after_ms: int = Field(ge=0, le=LIMIT_MS)


SPECS: Final = (
    ActionSpec.of("scenario.look", ScenarioParameters, "pure", LIMIT_MS),
    ActionSpec.of("scenario.write", ScenarioParameters, "idempotent", LIMIT_MS),
    ActionSpec.of("scenario.send", ScenarioParameters, "at_most_once", LIMIT_MS),
)
WEIGHTS: Final = (3, 3, 2)


@dataclass(frozen=True, slots=True)
class Journal:
    """A file with one line per effect, which outlives the process that wrote it."""

    path: Path

    def note(self, key: str) -> None:
        """Append one line in one write, so that the lines of several processes do not mix."""
        line = f"{key} {os.getpid()} {time.time_ns() // 1_000_000}\n".encode()
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)

    def read(self) -> Counter[tuple[str, int]]:
        """Return how often each effect occurred, by idempotency key and process."""
        return Counter((key, pid) for key, pid, _ in self._effects())

    def times(self) -> Mapping[str, Sequence[int]]:
        """Return when the effects occurred, by idempotency key, in ms since 1970."""
        times: dict[str, list[int]] = defaultdict(list)
        for key, _, time_ms in self._effects():
            times[key].append(time_ms)
        return times

    def _effects(self) -> list[tuple[str, int, int]]:
        if not self.path.exists():
            return []
        lines = (line.split() for line in self.path.read_text().splitlines())
        return [(key, int(pid), int(time_ms)) for key, pid, time_ms in lines]


@dataclass(slots=True)
class ScenarioAction:
    """An action that takes some time, has its effect at one moment in it and writes a small document."""

    spec: ActionSpec
    journal: Journal

    async def __call__(self, order: Order) -> Done:
        took = ScenarioParameters.model_validate(order.parameters)
        await asyncio.sleep(took.before_ms / 1_000)
        self.journal.note(order.idempotency_key)
        await asyncio.sleep(took.after_ms / 1_000)
        return Done(ActionResult(success=True, documents=(document("done.txt", order.idempotency_key, "text/plain"),)))


def scenario_actions(journal: Journal) -> Mapping[str, Action]:
    """Return one action of each effect class."""
    return {spec.name: ScenarioAction(spec, journal) for spec in SPECS}


class ScenarioModel:
    """A model that continues until no step is left and is then satisfied, regardless of the steps' results."""

    async def complete(self, prompt: Prompt) -> Completion:
        text = dumps(_answer(prompt)).decode()
        return Completion(text, provider="chaos", model="scenarios", input_tokens=10, output_tokens=5)


def _answer(prompt: Prompt) -> dict[str, Any] | str:
    match prompt:
        case PlanningPrompt():
            task = {"objective": prompt.user_prompt, "successCriteria": [CRITERION], "taskType": "transform"}
            return {"tasks": [task]}
        case SelectionPrompt():
            return _selection(prompt)
        case ParametersPrompt():
            return {"schema": "parameters_v1", "parameters": orjson.loads(prompt.parameters_context)}
        case RefinementPrompt():
            return _refinement(prompt.steps_left)
        case ReviewPrompt():
            return {"status": "success", "reason": CRITERION, "criteriaProgress": _progress(met=True)}
        case _:
            return CRITERION


def _selection(prompt: SelectionPrompt) -> dict[str, Any]:
    rng = random.Random(f"{prompt.objective} {prompt.steps_left}")
    (spec,) = rng.choices(SPECS, WEIGHTS)
    longest = rng.choice((0, 50, 400))
    parameters = {"beforeMs": rng.randint(0, longest), "afterMs": rng.randint(0, longest)}
    return {
        "action": spec.name,
        "actionObjective": prompt.objective,
        "parametersContext": dumps(parameters).decode(),
    }


def _refinement(steps_left: int) -> dict[str, Any]:
    return {
        "decision": "continue" if steps_left else "stop",
        "reason": f"{steps_left} steps are left." if steps_left else CRITERION,
        "classification": "success",
        "criteriaProgress": _progress(met=not steps_left),
    }


def _progress(*, met: bool) -> list[dict[str, Any]]:
    return [{"criterion": CRITERION, "met": met, "progress": 1_000 if met else 0}]
