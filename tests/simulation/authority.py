"""The policies of the simulated world, and whose approvals count under each: written by hand, without the fold's rules.

Three are applied by those who may, one after another; strangers try to, too.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from simulation.ledger import key_of
from simulation.processes import MOST_SKEW_MS

from poweron_events.actor import Actor
from poweron_events.envelope import Recorded
from poweron_events.policy import ActorQuota, Escalation, Grants, Group, Policy, Rule, SourceQuota
from poweron_events.request import CancellationRequested, PolicyApplied, RoundRequested, RulesChanged, WorkflowRequested
from poweron_events.round_events import BudgetGranted
from poweron_events.step_events import (
    ActionStarted,
    ApprovalEscalated,
    ApprovalGranted,
    ApprovalRequested,
    ParametersChanged,
)

PEOPLE: Final = ("ada", "bob", "dora", "eve", "mallory", "ADA", "bob ")
REQUESTERS: Final = ("ada", "bob", "zoe")
MAY_APPLY: Final = "carla"
FEW: Final = 2
"""Rounds that an actor may start each day under the policy of that name."""
DAY_MS: Final = 5_000
"""How long the days of a world are."""
GROUPS: Final = {
    "admins": Group(members=(MAY_APPLY,)),
    "risk": Group(members=("ada", "bob", "dora")),
    "heads": Group(members=("eve",)),
}


def _policy(name: str, *rules: Rule, grants: Grants | None = None, **quotas: Any) -> Policy:
    given = (*rules, Rule(actions=("*",), decision="allow"))
    limits = {"grants": grants} if grants else {}
    return Policy(name=name, apply=("admins",), groups=GROUPS, rules=given, limits=limits, **quotas)


_TWO = Rule(
    actions=("test.once",),
    decision="approve",
    approvers=2,
    from_=("risk",),
    not_requester=True,
    expires="2s",
    escalate=Escalation(after="1s", to=("heads",)),
)
POLICIES: Final[Mapping[str, Policy]] = {
    "two": _policy("two", _TWO),
    "one": _policy(
        "one",
        Rule(actions=("test.once", "test.pure"), decision="approve", from_=("risk", "heads"), expires="1s"),
        grants=Grants(from_=("heads",)),
    ),
    "none": _policy("none", Rule(actions=("test.once",), decision="deny")),
    "few": _policy(
        "few",
        per_actor=(ActorQuota(starts_per_day=FEW, tokens_per_day=6_000),),
        per_source=(SourceQuota(open_workflows=2, weight=2),),
    ),
}


class Needs(NamedTuple):
    """What an action needs under a policy: this many approvals, by whom, not by the requester; or never."""

    approvals: int = 0
    by: frozenset[str] = frozenset()
    not_requester: bool = False
    later_also_by: frozenset[str] = frozenset()
    denied: bool = False


_RISK = frozenset({"ada", "bob", "dora"})
NOTHING: Final = Needs()
NEEDS: Final[Mapping[tuple[str, str], Needs]] = {
    ("two", "test.once"): Needs(2, _RISK, not_requester=True, later_also_by=frozenset({"eve"})),
    ("one", "test.once"): Needs(1, _RISK | {"eve"}),
    ("one", "test.pure"): Needs(1, _RISK | {"eve"}),
    ("none", "test.once"): Needs(denied=True),
}


class _Answers:
    """The answers about the action of one step."""

    def __init__(self) -> None:
        self.by: set[str] = set()
        self.escalated = self.granted = False
        self.proposer: str | None = None
        self.claimed_under: str | None = None


class Authority:
    """Takes in every accepted event and flags what its policy does not let its actor do."""

    def __init__(self, flag: Callable[..., None], seen: Callable[[str], None]) -> None:
        self._flag, self._seen = flag, seen
        self._name_of: dict[str, str] = {}  # by SHA-256
        self._newest: str | None = None
        self._under: dict[str, str | None] = {}
        self._requester: dict[str, str] = {}
        self._action: dict[str, str] = {}
        self._answers: dict[str, _Answers] = defaultdict(_Answers)
        self._started: dict[tuple[str, int, str], set[str]] = defaultdict(set)  # by process, day and actor
        self._opening: dict[str, tuple[int, tuple[str, int, str]]] = {}  # by workflow

    def over_quota(self) -> Iterator[tuple[tuple[str, int, str], int]]:
        """Yield the processes that opened more rounds for an actor in a day than the policy allows."""
        yield from ((key, len(started)) for key, started in self._started.items() if len(started) > FEW)

    def take(self, recorded: Recorded) -> None:
        """Take in an event that was accepted."""
        id_, event = recorded.envelope.workflow_id, recorded.envelope.event
        match event:
            case PolicyApplied():
                self._applied(event)
            case WorkflowRequested() | RoundRequested():
                self._opened(recorded, id_, event)
            case CancellationRequested() if id_ in self._opening:
                offset, opener = self._opening[id_]
                if recorded.offset == offset + 1:  # it was opened only to be cancelled, which needs no room
                    self._started[opener].discard(f"{id_} {event.round}")
            case RulesChanged():
                self._under[id_] = self._name_of[event.policy.sha256]
                self._seen("rules changed")
            case BudgetGranted() if self._under.get(id_) == "one":
                self._seen("budget granted under a policy")
                if _plain(event.actor) != "eve":
                    self._flag("WRONG_APPROVER", id_, "grants", event.actor)
            case ApprovalRequested():
                self._action[key_of(recorded)] = event.action
                self._answers[key_of(recorded)] = _Answers()
            case ApprovalEscalated():
                self._seen("approval escalated")
                self._answers[key_of(recorded)].escalated = True
            case ParametersChanged() | ApprovalGranted():
                self._answered(id_, key_of(recorded), event)
            case ActionStarted():
                self._answers[key_of(recorded)].claimed_under = self._under.get(id_)

    def may_run(self, id_: str, key: str, action: str) -> bool:
        """Return whether the action may have its effect, by the rules of now or of when it was claimed."""
        answers = self._answers[key]
        return any(self._permits(name, action, answers) for name in (self._under.get(id_), answers.claimed_under))

    def _permits(self, name: str | None, action: str, answers: _Answers) -> bool:
        needs = NEEDS.get((name or "", action), NOTHING)
        return not needs.denied and (not needs.approvals or answers.granted)

    def _opened(self, recorded: Recorded, id_: str, event: WorkflowRequested | RoundRequested) -> None:
        self._under[id_] = event.policy and self._name_of[event.policy.sha256]
        self._requester[id_] = event.actor.id if event.actor else ""
        if self._under[id_] == "few" and not _is_near_midnight(recorded):
            self._seen("opened under a quota")
            self._opening[id_] = recorded.offset, _opener(recorded, event)
            self._started[_opener(recorded, event)].add(f"{id_} {event.round}")

    def _applied(self, event: PolicyApplied) -> None:
        self._seen("policy applied")
        if self._newest is not None and _plain(event.actor) != MAY_APPLY:
            self._flag("WRONG_APPROVER", "applies", event.actor)
        self._newest = self._name_of[event.sha256] = event.policy.name

    def _answered(self, id_: str, key: str, event: ParametersChanged | ApprovalGranted) -> None:
        who, answers = _plain(event.actor), self._answers[key]
        needs = NEEDS.get((self._under.get(id_) or "", self._action[key]), NOTHING)
        may = needs.by | (needs.later_also_by if answers.escalated else frozenset())
        is_requester = needs.not_requester and who == self._requester[id_]
        if may and (who not in may or is_requester):
            self._flag("WRONG_APPROVER", id_, "answers", event.actor, self._under.get(id_))
        if isinstance(event, ParametersChanged):
            self._seen("parameters changed")
            answers.by, answers.proposer = set(), who
            return
        if who == answers.proposer or (needs.approvals > 1 and who in answers.by):
            self._flag("WRONG_APPROVER", id_, "answers again", event.actor)
        answers.by.add(who)
        answers.granted = answers.granted or len(answers.by) >= max(1, needs.approvals)
        self._seen("four eyes" if needs.approvals > 1 and answers.granted else "one approval")


def _is_near_midnight(recorded: Recorded) -> bool:
    """Return whether it may be the next day already by the clock of some process."""
    return DAY_MS - recorded.time_ms % DAY_MS <= MOST_SKEW_MS


def _opener(recorded: Recorded, event: WorkflowRequested | RoundRequested) -> tuple[str, int, str]:
    """The process that opened a round, the day by the broker's clock, and the actor."""
    return recorded.envelope.source, recorded.time_ms // DAY_MS, _plain(event.actor)


def _plain(actor: Actor | None) -> str:
    return "" if actor is None else actor.id.strip().lower()
