"""Which actions wait for a person, and what the answer is worth: pure functions of settings and workflow."""

from collections.abc import Collection, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import chain
from typing import Final

from poweron_events.errors import Refused
from poweron_events.execution import ApprovalDenied, ApprovalGranted, ApprovalRequested
from poweron_events.fold.state import Opening, Workflow, parameters_sha256, step_place
from poweron_events.request import MAX_PATTERNS, Requester
from poweron_services.decider.validation import matches

DAY: Final = 86_400_000  # milliseconds
UNAPPROVED: Final = frozenset({"approval_denied", "approval_expired"})  # codes of an action that a person held back
EXPIRED: Final = "Nobody approved the action in time."


class NotApproved(Refused):
    """The action must not run, since nobody approved it as it is."""


@dataclass(frozen=True, slots=True)
class Approval:
    """Which actions a person has to approve, and how long the answer is waited for."""

    patterns: AbstractSet[str] = frozenset()
    expires_ms: int = 7 * DAY

    def is_needed(self, action: str, opening: Opening) -> bool:
        """Whether this process or the opening marks the action: what stands in the log holds for every process."""
        return marks(self.patterns, action) or marks(opening.approve, action)

    def must_be_asked(self, workflow: Workflow) -> bool:
        """Whether the action at hand has to be approved and nobody was asked yet."""
        selection = workflow.step.selection
        if selection is None or workflow.step.approval is not None:
            return False
        return self.is_needed(selection.action, workflow.current.opening)

    def request(self, workflow: Workflow) -> ApprovalRequested:
        """The question, which binds the answer to exactly these parameters."""
        selection = workflow.step.selection
        assert selection is not None
        return ApprovalRequested(
            **step_place(workflow),
            parameters_sha256=parameters_sha256(workflow),
            action=selection.action,
            expires_ms=self.expires_ms,
        )

    def why_not(self, workflow: Workflow) -> NotApproved | None:
        """Why the action must not run; None if it may."""
        match workflow.step.answer:
            case ApprovalDenied() as denied:
                return _denied(denied)
            case ApprovalGranted(parameters_sha256=approved) if approved != parameters_sha256(workflow):
                return NotApproved("What was approved are other parameters than these.", code="other_parameters")
            case None if self.must_be_asked(workflow):
                return NotApproved(
                    "Somebody has to approve this action, and nobody was asked.", code="approval_missing"
                )
        return None


NEVER: Final = Approval()
"""A process marks nothing by itself."""


def marks(patterns: Collection[str], action: str) -> bool:
    """Whether `*` or a pattern that means the action is among them."""
    return matches(action, patterns)


def joined(*patterns: Iterable[str]) -> tuple[str, ...]:
    """What any of them marks; everything, where that would be more patterns than an event holds."""
    every = sorted(set(chain(*patterns)))
    return ("*",) if "*" in every or len(every) > MAX_PATTERNS else tuple(every)


def expired(workflow: Workflow) -> ApprovalDenied:
    """What is said when nobody has answered in time."""
    return ApprovalDenied(**step_place(workflow), parameters_sha256=parameters_sha256(workflow), reason=EXPIRED)


def by_whom(requester: Requester) -> str:
    return requester.name or "somebody who gave no name"


def _denied(denied: ApprovalDenied) -> NotApproved:
    if denied.request is None:
        return NotApproved(denied.reason, code="approval_expired")
    because = f": {denied.reason}" if denied.reason else ", without a reason."
    sentence = " ".join(f"The action was denied by {by_whom(denied.requester)}{because}".split())
    return NotApproved(sentence, code="approval_denied")
