"""Why a client gets no answer: a code and facts, and a sentence that is true whichever door shows it.

Refused
├── NotAWorkflowId     not_a_workflow_id
├── UnknownWorkflow    unknown_workflow
├── NoSuchRecord       no_such_record
├── NewerWorkflow      newer_release
├── RoundOpen          round_open
├── RoundEnded         round_ended
└── NothingToApprove   nothing_to_approve
Unavailable
├── RowsBehind         rows_behind
└── Unserved
    ├── NobodyServes   nobody_serves
    └── RoundOverdue   round_overdue

What a person can do about it is worded by the door that shows the error, from its code and facts.
"""

from dataclasses import dataclass
from typing import Literal

from poweron_events.errors import Refused, Unavailable, Unserved
from poweron_events.event import CATALOGUE
from poweron_events.request import LAWS, Requester

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


class NoSuchRecord(Refused):
    """The workflow has no accepted event with that number."""

    code = "no_such_record"

    def __init__(self, workflow_id: str, seq: int, nearest: int, *, last: int, is_there: bool) -> None:
        why = "had no effect" if is_there else f"is not there, its last one is {last}"
        super().__init__(f"Event {seq} of workflow {workflow_id} {why}; the nearest accepted one is {nearest}")
        self.workflow_id = workflow_id
        self.seq = seq
        self.nearest = nearest


class NewerWorkflow(Refused):
    """A newer release wrote the workflow: what its events mean is not known here."""

    code = "newer_release"

    def __init__(self, workflow_id: str, *, catalogue: int, laws: int) -> None:
        which = f"catalogue {catalogue} of events and rules {laws}; this one knows {CATALOGUE} and {LAWS}"
        super().__init__(f"Workflow {workflow_id} was written by a newer release of PowerOn ({which})")
        self.workflow_id = workflow_id


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
    "round_open",
    "round_ended",
    "nothing_to_approve",
    "rows_behind",
    "nobody_serves",
    "round_overdue",
]
ClientError = (
    NotAWorkflowId
    | UnknownWorkflow
    | RoundOpen
    | RoundEnded
    | NothingToApprove
    | RowsBehind
    | NobodyServes
    | RoundOverdue
)
"""All of them, to be told apart by class or by `code`."""
