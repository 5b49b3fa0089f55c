"""What a model proposes, checked strictly: actions, schemas and parameters (D-04, P-02, P-04, X-01)."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from pydantic import JsonValue, ValidationError

from poweron_events.catalog import ActionSpec
from poweron_events.codec import dumps, explain
from poweron_events.errors import Refused
from poweron_events.event import Event
from poweron_events.fold.state import Workflow
from poweron_events.selection import ParametersSchema, SchemaField

FORBIDDEN_FIELDS = frozenset({"documentList", "connectionReference", "history", "documents", "connections"})
MAX_ANSWER = 60_000  # bytes of the event that a model's answer becomes; the envelope needs some, too


class NotAllowed(Refused):
    """The proposal breaks a rule; the sentence is shown to the model and kept in the log."""


def allowed_actions(workflow: Workflow, catalog: Mapping[str, ActionSpec]) -> dict[str, ActionSpec]:
    """The actions of the catalog that the task at hand may use (X-01)."""
    opening = workflow.current.opening
    allowed = opening.allowed_methods.get(workflow.task.plan.task_type)
    return {
        name: spec
        for name, spec in catalog.items()
        if (allowed is None or _matches(name, allowed)) and not _matches(name, opening.denied_methods)
    }


def _matches(action: str, patterns: Iterable[str]) -> bool:
    """Whether `method`, `method.*` or `method.name` among the patterns means the action."""
    method = action.partition(".")[0]
    return not {action, method, f"{method}.*"}.isdisjoint(patterns)


def check_action(action: str, workflow: Workflow, catalog: Mapping[str, ActionSpec]) -> ActionSpec:
    """The action's spec.

    Raises:
        NotAllowed: there is no such action, or this task may not use it.
    """
    allowed = allowed_actions(workflow, catalog)
    if action not in allowed:
        raise NotAllowed(f"{action!r} is not an action of this task; choose one of {', '.join(sorted(allowed))}.")
    return allowed[action]


def check_schema(schema: ParametersSchema | None, spec: ActionSpec) -> None:
    """Refuse fields that stage 2 must not be asked for, or that the action does not have.

    Raises:
        NotAllowed: names the field.
    """
    for field in schema.fields if schema else ():
        if field.name in FORBIDDEN_FIELDS:
            raise NotAllowed(
                f"parametersSchema must not hold {field.name!r}; documents and connections are references."
            )
        if field.name not in spec.business_parameters:
            raise NotAllowed(
                f"{field.name!r} is no parameter of {spec.name}; it has {', '.join(spec.business_parameters)}."
            )


def check_documents(references: Collection[str], spec: ActionSpec) -> None:
    """Refuse an action that works on documents and is given none: stage 2 could not name any (P-05).

    Raises:
        NotAllowed: says what is missing.
    """
    if not references and "documentList" in _required(spec):
        raise NotAllowed(f"{spec.name} works on documents; name them in requiredInputDocuments.")


def check_recordable(event: Event) -> None:
    """Refuse an answer that would not fit into its event (E-10).

    Raises:
        NotAllowed: says how large it is.
    """
    size = len(dumps(event.model_dump(mode="json", by_alias=True)))
    if size > MAX_ANSWER:
        raise NotAllowed(f"The answer takes {size} bytes; keep it below {MAX_ANSWER}.")


def fields_of(schema: ParametersSchema | None, spec: ActionSpec) -> tuple[SchemaField, ...]:
    """What stage 2 is asked for: stage 1's fields and what the action cannot do without (P-03).

    Without fields from stage 1 these are the action's own business parameters.
    """
    required = _required(spec)
    given = schema.fields if schema else ()
    names = [name for name in spec.business_parameters if not given or name in required]
    asked = {field.name for field in given}
    return (*given, *(SchemaField(name=name, required=name in required) for name in names if name not in asked))


def _required(spec: ActionSpec) -> frozenset[str]:
    fields = spec.parameters.model_fields.items()
    return frozenset(field.alias or name for name, field in fields if field.is_required())


@dataclass(frozen=True, slots=True)
class Completed:
    """Parameters ready for the action, and what was done to them."""

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
) -> Completed:
    """The given parameters, checked, with the references and the defaults filled in.

    Args:
        given: what stage 2 answered, or a whole plan holds.
        fields: the fields that were asked for; others are dropped and noted.
        spec: the action.
        documents: the references of stage 1, which become `documentList`.
        defaults: values for optional parameters that were not given.

    Raises:
        NotAllowed: a required parameter is missing, or a value does not fit.
    """
    fields = tuple(fields)
    names = {field.name for field in fields}
    missing = [field.name for field in fields if field.required and given.get(field.name) in (None, "")]
    if missing:
        raise NotAllowed(f"{', '.join(missing)} must be given for {spec.name}.")
    kept = {name: value for name, value in given.items() if name in names and value is not None}
    filled = {name: value for name, value in defaults.items() if name in spec.business_parameters and name not in kept}
    references: dict[str, JsonValue] = {}
    if "documentList" in spec.parameter_names:
        references["documentList"] = list(documents)
    try:
        model = spec.parameters.model_validate(kept | filled | references)
    except ValidationError as error:
        raise NotAllowed(f"The parameters do not fit {spec.name}: {explain(error)}.") from error
    parameters = model.model_dump(mode="json", by_alias=True)
    return Completed(
        parameters=parameters,
        defaulted=tuple(sorted(parameters.keys() - kept.keys() - references.keys())),
        dropped=tuple(sorted(given.keys() - kept.keys())),
    )
