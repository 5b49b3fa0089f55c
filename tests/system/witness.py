"""A `poweron serve` whose actions leave a trace: `python witness.py ROLE,ROLE,…`, settings from the environment.

Before an action does its work, it writes down that it has its effect. What a workflow does stands in its prompt, as
JSON: {"action": …, "gate": …, "size": …, "thinks": …}. The model thinks so many seconds about each of its questions and
writes down who is thinking, and an action takes until the file named `gate` is there, so that a test can come between.
"""

import asyncio
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from poweron_events.catalog import ActionSpec
from poweron_events.event import Model
from poweron_events.step_events import ActionResult, EffectClass
from poweron_services import telemetry
from poweron_services.actions.action import Done, Order, document
from poweron_services.actions.registry import only
from poweron_services.models.chat_model import Completion
from poweron_services.models.prompts import (
    MessagePrompt,
    ParametersPrompt,
    PlanningPrompt,
    Prompt,
    RefinementPrompt,
    ReviewPrompt,
    SelectionPrompt,
)
from poweron_services.roles import action_results, claims
from poweron_services.settings.config import Settings
from poweron_services.signals import until_stopped
from poweron_services.standalone import open_connections
from poweron_services.wiring import serve

CRITERION = "The effect was had."
PERIOD = 0.02  # seconds between looks at a gate
STORE_TIMEOUT = 3.0  # seconds that an action's result waits for the content store: tests have less time than users
GRACE_MS = 6_000  # what a claim holds beyond the action's time limit: a claim whose partition moves waits for it (E-08)
CLASSES: dict[str, tuple[EffectClass, int]] = {
    "pure": ("pure", 120_000),
    "brief": ("pure", 10_000),
    "idempotent": ("idempotent", 120_000),
    "once": ("at_most_once", 1_000),
}
"""Effect class and limit in ms of each action."""


class WitnessParameters(Model):
    gate: str = ""
    size: int = 10


@dataclass(frozen=True)
class Trace:
    """Files that all processes add lines to; what was written before a kill is there."""

    folder: Path

    def effect(self, key: str) -> None:
        self._write("effects", key)

    def thought(self, kind: str) -> None:
        self._write("thoughts", kind)

    async def opened(self, gate: str) -> None:
        while gate and not (self.folder / gate).exists():  # noqa: ASYNC110 - it is the work that takes so long
            await asyncio.sleep(PERIOD)

    def _write(self, name: str, what: str) -> None:
        descriptor = os.open(self.folder / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(descriptor, f"{os.getpid()} {what}\n".encode())
        os.close(descriptor)


class Witnessed:
    """An action of one effect class."""

    def __init__(self, trace: Trace, name: str) -> None:
        self.spec = ActionSpec.of(f"witness.{name}", WitnessParameters, *CLASSES[name])
        self._trace = trace

    async def __call__(self, order: Order) -> Done:
        self._trace.effect(order.idempotency_key)
        told = WitnessParameters.model_validate(order.parameters)
        await self._trace.opened(told.gate)
        written = document("effect.txt", "x" * told.size, "text/plain")
        return Done(ActionResult(success=True, documents=(written,)))


class ThinkingModel:
    """Answers every question as the request says, after having thought about it."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    async def complete(self, prompt: Prompt) -> Completion:
        told = orjson.loads(_told(prompt))
        if told.get("thinks"):
            self._trace.thought(type(prompt).__name__)
            await asyncio.sleep(told["thinks"])  # a model that takes its time
        return Completion(_answer(prompt, told), provider="witness", model="witness", input_tokens=10, output_tokens=5)


def _told(prompt: Prompt) -> str:
    """The request: all prompts show it somewhere."""
    match prompt:
        case PlanningPrompt() | SelectionPrompt() | MessagePrompt():
            return prompt.user_prompt
        case ParametersPrompt():
            return prompt.parameters_context
        case RefinementPrompt() | ReviewPrompt():
            return prompt.objective
        case _:
            raise AssertionError(prompt)


def _answer(prompt: Prompt, told: dict[str, Any]) -> str:
    met = [{"criterion": CRITERION, "met": True, "progress": 1000}]
    answer: dict[str, Any]
    match prompt:
        case PlanningPrompt():
            task = {"objective": prompt.user_prompt, "successCriteria": [CRITERION], "taskType": "transform"}
            answer = {"tasks": [task]}
        case SelectionPrompt():
            action = {"action": f"witness.{told['action']}", "actionObjective": "Have an effect."}
            answer = {**action, "parametersContext": prompt.user_prompt}
        case ParametersPrompt():
            parameters = {name: told[name] for name in ("gate", "size") if name in told}
            answer = {"schema": "parameters_v1", "parameters": parameters}
        case RefinementPrompt() if not prompt.observation.success and (told["action"] != "once" or _not_begun(prompt)):
            answer = {"decision": "continue", "reason": "It failed.", "classification": "retry"}
        case RefinementPrompt():
            answer = {"decision": "stop", "reason": "Done.", "classification": "success", "criteriaProgress": met}
        case ReviewPrompt():
            answer = {"status": "success", "reason": "Done.", "criteriaProgress": met}
        case _:
            return "The effect was had."
    return orjson.dumps(answer).decode()


def _not_begun(prompt: RefinementPrompt) -> bool:
    """A worker that loses the partition between claim and beginning says so: nothing has happened."""
    return prompt.observation.code == "claim_lost"


async def _serve(settings: Settings, roles: list[str], trace: Trace) -> None:
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, _tell)
    actions = [Witnessed(trace, name) for name in CLASSES]
    async with open_connections(settings, print, wait=True) as connections:
        await serve(connections, roles, ThinkingModel(trace), only(*actions))


def _tell() -> None:
    """What everybody here waits for, where a test waited in vain."""
    for task in asyncio.all_tasks():
        task.print_stack()


def main() -> None:
    action_results.STORE_TIMEOUT = STORE_TIMEOUT
    claims.GRACE_MS = GRACE_MS
    settings = Settings()
    telemetry.configure(settings.log_level)
    roles, trace = sys.argv[1].split(","), Trace(Path(os.environ["WITNESS_FOLDER"]))
    asyncio.run(until_stopped(_serve(settings, roles, trace)))


if __name__ == "__main__":
    main()
