"""The evidence: what was requested, what the log says, which effects there were, and what the rows show.

The log is read once more from its beginning to its end, by a reader that has not seen it before.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from poweron_events.codec import Undecodable, read_record
from poweron_events.envelope import Recorded, idempotency_key
from poweron_events.execution import ActionCompleted, ActionStarted, EffectClass
from poweron_events.fold.evolve import evolve
from poweron_events.fold.state import Ending, Workflow
from poweron_events.log import Record
from poweron_events.outcome import RoundCancelled, RoundCompleted, RoundFailed
from poweron_events.request import (
    CancellationRequested,
    RequestApproval,
    RequestCancellation,
    RequestIdentity,
    RequestRefused,
    RequestRound,
    RequestWorkflow,
    RoundRequested,
    WorkflowRequested,
)
from poweron_events.stream import Request, WorkflowEvent

RequestKind = Literal["workflow", "round", "cancellation", "approval"]


@dataclass(frozen=True, slots=True)
class SentRequest:
    """A request that was sent, however often."""

    request_id: str
    workflow_id: str
    kind: RequestKind


def kind_of(request: Request) -> RequestKind:
    """What a request asks for."""
    match request:
        case RequestWorkflow():
            return "workflow"
        case RequestRound():
            return "round"
        case RequestCancellation():
            return "cancellation"
        case RequestApproval():
            return "approval"


@dataclass(slots=True)
class AnswerCounts:
    """How often the log accepts a request, and how often it refuses it."""

    accepted: int = 0
    refused: int = 0


@dataclass(slots=True)
class LoggedRound:
    """A round as accepted events tell it."""

    max_steps: int
    cancelled: bool = False
    steps: int = 0
    endings: list[Ending] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Claim:
    """An accepted claim on an action: of which process."""

    pid: int
    effect_class: EffectClass


@dataclass(slots=True)
class LoggedAction:
    """An action of a workflow, by its idempotency key: who claimed it, and who says that it was done."""

    workflow_id: str
    round: int
    claims: list[Claim] = field(default_factory=list)
    done_by: int | None = None


@dataclass(slots=True)
class LogSummary:
    """What the log says, from its beginning to its end."""

    answers: dict[str, AnswerCounts] = field(default_factory=lambda: defaultdict(AnswerCounts))
    rounds: dict[tuple[str, int], LoggedRound] = field(default_factory=dict)
    actions: dict[str, LoggedAction] = field(default_factory=dict)
    phases: dict[str, str] = field(default_factory=dict)
    """What each workflow waits for."""
    accepted: int = 0
    superseded: int = 0
    undecodable: int = 0
    most_in_a_row: int = 0
    """How many records of one workflow had no effect one after the other."""


@dataclass(frozen=True, slots=True)
class ListedWorkflow:
    """A workflow as the rows show it."""

    status: str
    round: int


class Place(NamedTuple):
    """Where a record stands."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything that the verdict is made from."""

    requests: Sequence[SentRequest]
    log: LogSummary
    effects: Counter[tuple[str, int]]
    """How often which process had the effect of which idempotency key."""
    effect_times: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """When each idempotency key had an effect, in ms since 1970."""
    cancelled: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """By workflow and round, when a cancellation was acknowledged while no process was serving, in ms since 1970."""
    differences: Sequence[str] = ()
    """Where the rows are not what the log says."""
    listed: Mapping[str, ListedWorkflow] = field(default_factory=dict)
    poison: Sequence[bytes] = ()
    """Records that nobody can read."""
    bombs: Collection[Place] = ()
    """Where records stand that decompress to too much."""
    dead_letters: Mapping[Place, bytes] = field(default_factory=dict)
    """What the dead letters hold of their records, by where these stand."""
    forged: Collection[str] = ()
    """The requests whose workflow somebody else opened."""
    error_lines: Sequence[str] = ()
    """Error lines of the role processes that tell an operator nothing to do."""
    unexpected: Sequence[str] = ()
    """What else should not have happened, in sentences."""


class LogReader:
    """Folds the log into a summary of what it says."""

    def __init__(self) -> None:
        self.summary = LogSummary()
        self._workflows: dict[str, Workflow] = {}
        self._in_a_row: Counter[str] = Counter()

    def read(self, records: Iterable[Record]) -> None:
        """The next records of some partition."""
        for record in records:
            try:
                self._fold(read_record(record))
            except Undecodable:
                self.summary.undecodable += 1

    def _fold(self, recorded: Recorded) -> None:
        workflow_id = recorded.envelope.workflow_id
        before = self._workflows.get(workflow_id) or Workflow(workflow_id)
        workflow, verdict = evolve(before, recorded)
        self._workflows[workflow_id] = workflow
        self.summary.phases[workflow_id] = workflow.phase
        if verdict != "accepted" or recorded.envelope.event is None:
            self.summary.superseded += 1
            self._in_a_row[workflow_id] += 1
            self.summary.most_in_a_row = max(self.summary.most_in_a_row, self._in_a_row[workflow_id])
            return
        del self._in_a_row[workflow_id]
        self.summary.accepted += 1
        self._count_answer(recorded.envelope.event)
        self._note(before, workflow, recorded.envelope.event)

    def _count_answer(self, event: WorkflowEvent) -> None:
        request: RequestIdentity | None = getattr(event, "request", None)
        if request is not None:
            answers = self.summary.answers[request.id]
            answers.refused += isinstance(event, RequestRefused)
            answers.accepted += not isinstance(event, RequestRefused)

    def _note(self, before: Workflow, workflow: Workflow, event: WorkflowEvent) -> None:
        match event:
            case WorkflowRequested() | RoundRequested():
                self.summary.rounds[workflow.id, event.round] = LoggedRound(event.max_steps)
            case CancellationRequested():
                self.summary.rounds[workflow.id, event.round].cancelled = True
            case RoundCompleted() | RoundFailed() | RoundCancelled():
                logged = self.summary.rounds[workflow.id, event.round]
                logged.steps = event.totals.steps
                assert workflow.current.ending is not None
                logged.endings.append(workflow.current.ending)
            case ActionStarted():
                claim = Claim(int(event.worker.rsplit("-", 2)[1]), event.effect_class)
                self._action(workflow).claims.append(claim)
            case ActionCompleted(outcome="done"):
                action = self._action(before)
                action.done_by = action.claims[event.try_ - 1].pid
            case _:
                pass

    def _action(self, workflow: Workflow) -> LoggedAction:
        action = LoggedAction(workflow.id, workflow.current.number)
        return self.summary.actions.setdefault(idempotency_key(workflow.id, workflow.place), action)
