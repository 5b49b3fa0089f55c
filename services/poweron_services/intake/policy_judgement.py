"""Judgement of policies: whether one may follow the current one, and whether an open round gets its rules.

No clock and no await, as in `judgement`.
"""

from poweron_events.fold.policy_chain import policy_sha256
from poweron_events.policy import AppliedPolicy
from poweron_events.request import PolicyApplied, RequestIdentity, RequestPolicy, RequestRules, RulesChanged
from poweron_events.stream import claimed_actor
from poweron_services.decider.policy_check import problems
from poweron_services.intake.intake_ports import RoundState
from poweron_services.intake.judgement import Refusal, round_is_over


def check_policy(request: RequestPolicy, identity: RequestIdentity, current: AppliedPolicy | None) -> None:
    """Refuse a policy that is invalid or current already, replaces the wrong one, or whose actor may not apply it."""
    if (wrong := next(problems(request.policy), None)) is not None:
        raise Refusal("policy_invalid", wrong)
    if request.previous is not None and (current is None or request.previous != current.sha256):
        now = f"the current one is number {current.number}, {current.sha256[:12]}…" if current else "there is none yet"
        raise Refusal("policy_changed", f"The policy was meant to replace {request.previous[:12]}…, but {now}.")
    if current is not None and policy_sha256(request.policy) == current.sha256:
        raise Refusal("policy_applies_already", f"This policy applies already, as number {current.number}.")
    _check_permission(request, identity, current)


def _check_permission(
    request: RequestPolicy | RequestRules, identity: RequestIdentity, current: AppliedPolicy | None
) -> None:
    actor = claimed_actor(request, identity.source)
    if current is not None and not current.policy.may_apply(actor):
        by = " or ".join(current.policy.apply)
        said = f"{actor.id} may not apply a policy; policy {current.number} lets only members of {by} do that."
        raise Refusal("not_permitted", said)


def applied_policy(identity: RequestIdentity, request: RequestPolicy, current: AppliedPolicy | None) -> PolicyApplied:
    """The policy as an event."""
    return PolicyApplied(
        number=current.number + 1 if current else 1,
        policy=request.policy,
        sha256=policy_sha256(request.policy),
        previous=current.sha256 if current else None,
        reason=request.reason,
        actor=claimed_actor(request, identity.source),
        request=identity,
    )


def changed_rules(
    identity: RequestIdentity, request: RequestRules, round_: RoundState | None, current: AppliedPolicy | None
) -> RulesChanged:
    """Return the rules of the current policy for an open round, as an event, or refuse the request."""
    if round_ is None or round_.closing:
        raise round_is_over(request)
    if current is None:
        raise Refusal("no_policy", "There is no policy whose rules the round could get.")
    _check_permission(request, identity, current)
    if (round_.policy_number or 0) >= current.number:
        raise Refusal("policy_applies_already", f"Round {request.round} has the rules of policy {current.number}.")
    return RulesChanged(
        round=request.round,
        policy=current.terms,
        reason=request.reason,
        actor=claimed_actor(request, identity.source),
        request=identity,
    )
