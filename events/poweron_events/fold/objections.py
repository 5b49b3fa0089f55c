"""Why an answer of a person, or a policy, had no effect: the reasons for which the fold supersedes it, in sentences."""

from typing import Literal

from poweron_events.fold.questions import approval_terms, budget_terms
from poweron_events.fold.state import Workflow, is_at_place, parameters_sha256
from poweron_events.policy import Objection
from poweron_events.request import POLICY_ID, PolicyApplied, RulesChanged
from poweron_events.round_events import BudgetDenied, BudgetGranted
from poweron_events.step_events import ApprovalDenied, ApprovalGranted, ParametersChanged
from poweron_events.stream import WorkflowEvent


def why_superseded(before: Workflow, event: WorkflowEvent | None) -> str | None:
    """Return why a superseded answer or policy had no effect; None for other events, which came late or out of turn."""
    match event:
        case ApprovalGranted() | ApprovalDenied() | ParametersChanged():
            return _approval(before, event)
        case BudgetGranted() | BudgetDenied():
            return _budget(before, event)
        case PolicyApplied():
            return _policy(before, event)
        case RulesChanged():
            return "The round has ended, or has the rules of this policy or of a newer one."
        case _:
            return None


def _approval(before: Workflow, event: ApprovalGranted | ApprovalDenied | ParametersChanged) -> str:
    if not before.is_open or before.phase != "approve" or not is_at_place(before, event):
        return "Its step did not wait for an approval."
    if event.parameters_sha256 != parameters_sha256(before):
        return "The step waited with other parameters."
    terms = approval_terms(before)
    match event:
        case ApprovalGranted():
            return _said(terms.objection(event.actor, "approve"))
        case ApprovalDenied():
            return _said(terms.objection(event.actor, "deny"))
        case ParametersChanged():
            return _said(terms.objection(event.actor, "change"))


def _budget(before: Workflow, event: BudgetGranted | BudgetDenied) -> str:
    question = before.current.question if before.is_open else None
    if question is None or question.number != event.question or not is_at_place(before, event):
        return "The round did not wait for an answer to this budget question."
    decision: Literal["approve", "deny"] = "approve" if isinstance(event, BudgetGranted) else "deny"
    return _said(budget_terms(before).objection(event.actor, decision))


def _policy(before: Workflow, event: PolicyApplied) -> str:
    newest = before.policy
    if before.id != POLICY_ID:
        return "It is not under the key of the policies."
    if newest is not None and event.previous == newest.sha256 and not newest.policy.may_apply(event.actor):
        return f"Policy {newest.number} does not let {event.actor.id} apply the next one."
    return "It does not follow the newest policy."


def _said(objection: Objection | None) -> str:
    return "It came in a pause, or changes nothing." if objection is None else objection.sentence
