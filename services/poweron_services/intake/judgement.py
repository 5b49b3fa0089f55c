"""Judgement: whether a request or a person's approval can be accepted in the state of its workflow, and on which terms.

No clock and no await: the caller provides what the rows say.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final, get_args

from pydantic import JsonValue

from poweron_events.actor import Actor
from poweron_events.archive_events import ContentErased, WorkflowExported, WorkflowRetained
from poweron_events.catalog import REFERENCES, ActionSpec, meaningless
from poweron_events.codec import InvalidRequest, ReceivedRequest, is_uuid
from poweron_events.codes import Code, RefusalCode
from poweron_events.fold.partial import Stub
from poweron_events.fold.state import Opening
from poweron_events.policy import AppliedPolicy
from poweron_events.request import (
    LAWS,
    MAX_PATTERNS,
    Budgets,
    CancellationRequested,
    ForkedFrom,
    PolicyApplied,
    RefusalReason,
    RequestApproval,
    RequestBudget,
    RequestCancellation,
    RequestIdentity,
    RequestPause,
    RequestRefused,
    RequestResume,
    RequestRound,
    RequestRules,
    RequestWorkflow,
    RoundPaused,
    RoundRequested,
    RoundResumed,
    RulesChanged,
    Terms,
    WorkflowRequested,
    own_budgets,
    workflow_id,
)
from poweron_events.round_events import BudgetDenied, BudgetGranted
from poweron_events.step_events import ApprovalDenied, ApprovalGranted, ParametersChanged
from poweron_events.stream import Request, WorkflowEvent, claimed_actor
from poweron_events.validation_messages import MAX_REASON
from poweron_services.decider.approval import EVERYTHING, ActionLists, joined
from poweron_services.decider.rules import price_unknown
from poweron_services.intake.intake_ports import OpenQuestion, RoundState
from poweron_services.text.language_detection import detect

IntakeEvent = (
    WorkflowRequested
    | RoundRequested
    | CancellationRequested
    | RoundPaused
    | RoundResumed
    | ApprovalGranted
    | ApprovalDenied
    | BudgetGranted
    | BudgetDenied
    | ParametersChanged
    | PolicyApplied
    | RulesChanged
    | WorkflowExported
    | ContentErased
    | WorkflowRetained
    | RequestRefused
)


class Refusal(Exception):
    """The request cannot be accepted."""

    def __init__(self, code: RefusalCode, detail: str) -> None:
        super().__init__(detail)
        self.code, self.detail = code, detail

    def event(self, identity: RequestIdentity, actor: Actor | None = None) -> RequestRefused:
        reason: RefusalReason = _REASONS.get(self.code, "invalid")
        return RequestRefused(
            request=identity, reason=reason, code=self.code, detail=_sentence(self.detail), actor=actor
        )


_REASONS: Final[dict[str, RefusalReason]] = {reason: reason for reason in get_args(RefusalReason)}


def target(received: ReceivedRequest) -> str:
    """The workflow in which the request is answered: the one that it names, otherwise the one that it would open."""
    request, identity = received.request, received.identity
    if isinstance(request, RequestWorkflow) or not is_uuid(request.workflow_id):
        return workflow_id(identity.source, identity.id)
    return request.workflow_id


def target_of_invalid(invalid: InvalidRequest) -> str:
    """The workflow in which an unusable request is answered, as far as the request can be read."""
    if invalid.workflow_id is not None and is_uuid(invalid.workflow_id):
        return invalid.workflow_id
    return workflow_id(invalid.identity.source, invalid.identity.id)


def check(request: Request, actions: Collection[str], connections: Collection[str]) -> None:
    """Refuse a request that is unacceptable in any state of any workflow.

    `actions` are those that a mark can match, `connections` the labels that are configured.
    """
    if not isinstance(request, RequestWorkflow):
        checked_id(request.workflow_id)
    if isinstance(request, Terms):
        _check_marks(request, actions)
        _check_connections(request, connections)


def checked_id(workflow: str) -> str:
    """Return the id of a workflow; refuse what cannot be one."""
    if not is_uuid(workflow):
        raise Refusal("unknown_workflow", f"There is no workflow {workflow!r}; an id is a UUID in lower case.")
    return workflow


def _check_marks(request: Terms, actions: Collection[str]) -> None:
    """Refuse a mark that matches no action: after a typo, the action that it should hold back would run unapproved."""
    for wrong in filter(None, (meaningless(pattern, actions) for pattern in request.approve)):
        raise Refusal("pattern_meaningless", f"The request cannot be used: approve: {wrong}")


def _check_connections(request: Terms, connections: Collection[str]) -> None:
    """Refuse a label without a connection: what the request needs it for would be left out silently."""
    for label in request.connections:
        if label not in connections:
            known = f"configured are {', '.join(sorted(connections))}" if connections else "no connection is"
            detail = f"The request cannot be used: connections: {label!r} is not configured; {known}"
            raise Refusal("unknown_connection", detail)


def check_prices(budgets: Budgets, unpriced: Collection[str]) -> None:
    """Refuse a budget of money if models in use have no price: nothing could be counted towards it."""
    money = any(name.endswith("_cost_nano_usd") for name in budgets.model_dump(exclude_none=True))
    if money and unpriced:
        raise Refusal("price_unknown", price_unknown(unpriced))


def known(workflow: str, stub: Stub | None) -> Stub:
    """Return the stub of a workflow that was opened; refuse any other."""
    if stub is None or not stub.openings:
        raise Refusal("unknown_workflow", f"There is no workflow {workflow}.")
    return stub


def check_round(request: RequestRound, stub: Stub) -> None:
    """Refuse a further round that does not follow the last one, or that comes before its end."""
    last = len(stub.openings)
    if request.after_round > last:
        raise _no_such_round(last, request.after_round)
    if request.after_round < last:
        raise Refusal("round_ended", f"Round {request.after_round} was followed by round {last} already.")
    if stub.is_open:
        raise Refusal("round_open", f"Round {last} is still running; wait for its end or cancel it.")


def check_fork(fork: ForkedFrom, sha256: str | None) -> None:
    """Refuse a fork of a record that is missing, is another one, or had no effect; then `sha256` is None or differs."""
    if sha256 is None or sha256 != fork.head:
        detail = f"Workflow {fork.workflow} has no accepted event {fork.seq} with the hash that was named."
        raise Refusal("unknown_seq", detail)


AboutOpenRound = RequestCancellation | RequestBudget | RequestPause | RequestResume | RequestRules
"""The requests that only an open round can take."""


def check_open(request: AboutOpenRound, stub: Stub) -> None:
    """Refuse a request about a round that does not exist or has ended."""
    last = len(stub.openings)
    if request.round > last:
        raise _no_such_round(last, request.round)
    if request.round < last or not stub.is_open:
        raise round_is_over(request)


def cancellation_of(event: WorkflowEvent, received: ReceivedRequest) -> CancellationRequested | None:
    """The request as the cancellation of the round that this event opens, or None if it is not one."""
    request = received.request
    if not isinstance(request, RequestCancellation) or not isinstance(event, Opening) or event.round != request.round:
        return None
    return cancellation(received.identity, request)


def cancellation(identity: RequestIdentity, request: RequestCancellation) -> CancellationRequested:
    """The cancellation as an event."""
    return CancellationRequested(
        round=request.round,
        request=identity,
        reason=request.reason,
        requester=request.requester,
        actor=claimed_actor(request, identity.source),
    )


def check_pause(request: RequestPause | RequestResume, round_: RoundState | None) -> None:
    """Refuse to pause a round that is ending or paused, and to resume one that is not paused."""
    if round_ is None or (round_.closing and not round_.paused):
        raise round_is_over(request)
    if isinstance(request, RequestPause) and round_.paused:
        by = f" by {round_.paused_by.id}" if round_.paused_by else ""
        raise Refusal("already_paused", f"Round {request.round} was paused already{by}.")
    if isinstance(request, RequestResume) and not round_.paused:
        raise Refusal("not_paused", f"Round {request.round} is not paused.")


def pause_or_resumption(identity: RequestIdentity, request: RequestPause | RequestResume) -> RoundPaused | RoundResumed:
    """The pause, or the end of one, as an event."""
    event = RoundPaused if isinstance(request, RequestPause) else RoundResumed
    return event(
        round=request.round, request=identity, reason=request.reason, actor=claimed_actor(request, identity.source)
    )


def check_budget_answer(
    request: RequestBudget, identity: RequestIdentity, round_: RoundState | None, now_ms: int
) -> None:
    """Refuse to answer what is not asked, or not any more, an answer that does not count, and a grant of nothing."""
    if round_ is None or round_.closing:
        raise round_is_over(request)
    if round_.question is None or round_.question != request.question:
        said = f"Round {request.round} does not wait for an answer to budget question {request.question}."
        raise Refusal("nothing_to_approve", said)
    if round_.question_due_ms is not None and now_ms >= round_.question_due_ms and not round_.paused:
        raise Refusal("approval_overdue", f"The time for an answer to budget question {request.question} is over.")
    if (
        objection := round_.budget_terms.objection(claimed_actor(request, identity.source), request.decision)
    ) is not None:
        raise Refusal(objection.code, objection.sentence)
    if request.decision == "approve" and (lacks := _lacking(request, round_.question_code)) is not None:
        raise Refusal("invalid_request", f"The request cannot be used: {lacks}.")


def _lacking(request: RequestBudget, code: Code | None) -> str | None:
    """Return what a grant lacks that the round asks for, if it lacks it."""
    if not (request.tokens or request.cost_nano_usd):
        return "it grants neither tokens nor money"
    if code == "token_budget" and not request.tokens:
        return "the round asks for tokens, and it grants none"
    if code == "cost_budget" and not request.cost_nano_usd:
        return "the round asks for money, and it grants none"
    return None


def budget_answer(identity: RequestIdentity, request: RequestBudget) -> BudgetGranted | BudgetDenied:
    """The answer to a budget question as an event."""
    place = {name: getattr(request, name) for name in ("round", "task", "attempt", "step", "question")}
    actor = claimed_actor(request, identity.source)
    if request.decision == "deny":
        return BudgetDenied(**place, reason=request.reason, actor=actor, request=identity)
    granted = {"tokens": request.tokens, "cost_nano_usd": request.cost_nano_usd}
    return BudgetGranted(**place, **granted, reason=request.reason, actor=actor, request=identity)


def round_is_over(request: AboutOpenRound) -> Refusal:
    return Refusal("round_ended", f"Round {request.round} has ended or is ending already.")


def approval_refusal(
    request: RequestApproval, identity: RequestIdentity, approval: OpenQuestion | None, now_ms: int
) -> Refusal | None:
    """Return why a person's answer about a waiting action cannot be accepted, or None if it can."""
    place = f"Step {request.step} of task {request.task} in round {request.round}"
    if approval is None:
        return Refusal("nothing_to_approve", f"{place} does not wait for an approval.")
    if approval.state != "asked":
        granted = approval.state == "granted"
        said = f"{place} was {'approved' if granted else 'denied'} already{_by(approval)}."
        return Refusal("already_approved" if granted else "already_denied", said)
    if not approval.waits:
        return Refusal("nothing_to_approve", f"{place} does not wait for an approval any more; its round was stopped.")
    if request.parameters_sha256 != approval.parameters_sha256:
        said = f"{place} waits with other parameters than those that the answer is about; look at them again."
        return Refusal("other_parameters", said)
    if now_ms >= approval.due_ms and not approval.paused:
        said = f"The time in which {place[0].lower()}{place[1:]} could be approved is over."
        return Refusal("approval_overdue", said)
    decision = request.decision if request.changed_parameters is None else "change"
    objection = approval.terms.objection(claimed_actor(request, identity.source), decision)
    return None if objection is None else Refusal(objection.code, objection.sentence)


def checked_change(
    request: RequestApproval, approval: OpenQuestion, specs: Mapping[str, ActionSpec]
) -> Mapping[str, JsonValue]:
    """Return the parameters as the action would get them; refuse those it does not accept, or that are the same."""
    from poweron_services.decider.schema_check import Unfit, check_values  # noqa: PLC0415 - clients do not need it

    changed, spec = request.changed_parameters or {}, specs.get(approval.action)
    if request.decision == "deny":
        raise Refusal("invalid_request", "The request cannot be used: a denial changes no parameters.")
    if spec is None:
        said = f"The parameters cannot be checked: the process that answers does not know {approval.action}."
        raise Refusal("parameter_invalid", said)
    for name in sorted(REFERENCES):
        if changed.get(name) != approval.parameters.get(name):
            said = f"{name} cannot be changed: the selection of the action says what it reads. Deny the action instead."
            raise Refusal("parameter_invalid", said)
    try:
        checked = check_values(changed, spec, defaults={})
    except Unfit as error:
        raise Refusal("parameter_invalid", str(error)) from error
    if checked == approval.parameters:
        raise Refusal("parameter_invalid", "The parameters are the same as before.")
    return checked


def changed_parameters(
    identity: RequestIdentity, request: RequestApproval, parameters: Mapping[str, JsonValue]
) -> ParametersChanged:
    """The proposal of other parameters as an event."""
    return ParametersChanged(
        round=request.round,
        task=request.task,
        attempt=request.attempt,
        step=request.step,
        parameters_sha256=request.parameters_sha256,
        parameters=dict(parameters),
        reason=request.reason,
        actor=claimed_actor(request, identity.source),
        request=identity,
    )


def approval_answer(identity: RequestIdentity, request: RequestApproval) -> ApprovalGranted | ApprovalDenied:
    """The person's answer as an event."""
    return (ApprovalGranted if request.decision == "approve" else ApprovalDenied)(
        round=request.round,
        task=request.task,
        attempt=request.attempt,
        step=request.step,
        parameters_sha256=request.parameters_sha256,
        reason=request.reason,
        requester=request.requester,
        actor=claimed_actor(request, identity.source),
        request=identity,
    )


def terms(
    request: Terms,
    identity: RequestIdentity,
    before: Opening | None = None,
    *,
    marks: Collection[str],
    default_language: str | None,
    lists: ActionLists = EVERYTHING,
    policy: AppliedPolicy | None = None,
) -> dict[str, Any]:
    """The terms of a round: it may use what the request, the `lists` of the settings and the policy all allow.

    Budgets of tasks and of the workflow persist: where a further round sets no limit, that of the round `before`
    applies. Marks of actions that a person has to approve persist, too: no round removes any of them.
    """
    result: dict[str, Any] = {name: getattr(request, name) for name in Terms.model_fields}
    if before is not None:
        result["budgets"] = own_budgets(before).of_next_round(request.budgets)
    result["actor"] = claimed_actor(request, identity.source)
    result["allowed_methods"] = lists.joined_allowed(request.allowed_methods)
    result["denied_methods"] = _denied(lists.joined_denied(request.denied_methods))
    result["approve"] = joined(request.approve, marks, before.approve if before else ())
    return result | _language(request, before, default_language) | (_under(policy, result) if policy else {})


def _under(policy: AppliedPolicy, terms: Mapping[str, Any]) -> dict[str, Any]:
    """Return the terms that the policy changes: its rules, and limits where they are narrower."""
    limits, budgets = policy.policy.limits, terms["budgets"]
    narrower = {
        "workflow_tokens": _least(budgets.workflow_tokens, limits.tokens),
        "workflow_cost_nano_usd": _least(budgets.workflow_cost_nano_usd, limits.cost_nano_usd),
    }
    return {
        "laws": LAWS,
        "policy": policy.terms,
        "max_steps": _least(terms["max_steps"], limits.steps),
        "budgets": budgets.model_copy(update=narrower),
        "on_budget": "ask" if "ask" in (terms["on_budget"], limits.on_budget) else "stop",
    }


def _least(one: int | None, other: int | None) -> int | None:
    return min((limit for limit in (one, other) if limit is not None), default=None)


def _denied(patterns: tuple[str, ...]) -> tuple[str, ...]:
    if len(patterns) > MAX_PATTERNS:
        detail = f"The request cannot be used: deniedMethods: with those of the settings they are {len(patterns)}; "
        raise Refusal("invalid_request", f"{detail}there may be {MAX_PATTERNS}")
    return patterns


def _language(request: Terms, before: Opening | None, default_language: str | None) -> dict[str, Any]:
    """The language of the request, the workflow, the requester or the prompt (D-01).

    A language that was only detected in the prompt of an earlier round applies if this round's prompt leaves it in
    doubt.
    """
    earlier = before.user_language if before else None
    of_workflow = None if before and before.user_language_detected else earlier
    candidates = (request.user_language, of_workflow, request.requester.language, default_language)
    if language := next(filter(None, candidates), None):
        return {"user_language": language}
    detection = detect(request.prompt) or earlier
    return {"user_language": detection, "user_language_detected": detection is not None}


def _by(approval: OpenQuestion) -> str:
    return f" by {approval.by}" if approval.by else ""


def _no_such_round(last: int, named: int) -> Refusal:
    rounds = "1 round" if last == 1 else f"{last} rounds"
    return Refusal("no_such_round", f"The workflow has {rounds}; there is no round {named}.")


def _sentence(detail: str) -> str:
    return detail[:MAX_REASON].removesuffix(".")[: MAX_REASON - 1] + "."
