"""What is harmless in a model's answer, read as it was asked for; what could be read in two ways is left for its check.

Only what says the same is changed: the case of a word of a closed set and blanks around it, a word for nothing where
there is nothing to choose, and what follows from the rest of the answer. Events tell which fields were changed.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from pydantic import JsonValue
from pydantic.alias_generators import to_camel

from poweron_events.codec import dumps
from poweron_events.event import CriterionProgress, Model, ModelCall
from poweron_services.decider.coercion import choices, coerced
from poweron_services.models.prompts import (
    ActionsPrompt,
    Prompt,
    RefinementPrompt,
    ReviewPrompt,
    SelectionPrompt,
    TaskPrompt,
)

NO_CONNECTION: Final = frozenset({"none", "null", "n/a"})
"""What models write for a connection where there is none."""

Schema = Mapping[str, Any]


def normalised(said: dict[str, Any], answer: type[Model], prompt: Prompt | None) -> dict[str, Any]:
    """The object that a model answered with, in the words that its stage asked for.

    Args:
        said: what the model answered.
        answer: the stage's answer.
        prompt: what was asked; it lists what there is to choose from.
    """
    schema = _schema(answer)
    value: dict[str, Any] = _in_its_words(said, schema, schema.get("$defs", {}))
    match prompt, value:
        case SelectionPrompt(), _:
            return _chosen(value, prompt)
        case ActionsPrompt(), {"actions": list(actions)}:
            chosen = [_chosen(each, prompt) if isinstance(each, dict) else each for each in actions]
            return {**value, "actions": chosen}
        case RefinementPrompt(), _:
            return _classified(_with_criteria(value, prompt.progress), success=prompt.observation.success)
        case ReviewPrompt(), _:
            return _with_criteria(value, prompt.progress)
    return value


def fields_normalised(said: Mapping[str, Any], value: Mapping[str, Any], found: Model) -> tuple[str, ...]:
    """The fields that were read otherwise than they were written, and those that follow from the others.

    Args:
        said: what the model answered.
        value: the same, normalised.
        found: the answer that was made of it.
    """
    derived = {name for name, inner in value.items() if inner is not None and said.get(name) is None}
    return tuple(sorted({*_differing(said, found.model_dump(mode="json", by_alias=True)), *derived}))


def compound(said: Any) -> Any:
    """`{"method": …, "name": …}` stands for `method.name`."""
    if isinstance(said, dict) and said.keys() == {"method", "name"}:
        return f"{said['method']}.{said['name']}"
    return said


def with_normalised(call: ModelCall, *fields: str) -> ModelCall:
    """The call, which tells that these fields of its answer were normalised, too."""
    return call.model_copy(update={"normalised": tuple(sorted({*call.normalised, *fields}))}) if fields else call


def _differing(said: Any, found: Any, field: str = "") -> Iterator[str]:
    """The fields that were found otherwise than said; null says the same as leaving one out, parameters stay."""
    if isinstance(said, dict) and isinstance(found, dict):
        for key, inner in said.items():
            name = key if key in found else to_camel(key)
            if name in found and name != "parameters" and inner is not None:
                yield from _differing(inner, found[name], f"{field}.{name}" if field else name)
    elif isinstance(said, list) and isinstance(found, list) and len(said) == len(found):
        for one, other in zip(said, found, strict=True):
            yield from _differing(one, other, field)
    elif dumps(said) != dumps(found):
        yield field


@lru_cache
def _schema(answer: type[Model]) -> Schema:
    return answer.model_json_schema()


def _in_its_words(value: Any, schema: Schema, definitions: Schema) -> Any:
    """The value with each word of a closed set written as the set has it."""
    described = _described(schema, definitions)
    if allowed := choices(described):
        return _listed(value, allowed)
    if isinstance(value, dict) and "properties" in described:
        known = described["properties"]
        return {
            key: _in_its_words(inner, known.get(key) or known.get(to_camel(key), {}), definitions)
            for key, inner in value.items()
        }
    if isinstance(value, list) and "items" in described:
        return [_in_its_words(inner, described["items"], definitions) for inner in value]
    return value


def _described(schema: Schema, definitions: Schema) -> Schema:
    """What the schema says of a value that is given, be it by reference."""
    alternatives = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    given: Schema = alternatives[0] if len(alternatives) == 1 else schema
    return definitions[given["$ref"].rpartition("/")[2]] if "$ref" in given else given


def _listed(said: JsonValue, allowed: tuple[JsonValue, ...]) -> JsonValue:
    """The only one of the listed words that is written like this; else what was said."""
    return coerced(said, {"enum": list(allowed)})


def _chosen(value: dict[str, Any], prompt: TaskPrompt) -> dict[str, Any]:
    """An action and its connection, as the prompt lists them."""
    names = tuple(line.name for line in prompt.catalog)
    listed = {"action": _listed(compound(value.get("action")), names)} if "action" in value else {}
    return {**value, **listed, **_connection(value.get("requiredConnection"), prompt.connections)}


def _connection(said: Any, known: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(said, str):
        return {}
    if not known and said.strip().casefold() in NO_CONNECTION:
        return {"requiredConnection": None}
    return {"requiredConnection": _listed(said, known)}


def _with_criteria(value: dict[str, Any], criteria: Iterable[CriterionProgress]) -> dict[str, Any]:
    """With each criterion as the prompt lists it."""
    if "criteriaProgress" not in value:
        return value
    listed = {"enum": [each.criterion for each in criteria]}
    entries = {"type": "array", "items": {"type": "object", "properties": {"criterion": listed}}}
    return {**value, "criteriaProgress": coerced(value["criteriaProgress"], entries)}


def _classified(value: dict[str, Any], *, success: bool) -> dict[str, Any]:
    """With the classification that follows from decision and observation, where the answer leaves it out (L-05)."""
    if value.get("classification") is not None or value.get("decision") not in ("continue", "stop"):
        return value
    failed = "retry" if value["decision"] == "continue" else "failed"
    return {**value, "classification": "success" if success else failed}
