"""The policy: which actions are allowed, denied or need an approval, from whom, and within which limits.

A policy is data in an event. All functions are pure: the fold, intake and every reader answer alike.
Unless a door verified them, actors are what clients claim (docs/security.md).
"""

import unicodedata
from collections.abc import Collection, Iterable, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Annotated, Final, Literal, NamedTuple

from pydantic import Field

from poweron_events.actor import Actor
from poweron_events.event import NANO, ActionPattern, FreeText, Model, Sha256, TaskType, is_empty, is_none, matches

MAX_RULES: Final = 100
MAX_GROUPS: Final = 50
MAX_MEMBERS: Final = 200
MAX_APPROVERS: Final = 10
MAX_QUOTAS: Final = 50
MAX_POLICY: Final = 16_000  # bytes as JSON: every opening under it has to hold its rules

_LINE: Final = r"^[^\x00-\x1f\x7f]*$"
_ACTOR_ID: Final = r"^[^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f][^\x00-\x1f\x7f]*$"
_GROUP_NAME: Final = r"^[a-z][a-z0-9_-]{0,63}$"
_US_DOLLARS: Final = r"^[0-9]{1,4}(\.[0-9]{1,9})?$"
_DURATION: Final = r"^[1-9][0-9]{0,3}[smhd]$"
PATTERNS_IN_WORDS: Final[Mapping[str, str]] = {
    _GROUP_NAME: "must be the name of a group: lower-case letters, digits, `-` and `_`",
    _LINE: "must be one line without control characters",
    _ACTOR_ID: "must be a name on one line, without control characters",
    _US_DOLLARS: 'must be an amount in US dollars as text, such as "0.50"',
    _DURATION: "must be a duration such as 30s, 15m, 4h or 7d",
}
"""What a text that does not match must be."""

GroupName = Annotated[str, Field(pattern=_GROUP_NAME)]
UsDollars = Annotated[str, Field(pattern=_US_DOLLARS)]
"""An amount in US dollars as text, such as `0.50`, so that no digit is lost."""
GroupNames = Annotated[tuple[GroupName, ...], Field(max_length=MAX_GROUPS)]
Duration = Annotated[str, Field(pattern=_DURATION)]
"""Seconds, minutes, hours or days: `30s`, `15m`, `4h`, `7d`."""

_UNITS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}  # milliseconds


def milliseconds(duration: Duration) -> int:
    """Return a duration in ms."""
    return int(duration[:-1]) * _UNITS[duration[-1]]


def same_id(left: str, right: str) -> bool:
    """Return whether two ids name the same actor."""
    return plain_id(left) == plain_id(right)


@lru_cache(maxsize=1_000)  # a check compares every member of a group with every other
def plain_id(name: str) -> str:
    """Return what all ids of an actor have in common: case, spaces, widths and invisible characters do not count."""
    visible = "".join(character for character in name if unicodedata.category(character) != "Cf")
    return " ".join(unicodedata.normalize("NFKC", visible).casefold().split())


class Group(Model):
    """Actors: the members, and the holders of the roles; a role counts only if a door verified the actor."""

    members: tuple[Annotated[FreeText, Field(min_length=1, max_length=255, pattern=_ACTOR_ID)], ...] = Field(
        default=(), max_length=MAX_MEMBERS
    )
    roles: tuple[Annotated[str, Field(min_length=1, max_length=100, pattern=_ACTOR_ID)], ...] = Field(
        default=(), max_length=20
    )
    verified: bool = False
    """Whether only actors that a door verified belong to it."""

    def has(self, actor: Actor) -> bool:
        """Return whether the actor belongs to the group."""
        if self.verified and not actor.verified:
            return False
        is_listed = any(same_id(member, actor.id) for member in self.members)
        return is_listed or (actor.verified and not set(self.roles).isdisjoint(actor.roles))


Groups = Annotated[dict[GroupName, Group], Field(max_length=MAX_GROUPS)]


def are_in(actor: Actor, groups: Iterable[Group]) -> bool:
    """Return whether the actor belongs to one of the groups."""
    return any(group.has(actor) for group in groups)


class Escalation(Model):
    """The groups that may answer, too, once an approval has waited for this time."""

    after: Duration
    to: GroupNames = Field(min_length=1)


class Rule(Model):
    """What applies to the actions that match, in tasks of these types; without types, in all tasks."""

    actions: tuple[ActionPattern, ...] = Field(min_length=1, max_length=100)
    task_types: tuple[TaskType, ...] = Field(default=(), exclude_if=is_empty)
    decision: Literal["allow", "deny", "approve"]
    approvers: int = Field(default=1, ge=1, le=MAX_APPROVERS, exclude_if=lambda number: number == 1)
    """How many people have to approve."""
    from_: GroupNames = Field(default=(), alias="from", exclude_if=is_empty)
    """The groups that may approve, deny or propose other parameters; anyone if there are none."""
    not_requester: bool = Field(default=False, exclude_if=is_empty)
    """Whether the actor who requested the round may not approve."""
    expires: Duration | None = Field(default=None, exclude_if=is_none)
    escalate: Escalation | None = Field(default=None, exclude_if=is_none)

    def applies(self, action: str, task_type: TaskType) -> bool:
        return matches(action, self.actions) and (not self.task_types or task_type in self.task_types)


class Grants(Model):
    """Who may grant a larger budget to a round that asks for one."""

    from_: GroupNames = Field(default=(), alias="from", exclude_if=is_empty)
    not_requester: bool = Field(default=False, exclude_if=is_empty)


class WorkflowLimits(Model):
    """The most that a workflow may use, even if its requests allow more, and whether it asks for more."""

    steps: int | None = Field(default=None, ge=1, le=100, exclude_if=is_none)
    """Steps of each attempt at a task."""
    tokens: int | None = Field(default=None, ge=1, le=2**31 - 1, exclude_if=is_none)
    cost_usd: UsDollars | None = Field(default=None, exclude_if=is_none)
    on_budget: Literal["ask", "stop"] = "stop"
    grants: Grants | None = Field(default=None, exclude_if=is_none)

    @property
    def cost_nano_usd(self) -> int | None:
        return _nano_usd(self.cost_usd)


def _nano_usd(amount: UsDollars | None) -> int | None:
    return None if amount is None else int(Decimal(amount) * NANO)


class Quota(Model):
    """The most that an actor or a source may use with all its workflows together. Days are those of UTC."""

    starts_per_day: int | None = Field(default=None, ge=1, le=2**31 - 1, exclude_if=is_none)
    """Rounds that are opened."""
    open_workflows: int | None = Field(default=None, ge=1, le=2**31 - 1, exclude_if=is_none)
    """Workflows with an open round that is not paused and does not wait for a person."""
    tokens_per_day: int | None = Field(default=None, ge=1, le=2**53, exclude_if=is_none)
    cost_usd_per_day: UsDollars | None = Field(default=None, exclude_if=is_none)

    @property
    def cost_nano_usd_per_day(self) -> int | None:
        return _nano_usd(self.cost_usd_per_day)

    @property
    def limits_calls(self) -> bool:
        """Whether it limits tokens or money, and so each call of a model."""
        return self.tokens_per_day is not None or self.cost_usd_per_day is not None

    @property
    def limits_nothing(self) -> bool:
        return not self.limits_calls and self.starts_per_day is None and self.open_workflows is None


class ActorQuota(Quota):
    """The quota of each member of these groups; without groups, of each actor."""

    groups: GroupNames = Field(default=(), exclude_if=is_empty)


class SourceQuota(Quota):
    """The quota and the weight of each of these sources of requests; without sources, of each source."""

    sources: tuple[Annotated[str, Field(min_length=1, max_length=255, pattern=_LINE)], ...] = Field(
        default=(), max_length=100, exclude_if=is_empty
    )
    """CloudEvent sources; a `*` at the end stands for any rest."""
    weight: int = Field(default=1, ge=1, le=100, exclude_if=lambda number: number == 1)
    """How many turns a source takes for each turn of a source with weight 1, while several wait."""

    def covers(self, source: str) -> bool:
        """Return whether this is the quota of the source, unless an earlier one is."""
        return not self.sources or any(
            source.startswith(name[:-1]) if name.endswith("*") else source == name for name in self.sources
        )


PerActor = Annotated[tuple[ActorQuota, ...], Field(max_length=MAX_QUOTAS)]
PerSource = Annotated[tuple[SourceQuota, ...], Field(max_length=MAX_QUOTAS)]


class Policy(Model):
    """A policy as its authors write it. The first rule that matches an action decides."""

    name: FreeText = Field(default="", max_length=100, pattern=_LINE)
    apply: GroupNames = Field(min_length=1)
    """The groups that may apply the next policy."""
    groups: Groups
    rules: tuple[Rule, ...] = Field(default=(), max_length=MAX_RULES)
    otherwise: Literal["allow", "deny"] = "deny"
    """What applies to actions that no rule matches."""
    limits: WorkflowLimits = WorkflowLimits()
    per_actor: PerActor = Field(default=(), exclude_if=is_empty)
    """The first that covers an actor is the quota of that actor."""
    per_source: PerSource = Field(default=(), exclude_if=is_empty)
    """The first that covers a source is the quota of that source."""

    def may_apply(self, actor: Actor) -> bool:
        """Return whether the actor may apply the policy that follows this one."""
        return are_in(actor, (self.groups.get(name, Group()) for name in self.apply))

    @property
    def first_cost_field(self) -> str | None:
        """The first field that limits money, which needs prices; None if there is none."""
        if self.limits.cost_usd is not None:
            return "limits.costUsd"
        if any(quota.cost_usd_per_day is not None for quota in self.per_actor):
            return "perActor.costUsdPerDay"
        if any(quota.cost_usd_per_day is not None for quota in self.per_source):
            return "perSource.costUsdPerDay"
        return None

    def source_quota(self, source: str) -> SourceQuota:
        """Return the quota of a source; it limits nothing if none covers the source."""
        return _source_quota(self.per_source, source)

    def terms(self, number: int, sha256: str) -> "PolicyTerms":
        """Return what a round under this policy carries."""
        grants = self.limits.grants
        named = {name for rule in self.rules for name in (*rule.from_, *(rule.escalate.to if rule.escalate else ()))}
        named |= set(grants.from_ if grants else ())
        named |= {name for quota in self.per_actor for name in quota.groups}
        groups = {name: self.groups.get(name, Group()) for name in sorted(named)}
        return PolicyTerms(
            number=number,
            sha256=sha256,
            groups=groups,
            rules=self.rules,
            otherwise=self.otherwise,
            limits=self.limits,
            per_actor=self.per_actor,
            per_source=self.per_source,
        )


class PolicyTerms(Model):
    """The rules and quotas that a round carries: those of the policy at its opening, or of one applied to it later."""

    number: int = Field(ge=1, le=2**31 - 1)
    """The number of the policy, counted from 1."""
    sha256: Sha256
    groups: Groups = {}
    rules: tuple[Rule, ...] = Field(default=(), max_length=MAX_RULES)
    otherwise: Literal["allow", "deny"] = "deny"
    limits: WorkflowLimits = WorkflowLimits()
    per_actor: PerActor = Field(default=(), exclude_if=is_empty)
    per_source: PerSource = Field(default=(), exclude_if=is_empty)

    def rule(self, action: str, task_type: TaskType) -> Rule:
        """Return the rule that decides about an action."""
        matching = (rule for rule in self.rules if rule.applies(action, task_type))
        return next(matching, Rule(actions=("*",), decision=self.otherwise))

    def named(self, names: Collection[GroupName]) -> dict[GroupName, Group]:
        """Return the groups of these names."""
        return {name: self.groups.get(name, Group()) for name in names}

    @property
    def limits_calls(self) -> bool:
        """Whether any quota limits tokens or money."""
        return any(quota.limits_calls for quota in (*self.per_actor, *self.per_source))

    def actor_quota(self, actor: Actor) -> ActorQuota:
        """Return the quota of an actor; it limits nothing if none covers the actor."""
        covering = (
            quota for quota in self.per_actor if not quota.groups or are_in(actor, self.named(quota.groups).values())
        )
        return next(covering, ActorQuota())

    def source_quota(self, source: str) -> SourceQuota:
        """Return the quota of a source; it limits nothing if none covers the source."""
        return _source_quota(self.per_source, source)


def _source_quota(quotas: Iterable[SourceQuota], source: str) -> SourceQuota:
    return next((quota for quota in quotas if quota.covers(source)), SourceQuota())


class AppliedPolicy(NamedTuple):
    """A policy that was applied, with its number and its SHA-256."""

    number: int
    sha256: str
    policy: Policy

    @property
    def has_quotas(self) -> bool:
        """Whether it limits anyone across workflows; weights limit no one."""
        return any(not quota.limits_nothing for quota in (*self.policy.per_actor, *self.policy.per_source))

    @property
    def terms(self) -> PolicyTerms:
        """What a round under this policy carries."""
        return self.policy.terms(self.number, self.sha256)


ObjectionCode = Literal["not_an_approver", "own_request", "own_proposal", "answered_already"]


class Objection(NamedTuple):
    """Why an answer does not count."""

    code: ObjectionCode
    sentence: str


class AnswerTerms(Model):
    """Who may answer a question to people, and who has answered it."""

    approvers: int = Field(default=1, ge=1, le=MAX_APPROVERS)
    groups: Groups = {}
    """The groups that may answer; anyone if there are none."""
    not_requester: bool = False
    requester: Actor | None = None
    escalation: Groups = {}
    """The groups that may answer, too, once the question was escalated."""
    escalated: bool = False
    approved_by: tuple[Actor, ...] = ()
    proposed_by: Actor | None = None
    """Who changed the parameters that wait for approval."""

    @property
    def missing(self) -> int:
        """The number of approvals that are still needed."""
        return max(0, self.approvers - len(self.approved_by))

    @property
    def answerers(self) -> Mapping[GroupName, Group]:
        return {**self.groups, **(self.escalation if self.escalated else {})} if self.groups else {}

    def objection(self, actor: Actor | None, decision: Literal["approve", "deny", "change"]) -> Objection | None:
        """Return why an answer of this actor does not count; None if it counts.

        The requester may always deny: cancelling has the same effect.
        """
        if decision == "deny" and _is(actor, self.requester):
            return None
        restriction = self._restriction(actor)
        if restriction is not None or decision == "deny" or actor is None:
            return restriction
        if self.not_requester and _is(actor, self.requester):
            return Objection("own_request", f"{actor.id} requested the round, so someone else has to approve.")
        return self._repetition(actor) if decision == "approve" else None

    def admits(self, actor: Actor) -> bool:
        """Return whether an approval that the actor has given counts under these terms."""
        return self.objection(actor, "change") is None and not _is(actor, self.proposed_by)

    def _repetition(self, actor: Actor) -> Objection | None:
        """Return an objection if the actor has approved already, or would approve a proposal of their own."""
        if _is(actor, self.proposed_by):
            return Objection("own_proposal", f"{actor.id} proposed these parameters; others have to approve them.")
        if self.missing and any(_is(actor, earlier) for earlier in self.approved_by):
            return Objection("answered_already", f"{actor.id} has approved already; someone else has to approve, too.")
        return None

    def _restriction(self, actor: Actor | None) -> Objection | None:
        """Return an objection if the actor is unknown where it matters, or in none of the groups."""
        if actor is None:
            counts = not (self.groups or self.not_requester or self.approvers > 1 or self.proposed_by)
            return None if counts else Objection("not_an_approver", "An answer without an actor does not count here.")
        if not self.groups or are_in(actor, self.answerers.values()):
            return None
        names = " or ".join(self.answerers)
        return Objection("not_an_approver", f"{actor.id} may not answer this; only members of {names} may.")


ANYONE: Final = AnswerTerms()
"""The terms of a question that anyone may answer."""


def _is(actor: Actor | None, other: Actor | None) -> bool:
    return actor is not None and other is not None and same_id(actor.id, other.id)
