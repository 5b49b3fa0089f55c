"""A model and an action that answer instantly, with answers of realistic size.

The sizes are those of the answers themselves; anything that the loop adds to them in an event counts as PowerOn's.
"""

import asyncio
from itertools import count
from typing import Any

from poweron_events.catalog import CATALOG
from poweron_events.codec import dumps
from poweron_events.step_events import ActionResult
from poweron_services.actions.action import Done, Order
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

SELECTION, PARAMETERS, RESULT, OBSERVATION, REFINEMENT = 600, 200, 2_000, 800, 150  # bytes
NOTE_COUNT = 4  # notes of a result; an observation keeps the first 200 characters of each
ACTION = "ai.process"

NUMBER = "No. 00000000 "  # makes every answer different
WORDS = "The bumper cover was replaced, the dent in the quarter panel was repaired, and both were refinished in green. "


def filled(start: str, size: int) -> str:
    """Return a text of this many bytes that begins with `start`."""
    return (start + WORDS * (size // len(WORDS) + 1))[:size]


def _answer(size: int, filling: str, **answer: Any) -> str:
    """Return an answer of this many bytes, with one field padded."""
    bare = len(dumps({**answer, filling: ""}))
    return dumps({**answer, filling: filled(NUMBER, size - bare)}).decode()


def _parameters() -> str:
    bare = len(dumps({"schema": "parameters_v1", "parameters": {"aiPrompt": ""}}))
    return dumps({"schema": "parameters_v1", "parameters": {"aiPrompt": filled(NUMBER, PARAMETERS - bare)}}).decode()


_PLAN = {"objective": "Say what was repaired.", "successCriteria": ["Each repair is named."], "taskType": "analysis"}

INSTANT_ANSWERS: dict[type[Prompt], str] = {
    PlanningPrompt: dumps({"tasks": [_PLAN]}).decode(),
    SelectionPrompt: _answer(
        SELECTION, "parametersContext", action=ACTION, actionObjective="Find the next repair in the estimate."
    ),
    ParametersPrompt: _parameters(),
    RefinementPrompt: _answer(REFINEMENT, "reason", decision="continue", classification="success"),
    ReviewPrompt: _answer(REFINEMENT, "reason", status="success"),
    MessagePrompt: filled(NUMBER, REFINEMENT),
}


class InstantModel:
    """A model that is never satisfied and continues until the step limit is reached; each call takes `seconds`."""

    def __init__(self, seconds: float = 0.0) -> None:
        self._numbers = count(1)
        self._seconds = seconds

    async def complete(self, prompt: Prompt) -> Completion:
        if self._seconds:
            await asyncio.sleep(self._seconds)
        text = INSTANT_ANSWERS[type(prompt)].replace(NUMBER, f"No. {next(self._numbers):08d} ", 1)
        return Completion(text, provider="bench", model="instant", input_tokens=1_000, output_tokens=200)


class InstantAction:
    """An action that succeeds at once without doing anything."""

    spec = CATALOG[ACTION]

    def __init__(self) -> None:
        self._numbers = count(1)

    async def __call__(self, order: Order) -> Done:  # noqa: ARG002 - there is nothing to do
        number = f"{next(self._numbers):08d}"
        notes = tuple(
            filled(f"No. {number}, finding {note}: ", RESULT // NOTE_COUNT) for note in range(1, NOTE_COUNT + 1)
        )
        return Done(ActionResult(success=True), notes)
