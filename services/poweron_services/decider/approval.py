"""Which actions need a person's approval, and what an answer is worth: pure functions of settings and workflow."""

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
UNAPPROVED: Final = frozenset({"approval_denied", "approval_expired"})  # codes of an action that was not approved
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
        return self.is_needed(selection.action, workflow.current.opening)

    def request(self, workflow: Workflow) -> ApprovalRequested:
        """The request for approval, which ties the answer to exactly these parameters."""
        selection = workflow.step.selection
        assert selection is not None
        return ApprovalRequested(
            **step_place(workflow),
            parameters_sha256=parameters_sha256(workflow),
            action=selection.action,
            expires_ms=self.expires_ms,
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
        return None


NEVER: Final = Approval()
"""A process that marks nothing itself."""


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


def by_whom(requester: Requester) -> str:
    return requester.name or "somebody who gave no name"


def _denial(event: ApprovalDenied) -> NotApproved:
    if event.request is None:
        return NotApproved(event.reason, code="approval_expired")
    because = f": {event.reason}" if event.reason else ", without a reason."
    sentence = " ".join(f"The action was denied by {by_whom(event.requester)}{because}".split())
    return NotApproved(sentence, code="approval_denied")
