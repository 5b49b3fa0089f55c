"""What is wrong with a policy of the right form: unknown groups, rules that never apply, no way to replace it."""

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from poweron_events.codec import dumps
from poweron_events.policy import MAX_POLICY, Group, GroupName, Policy, Rule, milliseconds, same_id
from poweron_services.decider.approval import is_within

_ONLY_FOR_APPROVALS: Final = ("approvers", "from_", "not_requester", "expires", "escalate")


def problems(policy: Policy) -> Iterator[str]:
    """Yield a sentence for each problem; a policy with any of them is not applied."""
    for name, group in policy.groups.items():
        yield from _of_group(name, group)
    yield from _unknown(policy, "apply", policy.apply)
    if policy.limits.grants:
        yield from _unknown(policy, "limits.grants.from", policy.limits.grants.from_)
        yield from _without_people(policy, "limits.grants.from", policy.limits.grants.from_)
    for number, rule in enumerate(policy.rules, start=1):
        yield from _of_rule(policy, number, rule)
        yield from _never_applies(policy.rules[: number - 1], number, rule)
    if not _people(policy, policy.apply):
        yield (
            "No one could apply the next policy: the groups in `apply` list no actor that counts without verification, "
            "and no door verifies actors yet."
        )
    size = len(dumps(policy.model_dump(mode="json", by_alias=True)))
    if size > MAX_POLICY:
        yield f"The policy takes {size:,} bytes as JSON; rounds carry its rules, so it may take {MAX_POLICY:,}."


def _of_group(name: GroupName, group: Group) -> Iterator[str]:
    if not group.members and not group.roles:
        yield f"Group {name!r} has neither members nor roles."
    for place, member in enumerate(group.members):
        if any(same_id(member, other) for other in group.members[:place]):
            yield f"Group {name!r} lists {member!r} twice."


def _of_rule(policy: Policy, number: int, rule: Rule) -> Iterator[str]:
    if rule.decision != "approve":
        for field in _ONLY_FOR_APPROVALS:
            if field in rule.model_fields_set and getattr(rule, field) != Rule.model_fields[field].default:
                alias = Rule.model_fields[field].alias or field
                yield f"Rule {number} does not ask for approvals ({rule.decision}), so `{alias}` means nothing in it."
        return
    yield from _unknown(policy, f"rule {number}: from", rule.from_)
    people = _people(policy, rule.from_)
    if rule.from_ and people < rule.approvers:
        yield f"Rule {number} needs {rule.approvers} approvers, but its groups have {people} that count."
    if (escalate := rule.escalate) is None:
        return
    yield from _unknown(policy, f"rule {number}: escalate.to", escalate.to)
    yield from _without_people(policy, f"rule {number}: escalate.to", escalate.to)
    if not rule.from_:
        yield f"Rule {number} lets anyone approve, so it has no one to escalate to."
    if rule.expires and milliseconds(rule.expires) <= milliseconds(escalate.after):
        yield f"Rule {number} escalates after {escalate.after}, but its approvals expire after {rule.expires}."


def _never_applies(earlier: Sequence[Rule], number: int, rule: Rule) -> Iterator[str]:
    for before, other in enumerate(earlier, start=1):
        covers_types = not other.task_types or (rule.task_types and {*rule.task_types} <= {*other.task_types})
        if covers_types and all(is_within(pattern, other.actions) for pattern in rule.actions):
            yield f"Rule {number} can never apply: rule {before} comes first and matches all its actions."
            return


def _unknown(policy: Policy, place: str, names: Collection[GroupName]) -> Iterator[str]:
    for name in names:
        if name not in policy.groups:
            known = ", ".join(sorted(policy.groups)) or "none"
            yield f"{place}: there is no group {name!r}; there are {known}."


def _without_people(policy: Policy, place: str, names: Collection[GroupName]) -> Iterator[str]:
    if names and all(name in policy.groups for name in names) and not _people(policy, names):
        yield f"{place}: the groups list no actor that counts without verification, and no door verifies actors yet."


def _people(policy: Policy, names: Collection[GroupName]) -> int:
    """Count the different actors that are members without verification."""
    found = list[str]()
    for name in names:
        group = policy.groups.get(name, Group())
        members = () if group.verified else group.members
        found += [member for member in members if not any(same_id(member, other) for other in found)]
    return len(found)
