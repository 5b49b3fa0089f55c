"""The policies of the simulated world, and whose approvals count under each: written by hand, without the fold's rules.

Three are applied by those who may, one after another; strangers try to, too.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf
from typing import Any, Final, NamedTuple, TypeVar

from simulation.ledger import key_of

from poweron_events.actor import Actor
from poweron_events.envelope import Recorded
from poweron_events.policy import ActorQuota, Escalation, Grants, Group, Policy, Rule, SourceQuota
from poweron_events.request import PolicyApplied, RoundRequested, RulesChanged, WorkflowRequested
from poweron_events.round_events import BudgetGranted, RoundCancelled
from poweron_events.step_events import (
    ApprovalDenied,
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

Value = TypeVar("Value")


class _Answers:
    """The answers about the action of one step."""

    def __init__(self) -> None:
        self.by: set[str] = set()
        self.escalated = False
        self.proposer: str | None = None
        self.granted: list[tuple[int, bool]] = []  # whether they are enough, from which offset on


class Authority:
    """Takes in every accepted event and flags what its policy does not let its actor do."""

    def __init__(self, flag: Callable[..., None], seen: Callable[[str], None]) -> None:
        self._flag, self._seen = flag, seen
        self._name_of: dict[str, str] = {}  # by SHA-256
        self._newest: str | None = None
        self._under: dict[str, list[tuple[int, str | None]]] = defaultdict(list)  # the policy, from which offset on
        self._requester: dict[str, str] = {}
        self._asked: dict[str, str] = {}  # by workflow, the key of the newest question
        self._action: dict[str, str] = {}
        self._answers: dict[str, _Answers] = defaultdict(_Answers)
        self._started: dict[tuple[str, int, str], set[str]] = defaultdict(set)  # by process, day and actor
        self._opener: dict[str, tuple[str, int, str]] = {}  # by workflow

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
            case RoundCancelled() if id_ in self._opener and not event.totals.steps:  # it does not count
                self._started[self._opener[id_]].discard(f"{id_} {event.round}")
            case RulesChanged():
                self._under[id_].append((recorded.offset, self._name_of[event.policy.sha256]))
                self._seen("rules changed")
                self._judge_again(id_, recorded.offset)
            case BudgetGranted() if event.request is not None and _newest(self._under[id_]) == "one":
                self._seen("budget granted under a policy")
                if _plain(event.actor) != "eve":
                    self._flag("WRONG_APPROVER", id_, "grants", event.actor)
            case ApprovalRequested():
                self._asked[id_] = key = key_of(recorded)
                self._action[key], self._answers[key] = event.action, _Answers()
            case ApprovalEscalated():
                self._seen("approval escalated")
                self._answers[key_of(recorded)].escalated = True
            case ParametersChanged() | ApprovalGranted():
                self._answered(id_, recorded, event)
            case ApprovalDenied():
                self._asked.pop(id_, None)  # new rules do not make up for it

    def may_run(self, id_: str, key: str, action: str, read: int) -> bool:
        """Return whether an action may have its effect if its process had read this far when the action began."""
        needs = NEEDS.get((_newest(self._under[id_], read) or "", action), NOTHING)
        return not needs.denied and (not needs.approvals or bool(_newest(self._answers[key].granted, read)))

    def _opened(self, recorded: Recorded, id_: str, event: WorkflowRequested | RoundRequested) -> None:
        self._under[id_].append((recorded.offset, event.policy and self._name_of[event.policy.sha256]))
        self._requester[id_] = event.actor.id if event.actor else ""
        if _newest(self._under[id_]) == "few":
            self._seen("opened under a quota")
            self._opener[id_] = _opener(recorded, event)
            self._started[self._opener[id_]].add(f"{id_} {event.round}")

    def _applied(self, event: PolicyApplied) -> None:
        self._seen("policy applied")
        if self._newest is not None and _plain(event.actor) != MAY_APPLY:
            self._flag("WRONG_APPROVER", "applies", event.actor)
        self._newest = self._name_of[event.sha256] = event.policy.name

    def _answered(self, id_: str, recorded: Recorded, event: ParametersChanged | ApprovalGranted) -> None:
        key = key_of(recorded)
        who, answers, needs = _plain(event.actor), self._answers[key], self._needs(id_, key)
        if not self._counts(id_, who, needs, escalated=answers.escalated):
            self._flag("WRONG_APPROVER", id_, "answers", event.actor, _newest(self._under[id_]))
        if isinstance(event, ParametersChanged):
            self._seen("parameters changed")
            answers.by, answers.proposer = set(), who
            return
        if who == answers.proposer or (needs.approvals > 1 and who in answers.by):
            self._flag("WRONG_APPROVER", id_, "answers again", event.actor)
        answers.by.add(who)
        is_granted = len(answers.by) >= max(1, needs.approvals)
        answers.granted.append((recorded.offset, is_granted))
        self._seen("four eyes" if needs.approvals > 1 and is_granted else "one approval")

    def _judge_again(self, id_: str, offset: int) -> None:
        """Under new rules keep the answers that count there; they may be enough at once, or no longer."""
        key = self._asked.get(id_)
        if key is None:
            return
        answers, needs = self._answers[key], self._needs(id_, key)
        was_granted = bool(_newest(answers.granted))
        if needs.approvals:
            answers.by = {who for who in answers.by if self._counts(id_, who, needs, escalated=False)}
        elif not was_granted:
            answers.by = set()  # nobody is asked any more
        answers.escalated = False
        is_granted = len(answers.by) >= needs.approvals if needs.approvals else was_granted
        answers.granted.append((offset, is_granted))

    def _needs(self, id_: str, key: str) -> Needs:
        return NEEDS.get((_newest(self._under[id_]) or "", self._action[key]), NOTHING)

    def _counts(self, id_: str, who: str, needs: Needs, *, escalated: bool) -> bool:
        may = needs.by | (needs.later_also_by if escalated else frozenset())
        return not may or (who in may and not (needs.not_requester and who == self._requester[id_]))


def _newest(history: Sequence[tuple[int, Value]], read: float = inf) -> Value | None:
    """What holds for somebody who has read up to this offset."""
    return next((value for offset, value in reversed(history) if offset < read), None)


def _opener(recorded: Recorded, event: WorkflowRequested | RoundRequested) -> tuple[str, int, str]:
    """The process that opened a round, the day by the broker's clock, and the actor."""
    return recorded.envelope.source, recorded.time_ms // DAY_MS, _plain(event.actor)


def _plain(actor: Actor | None) -> str:
    return "" if actor is None else actor.id.strip().lower()
