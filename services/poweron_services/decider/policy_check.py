"""What is wrong with a policy: its form, unknown groups, rules that never apply, no one who could replace it."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from poweron_events.codec import dumps
from poweron_events.event import Model
from poweron_events.policy import (
    MAX_APPROVERS,
    MAX_POLICY,
    ActorQuota,
    Escalation,
    Grants,
    Group,
    GroupName,
    Policy,
    Quota,
    Rule,
    SourceQuota,
    WorkflowLimits,
    milliseconds,
    same_id,
)
from poweron_events.validation_messages import explain, problem_in_words, worded
from poweron_services.decider.approval import is_within

_ONLY_FOR_APPROVALS: Final = ("approvers", "from_", "not_requester", "expires", "escalate")
_LIMITS: Final = "`startsPerDay`, `openWorkflows`, `tokensPerDay` or `costUsdPerDay`"
_DONE: Final = {"allow": "allows", "deny": "denies"}


def problems(policy: Policy) -> Iterator[str]:
    """Yield a sentence for each problem; a policy with any of them is not applied."""
    for name, group in policy.groups.items():
        yield from _of_group(name, group)
    yield from _unknown(policy, "`apply`", policy.apply)
    if policy.limits.grants is not None:
        yield from _unknown(policy, "`limits.grants.from`", policy.limits.grants.from_)
    for number, rule in enumerate(policy.rules, start=1):
        yield from _of_rule(policy, number, rule)
        yield from _never_applies(policy.rules[: number - 1], number, rule)
    for number, of_actors in enumerate(policy.per_actor, start=1):
        yield from _of_actor_quota(policy, number, of_actors)
    for number, of_sources in enumerate(policy.per_source, start=1):
        yield from _of_source_quota(policy, number, of_sources)
    size = len(dumps(policy.model_dump(mode="json", by_alias=True)))
    if size > MAX_POLICY:
        yield (
            f"The policy takes {size:,} bytes as JSON; it may take {MAX_POLICY:,}, because each round carries its "
            "rules, so list fewer members or rules."
        )


def approver_notes(policy: Policy) -> Iterator[str]:
    """Yield a sentence for each rule that cannot be met in rounds that one of its approvers requests."""
    for number, rule in enumerate(policy.rules, start=1):
        answerers = (*rule.from_, *(rule.escalate.to if rule.escalate else ()))
        if rule.not_requester and rule.from_ and _people(policy, answerers) == rule.approvers:
            yield (
                f"rule {number}: if a member of its groups requests the round, too few others are left to approve; "
                "list more members, require fewer in `approvers`, or remove `notRequester`."
            )


def _of_group(name: GroupName, group: Group) -> Iterator[str]:
    if not group.members and not group.roles:
        yield f"Group {name!r} has neither members nor roles; list at least one."
    for place, member in enumerate(group.members):
        if any(same_id(member, other) for other in group.members[:place]):
            yield f"Group {name!r} lists {member!r} twice, since case and extra spaces do not count; remove one."


def _of_rule(policy: Policy, number: int, rule: Rule) -> Iterator[str]:
    if rule.decision != "approve":
        yield from _means_nothing(number, rule, _DONE[rule.decision])
        return
    unknown = list(_unknown(policy, f"Rule {number}: `from`", rule.from_))
    yield from unknown
    people = _people(policy, rule.from_)
    if not unknown and 0 < people < rule.approvers:
        count = "1 member" if people == 1 else f"{people} members"
        yield (
            f"Rule {number} needs {rule.approvers} approvals, but the groups in `from` have only {count} and no roles; "
            "list more, or require fewer in `approvers`."
        )
    if rule.escalate is not None:
        yield from _of_escalation(policy, number, rule, rule.escalate)


def _of_escalation(policy: Policy, number: int, rule: Rule, escalate: Escalation) -> Iterator[str]:
    yield from _unknown(policy, f"Rule {number}: `escalate.to`", escalate.to)
    if not rule.from_:
        yield (
            f"Rule {number} lets anyone approve, so it has no one to escalate to; name groups in `from`, or remove "
            "`escalate`."
        )
    if rule.expires and milliseconds(rule.expires) <= milliseconds(escalate.after):
        yield (
            f"Rule {number} escalates after {escalate.after}, but its approvals expire after {rule.expires}; "
            "lengthen `expires`, or shorten `escalate.after`."
        )


def _means_nothing(number: int, rule: Rule, decides: str) -> Iterator[str]:
    """Yield a sentence for each field that only a rule which asks for approvals can have."""
    for field in _ONLY_FOR_APPROVALS:
        if getattr(rule, field) != Rule.model_fields[field].default:
            alias = Rule.model_fields[field].alias or field
            yield (
                f"Rule {number} {decides} its actions, so no one approves them and `{alias}` has no effect; remove it, "
                "or set `decision` to 'approve'."
            )


def _never_applies(earlier: Sequence[Rule], number: int, rule: Rule) -> Iterator[str]:
    for before, other in enumerate(earlier, start=1):
        covers_types = not other.task_types or (rule.task_types and {*rule.task_types} <= {*other.task_types})
        if covers_types and all(is_within(pattern, other.actions) for pattern in rule.actions):
            yield (
                f"Rule {number} can never apply: rule {before} comes first and matches all its actions; move it "
                f"before rule {before}, or remove it."
            )
            return


def _of_actor_quota(policy: Policy, number: int, quota: ActorQuota) -> Iterator[str]:
    place = f"`perActor` {number}"
    yield from _unknown(policy, f"{place}: `groups`", quota.groups)
    if quota.limits_nothing:
        yield f"{place} limits nothing; set {_LIMITS}, or remove it."
    yield from _of_money(place, quota)
    for before, other in enumerate(policy.per_actor[: number - 1], start=1):
        if not other.groups or (quota.groups and {*quota.groups} <= {*other.groups}):
            yield _covered("perActor", number, before, "its actors")
            return


def _of_source_quota(policy: Policy, number: int, quota: SourceQuota) -> Iterator[str]:
    if quota.limits_nothing and quota.weight == 1:
        yield f"`perSource` {number} has no effect; set {_LIMITS} or `weight`, or remove it."
    yield from _of_money(f"`perSource` {number}", quota)
    for source in quota.sources:
        if "*" in source[:-1]:
            end = source[: source.index("*") + 1]
            yield f"`perSource` {number}: in {source!r} the `*` is not at the end; end the pattern there: {end!r}."
    for before, other in enumerate(policy.per_source[: number - 1], start=1):
        if not other.sources or "*" in other.sources or (quota.sources and all(map(other.covers, quota.sources))):
            yield _covered("perSource", number, before, "its sources")
            return


def _of_money(place: str, quota: Quota) -> Iterator[str]:
    if quota.cost_nano_usd_per_day == 0:
        yield f"{place}: `costUsdPerDay` is 0, so no round would ever be opened; set a larger amount, or remove it."


def _covered(field: str, number: int, before: int, what: str) -> str:
    return (
        f"`{field}` {number} can never apply: `{field}` {before} comes first and covers all {what}; move it before "
        f"`{field}` {before}, or remove it."
    )


def _unknown(policy: Policy, place: str, names: Collection[GroupName]) -> Iterator[str]:
    for name in names:
        if name not in policy.groups:
            known = ", ".join(sorted(policy.groups)) or "none"
            yield f"{place} names the group {name!r}, which `groups` does not define; it defines {known}."


def _people(policy: Policy, names: Collection[GroupName]) -> int:
    """Count the different actors that are members; any number may hold a role."""
    people = list[str]()
    groups = [policy.groups.get(name, Group()) for name in names]
    for group in groups:
        people += [member for member in group.members if not any(same_id(member, other) for other in people)]
    return MAX_APPROVERS if any(group.roles for group in groups) else len(people)


Place = tuple[int | str, ...]
"""Where in a policy something is, as pydantic counts: from 0."""

_REQUIRED: Final[Mapping[str, str]] = {
    "apply": "name the groups that may apply the next policy",
    "groups": "list the members of each group that the policy names",
    "actions": 'list patterns of actions, such as ["web.*"]',
    "decision": "write 'allow', 'deny' or 'approve'",
    "after": 'write a duration, such as "4h"',
    "to": "name the groups that may answer, too",
}
_EXAMPLES: Final[Mapping[str, str]] = {
    "apply": ', such as ["owners"]',
    "from": ', such as ["risk"]',
    "to": ', such as ["heads"]',
    "actions": ', such as ["web.*"]',
    "taskTypes": ', such as ["report"]',
    "members": ', such as ["ada"]',
    "roles": ', such as ["auditor"]',
    "rules": ": in TOML, begin each rule with `[[rules]]`",
    "perActor": ": in TOML, begin each quota with `[[perActor]]`",
    "perSource": ": in TOML, begin each quota with `[[perSource]]`",
    "sources": ', such as ["https://portal.example/*"]',
    "expires": ' such as "7d"',
    "after": ' such as "4h"',
}
_WRONG_KINDS: Final = {"string_type", "tuple_type", "list_type"}


def form_problems(error: ValidationError | RecursionError) -> str:
    """Describe what is wrong with the form of a policy in one sentence that its author can act on."""
    return explain(error, _form_problem)


def _form_problem(problem: ErrorDetails) -> str:
    place, kind = problem["loc"], problem["type"]
    field = str(place[-1]) if place else ""
    words = _of_kind(kind, place, field) or _OF_FIELDS.get(field)
    if words is not None:
        return f"{_in_words(place)} {words}"
    words = worded((_in_words(place),), kind, problem.get("ctx", {})) or problem_in_words(problem)
    return words + (_EXAMPLES.get(field, "") if kind in _WRONG_KINDS else "")


_DOLLARS: Final = 'must be an amount from 0 to 9999.999999999 US dollars, such as "0.50"'
_OF_FIELDS: Final[Mapping[str, str]] = {
    "[key]": "must be lower-case letters, digits, `-` and `_`, beginning with a letter",
    "costUsdPerDay": _DOLLARS,
    "costUsd": _DOLLARS,
}
"""What these must be, regardless of what is wrong with them."""


def _of_kind(kind: str, place: Place, field: str) -> str | None:
    match kind:
        case "json_invalid":
            return "is nested too deeply, or a text in it is not Unicode"
        case "missing":
            return f"is missing: {_REQUIRED[field]}"
        case "extra_forbidden":
            return f"is not a known field: there are {_fields(place[:-1])}"
        case "model_type" | "dict_type":
            fields = _fields(place)
            return "must be a table (in JSON, an object)" + (f" with {fields}" if fields else "")
        case _:
            return None


def _in_words(place: Place) -> str:
    """Return where something is, as `problems` counts: from 1."""
    match place:
        case ():
            return "the policy"
        case ("groups", str(name), "[key]"):
            return f"the name of group {name!r}"
        case ("groups", str(name), *rest):
            return " of ".join([*_inner(rest), f"group {name!r}"])
        case ("rules", int(index), *rest):
            return " of ".join([*_inner(rest), f"rule {index + 1}"])
        case ("perActor" | "perSource" as field, int(index), *rest):
            return " of ".join([*_inner(rest), f"`{field}` {index + 1}"])
        case _:
            return " of ".join(_inner(place))


def _inner(rest: Sequence[int | str]) -> Iterator[str]:
    yield from (f"entry {part + 1}" for part in rest if isinstance(part, int))
    fields = [part for part in rest if isinstance(part, str)]
    if fields:
        yield f"`{'.'.join(fields)}`"


def _fields(place: Place) -> str:
    """Return the names of the fields that there may be at this place."""
    model: type[Model] | None = None
    match place:
        case ():
            model = Policy
        case ("groups", str()):
            model = Group
        case ("rules", int()):
            model = Rule
        case ("perActor", int()):
            model = ActorQuota
        case ("perSource", int()):
            model = SourceQuota
        case ("rules", int(), "escalate"):
            model = Escalation
        case ("limits",):
            model = WorkflowLimits
        case ("limits", "grants"):
            model = Grants
    return ", ".join(field.alias or name for name, field in model.model_fields.items()) if model else ""
