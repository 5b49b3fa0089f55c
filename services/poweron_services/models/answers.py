"""The answers: the JSON that each stage expects back, read strictly."""

from typing import Literal, TypeVar

import orjson
from pydantic import Field, JsonValue, ValidationError

from poweron_events.codec import explain
from poweron_events.errors import Refused
from poweron_events.event import ActionName, CriterionProgress, Model
from poweron_events.planning import MAX_TASKS, TaskPlan
from poweron_events.refinement import Classification
from poweron_events.selection import ParametersSchema

MAX_ANSWER = 200_000  # characters; an answer that is longer is no answer


class Unacceptable(Refused):
    """The model's answer cannot be used; the sentence is shown to the model and kept in the log."""


class PlanningAnswer(Model):
    tasks: tuple[TaskPlan, ...] = Field(min_length=1, max_length=MAX_TASKS)


class SelectionAnswer(Model):
    action: ActionName
    action_objective: str = Field(min_length=1, max_length=4_000)
    learnings: tuple[str, ...] = Field(default=(), max_length=20)
    required_input_documents: tuple[str, ...] = Field(default=(), max_length=100)
    required_connection: str | None = None
    parameters_context: str = Field(default="", max_length=8_000)
    parameters_schema: ParametersSchema | None = None


class ParametersAnswer(Model):
    schema_: Literal["parameters_v1"] = Field(alias="schema")
    parameters: dict[str, JsonValue]


class RefinementAnswer(Model):
    decision: Literal["continue", "stop"]
    reason: str = Field(max_length=2_000)
    hint: str | None = Field(default=None, max_length=2_000)
    classification: Classification
    improvements: tuple[str, ...] = Field(default=(), max_length=20)
    criteria_progress: tuple[CriterionProgress, ...] = Field(default=(), max_length=20)


class ReviewAnswer(Model):
    status: Classification
    reason: str = Field(default="", max_length=2_000)
    improvements: tuple[str, ...] = Field(default=(), max_length=20)
    criteria_progress: tuple[CriterionProgress, ...] = Field(default=(), max_length=20)


Answer = TypeVar("Answer", bound=Model)


def parse(text: str, answer: type[Answer], *, forbidden: frozenset[str] = frozenset()) -> Answer:
    """A model's text as the answer its stage expects.

    Args:
        text: what the model answered: one JSON object.
        answer: the stage's answer.
        forbidden: keys that make the answer unacceptable; other unknown keys are ignored.

    Raises:
        Unacceptable: says what is wrong, so that the model can do better.
    """
    if len(text) > MAX_ANSWER:
        raise Unacceptable(f"The answer has {len(text)} characters; at most {MAX_ANSWER} are read.")
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise Unacceptable(f"The answer is not one JSON object: {error}") from error
    if not isinstance(value, dict):
        raise Unacceptable(f"The answer must be one JSON object, not {type(value).__name__}.")
    if named := sorted(forbidden & value.keys()):
        raise Unacceptable(f"The answer must not hold {', '.join(map(repr, named))}.")
    try:
        return answer.model_validate(value, extra="ignore")
    except (ValidationError, RecursionError) as error:
        raise Unacceptable(f"The answer does not fit: {explain(error)}") from error
