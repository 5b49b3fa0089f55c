"""Why a client gets no answer: a code and facts, and a sentence that is true whichever door shows it.

Refused
├── NotAWorkflowId     not_a_workflow_id
├── UnknownWorkflow    unknown_workflow
├── RoundOpen          round_open
├── RoundEnded         round_ended
├── NothingToApprove   nothing_to_approve
├── UnknownSeq         unknown_seq
└── NewerRelease       newer_release
Unavailable
├── RowsBehind         rows_behind
├── WorkflowPending    workflow_pending
└── Unserved
    ├── NobodyServes   nobody_serves
    └── RoundOverdue   round_overdue

What a person can do about it is worded by the door that shows the error, from its code and facts.
"""

from dataclasses import dataclass
from typing import Literal

from poweron_events.errors import Refused, Unavailable, Unserved
from poweron_events.request import Requester

AskedFor = Literal["request", "cancellation", "answer"]
"""What was sent: a request that opens a round, the cancellation of one, the answer to a question for approval."""


class NotAWorkflowId(Refused):
    """That cannot be the id of a workflow: an id is a UUID in lower case."""

    code = "not_a_workflow_id"

    def __init__(self, workflow_id: str) -> None:
        super().__init__(f"{workflow_id!r} is not a workflow's id")
        self.workflow_id = workflow_id


class UnknownWorkflow(Refused):
    """No round of such a workflow was ever opened."""

    code = "unknown_workflow"

    def __init__(self, workflow_id: str) -> None:
        super().__init__(f"There is no workflow {workflow_id}")
        self.workflow_id = workflow_id


@dataclass(frozen=True, slots=True)
class PendingRequest:
    """A request that opens a round once it is answered."""

    seconds: float
    """Since it was sent."""
    ahead: int
    """How many requests of its partition came before it and may have no answer yet."""
    is_served: bool
    """Whether a process has joined the consumer group that answers requests."""
    key: bytes | None
    """Of its record; requests under one key are answered in their order."""

    @property
    def reason(self) -> str:
        """Why it has no answer yet."""
        if not self.is_served:
            return "no process is serving"
        return f"it waits for its turn, behind at most {self.ahead} others" if self.ahead else "it is the next one"


class WorkflowPending(Unavailable):
    """The workflow was requested and is not open yet, or was not a moment ago."""

    code = "workflow_pending"

    def __init__(self, workflow_id: str, request: PendingRequest | None) -> None:
        """`request` is None where it was answered just now."""
        requested = "was opened just now"
        if request is not None:
            requested = f"was requested {request.seconds:.0f} s ago and is not open yet: {request.reason}"
        super().__init__(f"Workflow {workflow_id} {requested}")
        self.workflow_id = workflow_id
        self.request = request


class RoundOpen(Refused):
    """The next round cannot be asked for while one is open."""

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
        super().__init__(f"Round {round_} of workflow {workflow_id} has ended already, there is nothing to cancel")
        self.workflow_id = workflow_id
        self.round = round_


@dataclass(frozen=True, slots=True)
class LastAnswer:
    """What became of the last action of a workflow that waited for a person."""

    round: int
    task: int
    step: int
    status: Literal["approved", "denied", "expired"]
    approver: Requester | None
    """Who answered; None where nobody did in time."""
    time: str
    """When, in RFC 3339 and UTC."""


class NothingToApprove(Refused):
    """No action of the workflow waits for a person."""

    code = "nothing_to_approve"

    def __init__(self, workflow_id: str, last: LastAnswer | None) -> None:
        """`last` is None where nothing in the workflow was ever answered."""
        super().__init__(f"Nothing in workflow {workflow_id} waits for an approval")
        self.workflow_id = workflow_id
        self.last = last


class UnknownSeq(Refused):
    """The workflow has no accepted event of that number."""

    code = "unknown_seq"

    def __init__(self, workflow_id: str, seq: int, *, superseded: bool, nearest: int, last: int) -> None:
        what = "was superseded: it changed nothing" if superseded else f"is not there: its last event is {last}"
        super().__init__(f"Event {seq} of workflow {workflow_id} {what}. The nearest accepted one is {nearest}")
        self.workflow_id = workflow_id
        self.nearest = nearest


class NewerRelease(Refused):
    """The workflow was worked on by a release that is newer than this one."""

    code = "newer_release"

    def __init__(self, workflow_id: str, seq: int, *, what: str, knows: str) -> None:
        by = f"Workflow {workflow_id} was worked on by a newer release of PowerOn"
        super().__init__(f"{by}: event {seq} {what}, and this release knows {knows}")
        self.workflow_id = workflow_id
        self.seq = seq


class RowsBehind(Unavailable):
    """The answer is in the log, but does not come into the rows."""

    code = "rows_behind"

    def __init__(self, workflow_id: str, seconds: float) -> None:
        super().__init__(
            f"The answer is in the log of workflow {workflow_id}, but the rows in Postgres do not hold it after "
            f"{seconds:g} s"
        )
        self.workflow_id = workflow_id
        self.seconds = seconds


class NobodyServes(Unserved):
    """What was sent stands in the log, and nobody has taken it in time."""

    code = "nobody_serves"

    def __init__(self, workflow_id: str, asked: AskedFor, seconds: float) -> None:
        super().__init__(f"Nobody has taken the {asked} within {seconds:g} s. It stands")
        self.workflow_id = workflow_id
        self.asked = asked
        self.seconds = seconds


class RoundOverdue(Unserved):
    """Somebody had begun; the time of the round is over, and nobody has ended it."""

    code = "round_overdue"

    def __init__(self, workflow_id: str, round_: int) -> None:
        super().__init__(f"The time for workflow {workflow_id} is over, and nobody has ended it")
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
    | NewerRelease
    | RowsBehind
    | NobodyServes
    | RoundOverdue
)
"""All of them, to be told apart by class or by `code`."""
