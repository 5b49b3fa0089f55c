"""Which actions may run, which need a person's approval, and which of them an answer permits (X-01).

Settings hold an allow list for each type of task, and one deny list. Their patterns are `method.name`, `method.*` or
`method`, and `*` for every action. A denied action remains denied even if a list allows it.
All are pure functions of settings and workflow.
"""

from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, get_args

from poweron_events.errors import Refused
from poweron_events.event import TaskType, matches
from poweron_events.fold.questions import approval_terms, has_too_few_approvals, lacks_approval
from poweron_events.fold.state import Opening, Workflow, parameters_sha256, rule, step_place
from poweron_events.policy import milliseconds
from poweron_events.request import MAX_PATTERNS
from poweron_events.step_events import ApprovalDenied, ApprovalEscalated, ApprovalGranted, ApprovalRequested
from poweron_services.decider.validation import NotAllowed

DAY: Final = 86_400_000  # milliseconds


UNAPPROVED: Final = frozenset({"approval_denied", "approval_expired"})  # codes of an action that was not approved


UNNAMED: Final = "somebody who gave no name"
EXPIRED: Final = "Nobody approved the action in time."


class NotApproved(Refused):
    """The action must not run, because it was not approved in its current form."""


@dataclass(frozen=True, slots=True)
class Approval:
    """Which actions a person must approve, and how long the workflow waits for the answer."""

    patterns: AbstractSet[str] = frozenset()
    expires_ms: int = 7 * DAY

    def is_needed(self, action: str, opening: Opening) -> bool:
        """Return whether this process or the opening marks the action: what the log records binds every process."""
        return marks(self.patterns, action) or marks(opening.approve, action)

    def must_be_asked(self, workflow: Workflow) -> bool:
        """Return whether the current action needs an approval that has not been requested yet."""
        selection = workflow.step.selection
        if selection is None or workflow.step.approval is not None:
            return False
        return lacks_approval(workflow) or self.is_needed(selection.action, workflow.current.opening)

    def request(self, workflow: Workflow) -> ApprovalRequested:
        """The request for approval, which ties the answer to exactly these parameters."""
        selection, about = workflow.step.selection, rule(workflow)
        assert selection is not None
        return ApprovalRequested(
            **step_place(workflow),
            parameters_sha256=parameters_sha256(workflow),
            action=selection.action,
            expires_ms=milliseconds(about.expires) if about and about.expires else self.expires_ms,
        )

    def why_not(self, workflow: Workflow) -> NotApproved | None:
        """Return why the action must not run, or None if it may."""
        match workflow.step.answer:
            case ApprovalDenied() as event:
                return _denial(event)
            case ApprovalGranted(parameters_sha256=digest) if digest != parameters_sha256(workflow):
                return NotApproved("What was approved are other parameters than these.", code="other_parameters")
            case None if self.must_be_asked(workflow):
                return NotApproved(
                    "Somebody has to approve this action, and nobody was asked.", code="approval_missing"
                )
        if has_too_few_approvals(workflow):  # the rules changed after the claim; before a claim, the fold asks again
            return NotApproved(
                "The rules changed after this action was approved, and its approvals are no longer enough.",
                code="approval_missing",
            )
        return None


NEVER: Final = Approval()
"""The approval of a process that marks no action itself."""


def marks(patterns: Collection[str], action: str) -> bool:
    """Return whether one of the patterns, such as `*`, matches the action."""
    return matches(action, patterns)


def joined(*patterns: Iterable[str]) -> tuple[str, ...]:
    """All the patterns, or `*` if one of them is `*` or they are more than an event holds."""
    all_patterns = sorted(set(chain(*patterns)))
    return ("*",) if "*" in all_patterns or len(all_patterns) > MAX_PATTERNS else tuple(all_patterns)


def expired(workflow: Workflow) -> ApprovalDenied:
    """The denial of an action whose approval was not answered in time."""
    return ApprovalDenied(**step_place(workflow), parameters_sha256=parameters_sha256(workflow), reason=EXPIRED)


def escalated(workflow: Workflow) -> ApprovalEscalated:
    """The event that lets further groups answer an approval that has waited for too long."""
    groups = approval_terms(workflow).escalation
    return ApprovalEscalated(
        **step_place(workflow), parameters_sha256=parameters_sha256(workflow), to=tuple(sorted(groups))
    )


def by_whom(answer: ApprovalGranted | ApprovalDenied) -> str:
    """Return the name of the person who answered."""
    return (answer.actor.id if answer.actor else answer.requester.name) or UNNAMED


def _denial(event: ApprovalDenied) -> NotApproved:
    if event.request is None:
        return NotApproved(event.reason, code="approval_expired")
    because = f": {event.reason}" if event.reason else ", without a reason."
    name = event.requester.name or UNNAMED  # models see this sentence, and no actor
    sentence = " ".join(f"The action was denied by {name}{because}".split())
    return NotApproved(sentence, code="approval_denied")


Patterns = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ActionLists:
    """The allow lists and the deny list of one process."""

    allowed: Mapping[TaskType, Patterns] = field(default_factory=dict)
    """By type of task; a type that is not listed may use everything."""
    denied: Patterns = ()

    def check(self, action: str, workflow: Workflow) -> None:
        """Refuse an action that this process may not run for the current task, even if another process selected it.

        Raises:
            NotAllowed: the task may not use it.
        """
        reason = self.objection(action, workflow.task.plan.task_type)
        if reason is not None:
            raise NotAllowed(f"{action!r} is not an action of this task.", code="action_not_allowed", detail=reason)

    def objection(self, action: str, task_type: TaskType) -> str | None:
        """Return why a task of this type may not use the action; None if it may."""
        allowed = self.allowed.get(task_type)
        if matches(action, self.denied):
            return f"The settings deny it; denied are {', '.join(self.denied)}."
        if allowed is not None and not matches(action, allowed):
            return f"By the settings a task of type {task_type} may use {', '.join(allowed) or 'nothing'}."
        return None

    def joined_allowed(self, request: Mapping[TaskType, Patterns]) -> dict[TaskType, Patterns]:
        """What both a request and these lists allow, by type of task; a type that neither limits is left out."""
        kinds: tuple[TaskType, ...] = get_args(TaskType)
        both = {kind: _both(request.get(kind), self.allowed.get(kind)) for kind in kinds}
        return {kind: patterns for kind, patterns in both.items() if patterns is not None}

    def joined_denied(self, patterns: Iterable[str]) -> Patterns:
        """What a request or these lists deny."""
        return tuple(dict.fromkeys((*self.denied, *patterns)))


EVERYTHING: Final = ActionLists()
"""No lists: every task may use every action."""


def _both(first: Patterns | None, second: Patterns | None) -> Patterns | None:
    if first is None or second is None:
        return second if first is None else first
    inner = [pattern for pattern in first if is_within(pattern, second)]
    outer = [pattern for pattern in second if is_within(pattern, first)]
    return tuple(dict.fromkeys((*inner, *outer)))


def is_within(pattern: str, patterns: Collection[str]) -> bool:
    """Return whether one of the patterns covers everything that this pattern matches."""
    if pattern == "*":
        return "*" in patterns
    method, _, name = pattern.partition(".")
    if name in ("", "*"):
        return not {"*", method, f"{method}.*"}.isdisjoint(patterns)
    return matches(pattern, patterns)
