"""Advice for users of the command line, worded from the code and facts of an error.

Code below this package names no command or option, since each front end has its own; settings are common to all.
"""

from typing import Final, assert_never

from poweron_services.cli.output import utc
from poweron_services.client.client_errors import (
    AskedFor,
    ClientError,
    LastAnswer,
    NewerRelease,
    NobodyServes,
    NotAWorkflowId,
    NothingToApprove,
    RoundEnded,
    RoundOpen,
    RoundOverdue,
    RowsBehind,
    UnknownSeq,
    UnknownWorkflow,
    WorkflowPending,
)
from poweron_services.decider.approval import by_whom

WHERE: Final = (
    "POWERON_KAFKA and POWERON_POSTGRES say where they are; without these settings PowerOn starts both on this machine."
)
UNAVAILABLE: Final = f"`poweron status` tells which server answers. {WHERE}"
"""Advice for when a server is, or may be, unavailable."""
LOG_LOST: Final = (
    "Nothing is appended until the topic is restored from a copy, which is noticed by itself, or `poweron recover` "
    "is run, which tells first what would be lost. "
    "If POWERON_KAFKA, POWERON_KAFKA_PREFIX and POWERON_POSTGRES do not belong together, correct them instead."
)
"""Advice for when the log misses events that the rows were built from."""


def advice(error: ClientError) -> str:  # noqa: PLR0911 - one case per code
    """Return the advice about an error, in whole sentences that follow its message."""
    match error:
        case NotAWorkflowId():
            return "`poweron workflows` lists them."
        case UnknownWorkflow():
            return "`poweron workflows` lists those there are."
        case WorkflowPending():
            return _pending(error)
        case RoundOpen():
            return _open_round(error)
        case RoundEnded():
            return f"`poweron history {error.workflow_id}` shows what came of it."
        case NothingToApprove():
            return f"{_became(error.last)}`poweron approvals` lists all that does."
        case UnknownSeq():
            return f"`poweron events {error.workflow_id}` lists them."
        case NewerRelease():
            return "Install that release, or a later one; `poweron --version` says which this is."
        case RowsBehind():
            return f"`poweron events {error.workflow_id}` brings them there and shows it. {UNAVAILABLE}"
        case NobodyServes():
            return f"As soon as a `poweron serve` runs on these servers, {_service(error.asked, error.workflow_id)}."
        case RoundOverdue():
            return "As soon as a `poweron serve` runs on these servers, it does."
        case _:
            assert_never(error)


def untaken(asked: AskedFor) -> str:
    """Return the advice about something that no process has picked up yet."""
    return f"Start `poweron serve` on these servers, if none runs there. Ctrl-C stops waiting, and the {asked} stands."


def _pending(error: WorkflowPending) -> str:
    id_, request = error.workflow_id, error.request
    if request is None:
        return "Repeat the command."
    start = "" if request.is_served else "Start `poweron serve` on these servers: it does the work. "
    return f"{start}`poweron watch {id_}` waits for it, `poweron cancel {id_}` cancels it."


def _open_round(error: RoundOpen) -> str:
    id_ = error.workflow_id
    answers = f"It waits for an approval, which `poweron approve {id_}` and `poweron deny {id_}` answer. "
    return (
        f"{answers if error.waits_for_approval else ''}"
        f"`poweron watch {id_}` follows it to its end, `poweron cancel {id_}` cancels it; then ask again."
    )


def _service(asked: AskedFor, id_: str) -> str:
    """Say what a service will do once one runs, and how to see it."""
    match asked:
        case "request":
            return f"it does the work, and `poweron watch {id_}` shows it"
        case "cancellation":
            return f"it cancels the round, and `poweron watch {id_}` shows it"
        case "answer":
            return f"it is judged, and `poweron watch {id_}` shows what comes of it"


def _became(last: LastAnswer | None) -> str:
    """Say what became of the last action that waited for approval; empty if there was none."""
    if last is None:
        return ""
    what = f"Step {last.step} of task {last.task} in round {last.round}"
    when = f"{utc(last.time)} (UTC)"
    if last.approver is None:
        return f"{what} expired at {when}, which counts as denied. "
    return f"{what} was {last.status} by {by_whom(last.approver)} at {when}. "
