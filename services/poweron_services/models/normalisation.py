"""The normalisation of harmless deviations in a model's answer; ambiguous ones are left for validation.

Only changes that keep the meaning are made: to the case of a word of a closed set and the spaces around it, to a word
such as “none” if there is nothing to choose, and to fields that follow from the rest of the answer. Events record which
fields were changed.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from pydantic import JsonValue
from pydantic.alias_generators import to_camel

from poweron_events.codec import dumps
from poweron_events.event import CriterionProgress, Model, ModelCall
from poweron_events.fold.history import list_reference
from poweron_services.decider.coercion import choice, choices, coerced
from poweron_services.models.json_objects import with_escapes
from poweron_services.models.prompts import (
    ActionsPrompt,
    Prompt,
    RefinementPrompt,
    ReviewPrompt,
    SelectionPrompt,
    TaskPrompt,
)

DOCUMENT_FIELDS: Final = frozenset({"documentList", "documents"})
"""The parameter names by which models ask for documents."""
MAX_PROGRESS: Final = 1000
NO_CONNECTION: Final = frozenset({"none", "null", "n/a"})
"""The words that models write for a connection if there is none."""

ANSWER: Final = "answer"
"""The member that wraps alternatives, for providers that do not accept them at the top level."""

Schema = Mapping[str, Any]


def unfolded(answer: dict[str, Any], prompt: Prompt | None) -> dict[str, Any]:
    """Convert an answer from the form of its schema to the form of events.

    The schema wraps alternatives in a member of their own, and lists the progress of criteria by their numbers.
    """
    inner = answer.get(ANSWER)
    value: dict[str, Any] = inner if answer.keys() == {ANSWER} and isinstance(inner, dict) else answer
    progress = value.get("criteriaProgress")
    if not isinstance(prompt, RefinementPrompt | ReviewPrompt) or not isinstance(progress, dict):
        return value
    criteria = {str(number): item.criterion for number, item in enumerate(prompt.progress, start=1)}
    if not progress.keys() <= criteria.keys() or not all(isinstance(entry, dict) for entry in progress.values()):
        return value
    return {**value, "criteriaProgress": [{"criterion": criteria[key], **entry} for key, entry in progress.items()]}


def normalised(raw: dict[str, Any], answer: type[Model], prompt: Prompt | None) -> dict[str, Any]:
    """Convert an answer to the exact words that its stage asked for.

    Args:
        raw: the model's answer.
        answer: the type of the stage's answer.
        prompt: the prompt; it lists the available choices.
    """
    value: dict[str, Any] = _in_its_words(raw, _words_of(answer))
    match prompt, value:
        case SelectionPrompt(), _:
            return _move_references(_normalise_action(value, prompt), prompt)
        case ActionsPrompt(), {"actions": list(actions)}:
            action_choices = [
                _normalise_action(action, prompt) if isinstance(action, dict) else action for action in actions
            ]
            return {**value, "actions": action_choices}
        case RefinementPrompt(), _:
            return _classify(_with_criteria(value, prompt.progress), success=prompt.observation.success)
        case ReviewPrompt(), _:
            return _with_criteria(value, prompt.progress)
    return value


def fields_normalised(raw: Mapping[str, Any], value: Mapping[str, Any], model: Model) -> tuple[str, ...]:
    """Return the fields that were changed, and those that were derived from others.

    Args:
        raw: the model's answer.
        value: the same answer, normalised.
        model: the parsed answer.
    """
    derived = {name for name, inner in value.items() if inner is not None and raw.get(name) is None}
    return tuple(sorted({*_differences(raw, model.model_dump(mode="json", by_alias=True)), *derived}))


def compound(value: Any) -> Any:
    """Read `{"method": …, "name": …}` as `method.name`."""
    if isinstance(value, dict) and value.keys() == {"method", "name"}:
        return f"{value['method']}.{value['name']}"
    return value


def with_normalised(call: ModelCall, *fields: str, repaired: Sequence[str] = ()) -> ModelCall:
    """Add normalised fields and repairs of the answer to the record of its call."""
    if not fields and not repaired:
        return call
    update = {
        "normalised": tuple(sorted({*call.normalised, *fields})),
        "repaired": tuple(sorted({*call.repaired, *repaired})),
    }
    return call.model_copy(update=update)


def repairs(text: str, raw: Mapping[str, Any], value: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the repairs that were necessary to read an answer.

    Args:
        text: the model's text.
        raw: the object in it.
        value: the same object, normalised.
    """
    body = text.strip()
    names = []
    if body.startswith("["):
        names.append("object_in_list")
    elif not (body.startswith("{") and body.endswith("}")):
        names.append("text_around")
    elif with_escapes(body) != body:
        names.append("line_break_escaped")
    if raw.get("requiredInputDocuments") != value.get("requiredInputDocuments"):
        names.append("reference_moved")
    return tuple(names)


def _differences(answer: Any, result: Any, field: str = "") -> Iterator[str]:
    """Yield the fields that differ from the answer; null equals an absent field, and parameters are ignored."""
    if isinstance(answer, str) and answer == result:
        return
    if isinstance(answer, dict) and isinstance(result, dict):
        for key, inner in answer.items():
            name = key if key in result else to_camel(key)
            if name in result and name != "parameters" and inner is not None:
                yield from _differences(inner, result[name], f"{field}.{name}" if field else name)
    elif isinstance(answer, list) and isinstance(result, list) and len(answer) == len(result):
        for item, counterpart in zip(answer, result, strict=True):
            yield from _differences(item, counterpart, field)
    elif dumps(answer) != dumps(result):
        yield field


class _Words(NamedTuple):
    """The places of words of a closed set within a value: the value itself, its members or its entries."""

    allowed: tuple[JsonValue, ...] = ()
    members: Mapping[str, "_Words"] = {}
    entries: "_Words | None" = None


_NO_WORDS: Final = _Words()


@lru_cache
def _words_of(answer: type[Model]) -> _Words:
    """Return the places in an answer; they are computed once for each type."""
    schema = answer.model_json_schema()
    return _words(schema, schema.get("$defs", {}))


def _words(schema: Schema, definitions: Schema) -> _Words:
    value_schema = _resolve(schema, definitions)
    if words := choices(value_schema):
        return _Words(words)
    members = {name: _words(inner, definitions) for name, inner in value_schema.get("properties", {}).items()}
    entries = _words(value_schema["items"], definitions) if "items" in value_schema else _NO_WORDS
    return _Words(
        members=members if any(words != _NO_WORDS for words in members.values()) else {},
        entries=entries if entries != _NO_WORDS else None,
    )


def _in_its_words(value: Any, words: _Words) -> Any:
    """Write each word of a closed set in a value as the set spells it."""
    if words.allowed:
        return choice(value, words.allowed)
    if isinstance(value, dict) and words.members:
        known = words.members
        return {
            key: _in_its_words(inner, known[key] if key in known else known.get(to_camel(key), _NO_WORDS))
            for key, inner in value.items()
        }
    if isinstance(value, list) and words.entries is not None:
        entries = words.entries
        return [_in_its_words(inner, entries) for inner in value]
    return value


def _resolve(schema: Schema, definitions: Schema) -> Schema:
    """Return the schema of a value other than null, with its reference resolved."""
    alternatives = [alternative for alternative in schema.get("anyOf", ()) if alternative != {"type": "null"}]
    only: Schema = alternatives[0] if len(alternatives) == 1 else schema
    return definitions[only["$ref"].rpartition("/")[2]] if "$ref" in only else only


def _normalise_action(value: dict[str, Any], prompt: TaskPrompt) -> dict[str, Any]:
    """Write an action and its connection as the prompt lists them."""
    names = tuple(line.name for line in prompt.catalog)
    action = {"action": choice(compound(value.get("action")), names)} if "action" in value else {}
    return {**value, **action, **_connection(value.get("requiredConnection"), prompt.connections)}


def _move_references(value: dict[str, Any], prompt: SelectionPrompt) -> dict[str, Any]:
    """Move documents that a field for stage 2 names to the references, where they belong (P-02).

    A field that names none is left for validation.
    """
    schema = value.get("parametersSchema")
    if not isinstance(schema, dict) or not isinstance(fields := schema.get("fields"), list):
        return value
    known = [*(line.reference for line in prompt.documents), *(list_reference(line.label) for line in prompt.lists)]
    other_fields, document_references = list[Any](), list[str]()
    for field in fields:
        field_references = (
            _references_in(field, known) if isinstance(field, dict) and field.get("name") in DOCUMENT_FIELDS else []
        )
        document_references += field_references
        if not field_references:
            other_fields.append(field)
    if not document_references:
        return value
    before = value.get("requiredInputDocuments") or []
    references = list(dict.fromkeys([*([before] if isinstance(before, str) else before), *document_references]))
    return {**value, "requiredInputDocuments": references, "parametersSchema": {**schema, "fields": other_fields}}


def _references_in(field: Mapping[str, Any], known: Iterable[str]) -> list[str]:
    text = dumps(field).decode()
    return [reference for reference in known if dumps(reference).decode().strip('"') in text]


def _connection(value: Any, known: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(value, str):
        return {}
    if not known and value.strip().casefold() in NO_CONNECTION:
        return {"requiredConnection": None}
    return {"requiredConnection": choice(value, known)}


def _with_criteria(value: dict[str, Any], criteria: Iterable[CriterionProgress]) -> dict[str, Any]:
    """Write each criterion as the prompt lists it, and limit its progress to the scale."""
    if "criteriaProgress" not in value:
        return value
    criterion = {"enum": [item.criterion for item in criteria]}
    entries = {"type": "array", "items": {"type": "object", "properties": {"criterion": criterion}}}
    progress = coerced(value["criteriaProgress"], entries)
    return {**value, "criteriaProgress": list(map(_on_its_scale, progress)) if isinstance(progress, list) else progress}


def _on_its_scale(entry: Any) -> Any:
    """Limit a progress to its scale: some servers do not enforce the bounds of numbers."""
    if not isinstance(entry, dict) or type(progress := entry.get("progress")) is not int:
        return entry
    return {**entry, "progress": min(max(progress, 0), MAX_PROGRESS)}


def _classify(value: dict[str, Any], *, success: bool) -> dict[str, Any]:
    """Derive a missing classification from the decision and the observation (L-05)."""
    if value.get("classification") is not None or value.get("decision") not in ("continue", "stop"):
        return value
    failure = "retry" if value["decision"] == "continue" else "failed"
    return {**value, "classification": "success" if success else failure}
