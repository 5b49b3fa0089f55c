"""The reasons why a client gets no answer: a code, facts, and a sentence that holds for every front end.

Refused
├── NotAWorkflowId     not_a_workflow_id
├── UnknownWorkflow    unknown_workflow
├── RoundOpen          round_open
├── RoundEnded         round_ended
├── NothingToApprove   nothing_to_approve
├── UnknownSeq         unknown_seq
├── NothingToEdit      nothing_to_edit
└── NewerRelease       newer_release
Unavailable
├── RowsBehind         rows_behind
├── WorkflowPending    workflow_pending
└── Unserved
    ├── NotServed   nobody_serves
    └── RoundOverdue   round_overdue

Each front end words its advice for users itself, from the code and facts of the error.
"""

from dataclasses import dataclass
from typing import Literal

from poweron_events.errors import Refused, Unavailable, Unserved
from poweron_events.fold.state import Place

AskedFor = Literal[
    "request", "cancellation", "answer", "pause", "resumption", "policy", "export", "erasure", "retention"
]
"""What was sent: a request that opens a round, a request about an open round, or the answer to an approval."""


class NotAWorkflowId(Refused):
    """The id of a workflow is invalid: an id is a UUID in lower case."""

    code = "not_a_workflow_id"

    def __init__(self, workflow_id: str) -> None:
        super().__init__(f"{workflow_id!r} is not a workflow's id")
        self.workflow_id = workflow_id


class UnknownWorkflow(Refused):
    """No round of the workflow was ever opened."""

    code = "unknown_workflow"

    def __init__(self, workflow_id: str) -> None:
        super().__init__(f"There is no workflow {workflow_id}")
        self.workflow_id = workflow_id


@dataclass(frozen=True, slots=True)
class PendingRequest:
    """A request that has no answer yet and opens a round once it is answered."""

    seconds: float
    """The time since it was sent."""
    ahead: int
    """How many earlier requests of its partition may have no answer yet."""
    is_served: bool
    """Whether a process has joined the consumer group that answers requests."""
    key: bytes | None
    """The key of its record; requests with the same key are answered in order."""
    quota_reason: str | None = None
    """Which quota of the policy it waits for, and until when, without a full stop; None if it waits for none."""

    @property
    def reason(self) -> str:
        """Why it has no answer yet."""
        if not self.is_served:
            return "no process is serving"
        if self.quota_reason is not None:
            return self.quota_reason
        return f"it waits for its turn, behind at most {self.ahead} others" if self.ahead else "it is the next one"


class WorkflowPending(Unavailable):
    """The workflow was requested, but is not open yet, or was not a moment ago."""

    code = "workflow_pending"

    def __init__(self, workflow_id: str, request: PendingRequest | None, round_: int = 1) -> None:
        """`request` is None if it was answered just now; `round_` is the round that it opens."""
        status = "was opened just now"
        if request is not None:
            status = f"was requested {request.seconds:.0f} s ago and is not open yet: {request.reason}"
        super().__init__(f"{'Workflow' if round_ == 1 else f'Round {round_} of workflow'} {workflow_id} {status}")
        self.workflow_id = workflow_id
        self.request = request
        self.round = round_


class RoundOpen(Refused):
    """The next round cannot be requested while one is open."""

    code = "round_open"

    def __init__(self, workflow_id: str, round_: int, *, waits_for_approval: bool) -> None:
        super().__init__(f"Round {round_} of workflow {workflow_id} is still running")
        self.workflow_id = workflow_id
        self.round = round_
        self.waits_for_approval = waits_for_approval


class RoundEnded(Refused):
    """There is nothing to cancel: no round is open."""

    code = "round_ended"

    def __init__(self, workflow_id: str, round_: int) -> None:
        super().__init__(f"Round {round_} of workflow {workflow_id} has already ended: there is nothing to cancel")
        self.workflow_id = workflow_id
        self.round = round_


@dataclass(frozen=True, slots=True)
class LastAnswer:
    """What became of an action of a workflow that waited for approval."""

    place: Place
    """The round, task, attempt and step."""
    status: Literal["approved", "denied", "expired"]
    approver: str | None
    """The name of the person who answered; None if the approval expired."""
    time: str
    """When, as RFC 3339 in UTC."""


class NothingToApprove(Refused):
    """No action of the workflow waits for approval."""

    code = "nothing_to_approve"

    def __init__(self, workflow_id: str, last: LastAnswer | None) -> None:
        """`last` is None if no approval of the workflow was ever answered."""
        super().__init__(f"Nothing in workflow {workflow_id} waits for an approval")
        self.workflow_id = workflow_id
        self.last = last


class UnknownSeq(Refused):
    """The workflow has no accepted event with that number."""

    code = "unknown_seq"

    def __init__(self, workflow_id: str, seq: int, *, superseded: bool, nearest: int, last: int) -> None:
        problem = "was superseded: it changed nothing" if superseded else f"does not exist: the last event is {last}"
        super().__init__(f"Event {seq} of workflow {workflow_id} {problem}. The nearest accepted one is {nearest}")
        self.workflow_id = workflow_id
        self.nearest = nearest


class NothingToEdit(Refused):
    """The event to fork at is not followed by a decision of a model that could be answered by a person."""

    code = "nothing_to_edit"

    def __init__(self, workflow_id: str, seq: int, what: str) -> None:
        """`what` should be edited: the model's answer, or the parameters."""
        super().__init__(f"Event {seq} of workflow {workflow_id} is not followed by a decision about {what}")
        self.workflow_id = workflow_id


class NewerRelease(Refused):
    """A release newer than this one has worked on the workflow."""

    code = "newer_release"

    def __init__(self, workflow_id: str, seq: int, *, what: str, knows: str) -> None:
        by = f"Workflow {workflow_id} was worked on by a newer release of PowerOn"
        super().__init__(f"{by}: event {seq} {what}, and this release knows {knows}")
        self.workflow_id = workflow_id
        self.seq = seq


class RowsBehind(Unavailable):
    """The answer is in the log, but did not reach the rows in time."""

    code = "rows_behind"

    def __init__(self, workflow_id: str, seconds: float) -> None:
        super().__init__(
            f"The answer is in the log of workflow {workflow_id}, but the rows in Postgres do not hold it after "
            f"{seconds:g} s"
        )
        self.workflow_id = workflow_id
        self.seconds = seconds


class NotServed(Unserved):
    """What was sent is in the log, but no process picked it up in time."""

    code = "nobody_serves"

    def __init__(self, workflow_id: str, asked: AskedFor, seconds: float) -> None:
        super().__init__(f"No process has taken the {asked} within {seconds:g} s. It remains in the log")
        self.workflow_id = workflow_id
        self.asked = asked
        self.seconds = seconds


class RoundOverdue(Unserved):
    """A process has begun the round, but none has ended it in time."""

    code = "round_overdue"

    def __init__(self, workflow_id: str, round_: int) -> None:
        super().__init__(f"The time for workflow {workflow_id} is over, and no process has ended it")
        self.workflow_id = workflow_id
        self.round = round_


ClientErrorCode = Literal[
    "not_a_workflow_id",
    "unknown_workflow",
    "workflow_pending",
    "round_open",
    "round_ended",
    "nothing_to_approve",
    "unknown_seq",
    "nothing_to_edit",
    "newer_release",
    "rows_behind",
    "nobody_serves",
    "round_overdue",
]
ClientError = (
    NotAWorkflowId
    | UnknownWorkflow
    | WorkflowPending
    | RoundOpen
    | RoundEnded
    | NothingToApprove
    | UnknownSeq
    | NothingToEdit
    | NewerRelease
    | RowsBehind
    | NotServed
    | RoundOverdue
)
"""All of them, distinguished by class or by `code`."""
