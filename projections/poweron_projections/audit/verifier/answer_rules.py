"""Whose answers count: the rules of a policy as plain data, judged a second time for auditors."""

import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

_UNITS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}  # milliseconds

Actor = Mapping[str, Any]
Groups = Mapping[str, Mapping[str, Any]]


class AnswerRules(NamedTuple):
    """Who may answer a question to people, and who has answered it."""

    approvers: int
    groups: Groups
    not_requester: bool
    requester: Actor | None
    escalation: Groups = {}
    escalated: bool = False
    approved_by: tuple[Actor, ...] = ()
    proposed_by: Actor | None = None

    @property
    def missing(self) -> int:
        """The number of approvals that are still needed."""
        return max(0, self.approvers - len(self.approved_by))

    def counts(self, actor: Actor | None, decision: str) -> bool:
        """Return whether an answer of this actor counts: to approve, deny or change."""
        if decision == "deny" and is_same(actor, self.requester):
            return True
        if not self._is_answerer(actor):
            return False
        if decision == "deny" or actor is None:
            return True
        if self.not_requester and is_same(actor, self.requester):
            return False
        if decision == "change":
            return True
        repeats = self.missing > 0 and any(is_same(actor, earlier) for earlier in self.approved_by)
        return not (is_same(actor, self.proposed_by) or repeats)

    def keeps(self, actor: Actor) -> bool:
        """Return whether an approval that the actor has given counts under these rules."""
        return self.counts(actor, "change") and not is_same(actor, self.proposed_by)

    def _is_answerer(self, actor: Actor | None) -> bool:
        if actor is None:
            return not (self.groups or self.not_requester or self.approvers > 1 or self.proposed_by)
        answerers = {**self.groups, **(self.escalation if self.escalated else {})} if self.groups else {}
        return not self.groups or is_member(actor, answerers.values())


def is_member(actor: Actor, groups: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether the actor belongs to one of the groups."""
    return any(_belongs(actor, group) for group in groups)


def named_groups(groups: Groups, names: Iterable[str]) -> Groups:
    """Return the groups of these names; one that is not there has no members."""
    return {name: groups.get(name, {}) for name in names}


def is_same(actor: Actor | None, other: Actor | None) -> bool:
    """Return whether two actors are the same: case, spaces, widths and invisible characters do not count."""
    return actor is not None and other is not None and _plain(actor["id"]) == _plain(other["id"])


def milliseconds_of(duration: str) -> int:
    """Return a duration such as `4h` in ms."""
    return int(duration[:-1]) * _UNITS[duration[-1]]


def rule_for(policy: Mapping[str, Any], action: str, task_type: str) -> Mapping[str, Any]:
    """Return the rule that decides about an action."""
    for rule in policy.get("rules", ()):
        if _matches(action, rule["actions"]) and task_type in rule.get("taskTypes", (task_type,)):
            found: Mapping[str, Any] = rule
            return found
    return {"decision": policy.get("otherwise", "deny")}


def _belongs(actor: Actor, group: Mapping[str, Any]) -> bool:
    is_verified = actor.get("verified", False)
    if group.get("verified", False) and not is_verified:
        return False
    if any(_plain(member) == _plain(actor["id"]) for member in group.get("members", ())):
        return True
    return is_verified and not set(group.get("roles", ())).isdisjoint(actor.get("roles", ()))


def _plain(name: str) -> str:
    visible = "".join(character for character in name if unicodedata.category(character) != "Cf")
    return " ".join(unicodedata.normalize("NFKC", visible).casefold().split())


def _matches(action: str, patterns: Iterable[str]) -> bool:
    method = action.partition(".")[0]
    return not {action, method, f"{method}.*", "*"}.isdisjoint(patterns)
