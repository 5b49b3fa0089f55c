"""The normalisation of harmless deviations in a model's answer; ambiguous ones are left for validation.

Only changes that keep the meaning are made: to the case of a word of a closed set and the spaces around it, to a word
such as “none” if there is nothing to choose, and to fields that follow from the rest of the answer. Events record which
fields were changed.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from pydantic import JsonValue
from pydantic.alias_generators import to_camel

from poweron_events.codec import dumps
from poweron_events.event import CriterionProgress, Model, ModelCall
from poweron_events.fold.history import list_reference
from poweron_services.decider.coercion import choices, coerced
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


def unfolded(said: dict[str, Any], prompt: Prompt | None) -> dict[str, Any]:
    """Convert an answer from the form of its schema to the form of events.

    The schema wraps alternatives in a member of their own, and lists the progress of criteria by their numbers.
    """
    inner = said.get(ANSWER)
    value: dict[str, Any] = inner if said.keys() == {ANSWER} and isinstance(inner, dict) else said
    met = value.get("criteriaProgress")
    if not isinstance(prompt, RefinementPrompt | ReviewPrompt) or not isinstance(met, dict):
        return value
    numbered = {str(number): each.criterion for number, each in enumerate(prompt.progress, start=1)}
    if not met.keys() <= numbered.keys() or not all(isinstance(entry, dict) for entry in met.values()):
        return value
    return {**value, "criteriaProgress": [{"criterion": numbered[key], **entry} for key, entry in met.items()]}


def normalised(said: dict[str, Any], answer: type[Model], prompt: Prompt | None) -> dict[str, Any]:
    """Convert an answer to the exact words that its stage asked for.

    Args:
        said: the model's answer.
        answer: the type of the stage's answer.
        prompt: the prompt; it lists the available choices.
    """
    value: dict[str, Any] = _in_its_words(said, _words_of(answer))
    match prompt, value:
        case SelectionPrompt(), _:
            return _with_references_moved(_chosen(value, prompt), prompt)
        case ActionsPrompt(), {"actions": list(actions)}:
            chosen = [_chosen(each, prompt) if isinstance(each, dict) else each for each in actions]
            return {**value, "actions": chosen}
        case RefinementPrompt(), _:
            return _classified(_with_criteria(value, prompt.progress), success=prompt.observation.success)
        case ReviewPrompt(), _:
            return _with_criteria(value, prompt.progress)
    return value


def fields_normalised(said: Mapping[str, Any], value: Mapping[str, Any], found: Model) -> tuple[str, ...]:
    """Return the fields that were changed, and those that were derived from others.

    Args:
        said: the model's answer.
        value: the same answer, normalised.
        found: the parsed answer.
    """
    derived = {name for name, inner in value.items() if inner is not None and said.get(name) is None}
    return tuple(sorted({*_differing(said, found.model_dump(mode="json", by_alias=True)), *derived}))


def compound(said: Any) -> Any:
    """Read `{"method": …, "name": …}` as `method.name`."""
    if isinstance(said, dict) and said.keys() == {"method", "name"}:
        return f"{said['method']}.{said['name']}"
    return said


def with_normalised(call: ModelCall, *fields: str, repaired: Iterable[str] = ()) -> ModelCall:
    """Add normalised fields and repairs of the answer to the record of its call."""
    told = {
        "normalised": tuple(sorted({*call.normalised, *fields})),
        "repaired": tuple(sorted({*call.repaired, *repaired})),
    }
    return call.model_copy(update=told)


def repairs(text: str, said: Mapping[str, Any], value: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the repairs that were necessary to read an answer.

    Args:
        text: the model's text.
        said: the object in it.
        value: the same object, normalised.
    """
    written = text.strip()
    found = []
    if written.startswith("["):
        found.append("object_in_list")
    elif not (written.startswith("{") and written.endswith("}")):
        found.append("text_around")
    elif with_escapes(written) != written:
        found.append("line_break_escaped")
    if said.get("requiredInputDocuments") != value.get("requiredInputDocuments"):
        found.append("reference_moved")
    return tuple(found)


def _differing(said: Any, found: Any, field: str = "") -> Iterator[str]:
    """Yield the fields that differ from the answer; null equals an absent field, and parameters are ignored."""
    if isinstance(said, dict) and isinstance(found, dict):
        for key, inner in said.items():
            name = key if key in found else to_camel(key)
            if name in found and name != "parameters" and inner is not None:
                yield from _differing(inner, found[name], f"{field}.{name}" if field else name)
    elif isinstance(said, list) and isinstance(found, list) and len(said) == len(found):
        for one, other in zip(said, found, strict=True):
            yield from _differing(one, other, field)
    elif isinstance(said, str) and said == found:
        return
    elif dumps(said) != dumps(found):
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
    described = _described(schema, definitions)
    if allowed := choices(described):
        return _Words(allowed)
    members = {name: _words(inner, definitions) for name, inner in described.get("properties", {}).items()}
    entries = _words(described["items"], definitions) if "items" in described else _NO_WORDS
    return _Words(
        members=members if any(words != _NO_WORDS for words in members.values()) else {},
        entries=entries if entries != _NO_WORDS else None,
    )


def _in_its_words(value: Any, words: _Words) -> Any:
    """Write each word of a closed set in a value as the set spells it."""
    if words.allowed:
        return _listed(value, words.allowed)
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


def _described(schema: Schema, definitions: Schema) -> Schema:
    """Return the schema of a value other than null, with its reference resolved."""
    alternatives = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    given: Schema = alternatives[0] if len(alternatives) == 1 else schema
    return definitions[given["$ref"].rpartition("/")[2]] if "$ref" in given else given


def _listed(said: JsonValue, allowed: tuple[JsonValue, ...]) -> JsonValue:
    """Return the only allowed word with this spelling, or else the value itself."""
    return coerced(said, {"enum": list(allowed)})


def _chosen(value: dict[str, Any], prompt: TaskPrompt) -> dict[str, Any]:
    """Write an action and its connection as the prompt lists them."""
    names = tuple(line.name for line in prompt.catalog)
    listed = {"action": _listed(compound(value.get("action")), names)} if "action" in value else {}
    return {**value, **listed, **_connection(value.get("requiredConnection"), prompt.connections)}


def _with_references_moved(value: dict[str, Any], prompt: SelectionPrompt) -> dict[str, Any]:
    """Move documents that a field for stage 2 names to the references, where they belong (P-02).

    A field that names none is left for validation.
    """
    schema = value.get("parametersSchema")
    if not isinstance(schema, dict) or not isinstance(fields := schema.get("fields"), list):
        return value
    known = [*(each.reference for each in prompt.documents), *(list_reference(each.label) for each in prompt.lists)]
    kept, moved = list[Any](), list[str]()
    for field in fields:
        named = _named_in(field, known) if isinstance(field, dict) and field.get("name") in DOCUMENT_FIELDS else []
        moved += named
        if not named:
            kept.append(field)
    if not moved:
        return value
    before = value.get("requiredInputDocuments") or []
    references = list(dict.fromkeys([*([before] if isinstance(before, str) else before), *moved]))
    return {**value, "requiredInputDocuments": references, "parametersSchema": {**schema, "fields": kept}}


def _named_in(field: Mapping[str, Any], known: Iterable[str]) -> list[str]:
    said = dumps(field).decode()
    return [reference for reference in known if dumps(reference).decode().strip('"') in said]


def _connection(said: Any, known: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(said, str):
        return {}
    if not known and said.strip().casefold() in NO_CONNECTION:
        return {"requiredConnection": None}
    return {"requiredConnection": _listed(said, known)}


def _with_criteria(value: dict[str, Any], criteria: Iterable[CriterionProgress]) -> dict[str, Any]:
    """Write each criterion as the prompt lists it, and limit its progress to the scale."""
    if "criteriaProgress" not in value:
        return value
    listed = {"enum": [each.criterion for each in criteria]}
    entries = {"type": "array", "items": {"type": "object", "properties": {"criterion": listed}}}
    told = coerced(value["criteriaProgress"], entries)
    return {**value, "criteriaProgress": list(map(_on_its_scale, told)) if isinstance(told, list) else told}


def _on_its_scale(entry: Any) -> Any:
    """Limit a progress to its scale: some servers do not enforce the bounds of numbers."""
    if not isinstance(entry, dict) or type(progress := entry.get("progress")) is not int:
        return entry
    return {**entry, "progress": min(max(progress, 0), MAX_PROGRESS)}


def _classified(value: dict[str, Any], *, success: bool) -> dict[str, Any]:
    """Derive a missing classification from the decision and the observation (L-05)."""
    if value.get("classification") is not None or value.get("decision") not in ("continue", "stop"):
        return value
    failed = "retry" if value["decision"] == "continue" else "failed"
    return {**value, "classification": "success" if success else failed}
