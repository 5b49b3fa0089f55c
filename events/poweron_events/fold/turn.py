"""Which role's turn it is, and what is due when: pure functions of the folded workflow (E-06, E-16)."""

from dataclasses import dataclass
from typing import Literal

from poweron_events.event import Role
from poweron_events.fold.stage_specs import TIMED_PHASES, TURNS
from poweron_events.fold.state import Workflow
from poweron_events.request import LAWS


def turn(workflow: Workflow) -> Role | None:
    """Return the role whose turn it is; None if there is none, or if the workflow is stuck or frozen for this release.

    A workflow frozen by an unknown type can still be brought to its end once it is stopped; one whose
    laws this release does not know is left to releases that do (E-13).
    """
    if workflow.frozen and (workflow.phase not in ("closing", "draining") or workflow.current.opening.laws > LAWS):
        return None
    return None if workflow.stuck else TURNS.get(workflow.phase)


@dataclass(frozen=True, slots=True)
class Due:
    """A broker time (ms since 1970) from which on `role` may record that time is up."""

    what: Literal["round", "stage", "claim", "approval"]
    role: Role
    at_ms: int


def due(workflow: Workflow) -> tuple[Due, ...]:
    """Return everything that becomes due while the workflow stays as it is.

    Each time is the broker time of the event that started the wait plus a duration written in an event.
    """
    if not workflow.is_open or workflow.frozen:
        return ()
    phase, found = workflow.phase, list[Due]()
    if (round_ms := round_due_ms(workflow)) is not None:
        found.append(Due("round", "reviewer", round_ms))
    if phase in TIMED_PHASES:
        found.append(Due("stage", TURNS[phase], workflow.head_ms + workflow.current.opening.stage_timeout_ms))
    if phase in ("started", "draining"):
        found.append(Due("claim", "executor", workflow.step.starts[-1].due_ms))
    if phase == "approve":
        found.append(Due("approval", "executor", workflow.step.approval_due_ms))
    return tuple(found)


def round_due_ms(workflow: Workflow) -> int | None:
    """Return when the reviewer may record that the round's time is over; None while the deadline does not apply."""
    if not workflow.is_open or workflow.frozen or workflow.phase in ("closing", "draining", "approve"):
        return None
    return workflow.current.due_ms
