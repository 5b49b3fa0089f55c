"""What thinks and what acts in the simulated world: a model that answers by chance, actions that count, a content store."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from simulation.faults import Chance

from poweron_events.catalog import ActionSpec
from poweron_events.codec import dumps
from poweron_events.errors import Refused, Unavailable
from poweron_events.event import Model
from poweron_events.fold.state import Used
from poweron_events.step_events import ActionResult, EffectClass
from poweron_services.actions.action import Done, Order, document
from poweron_services.decider.rules import Allowance
from poweron_services.models.call_reservations import reserve_call
from poweron_services.models.chat_model import Completion, free
from poweron_services.models.prompts import (
    ActionsPrompt,
    DocumentLine,
    MessagePrompt,
    ParametersPrompt,
    PlanningPrompt,
    Prompt,
    RefinementPrompt,
    SelectionPrompt,
)
from poweron_services.telemetry.instrumentation import _AT

CLASSES: dict[str, EffectClass] = {"test.pure": "pure", "test.idempotent": "idempotent", "test.once": "at_most_once"}
TOKENS = {"input_tokens": 700, "output_tokens": 100}  # of each call
MOST = Used(**TOKENS)
LIMIT_MS = 400  # of an action
TASK = {"objective": "Find the total", "successCriteria": ["The total is named"], "taskType": "lookup"}


class Mind:
    """A language model without language; the world is told what each request takes of a budget, answered or not."""

    def __init__(
        self,
        chance: Chance,
        took: Callable[[int], None],
        begins: Callable[[str], None],
        fails: Callable[[], None],
    ) -> None:
        self._chance = chance
        self._took = took
        self._begins = begins
        self._fails = fails
        self._confused = False  # who has talked nonsense often does again

    async def complete(self, prompt: Prompt) -> Completion:
        chance = self._chance
        away, refuses = chance.strikes("model away", 0.03), chance.strikes("model refuses", 0.005)
        if prompt.allowance is not None:
            await self._reserve(prompt.allowance)
            self._took(0 if away or refuses else MOST.tokens)
        else:
            workflow = _AT.get()
            assert workflow is not None
            self._begins(workflow.id)
        slow = chance.strikes("model slow", 0.02)
        try:
            await asyncio.sleep(chance.between(0.5, 1.5) if slow else chance.between(0, 0.02))
        except asyncio.CancelledError:
            if prompt.allowance is not None:
                prompt.allowance.take_unknown(MOST)
            raise
        if away:
            self._fails()
            raise Unavailable("the model is too busy")
        if refuses:
            raise Refused("the model will not answer")
        self._confused = chance.strikes("model talks nonsense", 0.5 if self._confused else 0.05)
        if self._confused:
            return Completion("I think so.", provider="simulated", model="mind", **TOKENS)
        said = self._said(prompt)
        text = said if isinstance(said, str) else dumps(said).decode()
        return Completion(text, provider="simulated", model="mind", **TOKENS)

    async def _reserve(self, left: Allowance) -> None:
        reserved = False
        while not reserved:
            if left.longest_answer(MOST.input_tokens, MOST.output_tokens, free) < MOST.output_tokens:
                raise Refused("the answer would be cut off", code="answer_cut_off")
            reserved = await reserve_call(left, MOST)

    def _said(self, prompt: Prompt) -> str | dict[str, Any]:  # noqa: PLR0911 - one case per prompt
        chance = self._chance
        match prompt:
            case PlanningPrompt():
                return {"tasks": [TASK] * chance.one_of([1, 1, 1, 2])}
            case ActionsPrompt():
                count = chance.one_of([1, 2, 2, 3])  # sometimes more than the task may take
                return {"actions": [self._action(prompt.documents) for _ in range(count)]}
            case SelectionPrompt():
                return self._action(prompt.documents)
            case ParametersPrompt():
                return {"schema": "parameters_v1", "parameters": {}}
            case RefinementPrompt():
                decision = chance.one_of(["continue", "stop", "stop"])
                return {"decision": decision, "reason": "So be it.", "classification": "success"}
            case MessagePrompt():
                return "The total is 42."
            case _:
                return {"status": chance.one_of(["success", "success", "success", "retry"]), "reason": "So be it."}

    def _action(self, documents: Sequence[DocumentLine]) -> dict[str, Any]:
        """Any action, now and then on a document of any round."""
        named = [self._chance.one_of(documents).reference] if documents and self._chance.often(0.3) else []
        action = self._chance.one_of(list(CLASSES))
        return {"action": action, "actionObjective": "Do it", "requiredInputDocuments": named}


@dataclass
class Effect:
    """An action of one process; the world is told when it has its effect."""

    name: str
    happened: Callable[[str, str], None]
    chance: Chance

    @property
    def spec(self) -> ActionSpec:
        return SPECS[self.name]

    async def __call__(self, order: Order) -> Done:
        chance = self.chance
        if chance.often(0.5):
            await asyncio.sleep(chance.between(0, 0.02))
        self.happened(order.idempotency_key, self.name)
        await asyncio.sleep(
            chance.between(0.1, 1.0) if chance.strikes("effect slow", 0.08) else chance.between(0, 0.05)
        )
        if chance.strikes("effect raises", 0.03):
            raise RuntimeError("a bug in an action")
        return Done(ActionResult(success=True, documents=(document("a.md", "42", "text/markdown"),)))


class Parameters(Model):
    """The parameters of an action that needs none; people who approve it may add one."""

    changed: int | None = None


SPECS = {name: ActionSpec.of(name, Parameters, effect, LIMIT_MS) for name, effect in CLASSES.items()}


class Shelf:
    """The place below the content stores of all processes."""

    is_remote, look_time = True, None

    def __init__(self, chance: Chance) -> None:
        self._chance = chance
        self._kept: dict[str, bytes] = {}

    async def put(self, workflow_id: str, contents: Mapping[str, bytes]) -> bool:
        await self._reach()
        stored = {f"{workflow_id}/{name}": content for name, content in contents.items()}
        are_new = not stored.keys() & self._kept.keys()
        self._kept |= stored
        return are_new

    async def create(self, path: str, content: bytes) -> bool:
        await self._reach()
        if path in self._kept:
            return False
        self._kept[path] = content
        return True

    async def read(self, path: str) -> bytes:
        await self._reach()
        return self._there(path)

    async def size(self, path: str) -> int:
        return len(await self.read(path))

    async def modified(self, _: str) -> None:
        """Nothing is ever cleared up here."""
        await self._reach()

    def _there(self, path: str) -> bytes:
        if path not in self._kept:
            raise FileNotFoundError(path)
        return self._kept[path]

    async def _reach(self) -> None:
        await asyncio.sleep(0)
        if self._chance.strikes("content away", 0.005):
            raise OSError("the object store does not answer")
