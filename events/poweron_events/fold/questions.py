"""Questions to people: whether an action may run with its parameters, and whether a round gets a larger budget.

Whose answer counts follows from the rules that the round carries (`policy.AnswerTerms`). Without a policy anyone may
answer, but no one may approve parameters that they changed.
"""

from typing import Literal

from poweron_events.actor import Actor, actor_of
from poweron_events.envelope import Recorded
from poweron_events.fold.pauses import postponed, suspended, waited_for_person
from poweron_events.fold.state import (
    BudgetQuestion,
    Grant,
    Step,
    Workflow,
    is_at_place,
    parameters_sha256,
    rule,
    with_step,
)
from poweron_events.policy import AnswerTerms, Rule, milliseconds
from poweron_events.request import RulesChanged
from poweron_events.round_events import BudgetDenied, BudgetGranted, BudgetRequested
from poweron_events.step_events import (
    ApprovalDenied,
    ApprovalEscalated,
    ApprovalGranted,
    ApprovalRequested,
    ParametersChanged,
)


def approval_terms(workflow: Workflow) -> AnswerTerms:
    """Return who may approve the action of the current step, and who has."""
    step, policy, about = workflow.step, workflow.current.policy, rule(workflow)
    terms = AnswerTerms(
        requester=_requester(workflow),
        escalated=step.escalated,
        approved_by=step.approved_by,
        proposed_by=step.proposed_by,
    )
    if policy is None or about is None or about.decision != "approve":
        return terms
    return terms.model_copy(
        update={
            "approvers": about.approvers,
            "groups": policy.named(about.from_),
            "not_requester": about.not_requester,
            "escalation": policy.named(about.escalate.to if about.escalate else ()),
        }
    )


def _requester(workflow: Workflow) -> Actor:
    """Return who requested the round; openings of releases before 0.4 name a requester or only a source."""
    opening = workflow.current.opening
    if opening.actor is not None:
        return opening.actor
    return actor_of(opening.requester.name, opening.request.source)


def budget_terms(workflow: Workflow) -> AnswerTerms:
    """Return who may grant a larger budget."""
    policy, requester = workflow.current.policy, _requester(workflow)
    grants = policy.limits.grants if policy else None
    if policy is None or grants is None:
        return AnswerTerms(requester=requester)
    return AnswerTerms(groups=policy.named(grants.from_), not_requester=grants.not_requester, requester=requester)


def lacks_approval(workflow: Workflow) -> bool:
    """Return whether the rules of the round require an approval of the current action that was not even asked for."""
    about = rule(workflow)
    return about is not None and about.decision == "approve" and workflow.step.approval is None


def has_too_few_approvals(workflow: Workflow) -> bool:
    """Return whether the action was approved, but not by those whom the rules of the round want by now."""
    step, about = workflow.step, rule(workflow)
    if step.approval != "granted" or about is None or about.decision != "approve":
        return False
    terms = approval_terms(workflow)
    if not step.approved_by:  # no event names who approved it
        return terms.objection(None, "approve") is not None
    return sum(map(terms.admits, step.approved_by)) < about.approvers


def approval_requested(workflow: Workflow, recorded: Recorded, event: ApprovalRequested) -> Workflow | None:
    """Wait for people, for the time that the rule sets or else the event; None if it is out of turn."""
    if workflow.phase != "ready" or workflow.step.approval is not None or not _names_parameters(workflow, event):
        return None
    about = rule(workflow)
    expires_ms = milliseconds(about.expires) if about and about.expires else event.expires_ms
    step = workflow.step._replace(approval="asked", approval_due_ms=recorded.time_ms + expires_ms)
    return with_step(workflow, _with_escalation(step, about, recorded.time_ms), "approve")


def _with_escalation(step: Step, about: Rule | None, from_ms: int) -> Step:
    escalate = about.escalate if about and about.decision == "approve" else None
    due_ms = from_ms + milliseconds(escalate.after) if escalate else 0
    return step._replace(escalation_due_ms=due_ms if due_ms < step.approval_due_ms else 0)


Answer = ApprovalGranted | ApprovalDenied | ParametersChanged | BudgetGranted | BudgetDenied


def answered(workflow: Workflow, recorded: Recorded, event: Answer) -> Workflow | None:
    """Return the workflow after a person's answer; None if it does not count."""
    match event:
        case ApprovalGranted() | ApprovalDenied():
            return _approval_answered(workflow, recorded, event)
        case ParametersChanged():
            return _parameters_changed(workflow, recorded, event)
        case BudgetGranted() | BudgetDenied():
            return _budget_answered(workflow, recorded, event)


def _approval_answered(
    workflow: Workflow, recorded: Recorded, event: ApprovalGranted | ApprovalDenied
) -> Workflow | None:
    """Count an answer if its actor may give it. One denial denies; the last approval that is needed approves."""
    if not is_at_place(workflow, event) or workflow.phase != "approve" or not _names_parameters(workflow, event):
        return None
    if workflow.is_paused and event.request is None:
        return None  # its time does not run out during a pause
    terms, step = approval_terms(workflow), workflow.step
    if isinstance(event, ApprovalDenied):
        counts = event.request is None or terms.objection(event.actor, "deny") is None
        return _answered(workflow, recorded, step._replace(approval="denied", answer=event)) if counts else None
    if terms.objection(event.actor, "approve") is not None:
        return None
    if event.actor is not None:
        step = step._replace(approved_by=(*step.approved_by, event.actor))
    if terms.missing > 1:
        return _asked_on(workflow, recorded, step)
    return _answered(workflow, recorded, step._replace(approval="granted", answer=event))


def approval_escalated(workflow: Workflow, recorded: Recorded, event: ApprovalEscalated) -> Workflow | None:
    """Let the groups of the escalation answer, too."""
    if workflow.phase != "approve" or workflow.is_paused or not _names_parameters(workflow, event):
        return None
    step = workflow.step
    if not step.escalation_due_ms or set(event.to) != set(approval_terms(workflow).escalation):
        return None
    return _asked_on(workflow, recorded, step._replace(escalated=True, escalation_due_ms=0))


def _parameters_changed(workflow: Workflow, recorded: Recorded, event: ParametersChanged) -> Workflow | None:
    """Ask for approvals of other parameters instead, by others than the approver who proposes them."""
    if not is_at_place(workflow, event) or workflow.phase != "approve" or not _names_parameters(workflow, event):
        return None
    step, before = workflow.step, workflow.step.parameters
    if before is None or before.parameters == event.parameters:
        return None
    if approval_terms(workflow).objection(event.actor, "change") is not None:
        return None
    parameters = before.model_copy(update={"parameters": event.parameters})
    changed = step._replace(parameters=parameters, approved_by=(), proposed_by=event.actor)
    return _asked_on(workflow, recorded, changed)


def rules_changed(workflow: Workflow, recorded: Recorded, event: RulesChanged) -> Workflow | None:
    """Give an open round the rules of a newer policy, also for approvals that are pending or given."""
    round_, phase = workflow.current, workflow.phase
    if phase in ("closing", "draining") or (round_.policy and round_.policy.number >= event.policy.number):
        return None
    changed = workflow._replace(round=round_._replace(policy=event.policy))
    if phase not in ("ready", "approve") or workflow.step.approval in (None, "denied"):
        return changed
    if phase == "approve":
        changed = _asked_on(changed, recorded, changed.step)
    return _judged_again(changed, recorded)


def _judged_again(workflow: Workflow, recorded: Recorded) -> Workflow:
    """Keep the approvals that count under the new rules. Without a rule that needs any, the executor decides again."""
    step, about, terms = workflow.step, rule(workflow), approval_terms(workflow)
    kept = tuple(actor for actor in step.approved_by if terms.model_copy(update={"escalated": False}).admits(actor))
    unasked = step._replace(approval=None, answer=None, approved_by=(), escalated=False, escalation_due_ms=0)
    if about is None or about.decision != "approve":
        return with_step(workflow, step if step.approval == "granted" else unasked, "ready")
    if len(kept) >= about.approvers:
        return with_step(workflow, step._replace(approval="granted", approved_by=kept, escalation_due_ms=0), "ready")
    if workflow.phase == "ready":
        return with_step(workflow, unasked)
    return with_step(
        workflow, _with_escalation(step._replace(approved_by=kept, escalated=False), about, recorded.time_ms)
    )


def _asked_on(workflow: Workflow, recorded: Recorded, step: Step) -> Workflow:
    """Return the workflow that still waits for people; the time limits of its approval do not change."""
    pause = workflow.current.pause
    if pause is not None:
        step = postponed(step, suspended(pause, workflow.head_ms, recorded.time_ms))
    return waited_for_person(with_step(workflow, step), recorded.time_ms)


def _answered(workflow: Workflow, recorded: Recorded, step: Step) -> Workflow:
    return _asked_on(workflow, recorded, step)._replace(phase="ready")


def _names_parameters(
    workflow: Workflow,
    event: ApprovalRequested | ApprovalGranted | ApprovalDenied | ApprovalEscalated | ParametersChanged,
) -> bool:
    """Return whether the event is about the step's parameters; rules number 1 do not check that (E-08)."""
    return workflow.current.opening.laws < 2 or event.parameters_sha256 == parameters_sha256(workflow)


def budget_requested(workflow: Workflow, recorded: Recorded, event: BudgetRequested) -> Workflow | None:
    """Wait for a larger budget, if the opening wants that and none was denied in this round."""
    round_, here = workflow.current, is_at_place(workflow, event)
    may_ask = round_.opening.on_budget == "ask" and not round_.budget_denied and round_.question is None
    if not here or not may_ask or event.stage != workflow.phase or event.question != len(round_.grants) + 1:
        return None
    question = BudgetQuestion(event.question, event.code, event.reason, recorded.time_ms + event.expires_ms)
    return workflow._replace(round=round_._replace(question=question))


def _budget_answered(workflow: Workflow, recorded: Recorded, event: BudgetGranted | BudgetDenied) -> Workflow | None:
    round_, question = workflow.current, workflow.current.question
    here = is_at_place(workflow, event)
    if question is None or not here or event.question != question.number:
        return None
    if event.request is None:  # its time is over, which cannot happen during a pause
        counts = not workflow.is_paused and (isinstance(event, BudgetDenied) or _is_next_day(question, event))
    else:
        decision: Literal["approve", "deny"] = "approve" if isinstance(event, BudgetGranted) else "deny"
        counts = budget_terms(workflow).objection(event.actor, decision) is None
    if not counts:
        return None
    if isinstance(event, BudgetGranted):
        grant = Grant(workflow.place, event.tokens, event.cost_nano_usd, workflow.phase, before=round_.usage)
        answered = round_._replace(question=None, grants=(*round_.grants, grant))
    else:
        answered = round_._replace(question=None, budget_denied=True)
    return waited_for_person(workflow._replace(round=answered), recorded.time_ms)


def _is_next_day(question: BudgetQuestion, event: BudgetGranted) -> bool:
    """Return whether the event grants nothing but the next day, in answer to a question about a daily limit."""
    return question.code == "daily_limit" and not event.tokens and not event.cost_nano_usd
