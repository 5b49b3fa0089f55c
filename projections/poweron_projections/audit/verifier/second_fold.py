"""The verdicts, judged a second time: plain Python over the events as JSON, written without the fold of the services.

An event is accepted if it is what its workflow waits for; any other is superseded and has no effect. A test compares
this fold with the first one on all histories that tests know.
"""

import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from poweron_projections.audit.verifier.answer_rules import AnswerRules, is_member, milliseconds_of, named_groups
from poweron_projections.audit.verifier.strict_json import encoded
from poweron_projections.audit.verifier.workflow_fold import (
    Event,
    FoldedRound,
    FoldedStep,
    FoldedWorkflow,
    identity_of,
    may_ask_again,
    requester_of,
)

KNOWN_CATALOGUE: Final = 4
NAMESPACE: Final = uuid.UUID("4c0f5d0e-7f0b-5a53-9d5c-6d3f9f1b8a60")
POLICIES: Final = str(uuid.uuid5(NAMESPACE, "policy"))
RECORDED_CLAIM: Final = "recorded"


def second_verdict(fold: FoldedWorkflow, event: Event, digest: str, time_ms: int) -> str:
    """Fold the next event, whose bytes have this SHA-256 and came at this broker time, and return the verdict on it."""
    kind, waited_in = event["type"], fold.phase
    judge = _JUDGES.get(kind)
    if judge is None:
        return "unknown" if event["catalogue"] > KNOWN_CATALOGUE else "superseded"
    if not judge(fold, event, time_ms):
        return "superseded"
    if kind not in _WITHOUT_TURN or (kind == _NEW_RULES and waited_in in ("ready", "approve")):
        fold.head, fold.head_ms = (event["id"], digest), time_ms
    if kind == _START:
        fold.step.starts[-1] = (event["id"], digest)
    return "accepted"


# --- what opens a key ----------------------------------------------------------------------------------


def _without_effect(_: FoldedWorkflow, __: Event, ___: int) -> bool:
    return True


def _policy(fold: FoldedWorkflow, event: Event, _: int) -> bool:
    data, newest = event["data"], fold.policy
    if fold.workflow_id != POLICIES:
        return False
    follows = (1, None) if newest is None else (newest["number"] + 1, newest["sha256"])
    if (data["number"], data.get("previous")) != follows:
        return False
    if newest is not None:
        appliers = named_groups(newest["policy"]["groups"], newest["policy"]["apply"])
        if not is_member(data["actor"], appliers.values()):
            return False
    fold.policy = data
    return True


def _instance_started(fold: FoldedWorkflow, event: Event, _: int) -> bool:
    if not _is_of_instance(fold, event) or fold.instance is not None:
        return False
    fold.instance = "started"
    return True


def _instance_ended(fold: FoldedWorkflow, event: Event, _: int) -> bool:
    if not _is_of_instance(fold, event) or fold.instance != "started":
        return False
    fold.instance = "ended"
    return True


def _is_of_instance(fold: FoldedWorkflow, event: Event) -> bool:
    key = str(uuid.uuid5(NAMESPACE, f"instance|{event['data']['instance']}"))
    return fold.phase == "none" and fold.workflow_id == key


def _opened(fold: FoldedWorkflow, event: Event, _: int) -> bool:
    data = event["data"]
    is_first = event["type"] == "poweron.workflow.requested.v1"
    if is_first:
        opens = fold.phase == "none" and data["round"] == 1 and fold.workflow_id != POLICIES
    else:
        opens = fold.phase == "ended" and data["round"] == fold.rounds + 1
    if not opens:
        return False
    fold.phase, fold.rounds = "plan", fold.rounds + 1
    fold.current = FoldedRound(data["round"], data, policy=data.get("policy"))
    return True


# --- the whole round -----------------------------------------------------------------------------------

Judge = Callable[[FoldedWorkflow, Event, int], bool]


def _in_round(judge: Judge) -> Judge:
    """Judge only events of the open round."""

    def judged(fold: FoldedWorkflow, event: Event, time_ms: int) -> bool:
        return fold.is_open and event["data"]["round"] == fold.round.number and judge(fold, event, time_ms)

    return judged


def _in_turn(judge: Judge) -> Judge:
    """Judge only events that answer the last one, while no question for a budget is open."""

    def judged(fold: FoldedWorkflow, event: Event, time_ms: int) -> bool:
        cause = (event.get("causationid"), event.get("causationhash"))
        return fold.round.question is None and cause == fold.head and judge(fold, event, time_ms)

    return _in_round(judged)


def _of_attempt(judge: Judge, *phases: str) -> Judge:
    """Judge only events of the current attempt, and of the current step if they are about one, in these phases."""

    def judged(fold: FoldedWorkflow, event: Event, time_ms: int) -> bool:
        data = event["data"]
        named = (data["round"], data["task"], data["attempt"], data.get("step", fold.place[3]))
        return named == fold.place and fold.phase in phases and judge(fold, event, time_ms)

    return _in_turn(judged)


def _reserved(fold: FoldedWorkflow, event: Event, _: int) -> bool:
    data, round_ = event["data"], fold.round
    is_paused = round_.paused_ms is not None and fold.phase != "started"
    if round_.question is not None or is_paused or not fold.is_at(data) or data["reservation"] != round_.reserved + 1:
        return False
    round_.reserved += 1
    return True


def _cancelled(fold: FoldedWorkflow, _: Event, time_ms: int) -> bool:
    if fold.round.paused_ms is not None:
        fold.resume(time_ms)
    elif fold.phase in ("closing", "draining"):
        return False
    return _stopped(fold, "cancelled")


def _stopped(fold: FoldedWorkflow, ending: str) -> bool:
    return fold.close(ending, "draining" if fold.phase == "started" else "closing")


def _deadline_passed(fold: FoldedWorkflow, event: Event, _: int) -> bool:
    is_late = event["data"].get("moves", 0) != fold.round.moves
    if fold.round.paused_ms is not None or fold.phase in ("closing", "draining") or is_late:
        return False
    return _stopped(fold, "failed")


def _paused(fold: FoldedWorkflow, event: Event, time_ms: int) -> bool:
    round_, identity = fold.round, identity_of(event["data"])
    if round_.paused_ms is not None or fold.phase in ("closing", "draining") or identity in round_.pause_requests:
        return False
    round_.paused_ms = time_ms
    round_.pause_requests.append(identity)
    return True


def _resumed(fold: FoldedWorkflow, event: Event, time_ms: int) -> bool:
    identity = identity_of(event["data"])
    if fold.round.paused_ms is None or identity in fold.round.pause_requests:
        return False
    fold.resume(time_ms)
    fold.round.pause_requests.append(identity)
    return True


def _rules_changed(fold: FoldedWorkflow, event: Event, time_ms: int) -> bool:
    round_, policy = fold.round, event["data"]["policy"]
    is_older = round_.policy is not None and round_.policy["number"] >= policy["number"]
    if fold.phase in ("closing", "draining") or is_older:
        return False
    round_.policy = policy
    if fold.phase in ("ready", "approve") and fold.step.approval not in (None, "denied"):
        if fold.phase == "approve":
            fold.ask_on(time_ms)
        _judge_approvals_again(fold, time_ms)
    return True


def _judge_approvals_again(fold: FoldedWorkflow, time_ms: int) -> None:
    """Keep the approvals that count under the new rules."""
    step, rule = fold.step, fold.rule
    rules = fold.approval_rules()._replace(escalated=False)
    kept = tuple(actor for actor in step.approved_by if rules.keeps(actor))
    if rule is None or rule["decision"] != "approve":
        if step.approval != "granted":
            _unask(step)
        fold.phase = "ready"
    elif len(kept) >= rule.get("approvers", 1):
        step.approval, step.approved_by, step.escalation_due_ms, fold.phase = "granted", kept, 0, "ready"
    elif fold.phase == "ready":
        _unask(step)
    else:
        step.approved_by, step.escalated = kept, False
        fold.set_escalation(time_ms)


def _unask(step: FoldedStep) -> None:
    step.approval, step.approved_by, step.escalated, step.escalation_due_ms = None, (), False, 0


# --- people --------------------------------------------------------------------------------------------


def _approval_requested(fold: FoldedWorkflow, event: Event, time_ms: int) -> bool:
    step, data = fold.step, event["data"]
    if step.approval is not None or not fold.names_parameters(data):
        return False
    rule = fold.rule
    expires = milliseconds_of(rule["expires"]) if rule and rule.get("expires") else data["expiresMs"]
    step.approval, step.approval_due_ms, fold.phase = "asked", time_ms + expires, "approve"
    fold.set_escalation(time_ms)
    return True


def _approval_escalated(fold: FoldedWorkflow, event: Event, time_ms: int) -> bool:
    data, step = event["data"], fold.step
    if fold.round.paused_ms is not None or not fold.names_parameters(data):
        return False
    if not step.escalation_due_ms or set(data["to"]) != set(fold.approval_rules().escalation):
        return False
    step.escalated, step.escalation_due_ms = True, 0
    fold.ask_on(time_ms)
    return True


def _approval_answered(fold: FoldedWorkflow, event: Event, time_ms: int) -> bool:
    data = event["data"]
    if not fold.is_at(data) or fold.phase != "approve" or not fold.names_parameters(data):
        return False
    is_expiry = data.get("request") is None
    if fold.round.paused_ms is not None and is_expiry:
        return False
    rules, step, actor = fold.approval_rules(), fold.step, data.get("actor")
    if event["type"] == "poweron.approval.denied.v1":
        if not is_expiry and not rules.counts(actor, "deny"):
            return False
        step.approval = "denied"
    elif not rules.counts(actor, "approve"):
        return False
    else:
        if actor is not None:
            step.approved_by = (*step.approved_by, actor)
        if rules.missing > 1:
            fold.ask_on(time_ms)
            return True
        step.approval = "granted"
    fold.ask_on(time_ms)
    fold.phase = "ready"
    return True


def _parameters_changed(fold: FoldedWorkflow, event: Event, time_ms: int) -> bool:
    data = event["data"]
    if not fold.is_at(data) or fold.phase != "approve" or not fold.names_parameters(data):
        return False
    is_same_value = encoded(fold.step.parameters) == encoded(data["parameters"])
    if is_same_value or not fold.approval_rules().counts(data.get("actor"), "change"):
        return False
    step = fold.step
    step.parameters, step.approved_by, step.proposed_by = data["parameters"], (), data.get("actor")
    fold.ask_on(time_ms)
    return True


def _budget_requested(fold: FoldedWorkflow, event: Event, _: int) -> bool:
    data, round_ = event["data"], fold.round
    may_ask = round_.opening.get("onBudget", "stop") == "ask" and not round_.budget_denied
    if not (fold.is_at(data) and may_ask and data["stage"] == fold.phase and data["question"] == round_.grants + 1):
        return False
    round_.question = (data["question"], data["code"])
    return True


def _budget_answered(fold: FoldedWorkflow, event: Event, _: int) -> bool:
    data, round_ = event["data"], fold.round
    if round_.question is None or not fold.is_at(data) or data["question"] != round_.question[0]:
        return False
    grants = event["type"] == "poweron.budget.granted.v1"
    if data.get("request") is None:
        is_next_day = round_.question[1] == "daily_limit" and not data.get("tokens") and not data.get("costNanoUsd")
        counts = round_.paused_ms is None and (not grants or is_next_day)
    else:
        counts = _budget_rules(round_).counts(data.get("actor"), "approve" if grants else "deny")
    if not counts:
        return False
    round_.question = None
    round_.grants += grants
    round_.budget_denied = round_.budget_denied or not grants
    return True


def _budget_rules(round_: FoldedRound) -> AnswerRules:
    policy, requester = round_.policy, requester_of(round_.opening)
    grants = policy.get("limits", {}).get("grants") if policy else None
    if policy is None or grants is None:
        return AnswerRules(1, {}, not_requester=False, requester=requester)
    groups = named_groups(policy.get("groups", {}), grants.get("from", ()))
    return AnswerRules(1, groups, not_requester=grants.get("notRequester", False), requester=requester)


# --- turns of roles ------------------------------------------------------------------------------------


def _ended(ending: str) -> Judge:
    def judged(fold: FoldedWorkflow, _: Event, __: int) -> bool:
        if fold.phase != "closing" or fold.round.ending != ending:
            return False
        fold.phase = "ended"
        return True

    return _in_turn(judged)


def _answer_rejected(fold: FoldedWorkflow, event: Event, _: int) -> bool:
    data = event["data"]
    here = (fold.phase, *fold.place)
    earlier: list[Event] = [
        each
        for each in fold.round.rejected
        if (each["stage"], each["round"], each["task"], each["attempt"], each["step"]) == here
    ]
    if fold.phase in ("select", "parameterize"):
        earlier = fold.step.refusals
    is_next = data["try"] == len(earlier) + 1 and may_ask_again(earlier)
    if not fold.is_at(data) or data["stage"] != fold.phase or not is_next:
        return False
    fold.round.rejected.append(data)
    return True


def _stage_failed(fold: FoldedWorkflow, event: Event, _: int) -> bool:
    return fold.is_at(event["data"]) and event["data"]["stage"] == fold.phase and fold.close("failed")


def _tasks_planned(fold: FoldedWorkflow, event: Event, _: int) -> bool:
    if fold.phase != "plan":
        return False
    fold.round.tasks = event["data"]["tasks"]
    return fold.begin_task(1)


def _actions_planned(fold: FoldedWorkflow, event: Event, _: int) -> bool:
    fold.task.planned, fold.phase = len(event["data"]["actions"]), "select"
    return True


def _selected(fold: FoldedWorkflow, event: Event, _: int) -> bool:
    step = fold.step
    step.action, step.tries, step.refusals, fold.phase = event["data"]["action"], 1, [], "parameterize"
    return True


def _refused(phase: str) -> Judge:
    def judged(fold: FoldedWorkflow, event: Event, _: int) -> bool:
        step = fold.step
        if event["data"]["try"] != step.tries:
            return False
        step.refusals.append(event["data"])
        step.tries += 1
        if not may_ask_again(step.refusals):
            fold.phase = "review"
        return True

    return _of_attempt(judged, phase)


def _parameters_set(fold: FoldedWorkflow, event: Event, _: int) -> bool:
    fold.step.parameters, fold.phase = event["data"]["parameters"], "ready"
    return True


def _started(fold: FoldedWorkflow, event: Event, _: int) -> bool:
    step, data = fold.step, event["data"]
    if data["try"] != len(step.starts) + 1:
        return False
    rule = fold.rule
    lacks_approval = rule is not None and rule["decision"] == "approve" and step.approval is None
    if data["claim"] != RECORDED_CLAIM and lacks_approval:
        return False
    step.starts.append(("", ""))  # its hash is known once it is accepted
    fold.phase = "started"
    return True


def _completed(fold: FoldedWorkflow, event: Event, _: int) -> bool:
    data, step = event["data"], fold.round.task and fold.step
    if not fold.is_at(data) or fold.phase not in ("started", "draining") or not step or data["try"] > len(step.starts):
        return False
    number = data["try"] - 1
    if (event.get("causationid"), event.get("causationhash")) != step.starts[number] or number in step.given_up:
        return False
    if fold.phase == "started" and data["outcome"] == "not_begun" and data.get("code") == "paused":
        step.given_up.add(number)
        fold.phase = "ready" if len(step.given_up) == len(step.starts) else "started"
    else:
        fold.phase = "observe" if fold.phase == "started" else "closing"
    return True


def _observed(fold: FoldedWorkflow, event: Event, _: int) -> bool:
    if fold.round.opening.get("workflowMode", "React") == "React":
        fold.phase = "refine"
    elif event["data"]["observation"]["success"] and fold.step.number < fold.task.planned:
        fold.task.step, fold.phase = FoldedStep(fold.step.number + 1), "select"
    else:
        fold.phase = "review"
    return True


def _refined(fold: FoldedWorkflow, event: Event, _: int) -> bool:
    data, task, opening = event["data"], fold.task, fold.round.opening
    limit = opening.get("maxSteps", 5)
    most = min(limit, task.plan.get("maxSteps") or limit)
    again = data["classification"] == "retry"
    retries_left = not again or task.retries < opening.get("maxRetries", 2)
    if data["decision"] == "continue" and task.step.number < most and retries_left:
        task.step, fold.phase = FoldedStep(task.step.number + 1), "select"
        task.retries += again
    else:
        fold.phase = "review"
    return True


def _reviewed(fold: FoldedWorkflow, event: Event, _: int) -> bool:
    data, task, round_ = event["data"], fold.task, fold.round
    if data["status"] == "retry" and task.retries < round_.opening.get("maxRetries", 2):
        round_.task = replace(task, attempt=task.attempt + 1, retries=task.retries + 1, planned=0, step=FoldedStep(1))
        return fold.begin_attempt()
    if data["status"] != "success":
        return fold.close("failed")
    if task.number < len(round_.tasks):
        return fold.begin_task(task.number + 1)
    return fold.close("completed")


_NEW_RULES: Final = "poweron.rules.changed.v1"
_START: Final = "poweron.action.started.v1"
_WITHOUT_TURN: Final = frozenset(
    f"poweron.{name}.v1"
    for name in (
        "request.refused",
        "document.erased",
        "workflow.exported",
        "content.erased",
        "workflow.retained",
        "call.reserved",
        "round.paused",
        "round.resumed",
        "rules.changed",
        "policy.applied",
        "instance.started",
        "instance.ended",
    )
)
"""After these the workflow still waits for an answer to the same event."""

_JUDGES: Final[Mapping[str, Judge]] = {
    f"poweron.{name}.v1": judge
    for name, judge in {
        "request.refused": _without_effect,
        "document.erased": _without_effect,
        "workflow.exported": _without_effect,
        "content.erased": _without_effect,
        "workflow.retained": _without_effect,
        "policy.applied": _policy,
        "instance.started": _instance_started,
        "instance.ended": _instance_ended,
        "workflow.requested": _opened,
        "round.requested": _opened,
        "call.reserved": _in_round(_reserved),
        "cancellation.requested": _in_round(_cancelled),
        "round.paused": _in_round(_paused),
        "round.resumed": _in_round(_resumed),
        "rules.changed": _in_round(_rules_changed),
        "deadline.passed": _in_round(_deadline_passed),
        "action.completed": _in_round(_completed),
        "approval.granted": _in_round(_approval_answered),
        "approval.denied": _in_round(_approval_answered),
        "parameters.changed": _in_round(_parameters_changed),
        "budget.granted": _in_round(_budget_answered),
        "budget.denied": _in_round(_budget_answered),
        "answer.rejected": _in_turn(_answer_rejected),
        "stage.failed": _in_turn(_stage_failed),
        "budget.requested": _in_turn(_budget_requested),
        "round.completed": _ended("completed"),
        "round.failed": _ended("failed"),
        "round.cancelled": _ended("cancelled"),
        "tasks.planned": _in_turn(_tasks_planned),
        "actions.planned": _of_attempt(_actions_planned, "plan_actions"),
        "action.selected": _of_attempt(_selected, "select"),
        "selection.rejected": _refused("select"),
        "parameters.set": _of_attempt(_parameters_set, "parameterize"),
        "parameters.rejected": _refused("parameterize"),
        "approval.requested": _of_attempt(_approval_requested, "ready"),
        "approval.escalated": _of_attempt(_approval_escalated, "approve"),
        "action.started": _of_attempt(_started, "ready", "started"),
        "observation.recorded": _of_attempt(_observed, "observe"),
        "refinement.decided": _of_attempt(_refined, "refine"),
        "task.reviewed": _of_attempt(_reviewed, "review"),
    }.items()
}


def known_types() -> frozenset[str]:
    """Return the types of all events that the fold judges."""
    return frozenset(_JUDGES)
