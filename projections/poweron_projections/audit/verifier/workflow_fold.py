"""The state of a workflow for the second fold: only what a verdict depends on, from the events as JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final

from poweron_projections.audit.verifier.answer_rules import (
    Actor,
    AnswerRules,
    milliseconds_of,
    named_groups,
    rule_for,
)
from poweron_projections.audit.verifier.strict_json import encoded

REFUSALS: Final = 2  # of one model, after which the next one is asked

Event = Mapping[str, Any]
Head = tuple[str, str]
"""The id and the SHA-256 of the event that a workflow waits for an answer to."""


@dataclass
class FoldedStep:
    """One iteration of the loop."""

    number: int
    tries: int = 1
    refusals: list[Event] = field(default_factory=list)
    action: str = ""
    parameters: Any = None
    approval: str | None = None
    approval_due_ms: int = 0
    escalation_due_ms: int = 0
    escalated: bool = False
    approved_by: tuple[Actor, ...] = ()
    proposed_by: Actor | None = None
    starts: list[Head] = field(default_factory=list)
    given_up: set[int] = field(default_factory=set)


@dataclass
class FoldedTask:
    """The current task."""

    number: int
    plan: Mapping[str, Any]
    attempt: int = 1
    retries: int = 0
    planned: int = 0
    step: FoldedStep = field(default_factory=lambda: FoldedStep(1))


@dataclass
class FoldedRound:
    """The open round."""

    number: int
    opening: Event
    tasks: Sequence[Mapping[str, Any]] = ()
    task: FoldedTask | None = None
    ending: str | None = None
    rejected: list[Event] = field(default_factory=list)
    policy: Mapping[str, Any] | None = None
    question: tuple[int, str] | None = None
    grants: int = 0
    budget_denied: bool = False
    paused_ms: int | None = None
    pause_requests: list[tuple[str, str]] = field(default_factory=list)
    reserved: int = 0

    @property
    def moves(self) -> int:
        """How often pauses and budget questions have moved the deadline."""
        return len(self.pause_requests) + self.grants + self.budget_denied


@dataclass
class FoldedWorkflow:
    """A workflow, or another key of the log, after its events so far."""

    workflow_id: str
    phase: str = "none"
    rounds: int = 0
    current: FoldedRound | None = None
    head: Head | None = None
    head_ms: int = 0
    policy: Mapping[str, Any] | None = None
    instance: str | None = None

    @property
    def is_open(self) -> bool:
        return self.phase not in ("none", "ended")

    @property
    def round(self) -> FoldedRound:
        assert self.current is not None
        return self.current

    @property
    def task(self) -> FoldedTask:
        assert self.round.task is not None
        return self.round.task

    @property
    def step(self) -> FoldedStep:
        return self.task.step

    @property
    def place(self) -> tuple[int, int, int, int]:
        """Round, task, attempt and step; zero for what is not reached yet."""
        if self.current is None:
            return (0, 0, 0, 0)
        task = self.current.task
        if task is None:
            return (self.current.number, 0, 0, 0)
        return (self.current.number, task.number, task.attempt, task.step.number)

    @property
    def rule(self) -> Mapping[str, Any] | None:
        """The rule of the policy about the action of the current step."""
        policy = self.round.policy
        if policy is None or not self.step.action:
            return None
        return rule_for(policy, self.step.action, self.task.plan["taskType"])

    def is_at(self, data: Mapping[str, Any]) -> bool:
        """Return whether an event names exactly where the workflow is."""
        return (data["round"], data["task"], data["attempt"], data["step"]) == self.place

    def close(self, ending: str, phase: str = "closing") -> bool:
        self.round.ending, self.round.question, self.phase = ending, None, phase
        return True

    def begin_task(self, number: int) -> bool:
        self.round.task = FoldedTask(number, self.round.tasks[number - 1])
        return self.begin_attempt()

    def begin_attempt(self) -> bool:
        self.phase = "select" if self.round.opening.get("workflowMode", "React") == "React" else "plan_actions"
        return True

    def approval_rules(self, step: FoldedStep | None = None) -> AnswerRules:
        """Return who may approve the action of the current step."""
        step = step or self.step
        policy, rule = self.round.policy, self.rule
        rules = AnswerRules(
            approvers=1,
            groups={},
            not_requester=False,
            requester=requester_of(self.round.opening),
            escalated=step.escalated,
            approved_by=step.approved_by,
            proposed_by=step.proposed_by,
        )
        if policy is None or rule is None or rule["decision"] != "approve":
            return rules
        groups = policy.get("groups", {})
        escalate = rule.get("escalate")
        return rules._replace(
            approvers=rule.get("approvers", 1),
            groups=named_groups(groups, rule.get("from", ())),
            not_requester=rule.get("notRequester", False),
            escalation=named_groups(groups, escalate["to"] if escalate else ()),
        )

    def names_parameters(self, data: Mapping[str, Any]) -> bool:
        """Return whether an event is about the parameters of the step; the first rules did not check that."""
        if self.round.opening.get("laws", 2) < 2:
            return True
        found: str = data["parametersSha256"]
        return found == sha256(encoded(self.step.parameters)).hexdigest()

    def ask_on(self, now_ms: int) -> None:
        """Go on waiting for people: a pause does not count for the time limits of the approval."""
        if self.round.paused_ms is not None:
            self.postpone(max(0, now_ms - max(self.round.paused_ms, self.head_ms)))

    def postpone(self, ms: int) -> None:
        step = self.step
        step.approval_due_ms += ms
        step.escalation_due_ms = step.escalation_due_ms and step.escalation_due_ms + ms

    def set_escalation(self, from_ms: int) -> None:
        step, rule = self.step, self.rule
        escalate = rule.get("escalate") if rule and rule["decision"] == "approve" else None
        due_ms = from_ms + milliseconds_of(escalate["after"]) if escalate else 0
        step.escalation_due_ms = due_ms if due_ms < step.approval_due_ms else 0

    def resume(self, now_ms: int) -> None:
        """End the pause."""
        assert self.round.paused_ms is not None
        since_head = max(0, now_ms - max(self.round.paused_ms, self.head_ms))
        self.round.paused_ms = None
        self.head_ms += since_head
        if self.round.task is not None and self.step.approval == "asked":
            self.postpone(since_head)


def requester_of(opening: Event) -> Actor:
    if opening.get("actor") is not None:
        actor: Actor = opening["actor"]
        return actor
    name = opening.get("requester", {}).get("name", "")
    return {"id": name or opening["request"]["source"]}


def may_ask_again(refusals: Sequence[Event]) -> bool:
    if len(refusals) % REFUSALS or not refusals:
        return True
    call = refusals[-1].get("modelCall")
    return call is not None and call.get("nextModel") is not None


def identity_of(data: Mapping[str, Any]) -> tuple[str, str]:
    return data["request"]["source"], data["request"]["id"]
