"""The JSON Schema of each stage's answer, built from the state for one decision (docs/decisions/0076).

It admits what the check of the same stage accepts, as far as a schema can express it: a model that is held to it cannot
name an action, a document or a parameter that does not exist. The check remains authoritative. There is no clock and no
randomness: the same state gives the same schema, byte for byte.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, Final, Literal, get_args

from poweron_events.catalog import REFERENCES, WEB, ActionSpec
from poweron_events.event import TaskType
from poweron_events.fold.history import item_reference, list_reference
from poweron_events.fold.state import Workflow, max_steps
from poweron_events.json_schema import ANNOTATIONS
from poweron_events.round_events import MAX_CRITERIA, MAX_TASKS
from poweron_events.step_events import Classification, SchemaField
from poweron_services.decider.coercion import entry_choices
from poweron_services.decider.references import documents_at_hand, earlier_rounds
from poweron_services.decider.validation import (
    CONNECTION,
    allowed_actions,
    fields_of,
    plannable_actions,
    usable_connections,
)
from poweron_services.text.format_wishes import is_one_question

_NAMES_WEB: Final = re.compile(r"https?:|\bwww\.|\b(?:web\w*|internet|online|netz|google)\b", re.IGNORECASE)
Schema = dict[str, Any]
Judgement = Literal["success", "not_stated", "retry", "failed"]
"""How a review judges a task. `not_stated` is a success: what was read does not say what was asked for."""

MAX_LISTED: Final = 50  # references that are listed individually; if there are more, only their pattern is given
MAX_REFERENCES: Final = 100  # in one answer
MAX_LEARNINGS: Final = 20
MAX_IMPROVEMENTS: Final = 20
FORMATS: Final = "expectedDocumentFormats"
"""The parameter whose schema lists the formats that an action can write."""
_REFERENCE: Final = r"^(docList:[A-Za-z0-9_]+|docItem:[A-Za-z0-9._-]+(:[^\x22\x5c\x0a\x0d]+)?)$"
"""The pattern of references, with only characters that JSON never escapes, so that every server can build a grammar."""
_NULL: Final[Schema] = {"type": "null"}
_ANYTHING: Final = (
    {"type": "string"},
    {"type": "number"},
    {"type": "boolean"},
    {"type": "object"},
    {"type": "array", "items": {}},
)


def planning_schema(workflow: Workflow, catalog: Mapping[str, ActionSpec]) -> Schema:
    """The planner's answer: 1 to 10 tasks, and one if the request is a single question.

    The check still accepts several tasks for a single question: a model that is not held to a schema may have its
    reasons.
    """
    formats = _written_formats(plannable_actions(workflow, catalog).values())
    task = _object(
        {
            "objective": _text(2_000),
            "successCriteria": _list(_text(700), least=1, most=MAX_CRITERIA),
            "taskType": {"enum": list(get_args(TaskType))},
            "expectedFormats": _list({"enum": formats}, most=len(formats)) if formats else _nothing(),
            "maxSteps": _or_null({"type": "integer", "minimum": 1, "maximum": workflow.current.opening.max_steps}),
        },
        optional=("expectedFormats", "maxSteps"),
    )
    most = 1 if is_one_question(workflow.current.opening.prompt) else MAX_TASKS
    return _object({"tasks": _list(task, least=1, most=most)})


def selection_schema(workflow: Workflow, catalog: Mapping[str, ActionSpec]) -> Schema | None:
    """The answer of stage 1: one alternative per action that the task may use, or None if it may use none.

    The web is left out until a step has worked on the documents of the request. The check still accepts the web.
    """
    references, left_out = _references(workflow), WEB if reads_documents_first(workflow) else frozenset[str]()
    alternatives = [
        _selection(workflow, spec, references)
        for name, spec in sorted(allowed_actions(workflow, catalog).items())
        if name not in left_out and (references is not None or "documentList" not in spec.required)
    ]
    return {"anyOf": alternatives} if alternatives else None


def actions_schema(workflow: Workflow, catalog: Mapping[str, ActionSpec]) -> Schema | None:
    """The answer for a whole plan (mode Actionplan, deprecated), or None if the task may use no action.

    References are not listed, since one may name what an earlier action of the plan will write.
    """
    references: Schema = {"type": "string", "pattern": _REFERENCE}
    alternatives = [
        _with_parameters(_selection(workflow, spec, references), spec)
        for _, spec in sorted(allowed_actions(workflow, catalog).items())
    ]
    return (
        _object({"actions": _list(_one_of(alternatives), least=1, most=max_steps(workflow))}) if alternatives else None
    )


def parameters_schema(fields: Sequence[SchemaField], spec: ActionSpec) -> Schema:
    """The answer of stage 2: a value for every required field, and optionally for the others."""
    return _object({"schema": {"enum": ["parameters_v1"]}, "parameters": _parameters(fields, spec)})


@cache
def refinement_schema(criteria: int) -> Schema:
    """The refiner's answer, with one entry for each criterion, by its number.

    A model writes its answer in this order: what was achieved comes before the conclusions drawn from it.
    """
    return _object(
        {
            "criteriaProgress": _progress(criteria),
            "reason": _text(2_000, least=0),
            "decision": {"enum": ["continue", "stop"]},
            "classification": _classification(),
            "hint": _or_null(_text(2_000, least=0)),
            "improvements": _list(_text(None, least=0), most=MAX_IMPROVEMENTS),
        },
        optional=("hint", "improvements", "criteriaProgress"),
    )


@cache
def review_schema(criteria: int, *, was_read: bool) -> Schema:
    """The reviewer's answer, in the order of `refinement_schema`; `not_stated` only if a step has read something."""
    return _object(
        {
            "criteriaProgress": _progress(criteria),
            "reason": _text(2_000, least=0),
            "status": {"enum": [status for status in get_args(Judgement) if was_read or status != "not_stated"]},
            "improvements": _list(_text(None, least=0), most=MAX_IMPROVEMENTS),
        },
        optional=("reason", "improvements", "criteriaProgress"),
    )


def _selection(workflow: Workflow, spec: ActionSpec, references: Schema | None) -> Schema:
    least = int("documentList" in spec.required)
    documents = _list(references, least=least, most=MAX_REFERENCES) if references else _nothing()
    selection = _selection_of_any(workflow.current.opening.connections, spec)
    return {**selection, "properties": {**selection["properties"], "requiredInputDocuments": documents}}


@lru_cache(maxsize=256)
def _selection_of_any(connections: tuple[str, ...], spec: ActionSpec) -> Schema:
    """A selection of the action whose documents are still to be listed."""
    needs_documents = "documentList" in spec.required
    optional = ["learnings", "parametersContext", "parametersSchema"]
    return _object(
        {
            "action": {"enum": [spec.name]},
            "actionObjective": _text(4_000),
            "learnings": _list(_text(None, least=0), most=MAX_LEARNINGS),
            "requiredInputDocuments": _nothing(),
            "requiredConnection": _connection(connections, spec),
            "parametersContext": _text(8_000, least=0),
            "parametersSchema": _stage_fields(spec),
        },
        optional=[
            *optional,
            *([] if needs_documents else ["requiredInputDocuments"]),
            *([] if CONNECTION in spec.required else ["requiredConnection"]),
        ],
    )


def _with_parameters(selection: Schema, spec: ActionSpec) -> Schema:
    """A selected action with its parameters instead of the fields for stage 2."""
    other_members = {
        name: inner for name, inner in selection["properties"].items() if not name.startswith("parameters")
    }
    members = {**other_members, "parameters": _parameters(fields_of(None, spec), spec)}
    needed = {*selection["required"], *(["parameters"] if spec.required - REFERENCES else [])}
    return _object(members, optional=members.keys() - needed)


def _parameters(fields: Sequence[SchemaField], spec: ActionSpec) -> Schema:
    """A value for every required field; an optional one may be omitted or null."""
    own_values = _own_values(spec)
    known = [field for field in fields if field.name in own_values]
    values = {
        field.name: _required(own_values[field.name]) if field.required else _or_null(own_values[field.name])
        for field in known
    }
    return _object(values, optional=[field.name for field in known if not field.required])


def _connection(connections: tuple[str, ...], spec: ActionSpec) -> Schema:
    """One of the labels that the action takes; an action that takes none may name any, which has no effect."""
    known = usable_connections(connections, spec) if CONNECTION in spec.parameter_names else connections
    labels: Schema = {"enum": list(known)}
    if CONNECTION in spec.required:
        return labels
    return _or_null(labels) if known else _NULL


@lru_cache(maxsize=256)
def _stage_fields(spec: ActionSpec) -> Schema:
    """The fields for stage 2: the action's own parameters, each with its type."""
    by_type: dict[str, list[str]] = {}
    for field in fields_of(None, spec):
        by_type.setdefault(field.type, []).append(field.name)
    if not by_type:
        return _NULL
    fields = [
        _object(
            {
                "name": {"enum": names},
                "type": {"enum": [kind]},
                "required": {"type": "boolean"},
                "description": _text(1_000, least=0),
            },
            optional=("type", "required", "description"),
        )
        for kind, names in by_type.items()
    ]
    entries = _list(_one_of(fields), most=sum(map(len, by_type.values())))
    return _or_null(_object({"fields": entries}, optional=("fields",)))


def _references(workflow: Workflow) -> Schema | None:
    """A reference to one of the available documents, or None if there are no documents."""
    earlier = earlier_rounds(workflow)
    left_out = earlier.lists_left_out if earlier else ()
    at_hand = documents_at_hand(workflow)
    labels = [*at_hand, *(entry.label for entry in left_out)]
    items = [
        item_reference(document.document_id, document.document_name)
        for documents in at_hand.values()
        for document in documents
    ]
    references = list(dict.fromkeys([*map(list_reference, labels), *items]))
    if not references:
        return None
    if len(references) <= MAX_LISTED and not (earlier and earlier.documents_left_out):
        return {"enum": references}
    return {"type": "string", "pattern": _REFERENCE}


def _written_formats(specs: Iterable[ActionSpec]) -> list[str]:
    """The formats that some action can write, in the order in which they first appear."""
    formats = [kind for spec in specs for kind in entry_choices(spec.properties.get(FORMATS))]
    return [kind for kind in dict.fromkeys(formats) if isinstance(kind, str)]


def _progress(criteria: int) -> Schema:
    """How far each criterion is met, by its number."""
    entry = _object(
        {"met": {"type": "boolean"}, "progress": {"type": "integer", "minimum": 0, "maximum": 1000}},
        optional=("progress",),
    )
    return _object({str(number): entry for number in range(1, criteria + 1)})


def _classification() -> Schema:
    return {"enum": list(get_args(Classification))}


@lru_cache(maxsize=256)
def _own_values(spec: ActionSpec) -> Mapping[str, Schema]:
    """The schemas of the values that stage 2 can be asked for."""
    return {name: _value(spec.properties[name]) for name in spec.business_parameters}


def _required(value: Schema) -> Schema:
    """The schema of a required value: text must not be empty, and without a schema anything but null is allowed."""
    schema = value or {"anyOf": [dict(alternative) for alternative in _ANYTHING]}
    if schema.get("type") == "string" and not schema.get("minLength"):
        return {**schema, "minLength": 1}
    return schema


def _value(parameter: Any) -> Schema:
    """The action's schema of a value, without annotations and without the null alternative."""
    plain: Schema = _plain(parameter) if isinstance(parameter, dict) else {}
    if "anyOf" not in plain:
        return plain
    kinds: list[Schema] = [kind for kind in plain["anyOf"] if kind != _NULL]
    return {**plain, "anyOf": kinds} if len(kinds) > 1 or len(plain) > 1 else kinds[0] if kinds else plain


def _plain(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_plain(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    plain: Schema = {}
    for word, inner in schema.items():
        if word == "properties":
            plain[word] = {name: _plain(member) for name, member in inner.items()}
        elif word not in ANNOTATIONS and word not in _OWN_KEYWORDS:
            plain[word] = inner if word in ("enum", "const", "required") else _plain(inner)
    return plain


_OWN_KEYWORDS: Final = frozenset({"freeText", "connectionKind"})
"""Our own keywords, which mean nothing to a model."""


def _object(members: Mapping[str, Any], optional: Iterable[str] = ()) -> Schema:
    """An object with exactly these members."""
    optional_names = frozenset(optional)
    return {
        "type": "object",
        "properties": dict(members),
        "required": [name for name in members if name not in optional_names],
        "additionalProperties": False,
    }


def _list(entries: Schema, *, least: int = 0, most: int) -> Schema:
    return {"type": "array", "items": entries, **({"minItems": least} if least else {}), "maxItems": most}


def _nothing() -> Schema:
    """A list that must remain empty."""
    return {"type": "array", "items": {"type": "string"}, "maxItems": 0}


def _text(most: int | None, *, least: int = 1) -> Schema:
    return {
        "type": "string",
        **({"minLength": least} if least else {}),
        **({"maxLength": most} if most is not None else {}),
    }


def _one_of(schemas: Sequence[Schema]) -> Schema:
    return schemas[0] if len(schemas) == 1 else {"anyOf": list(schemas)}


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, _NULL]}


def reads_documents_first(workflow: Workflow) -> bool:
    """Return whether the round has documents, none of its steps has run, and its request does not name the web."""
    opening = workflow.current.opening
    began = any(message.kind == "step" for message in workflow.current.messages)
    return bool(opening.documents) and not began and not _NAMES_WEB.search(opening.prompt)
