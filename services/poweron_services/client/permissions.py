"""Permissions as of a date: what the policy and the processes of that time allowed.

The rows hold both: the policies that were applied, and what each process recorded at its start. A round that was
opened before the policy of that time may have had the rules of an earlier one.
"""

import time
from collections.abc import Collection, Iterator, Sequence
from itertools import chain
from typing import Any, Final, Literal, get_args

from poweron_events.actor import Actor
from poweron_events.event import ActionName, Model, TaskType, matches
from poweron_events.instance_events import InstanceStarted
from poweron_events.policy import AnswerTerms, GroupName, Rule
from poweron_projections import reader
from poweron_projections.entries import InstanceEntry, PolicyEntry
from poweron_services.decider.approval import ActionLists, marks

LATEST: Final = 2**53  # ms, later than any record: the rows as they are now, although clocks differ
FUTURE: Final = (
    "This time is in the future, and a policy may be applied before it; name an earlier one, or none for now"
)
AHEAD: Final = 60_000  # ms by which the clock of the caller may be ahead
TASK_TYPES: tuple[TaskType, ...] = get_args(TaskType)


class MayApprove(Model):
    """Whether an actor could have approved the action."""

    may: bool
    not_own_requests: bool = False
    """Whether that excludes rounds that the actor requested."""
    reason: str | None = None
    """Why the actor could not have, as a sentence."""


class Permission(Model):
    """What applied to an action at a time."""

    action: ActionName
    task_types: tuple[TaskType, ...] = ()
    """The types of tasks in which this applied; empty if in all."""
    decision: Literal["allowed", "denied", "approval"]
    by: Literal["policy", "settings", "nothing"]
    """What decided: a policy, the settings of the processes, or nothing, since there was no policy."""
    rule: int | None = None
    """The number of the rule of the policy, counted from 1; None if no rule matched."""
    approvers: int = 0
    """How many people had to approve."""
    groups: tuple[GroupName, ...] = ()
    """The groups that could approve; empty if anyone could."""
    not_requester: bool = False
    actor: MayApprove | None = None
    """Whether the actor in question could have approved; None if none was named, or no approval needed."""
    processes: tuple[str, ...] = ()
    """The processes that could have executed it."""


def is_future(time_ms: int) -> bool:
    """Return whether a time has not come yet, so that no one can say what is allowed then."""
    return LATEST != time_ms > time.time() * 1_000 + AHEAD


def permissions(
    policy: PolicyEntry | None,
    processes: Sequence[InstanceEntry],
    patterns: Collection[str] = ("*",),
    actor: Actor | None = None,
) -> list[Permission]:
    """Return what applied to each action that matches a pattern.

    Args:
        policy: the policy of that time; None if none was applied yet.
        processes: the processes of that time.
        patterns: the actions to answer for, among those that the processes offered; a full name always counts.
        actor: the actor who may want to approve.
    """
    records = [process.record for process in processes]
    offered = {action.action for record in records for action in record.actions}
    named = {pattern for pattern in patterns if "." in pattern and not pattern.endswith(".*")}
    actions = sorted({action for action in offered if matches(action, patterns)} | named)
    return list(chain.from_iterable(_by_task_type(policy, records, action, actor) for action in actions))


def as_object(
    time_ms: int, policy: PolicyEntry | None, processes: Sequence[InstanceEntry], found: Sequence[Permission]
) -> dict[str, Any]:
    """Return the permissions at a time as `--json` prints them."""
    return {
        "at": None if time_ms == LATEST else reader.time(time_ms),
        "policy": policy and policy.model_dump(mode="json", by_alias=True, exclude={"policy"}),
        "processes": [
            process.model_dump(mode="json", by_alias=True, exclude={"record"})
            | {"release": process.record.release, "roles": process.record.roles}
            for process in processes
        ],
        "permissions": [each.model_dump(mode="json", by_alias=True) for each in found],
    }


def _by_task_type(
    policy: PolicyEntry | None, records: Sequence[InstanceStarted], action: str, actor: Actor | None
) -> Iterator[Permission]:
    """Yield one permission for all types of tasks, or several where they differ."""
    found = dict[Permission, list[TaskType]]()
    for task_type in TASK_TYPES:
        found.setdefault(_permission(policy, records, action, task_type, actor), []).append(task_type)
    for permission, task_types in found.items():
        yield permission if len(found) == 1 else permission.model_copy(update={"task_types": tuple(task_types)})


def _permission(
    policy: PolicyEntry | None,
    records: Sequence[InstanceStarted],
    action: str,
    task_type: TaskType,
    actor: Actor | None,
) -> Permission:
    rule = None if policy is None else policy.policy.terms(policy.number, policy.sha256).rule(action, task_type)
    number = _number(policy, rule)
    offering = [record for record in records if record.executes and _offers(record, action)]
    able = [record for record in offering if not _denies(record, action, task_type)]
    intakes = [record for record in records if "intake" in record.roles]
    if rule is not None and rule.decision == "deny":
        return Permission(action=action, decision="denied", by="policy", rule=number)
    if (offering and not able) or (intakes and all(_denies(record, action, task_type) for record in intakes)):
        return Permission(action=action, decision="denied", by="settings")
    names = tuple(record.instance for record in able)
    if policy is not None and rule is not None and rule.decision == "approve":
        return Permission(
            action=action,
            decision="approval",
            by="policy",
            rule=number,
            approvers=rule.approvers,
            groups=rule.from_,
            not_requester=rule.not_requester,
            actor=_may_approve(policy, rule, actor),
            processes=names,
        )
    if _is_marked([*able, *intakes], action):
        may = None if actor is None else MayApprove(may=True)
        return Permission(action=action, decision="approval", by="settings", approvers=1, actor=may, processes=names)
    by: Literal["policy", "nothing"] = "nothing" if policy is None else "policy"
    return Permission(action=action, decision="allowed", by=by, rule=number, processes=names)


def _number(policy: PolicyEntry | None, rule: Rule | None) -> int | None:
    rules = () if policy is None else policy.policy.rules
    return next((number for number, other in enumerate(rules, start=1) if other is rule), None)


def _offers(record: InstanceStarted, action: str) -> bool:
    """Return whether the process had the action; if its record has no room for all of them, it may have had any."""
    return record.actions_left_out > 0 or any(offer.action == action for offer in record.actions)


def _denies(record: InstanceStarted, action: str, task_type: TaskType) -> bool:
    return ActionLists(record.allowed, record.denied).objection(action, task_type) is not None


def _is_marked(records: Collection[InstanceStarted], action: str) -> bool:
    """Return whether one of the processes marks the action: then a person may have been asked to approve it."""
    offers = (offer for record in records for offer in record.actions if offer.action == action)
    return any(marks(record.approve, action) for record in records) or any(offer.approve for offer in offers)


def _may_approve(policy: PolicyEntry, rule: Rule, actor: Actor | None) -> MayApprove | None:
    if actor is None:
        return None
    groups = policy.policy.terms(policy.number, policy.sha256).named(rule.from_)
    objection = AnswerTerms(groups=groups).objection(actor, "approve")
    if objection is not None:
        return MayApprove(may=False, reason=objection.sentence)
    return MayApprove(may=True, not_own_requests=rule.not_requester)
