"""A policy and its terms in words, for every front end; ids are those of senders, so a front end escapes the result."""

import json
from collections.abc import Iterator, Sequence
from typing import Final

from poweron_events.actor import Actor
from poweron_events.policy import AnswerTerms, Group, GroupName, Policy, Quota, Rule
from poweron_services.text.count_words import counted

MARKS: Final = {"allow": "allowed", "deny": "denied"}
MEMBERS: Final = 8  # of a group that are shown to people who may answer


def example_policy(actor: Actor) -> str:
    """Return a policy (TOML) with which actions on the web wait for an approval; `actor` may apply the next one."""
    member = json.dumps(actor.id, ensure_ascii=False)
    return f"""\
apply = ["owners"]
otherwise = "allow"

[groups.owners]
members = [{member}]

[[rules]]
actions = ["web.*"]
decision = "approve"
"""


def rule_in_words(written: Policy, rule: Rule) -> str:
    """Say what a rule decides about which actions."""
    kinds = f" in tasks of type {', '.join(rule.task_types)}" if rule.task_types else ""
    return f"{', '.join(rule.actions)}{kinds}: {decision_in_words(written, rule)}"


def decision_in_words(written: Policy, rule: Rule) -> str:
    """Say what a rule decides."""
    if rule.decision != "approve":
        return MARKS[rule.decision]
    people = groups_in_words(written, rule.from_) if rule.from_ else "anyone"
    words = [f"{counted(rule.approvers, 'approval')} by {people}"]
    if rule.not_requester:
        words.append("not by the requester")
    if rule.expires:
        words.append(f"within {rule.expires}")
    if rule.escalate:
        words.append(f"after {rule.escalate.after} also by {groups_in_words(written, rule.escalate.to)}")
    return ", ".join(words)


def limits_in_words(written: Policy) -> Iterator[str]:
    """Yield what limits each workflow."""
    limits = written.limits
    amounts = [
        counted(limits.steps, "step") + " for each attempt" if limits.steps else "",
        counted(limits.tokens, "token") if limits.tokens else "",
        f"${limits.cost_usd}" if limits.cost_usd else "",
    ]
    if any(amounts):
        yield f"a workflow may use at most {', '.join(filter(None, amounts))}"
    if limits.on_budget == "ask":
        by = groups_in_words(written, limits.grants.from_) if limits.grants and limits.grants.from_ else "anyone"
        but = ", not by the requester" if limits.grants and limits.grants.not_requester else ""
        yield f"a round whose budget has no room asks for more; it may be granted by {by}{but}"


def quotas_in_words(written: Policy) -> Iterator[str]:
    """Yield what limits all workflows of an actor or a source together."""
    for of_actors in written.per_actor:
        which = f" in {groups_in_words(written, of_actors.groups)}" if of_actors.groups else ""
        yield f"each actor{which}: {_amounts(of_actors)}"
    for of_sources in written.per_source:
        which = f" {' or '.join(of_sources.sources)}" if of_sources.sources else ""
        turns = "" if of_sources.weight == 1 else f"takes {of_sources.weight} turns at a time"
        yield f"each source{which}: {'; '.join(filter(None, (_amounts(of_sources), turns)))}"


def _amounts(quota: Quota) -> str:
    amounts = [
        counted(quota.open_workflows, "open workflow") if quota.open_workflows else "",
        counted(quota.starts_per_day, "round") + " a day" if quota.starts_per_day else "",
        counted(quota.tokens_per_day, "token") + " a day" if quota.tokens_per_day else "",
        f"${quota.cost_usd_per_day} a day" if quota.cost_usd_per_day else "",
    ]
    return "" if quota.limits_nothing else f"at most {', '.join(filter(None, amounts))}"


def groups_in_words(written: Policy, names: Sequence[GroupName]) -> str:
    """Name groups with their members."""
    return " or ".join(f"{name} ({_members(written.groups.get(name, Group()))})" for name in names)


def who_answers(terms: AnswerTerms) -> str:
    """Say who may answer, and who has."""
    named = (f"{name} ({_members(group, MEMBERS)})" for name, group in terms.answerers.items())
    number = f"{terms.approvers} of " if terms.approvers > 1 else ""
    words = [f"{number}{' or '.join(named) or 'anyone'}"]
    if terms.not_requester and terms.requester:
        words.append(f"not {terms.requester.id}, who requested it")
    if terms.proposed_by:
        words.append(f"not {terms.proposed_by.id}, who changed the parameters")
    if terms.approved_by:
        words.append(f"approved by {', '.join(actor.id for actor in terms.approved_by)}")
    return "; ".join(words)


def _members(group: Group, most: int | None = None) -> str:
    names = [*group.members, *(f"role {role}" for role in group.roles)]
    shown = ", ".join(names[:most]) + (", …" if most is not None and len(names) > most else "")
    return f"verified: {shown}" if group.verified else shown


def decision_of_rule(policy: Policy, number: int | None) -> str:
    """Say what a rule of the policy decides, and which it is; None is what holds otherwise."""
    rule = Rule(actions=("*",), decision=policy.otherwise) if number is None else policy.rules[number - 1]
    return f"{decision_in_words(policy, rule)} ({'otherwise' if number is None else f'rule {number}'})"
