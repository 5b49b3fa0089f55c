"""The evidence: the requests that were sent, the contents of the log, the effects and the rows.

A new reader reads the log again from beginning to end.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, NamedTuple

from poweron_events.codec import Undecodable, read_record
from poweron_events.envelope import Recorded, idempotency_key
from poweron_events.event import Event
from poweron_events.fold.evolve import evolve
from poweron_events.fold.state import Ending, Workflow, gives_up
from poweron_events.log import Record
from poweron_events.request import (
    CancellationRequested,
    RequestApproval,
    RequestBudget,
    RequestCancellation,
    RequestIdentity,
    RequestPause,
    RequestPolicy,
    RequestRefused,
    RequestResume,
    RequestRound,
    RequestWorkflow,
    RoundRequested,
    WorkflowRequested,
)
from poweron_events.round_events import RoundCancelled, RoundCompleted, RoundFailed
from poweron_events.step_events import ActionCompleted, ActionStarted, EffectClass
from poweron_events.stream import Request, WorkflowEvent

RequestKind = Literal["workflow", "round", "cancellation", "approval", "budget", "pause", "resume", "policy"]


@dataclass(frozen=True, slots=True)
class SentRequest:
    """A request that was sent, once or more often."""

    request_id: str
    workflow_id: str
    kind: RequestKind


KINDS: Final[Mapping[type[Event], RequestKind]] = {
    RequestWorkflow: "workflow",
    RequestRound: "round",
    RequestCancellation: "cancellation",
    RequestApproval: "approval",
    RequestBudget: "budget",
    RequestPause: "pause",
    RequestResume: "resume",
    RequestPolicy: "policy",
}


def kind_of(request: Request) -> RequestKind:
    """Return the kind of a request."""
    return KINDS[type(request)]


@dataclass(slots=True)
class AnswerCounts:
    """How often a request was accepted and how often it was refused, according to the log."""

    accepted: int = 0
    refused: int = 0


@dataclass(slots=True)
class LoggedRound:
    """A round as recorded by its accepted events."""

    max_steps: int
    cancelled: bool = False
    steps: int = 0
    endings: list[Ending] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class LoggedClaim:
    """An accepted claim on an action, with the process that made it."""

    pid: int
    effect_class: EffectClass
    given_up: bool = False
    """A pause came before the action began, so this claim allows no effect."""


@dataclass(slots=True)
class LoggedAction:
    """An action of a workflow: which processes claimed it, and which one reported it as done."""

    workflow_id: str
    round: int
    claims: list[LoggedClaim] = field(default_factory=list)
    done_by: int | None = None


@dataclass(slots=True)
class LogSummary:
    """A summary of the log from beginning to end."""

    answers: dict[str, AnswerCounts] = field(default_factory=lambda: defaultdict(AnswerCounts))
    rounds: dict[tuple[str, int], LoggedRound] = field(default_factory=dict)
    actions: dict[str, LoggedAction] = field(default_factory=dict)
    phases: dict[str, str] = field(default_factory=dict)
    """The phase of each workflow, which names what it waits for."""
    accepted: int = 0
    superseded: int = 0
    undecodable: int = 0
    most_in_a_row: int = 0
    """The longest sequence of consecutive records of one workflow that had no effect."""


@dataclass(frozen=True, slots=True)
class ListedWorkflow:
    """A workflow as the rows show it."""

    status: str
    round: int


class RecordPosition(NamedTuple):
    """The position of a record in Kafka."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything that the verdict is based on."""

    requests: Sequence[SentRequest]
    log: LogSummary
    effects: Counter[tuple[str, int]]
    """How often each effect occurred, by idempotency key and process."""
    effect_times: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """When the effects occurred, by idempotency key, in ms since 1970."""
    cancelled: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """When a cancellation was acknowledged while no process was serving, by workflow and round, in ms since 1970."""
    differences: Sequence[str] = ()
    """The differences between the rows and the log."""
    listed: Mapping[str, ListedWorkflow] = field(default_factory=dict)
    poison: Sequence[bytes] = ()
    """Records that cannot be decoded."""
    bombs: Collection[RecordPosition] = ()
    """The positions of the decompression bombs."""
    dead_letters: Mapping[RecordPosition, bytes] = field(default_factory=dict)
    """The raw contents of the dead letters, by the position of the original record."""
    forged: Collection[str] = ()
    """The ids of the requests whose workflow was opened by a forged event."""
    error_lines: Sequence[str] = ()
    """Error lines of the role processes that offer an operator no remedy."""
    unexpected: Sequence[str] = ()
    """Other unexpected incidents, as sentences."""
    ledger: Sequence[str] = ()
    """What is wrong with the ledger and its witness, as sentences."""


class LogReader:
    """Folds the log into a summary."""

    def __init__(self) -> None:
        self.summary = LogSummary()
        self._workflows: dict[str, Workflow] = {}
        self._in_a_row: Counter[str] = Counter()

    def read(self, records: Iterable[Record]) -> None:
        """Fold the next records of a partition."""
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
        if isinstance(event, WorkflowRequested | RoundRequested):
            self.summary.rounds[workflow.id, event.round] = LoggedRound(event.max_steps)
        elif isinstance(event, CancellationRequested):
            self.summary.rounds[workflow.id, event.round].cancelled = True
        elif isinstance(event, RoundCompleted | RoundFailed | RoundCancelled):
            logged = self.summary.rounds[workflow.id, event.round]
            logged.steps = event.totals.steps
            assert workflow.current.ending is not None
            logged.endings.append(workflow.current.ending)
        elif isinstance(event, ActionStarted):
            claim = LoggedClaim(int(event.worker.rsplit("-", 2)[1]), event.effect_class)
            self._action(workflow).claims.append(claim)
        elif isinstance(event, ActionCompleted):
            self._note_end(self._action(before), event)

    def _note_end(self, action: LoggedAction, event: ActionCompleted) -> None:
        claim = action.claims[event.try_ - 1]
        if event.outcome == "done":
            action.done_by = claim.pid
        elif gives_up(event):
            action.claims[event.try_ - 1] = replace(claim, given_up=True)

    def _action(self, workflow: Workflow) -> LoggedAction:
        action = LoggedAction(workflow.id, workflow.current.number)
        return self.summary.actions.setdefault(idempotency_key(workflow.id, workflow.place), action)
