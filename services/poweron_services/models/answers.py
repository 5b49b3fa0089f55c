"""The answers that each stage expects, parsed strictly where it matters and leniently where it is harmless."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Final, Generic, Literal, TypeVar

from pydantic import BeforeValidator, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from poweron_events.codes import Code
from poweron_events.errors import Refused
from poweron_events.event import ActionName, CriterionProgress, Model
from poweron_events.request import MAX_STEPS
from poweron_events.round_events import MAX_CRITERIA, MAX_TASKS, PlannedAction, TaskPlan
from poweron_events.step_events import ActionParameters, Classification, ParametersSchema
from poweron_events.validation_messages import explain
from poweron_services.decider.answer_schemas import Judgement
from poweron_services.decider.validation import FORBIDDEN_FIELDS
from poweron_services.models.json_objects import NoObject, forbidden_keys, the_object
from poweron_services.models.normalisation import compound, fields_normalised, normalised, repairs, unfolded
from poweron_services.models.prompts import Prompt

OWN_WORDS: Final = frozenset({"objective", "successCriteria", "actionObjective", "reason", "hint"})
"""The fields that a model must fill in its own words."""
LEAST: Final = 20  # characters; a shorter text may match by chance
_PLACEHOLDER: Final = re.compile(r"[\W_]{1,10}|<[^<>]*>|string|text|value|name|description", re.IGNORECASE)


class Unacceptable(Refused):
    """The model's answer is unusable; the message is shown to the model and kept in the log."""

    code = "answer_unreadable"


def _texts(value: Any) -> Any:
    """Read a single text as a list of one."""
    return (value,) if isinstance(value, str) else value


def _compound(value: Any) -> Any:
    """Read `{"method": …, "name": …}` as `method.name`; refuse a list of actions."""
    if isinstance(value, list):
        raise PydanticCustomError("one_action", "exactly one action is selected, not a list of them")
    return compound(value)


def _without_forbidden(value: Any) -> Any:
    """Refuse a schema with keys for documents, connections or history (P-02)."""
    keys = forbidden_keys(value, FORBIDDEN_FIELDS) if isinstance(value, dict) else ()
    if keys:
        raise PydanticCustomError("field_not_allowed", "must not hold {named}", {"named": ", ".join(map(repr, keys))})
    return value


def _without_nulls(value: Any) -> Any:
    """Drop nulls from JSON, since null means the same as an absent field; leave an action's parameters unchanged."""
    if isinstance(value, dict):
        return {
            key: inner if key == "parameters" else _without_nulls(inner)
            for key, inner in value.items()
            if inner is not None
        }
    return [_without_nulls(inner) for inner in value] if isinstance(value, list) else value


Texts = Annotated[tuple[str, ...], BeforeValidator(_texts)]
Connection = Annotated[
    str | None, BeforeValidator(lambda value: None if isinstance(value, str) and not value.strip() else value)
]


class Lenient(Model):
    """An answer in which null means the same as an absent field."""

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, value: Any) -> Any:
        return _without_nulls(value)


class TaskAnswer(TaskPlan, Lenient):
    """A task whose criteria refinement and review show in full: models must repeat them word for word."""

    success_criteria: tuple[Annotated[str, Field(max_length=700)], ...] = Field(min_length=1, max_length=MAX_CRITERIA)
    expected_formats: tuple[Annotated[str, Field(max_length=100)], ...] = Field(default=(), max_length=20)


class PlanningAnswer(Lenient):
    tasks: tuple[TaskAnswer, ...] = Field(min_length=1, max_length=MAX_TASKS)


class ActionAnswer(PlannedAction, Lenient):
    """An action of a whole plan, under the same limits as an action that is selected on its own."""

    action: Annotated[ActionName, BeforeValidator(_compound)]
    action_objective: str = Field(min_length=1, max_length=4_000)
    learnings: Texts = Field(default=(), max_length=20)
    required_input_documents: Texts = Field(default=(), max_length=100)
    required_connection: Connection = None


class ActionsAnswer(Model):
    actions: tuple[ActionAnswer, ...] = Field(min_length=1, max_length=MAX_STEPS)


class SelectionAnswer(Lenient):
    action: Annotated[ActionName, BeforeValidator(_compound)]
    action_objective: str = Field(min_length=1, max_length=4_000)
    learnings: Texts = Field(default=(), max_length=20)
    required_input_documents: Texts = Field(default=(), max_length=100)
    required_connection: Connection = None
    parameters_context: str = Field(default="", max_length=8_000)
    parameters_schema: Annotated[ParametersSchema | None, BeforeValidator(_without_forbidden)] = None


class ParametersAnswer(ActionParameters):
    schema_: Literal["parameters_v1"] = Field(alias="schema")


class RefinementAnswer(Lenient):
    decision: Literal["continue", "stop"]
    reason: str = Field(max_length=2_000)
    hint: str | None = Field(default=None, max_length=2_000)
    classification: Classification
    improvements: Texts = Field(default=(), max_length=20)
    criteria_progress: tuple[CriterionProgress, ...] = Field(default=(), max_length=20)


class ReviewAnswer(Lenient):
    status: Judgement
    reason: str = Field(default="", max_length=2_000)
    improvements: Texts = Field(default=(), max_length=20)
    criteria_progress: tuple[CriterionProgress, ...] = Field(default=(), max_length=20)


MAX_ECHO = 100  # characters shown of a text that an answer repeats
Answer = TypeVar("Answer", bound=Model)


@dataclass(frozen=True, slots=True)
class Read(Generic[Answer]):
    """An answer, the fields of it that were normalised, and how it was repaired."""

    answer: Answer
    normalised: tuple[str, ...]
    repaired: tuple[str, ...] = ()


def parse(text: str, answer: type[Answer], *, forbidden: frozenset[str] = frozenset()) -> Answer:
    """Parse a model's text as the answer its stage expects, without the prompt.

    Raises:
        Unacceptable: as `read` does.
    """
    return read(text, answer, forbidden=forbidden).answer


def read(
    text: str, answer: type[Answer], *, forbidden: frozenset[str] = frozenset(), prompt: Prompt | None = None
) -> Read[Answer]:
    """Parse a model's text as the answer its stage expects; report what was normalised and repaired.

    Args:
        text: the model's answer: one JSON object, alone or the only one of its kind within prose.
        answer: the type of the stage's answer.
        forbidden: keys that make the answer unacceptable at any depth; other unknown keys are ignored.
        prompt: the prompt, which allows some inexact answers to be read.

    Raises:
        Unacceptable: the message says what is wrong, so that the model can do better.
    """
    try:
        raw = unfolded(the_object(text, required=_required_fields(answer), forbidden=forbidden), prompt)
        value = normalised(raw, answer, prompt)
        _refuse_echo(value, prompt)
        result = answer.model_validate(value, extra="ignore")
    except NoObject as error:
        raise Unacceptable(str(error), code=error.code) from error
    except (ValidationError, RecursionError) as error:
        raise Unacceptable(f"The answer does not fit: {explain(error)}.", code=_code(error)) from error
    return Read(result, fields_normalised(raw, value, result), repairs(text, raw, value))


def _refuse_echo(value: dict[str, Any], prompt: Prompt | None) -> None:
    """Refuse an answer that only repeats its instructions or a placeholder.

    Raises:
        Unacceptable: the message names the field.
    """
    repetition = echo(value, prompt.template.instructions) if prompt else None
    if repetition is not None:
        field, text = repetition
        message = f"{field!r} must be in words of your own about this request; it only repeats {text[:MAX_ECHO]!r}."
        raise Unacceptable(message, code="answer_echoed")


def _code(error: ValidationError | RecursionError) -> Code | None:
    """Return the code of the rule that the answer breaks; None if it merely has the wrong form."""
    kinds = {detail["type"] for detail in error.errors()} if isinstance(error, ValidationError) else set()
    return "field_not_allowed" if "field_not_allowed" in kinds else None


@lru_cache
def _required_fields(answer: type[Model]) -> tuple[str, ...]:
    """Return the keys that identify an object as this answer."""
    return tuple(field.alias or name for name, field in answer.model_fields.items() if field.is_required())


def echo(answer: Mapping[str, Any], instructions: str) -> tuple[str, str] | None:
    """Return the first field that repeats a placeholder or the instructions, and its text; None if none does.

    Args:
        answer: the model's answer.
        instructions: the instructions of the prompt, the same for every prompt of its stage.
    """
    normal_instructions = _folded_instructions(instructions)
    for field, text in _own_words(answer):
        normal_text = _fold(text)
        if _PLACEHOLDER.fullmatch(text.strip()) or (len(normal_text) >= LEAST and normal_text in normal_instructions):
            return field, text
    return None


def _own_words(value: Any, field: str = "") -> Iterator[tuple[str, str]]:
    """Yield the texts of the fields that need own words; an action's parameters may hold anything."""
    match value:
        case dict():
            for name, inner in value.items():
                if name != "parameters":
                    yield from _own_words(inner, name)
        case list():
            for element in value:
                yield from _own_words(element, field)
        case str() if field in OWN_WORDS:
            yield field, value


def _fold(text: str) -> str:
    return " ".join(text.split()).casefold().rstrip(".;")


_folded_instructions = lru_cache(_fold)
"""A stage's instructions never vary, and every answer is compared with them."""
