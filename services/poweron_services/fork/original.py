"""The workflow that was forked: its next event to take over, and the results of its actions."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, assert_never

from pydantic import JsonValue

from poweron_events.archive_events import ArchiveEvent
from poweron_events.envelope import Cause, envelop, event_id
from poweron_events.event import RECORDED
from poweron_events.fold.evolve import WITHOUT_TURN
from poweron_events.fold.partial import expected
from poweron_events.fold.questions import approval_terms
from poweron_events.fold.state import Opening, Place, Round, Workflow, parameters_sha256
from poweron_events.instance_events import InstanceEnded, InstanceStarted
from poweron_events.request import (
    CancellationRequested,
    DocumentErased,
    ForkedFrom,
    PolicyApplied,
    RequestRefused,
    RoundPaused,
    RoundRequested,
    RoundResumed,
    RulesChanged,
    WorkflowRequested,
)
from poweron_events.round_events import (
    ActionsPlanned,
    AnswerRejected,
    BudgetDenied,
    BudgetGranted,
    BudgetRequested,
    DeadlinePassed,
    RoundCancelled,
    RoundCompleted,
    RoundFailed,
    StageFailed,
    TaskReviewed,
    TasksPlanned,
)
from poweron_events.step_events import (
    ActionCompleted,
    ActionSelected,
    ActionStarted,
    ApprovalDenied,
    ApprovalEscalated,
    ApprovalGranted,
    ApprovalRequested,
    CallReserved,
    ObservationRecorded,
    ParametersChanged,
    ParametersRejected,
    ParametersSet,
    RefinementDecided,
    SelectionRejected,
)
from poweron_events.stream import WorkflowEvent
from poweron_projections.reader import JudgedRecord
from poweron_services.fork.event_copies import with_identity

NO_RESULT = frozenset({"not_begun", "cancelled"})
"""Outcomes of actions that were not run to their end."""


class AcceptedEvent(NamedTuple):
    """An accepted event, with the seq and hash of its record."""

    seq: int
    sha256: str
    event: WorkflowEvent


def accepted(records: Iterable[JudgedRecord]) -> list[AcceptedEvent]:
    """Return the accepted events among the records of a workflow."""
    return [
        AcceptedEvent(record.seq, record.sha256, record.envelope.event)
        for record in records
        if record.verdict == "accepted" and record.envelope.event is not None
    ]


class Result(NamedTuple):
    """The result of an action."""

    seq: int
    place: Place
    action: str
    parameters: dict[str, JsonValue]
    completed: ActionCompleted


@dataclass(slots=True)
class Original:
    """The accepted events of a workflow so far, as one of its forks sees them."""

    fork: str
    until: int
    """The seq of the last event that the fork takes over unchanged."""
    events: Sequence[AcceptedEvent]
    _positions: dict[str, int] = field(init=False)
    _results: list[Result] = field(init=False)
    _answers: list[AcceptedEvent] = field(init=False)

    def __post_init__(self) -> None:
        """Index the events by the ids that they have in the fork."""
        self.events = [event for event in self.events if not isinstance(event.event, WITHOUT_TURN)]
        self._positions = {
            event_id(self.fork, with_identity(event.event, self.fork, event.seq)): number
            for number, event in enumerate(self.events)
        }
        self._results = _results(self.events)
        self._answers = [each for each in self.events if isinstance(each.event, ApprovalGranted | ApprovalDenied)]

    def next_event(self, workflow: Workflow) -> AcceptedEvent | None:
        """Return the event to take over next; None after the last one, or once the fork differs from the original."""
        position = self._position(workflow)
        if position is None or position + 1 >= len(self.events):
            return None
        candidate = self.events[position + 1]
        is_taken_over = candidate.seq <= self.until and not isinstance(candidate.event, Opening)
        if not is_taken_over or self._never_ended(candidate.event) or not self._is_accepted(workflow, position + 1):
            return None
        return candidate

    def is_at_end(self, workflow: Workflow) -> bool:
        """Return whether the fork has taken over the last of its events and has none of its own yet."""
        position = self._position(workflow)
        if position is None or self.events[position].seq > self.until:
            return False
        return all(event.seq > self.until for event in self.events[position + 1 :])

    def result(self, workflow: Workflow) -> Result | None:
        """Return the current action's result for these parameters, from the same place or else from the first other."""
        selection, parameters = workflow.step.selection, workflow.step.parameters
        assert selection is not None
        assert parameters is not None
        key = (selection.action, parameters.parameters)
        results = [result for result in self._results if (result.action, result.parameters) == key]
        here = [result for result in results if result.place == workflow.place]
        # a stored list of all documents has the ids of its own step
        elsewhere = [result for result in results if not result.completed.documents_left_out]
        return next(iter((*here, *elsewhere)), None)

    def answer(self, workflow: Workflow) -> AcceptedEvent | None:
        """Return the first answer about the same parameters at the same place that counts here; None if none does."""
        terms, wanted = approval_terms(workflow), parameters_sha256(workflow)
        for each in self._answers:
            event = each.event
            assert isinstance(event, ApprovalGranted | ApprovalDenied)
            decision: Literal["approve", "deny"] = "approve" if isinstance(event, ApprovalGranted) else "deny"
            is_about_this = place_of(event) == workflow.place and event.parameters_sha256 == wanted
            if is_about_this and terms.objection(event.actor, decision) is None:
                return each
        return None

    def _position(self, workflow: Workflow) -> int | None:
        """Return the fork's position in the original workflow."""
        head, opening = workflow.head, workflow.current.opening
        if head is None or head.id != event_id(workflow.id, opening):
            return None if head is None else self._positions.get(head.id)
        return self._opening_position(opening.round)

    def _opening_position(self, round_number: int) -> int | None:
        """Return the position at which the original workflow's round was opened."""
        numbers = (
            number
            for number, event in enumerate(self.events)
            if isinstance(event.event, WorkflowRequested | RoundRequested) and event.event.round == round_number
        )
        return next(numbers, None)

    def _is_accepted(self, workflow: Workflow, position: int) -> bool:
        """Return whether the fold accepts the event at this position in this fork.

        With other settings (fewer steps, no retries, another mode) the same events lead elsewhere, and one that no
        longer fits would be superseded again and again. From there on the fork decides everything itself, even if a
        later event of its own has the id of a copy.
        """
        opening = workflow.current.opening
        opening_position = self._opening_position(opening.round)
        assert opening_position is not None  # the event at `position` comes after it
        head = Cause(event_id(workflow.id, opening), "")
        copy: Workflow | None = Workflow(
            workflow.id,
            "plan",
            workflow.openings,
            Round(opening.round, opening, workflow.current.opened_ms, policy=opening.policy),
            head,
        )
        for event in self.events[opening_position + 1 : position]:
            copy = copy and _after(copy, event.event)
        if copy is None or (copy.phase, copy.place) != (workflow.phase, workflow.place):
            return False
        return _after(copy, self.events[position].event) is not None

    def _never_ended(self, event: WorkflowEvent) -> bool:
        """Return whether the event lets an action begin whose end is unknown: for another run, people answer again."""
        begins = isinstance(event, ActionStarted | ApprovalGranted | ParametersChanged)
        return begins and all(result.place != place_of(event) for result in self._results)


def forked_from(workflow: Workflow) -> ForkedFrom | None:
    """Return what the current round was forked from; None if it was not forked."""
    return None if workflow.round is None else workflow.round.opening.forked_from


def place_of(event: WorkflowEvent) -> Place:
    """Return the (round, task, attempt, step) of an event, with zeros for those it does not have."""
    round_, task, attempt, step = (getattr(event, name, 0) for name in ("round", "task", "attempt", "step"))
    return (round_, task, attempt, step)


def _after(workflow: Workflow, event: WorkflowEvent) -> Workflow | None:
    """Return the fork's state after a copy of the event; None if the fold does not accept it."""
    cause, task = workflow.head, workflow.current.task
    if isinstance(event, ActionCompleted) and task is not None:
        cause = next((start.cause for start in task.step.starts[event.try_ - 1 : event.try_]), None)
    copy = envelop(event, workflow_id=workflow.id, source=RECORDED, time="", cause=cause)
    return expected(workflow, copy, sha256="", time_ms=workflow.current.opened_ms)


def _results(events: Sequence[AcceptedEvent]) -> list[Result]:
    actions, parameters, results = dict[Place, str](), dict[Place, dict[str, JsonValue]](), list[Result]()
    for seq, _, event in events:
        match event:
            case ActionSelected():
                actions[place_of(event)] = event.action
            case ParametersSet() | ParametersChanged():
                parameters[place_of(event)] = event.parameters
            case ActionCompleted():
                place = place_of(event)
                if event.outcome not in NO_RESULT:
                    results.append(Result(seq, place, actions[place], parameters[place], event))
            case (
                WorkflowRequested()
                | RoundRequested()
                | CancellationRequested()
                | RoundPaused()
                | RoundResumed()
                | RulesChanged()
                | PolicyApplied()
                | InstanceStarted()
                | InstanceEnded()
                | RequestRefused()
                | DocumentErased()
                | ArchiveEvent()
                | CallReserved()
                | TasksPlanned()
                | ActionsPlanned()
                | SelectionRejected()
                | ParametersRejected()
                | ApprovalRequested()
                | ApprovalGranted()
                | ApprovalDenied()
                | ApprovalEscalated()
                | ActionStarted()
                | ObservationRecorded()
                | RefinementDecided()
                | TaskReviewed()
                | AnswerRejected()
                | StageFailed()
                | BudgetRequested()
                | BudgetGranted()
                | BudgetDenied()
                | DeadlinePassed()
                | RoundCompleted()
                | RoundFailed()
                | RoundCancelled()
            ):
                pass
            case _:
                assert_never(event)
    return results
