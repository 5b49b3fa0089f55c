"""What is harmless in a model's answer, read as it was asked for; what could be read in two ways is left for its check.

Only what says the same is changed: the case of a word of a closed set and blanks around it, a word for nothing where
there is nothing to choose, and what follows from the rest of the answer. Events tell which fields were changed.
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
"""The names under which models ask for documents as if they were parameters."""
MAX_PROGRESS: Final = 1000
NO_CONNECTION: Final = frozenset({"none", "null", "n/a"})
"""What models write for a connection where there is none."""

ANSWER: Final = "answer"
"""The member that alternatives stand within, for providers that take none by themselves."""

Schema = Mapping[str, Any]


def unfolded(said: dict[str, Any], prompt: Prompt | None) -> dict[str, Any]:
    """The answer as events have it, out of the form in which a schema asks for it.

    Alternatives stand within a member of their own, and how far the criteria are met stands by their number.
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
    """The object that a model answered with, in the words that its stage asked for.

    Args:
        said: what the model answered.
        answer: the stage's answer.
        prompt: what was asked; it lists what there is to choose from.
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


def with_normalised(call: ModelCall, *fields: str, repaired: Iterable[str] = ()) -> ModelCall:
    """The call, which tells that these fields of its answer were normalised, too, and how the answer was repaired."""
    told = {
        "normalised": tuple(sorted({*call.normalised, *fields})),
        "repaired": tuple(sorted({*call.repaired, *repaired})),
    }
    return call.model_copy(update=told)


def repairs(text: str, said: Mapping[str, Any], value: Mapping[str, Any]) -> tuple[str, ...]:
    """How an answer had to be repaired to be read.

    Args:
        text: what the model wrote.
        said: the object in it.
        value: the same, normalised.
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
    """The fields that were found otherwise than said; null says the same as leaving one out, parameters stay."""
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
    """Where words of a closed set stand in a value: it is one of them, or they are in its members or its entries."""

    allowed: tuple[JsonValue, ...] = ()
    members: Mapping[str, "_Words"] = {}
    entries: "_Words | None" = None


_NO_WORDS: Final = _Words()


@lru_cache
def _words_of(answer: type[Model]) -> _Words:
    """Those of an answer, found once for all that are read."""
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
    """The value with each word of a closed set written as the set has it."""
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


def _with_references_moved(value: dict[str, Any], prompt: SelectionPrompt) -> dict[str, Any]:
    """With the documents that a field for stage 2 names among the references, which is where they belong (P-02).

    A field that names none is left for its check.
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
    """With each criterion as the prompt lists it."""
    if "criteriaProgress" not in value:
        return value
    listed = {"enum": [each.criterion for each in criteria]}
    entries = {"type": "array", "items": {"type": "object", "properties": {"criterion": listed}}}
    told = coerced(value["criteriaProgress"], entries)
    return {**value, "criteriaProgress": list(map(_on_its_scale, told)) if isinstance(told, list) else told}


def _on_its_scale(entry: Any) -> Any:
    """With a progress beyond its scale at the end of it: some servers do not hold a model to the bounds of numbers."""
    if not isinstance(entry, dict) or type(progress := entry.get("progress")) is not int:
        return entry
    return {**entry, "progress": min(max(progress, 0), MAX_PROGRESS)}


def _classified(value: dict[str, Any], *, success: bool) -> dict[str, Any]:
    """With the classification that follows from decision and observation, where the answer leaves it out (L-05)."""
    if value.get("classification") is not None or value.get("decision") not in ("continue", "stop"):
        return value
    failed = "retry" if value["decision"] == "continue" else "failed"
    return {**value, "classification": "success" if success else failed}
