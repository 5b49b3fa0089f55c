"""Strict checks of what a model proposes: plans, actions, schemas and parameters (D-04, P-02, P-04, X-01).

A whole plan is checked before its first action runs (Actionplan mode, deprecated).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, get_args

from pydantic import JsonValue

from poweron_events.catalog import CATALOG, NEED_SEARCH, ActionSpec
from poweron_events.codec import dumps
from poweron_events.codes import Code
from poweron_events.errors import Refused
from poweron_events.event import Event, TaskType, matches
from poweron_events.fold.history import list_reference
from poweron_events.fold.state import Workflow, max_steps, result_label
from poweron_events.round_events import PlannedAction
from poweron_events.step_events import ParametersSchema, SchemaField
from poweron_services.decider.coercion import choices, cleaned, coerced, entry_choices, field_type, written
from poweron_services.decider.defaults import defaults, overruled

FORBIDDEN_FIELDS = frozenset({"documentList", "connectionReference", "history", "documents", "connections"})
CONNECTION: Final = "connectionReference"
CONNECTION_KIND: Final = "connectionKind"
"""The keyword in the schema of that parameter that says which kind of connection it takes."""
MAX_ANSWER = 60_000  # bytes of the event that records a model's answer; the envelope needs space, too
MAX_DESCRIBED: Final = 400  # characters of a parameter's description in an action's schema


class NotAllowed(Refused):
    """The proposal breaks a rule; the model sees the sentence, and only the log has the detail (S8)."""

    def __init__(self, sentence: str, *, code: Code, detail: str = "") -> None:
        super().__init__(sentence, code=code, detail=detail)


def allowed_actions(workflow: Workflow, catalog: Mapping[str, ActionSpec]) -> dict[str, ActionSpec]:
    """The actions of the catalog that the current task may use (X-01)."""
    return {name: spec for name, spec in catalog.items() if _is_allowed(spec, workflow, name)}


def _is_allowed(spec: ActionSpec, workflow: Workflow, name: str) -> bool:
    opening = workflow.current.opening
    allowed = opening.allowed_methods.get(workflow.task.plan.task_type)
    return (
        (allowed is None or matches(name, allowed))
        and not matches(name, opening.denied_methods)
        and not _is_denied(workflow, name, workflow.task.plan.task_type)
        and _is_connected(workflow, spec)
    )


def _is_denied(workflow: Workflow, action: str, task_type: TaskType) -> bool:
    """Return whether the rules of the round deny the action in tasks of this type."""
    policy = workflow.current.policy
    return policy is not None and policy.rule(action, task_type).decision == "deny"


def plannable_actions(workflow: Workflow, catalog: Mapping[str, ActionSpec]) -> dict[str, ActionSpec]:
    """The actions of the catalog that a task of some type may use; others cannot be planned for."""
    opening = workflow.current.opening
    kinds: tuple[TaskType, ...] = get_args(TaskType)
    lists = {kind: opening.allowed_methods.get(kind) for kind in kinds}
    return {
        name: spec
        for name, spec in catalog.items()
        if not matches(name, opening.denied_methods)
        and _is_connected(workflow, spec)
        and any(
            (allowed is None or matches(name, allowed)) and not _is_denied(workflow, name, kind)
            for kind, allowed in lists.items()
        )
    }


def _is_connected(workflow: Workflow, spec: ActionSpec) -> bool:
    """Return whether the workflow has a connection that the action can use, if it needs one."""
    return CONNECTION not in spec.required or bool(usable_connections(workflow.current.opening.connections, spec))


def usable_connections(connections: tuple[str, ...], spec: ActionSpec) -> tuple[str, ...]:
    """Those of a round's connections that the action accepts."""
    labels = choices(spec.properties.get(CONNECTION))
    return tuple(label for label in connections if not labels or label in labels)


def check_action(action: str, workflow: Workflow, catalog: Mapping[str, ActionSpec]) -> ActionSpec:
    """Return the action's spec.

    Raises:
        NotAllowed: the action does not exist, or this task may not use it.
    """
    spec = catalog.get(action)
    if spec is not None and _is_allowed(spec, workflow, action):
        return spec
    allowed = allowed_actions(workflow, catalog)
    if action in NEED_SEARCH and action not in catalog and action in allowed_actions(workflow, CATALOG):
        choice = f"; choose one of {', '.join(sorted(allowed))}" if allowed else ""
        message = f"{action!r} cannot be used: there is no search engine{choice}."
        raise NotAllowed(message, code="search_unavailable", detail="POWERON_SEARCH names none.")
    choice = f"; choose one of {', '.join(sorted(allowed))}" if allowed else ", which may use none"
    raise NotAllowed(
        f"{action!r} is not an action of this task{choice}.",
        code="action_not_allowed",
        detail=_denial_reason(action, workflow, catalog),
    )


def _denial_reason(action: str, workflow: Workflow, catalog: Mapping[str, ActionSpec]) -> str:
    """Which rule forbids the action, for the log."""
    opening, task_type = workflow.current.opening, workflow.task.plan.task_type
    if action not in catalog:
        return "The catalog has no such action."
    if matches(action, opening.denied_methods):
        return f"It is denied; denied are {', '.join(opening.denied_methods)}."
    if not _is_connected(workflow, catalog[action]):
        return f"It works on a connection; the request names {', '.join(opening.connections) or 'none'}."
    policy = workflow.current.policy
    if policy is not None and _is_denied(workflow, action, task_type):
        return f"Policy {policy.number} denies it in tasks of type {task_type}."
    return f"A task of type {task_type} may use {', '.join(opening.allowed_methods[task_type]) or 'nothing'}."


def check_schema(schema: ParametersSchema | None, spec: ActionSpec) -> None:
    """Refuse fields that stage 2 must not be asked for or that the action does not have.

    Raises:
        NotAllowed: names the field.
    """
    for field in schema.fields if schema else ():
        if field.name in FORBIDDEN_FIELDS:
            raise NotAllowed(
                f"parametersSchema must not hold {field.name!r}; documents and connections are references.",
                code="field_not_allowed",
            )
        if field.name not in spec.business_parameters:
            raise NotAllowed(
                f"{field.name!r} is no parameter of {spec.name}; it has {', '.join(spec.business_parameters)}.",
                code="field_not_allowed",
            )


def check_documents(references: Collection[str], spec: ActionSpec) -> None:
    """Refuse an action that works on documents but is given none: stage 2 could not name any (P-05).

    Raises:
        NotAllowed: says what is missing.
    """
    if not references and "documentList" in spec.required:
        raise NotAllowed(
            f"{spec.name} works on documents; name them in requiredInputDocuments.", code="documents_missing"
        )


def check_connection(connection: str | None, workflow: Workflow, spec: ActionSpec) -> None:
    """Refuse a connection that did not come with the request or that the action does not accept, or a missing one.

    Raises:
        NotAllowed: lists the known connections.
    """
    takes = CONNECTION in spec.parameter_names
    connections = workflow.current.opening.connections
    known = usable_connections(connections, spec) if takes else connections
    if connection is None and CONNECTION in spec.required:
        raise NotAllowed(
            f"{spec.name} needs a connection, known are {', '.join(known) or 'none'}; name it in requiredConnection.",
            code="connection_missing",
        )
    if connection is not None and connection not in known:
        instead = " Leave requiredConnection out where none is needed." if known else ""
        raise NotAllowed(
            f"{connection!r} is no connection; known are {', '.join(known) or 'none'}.{instead}",
            code="unknown_connection",
        )


def check_recordable(event: Event) -> None:
    """Refuse an answer that does not fit into its event (E-10).

    Raises:
        NotAllowed: says how large it is, or why it cannot be recorded.
    """
    try:
        size = len(dumps(event.model_dump(mode="json", by_alias=True)))
    except (TypeError, ValueError, RecursionError) as error:  # an unpaired surrogate, a number beyond 64 bits
        raise NotAllowed(f"The answer cannot be recorded: {error}.", code="answer_unreadable") from error
    if size > MAX_ANSWER:
        raise NotAllowed(f"The answer takes {size} bytes; keep it below {MAX_ANSWER}.", code="answer_too_large")


def fields_of(schema: ParametersSchema | None, spec: ActionSpec) -> tuple[SchemaField, ...]:
    """The fields that stage 2 is asked for: those of stage 1, and those that the action requires (P-03).

    If stage 1 names no fields, these are the action's own business parameters. Types and required parameters are the
    action's own, even if stage 1 says otherwise: no answer could satisfy both.
    """
    fields = _own_fields(spec)
    schema_fields = schema.fields if schema else ()
    names = {field.name for field in schema_fields}
    left = [fields[name] for name in spec.business_parameters if name not in names]  # equal specs may differ in order
    additions = [field for field in left if not schema_fields or field.required]
    return (*(_with_type(field, fields, spec) for field in schema_fields), *additions)


def _with_type(field: SchemaField, own_fields: Mapping[str, SchemaField], spec: ActionSpec) -> SchemaField:
    """The field with the wording of stage 1, but the action's own type and values."""
    parameter = own_fields.get(field.name)
    if parameter is None:
        return field
    description = parameter.description
    if field.description:
        description = _join(field.description[:MAX_DESCRIBED], _values(spec.properties[field.name]))
    is_required = field.required or parameter.required
    return field.model_copy(update={"type": parameter.type, "description": description, "required": is_required})


@lru_cache(maxsize=256)
def _own_fields(spec: ActionSpec) -> Mapping[str, SchemaField]:
    """The action's own fields that stage 2 can be asked for."""
    return {
        name: SchemaField(
            name=name,
            type=field_type(spec.properties[name]),
            required=name in spec.required,
            description=_description(spec.properties[name]),
        )
        for name in spec.business_parameters
    }


def _description(schema: Any) -> str:
    """A parameter's description on one line, with the values that it can have."""
    text = schema.get("description") if isinstance(schema, dict) else None
    meaning = " ".join(cleaned(text).split())[:MAX_DESCRIBED] if isinstance(text, str) else ""
    return _join(meaning, _values(schema))


def _values(schema: Any) -> str:
    """The values that a parameter or each entry of a list can have; empty if they are not enumerated."""
    if allowed := choices(schema):
        return f"one of {', '.join(map(written, allowed))}"[:MAX_DESCRIBED]
    if allowed := entry_choices(schema):
        return f"a list, each entry one of {', '.join(map(written, allowed))}"[:MAX_DESCRIBED]
    return ""


def _join(meaning: str, allowed: str) -> str:
    return "; ".join(filter(None, (meaning, allowed)))


@dataclass(frozen=True, slots=True)
class Completed:
    """Parameters ready for the action, and which of them were added or dropped."""

    parameters: dict[str, JsonValue]
    defaulted: tuple[str, ...]
    dropped: tuple[str, ...]


def complete_parameters(
    given: Mapping[str, JsonValue],
    *,
    fields: Iterable[SchemaField],
    spec: ActionSpec,
    documents: Iterable[str],
    defaults: Mapping[str, JsonValue],
    connection: str | None = None,
    overruled: Collection[str] = (),
) -> Completed:
    """Check the given parameters and fill in the references and the defaults.

    Args:
        given: the answer of stage 2, or the parameters in a whole plan.
        fields: the fields that were asked for; others are dropped and noted.
        spec: the action.
        documents: the references of stage 1, which become `documentList`.
        defaults: values for optional parameters that were not given; one that does not fit is left out.
        connection: the connection of stage 1, which becomes `connectionReference`.
        overruled: given parameters that are also dropped and noted, since the task does not ask for them.

    Raises:
        NotAllowed: a required parameter is missing, or a value does not fit.
    """
    own_names = spec.business_parameters
    fields_by_name = {field.name: field for field in fields if field.name in own_names}
    values = {name: coerced(value, spec.properties[name]) for name, value in given.items() if name in fields_by_name}
    known_values = {name: value for name, value in values.items() if not _is_blank(value)}
    if missing := [name for name, field in fields_by_name.items() if field.required and name not in known_values]:
        raise NotAllowed(f"{', '.join(missing)} must be given for {spec.name}.", code="parameter_missing")
    known_values = {name: value for name, value in known_values.items() if name not in overruled}
    references: dict[str, JsonValue] = {}
    if "documentList" in spec.parameter_names:
        references["documentList"] = list(documents)
    if CONNECTION in spec.parameter_names and connection is not None:
        references[CONNECTION] = connection
    parameters = _check({**known_values, **references}, spec, defaults)
    return Completed(
        parameters=parameters,
        defaulted=tuple(sorted(parameters.keys() - known_values.keys() - references.keys())),
        dropped=tuple(sorted(given.keys() - known_values.keys())),
    )


def _is_blank(value: JsonValue) -> bool:
    """Return whether a value is empty, so that it counts as not given."""
    return value is None or (isinstance(value, str) and not value.strip())


def _check(values: dict[str, JsonValue], spec: ActionSpec, defaults: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """The parameters as the action receives them; the values must already have the right types (strict)."""
    from poweron_services.decider.schema_check import Unfit, check_values  # noqa: PLC0415 - clients do not need it

    try:
        return check_values(values, spec, defaults=defaults)
    except Unfit as error:
        raise NotAllowed(str(error), code=error.code) from error


def check_plan(actions: Sequence[PlannedAction], workflow: Workflow, catalog: Mapping[str, ActionSpec]) -> None:
    """Refuse a plan that breaks a rule that each of its actions must also keep when it runs.

    References are not resolved here.

    Raises:
        NotAllowed: says which action is wrong, and why.
    """
    limit = max_steps(workflow)
    if len(actions) > limit:
        raise NotAllowed(f"The plan has {len(actions)} actions; this task may take {limit}.", code="plan_too_long")
    for number, action in enumerate(actions, start=1):
        try:
            _check_action(action, workflow, catalog)
        except NotAllowed as error:
            raise in_plan(number, error) from error


def in_plan(number: int, error: Refused, more: str = "") -> NotAllowed:
    """The error, with the number of the action that it concerns."""
    return NotAllowed(f"Action {number} of the plan: {error}{more}", code=error.code, detail=error.detail)


def results(actions: Sequence[PlannedAction], workflow: Workflow) -> tuple[str, ...]:
    """References to what the actions of a plan will write: their labels are known in advance (M-08)."""
    return tuple(
        list_reference(result_label(workflow, action.action, ahead=number))
        for number, action in enumerate(actions, start=1)
    )


def _check_action(action: PlannedAction, workflow: Workflow, catalog: Mapping[str, ActionSpec]) -> None:
    spec = check_action(action.action, workflow, catalog)
    check_connection(action.required_connection, workflow, spec)
    check_documents(action.required_input_documents, spec)
    complete_parameters(
        action.parameters,
        fields=fields_of(None, spec),
        spec=spec,
        documents=action.required_input_documents,
        connection=action.required_connection,
        defaults=defaults(spec, workflow),
        overruled=overruled(spec, action.parameters, workflow),
    )
