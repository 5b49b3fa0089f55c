"""Checks of a whole plan before its first action runs (Actionplan mode, deprecated)."""

from collections.abc import Mapping, Sequence

from poweron_events.catalog import ActionSpec
from poweron_events.errors import Refused
from poweron_events.fold.history import list_reference
from poweron_events.fold.state import Workflow, max_steps, result_label
from poweron_events.planning import PlannedAction
from poweron_services.decider.defaults import defaults, overruled
from poweron_services.decider.validation import (
    NotAllowed,
    check_action,
    check_connection,
    check_documents,
    complete_parameters,
    fields_of,
)


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
            _check(action, workflow, catalog)
        except NotAllowed as error:
            raise in_plan(number, error) from error


def in_plan(number: int, error: Refused, more: str = "") -> NotAllowed:
    """The error, with the number of the action that it concerns."""
    return NotAllowed(f"Action {number} of the plan: {error}{more}", code=error.code, detail=error.detail)


def results(actions: Sequence[PlannedAction], workflow: Workflow) -> tuple[str, ...]:
    """References to what the actions of a plan will have written: their labels are known in advance (M-08)."""
    return tuple(
        list_reference(result_label(workflow, action.action, ahead=number))
        for number, action in enumerate(actions, start=1)
    )


def _check(action: PlannedAction, workflow: Workflow, catalog: Mapping[str, ActionSpec]) -> None:
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
