"""The events of a workflow in words: for each a word for what happened, and a sentence."""

from collections.abc import Iterator
from typing import Final, assert_never, get_args

from pydantic import JsonValue

from poweron_events.archive_events import ArchiveEvent, ContentErased, WorkflowExported, WorkflowRetained
from poweron_events.client import Heard
from poweron_events.codec import dumps
from poweron_events.codes import ForkStopCode
from poweron_events.event import NANO, RECORDED
from poweron_events.fold.costs import model_calls
from poweron_events.fold.questions import approval_terms
from poweron_events.fold.state import Workflow
from poweron_events.instance_events import InstanceEnded, InstanceStarted
from poweron_events.request import (
    CancellationRequested,
    DocumentErased,
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
    RoundEnd,
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
from poweron_services.client.follow import step_words
from poweron_services.decider.approval import by_whom
from poweron_services.text.count_words import counted

Line = tuple[str, str]
"""A word for what happened, and a sentence."""

TAKEN_OVER: Final = "taken over"
"""Marks what a fork repeats from the workflow that it was forked from."""


def size(count: int) -> str:
    """Format a number of bytes for users."""
    return f"{count} bytes" if count < 1_000 else f"{count / 1_000:.0f} kB" if count < 1e6 else f"{count / 1e6:.1f} MB"


def told_lines(record: Heard) -> Iterator[tuple[str, str, str]]:
    """Yield what happened: its place, a word for it, and a sentence."""
    event = record.event
    if event is None:
        yield "", "unknown", f"{record.recorded.envelope.type} comes from a newer release; cancelling still works."
    elif record.verdict == "superseded":
        yield _place(event), "superseded", f"{event.TYPE} came too late and has no effect."
    else:
        yield from ((_place(event), word, sentence) for word, sentence in _lines(event, record.workflow))


def _place(event: WorkflowEvent) -> str:
    step = getattr(event, "step", 0)
    task = getattr(event, "task", 0)
    return step_words(task, step) if step else f"task {task}" if task else ""


def _lines(event: WorkflowEvent, workflow: Workflow) -> Iterator[Line]:  # noqa: C901, PLR0912, PLR0915 - one case per event
    match event:
        case WorkflowRequested() | RoundRequested():
            yield "requested", _opening(event)
        case RequestRefused():
            yield "refused", event.detail
        case CancellationRequested():
            yield "cancelling", event.reason or "A user asked for it."
        case BudgetRequested() | BudgetGranted() | BudgetDenied() | RoundPaused() | RoundResumed():
            yield _of_round(event)
        case RulesChanged():
            yield "policy", f"number {event.policy.number} applies from here on, {_by_actor(event)}"
        case PolicyApplied() | InstanceStarted() | InstanceEnded():
            yield _without_workflow(event)
        case DocumentErased():
            yield "erased", f"{counted(len(event.documents), 'document')}: {event.reason}"
        case ArchiveEvent():
            yield _of_the_archive(event)
        case CallReserved():
            return  # matters only to budgets
        case TasksPlanned():
            yield from (("planned", task) for task in _tasks(event))
        case ActionsPlanned():
            yield "planned", ", ".join(action.action for action in event.actions)
        case ActionSelected():
            yield "selected", f"{event.action}: {event.action_objective}"
        case SelectionRejected() | ParametersRejected() | AnswerRejected():
            yield "refused", event.reason
        case ParametersSet():
            yield "parameters", _parameters(event)
        case ApprovalRequested():
            yield "approval", waiting(event.action)
        case ApprovalGranted() | ApprovalDenied() | ApprovalEscalated() | ParametersChanged():
            yield _answer(event, workflow)
        case ActionStarted() if workflow.step.approval == "denied" or event.claim == RECORDED:
            return  # a claim precedes every result in the log, even if the action does not run (E-08)
        case ActionStarted():
            yield "started", event.action + (f", try {event.try_}" if event.try_ > 1 else "")
        case ActionCompleted():
            yield _result(event)
        case ObservationRecorded():
            yield "observation", event.summary
        case RefinementDecided():
            yield "decision", f"{event.decision}: {event.reason}"
        case TaskReviewed():
            yield "review", f"{event.status}: {event.reason}"
        case StageFailed() if event.code in get_args(ForkStopCode):
            yield "stopped", "The fork ends here."  # the line of the action that did not run says why
        case StageFailed():
            yield "failed", f"The stage {event.stage!r} could not be done: {event.error}"
        case DeadlinePassed():
            yield "failed", "The time for this round is over."
        case RoundCompleted():
            yield "completed", _totals(event)
        case RoundFailed():
            yield "failed", _totals(event)  # the line of what went wrong says why
        case RoundCancelled():
            yield "cancelled", _totals(event)
        case _:
            assert_never(event)


def _opening(event: WorkflowRequested | RoundRequested) -> str:
    fork = event.forked_from
    origin = "" if fork is None else f"; forked from workflow {fork.workflow} at event {fork.seq}"
    if fork is not None and fork.model is not None:
        origin += f" for {fork.model}"
    return f"round {event.round}, {counted(len(event.documents), 'document')}{origin}"


def _tasks(event: TasksPlanned) -> Iterator[str]:
    mark = f" ({TAKEN_OVER})" if any(call.is_taken_over for call in model_calls(event)) else ""
    for number, task in enumerate(event.tasks, start=1):
        yield f"task {number}, {task.task_type}: {task.objective}{mark}"


def _totals(event: RoundEnd) -> str:
    tokens = event.totals.input_tokens + event.totals.output_tokens
    return f"{counted(event.totals.steps, 'step')}, {counted(tokens, 'token')}"


def waiting(action: str) -> str:
    """Return the sentence that an action waits for a person, which a front end completes."""
    return f"{action} waits for a person. Answer it with one of these:"


def _of_round(event: BudgetRequested | BudgetGranted | BudgetDenied | RoundPaused | RoundResumed) -> Line:
    """Return the line of a question for a larger budget, of its answer, of a pause or of its end."""
    match event:
        case BudgetRequested():
            return "budget", event.reason
        case BudgetGranted():
            return "granted", _granted(event)
        case BudgetDenied():
            return "denied", f"a larger budget: {event.reason}" if event.reason else "a larger budget"
        case RoundPaused():
            return "paused", _by_actor(event)
        case RoundResumed():
            return "resumed", _by_actor(event)


def _without_workflow(event: PolicyApplied | InstanceStarted | InstanceEnded) -> Line:
    match event:
        case PolicyApplied():
            return "policy", f"number {event.number} {_by_actor(event)}"
        case InstanceStarted():
            return "process", f"{event.instance} started with release {event.release}"
        case InstanceEnded():
            return "process", f"{event.instance} ended"


def _of_the_archive(event: WorkflowExported | ContentErased | WorkflowRetained) -> Line:
    match event:
        case WorkflowExported():
            contents = "" if event.with_content else " without its contents"
            return "exported", f"as {event.format}{contents} {_by_actor(event)}"
        case ContentErased():
            what = counted(len(event.documents), "document") if event.documents else "all content"
            return "erased", f"{what} {_by_actor(event)}"
        case WorkflowRetained():
            return "retained", f"{_kept(event)} {_by_actor(event)}"


def _kept(event: WorkflowRetained) -> str:
    if event.until is not None:
        return f"until {event.until}"
    return f"under hold {event.hold}" if event.hold is not None else f"no longer under hold {event.released}"


def _granted(event: BudgetGranted) -> str:
    if event.request is None:
        return event.reason
    money = f"${event.cost_nano_usd / NANO:g}" if event.cost_nano_usd else ""
    tokens = f"{event.tokens:,} more token{'' if event.tokens == 1 else 's'}" if event.tokens else ""
    because = f": {event.reason}" if event.reason else ""
    return f"{' and '.join(filter(None, (tokens, money)))} by {event.actor.id if event.actor else 'a user'}{because}"


def _answer(
    event: ApprovalGranted | ApprovalDenied | ApprovalEscalated | ParametersChanged, workflow: Workflow
) -> Line:
    """Return the line of what people say to an approval, or of its escalation or expiry."""
    match event:
        case ApprovalGranted():
            missing = approval_terms(workflow).missing if workflow.phase == "approve" else 0
            return "approved", _by(event) + (f"; {missing} more must approve" if missing else "")
        case ApprovalDenied():
            return "denied", event.reason if event.request is None else _by(event)
        case ApprovalEscalated():
            return "escalated", f"{' and '.join(event.to)} may answer, too"
        case ParametersChanged():
            return "changed", f"the parameters {_by_actor(event)}"


def _by_actor(
    event: RoundPaused | RoundResumed | RulesChanged | PolicyApplied | ParametersChanged | ArchiveEvent,
) -> str:
    because = f": {event.reason}" if event.reason else ""
    return f"by {event.actor.id if event.actor else 'a user'}{because}"


def _by(answer: ApprovalGranted | ApprovalDenied) -> str:
    because = f": {answer.reason}" if answer.reason else ""
    return f"by {by_whom(answer)}{because}"


def _parameters(event: ParametersSet) -> str:
    entries = [
        f"{name}: {shown_value(value)}" for name, value in event.parameters.items() if name not in event.defaulted
    ]
    note = f" (dropped: {', '.join(event.dropped)})" if event.dropped else ""
    return ("; ".join(entries) or "none given") + note


def shown_value(value: JsonValue) -> str:
    """Format the value of a parameter for users."""
    if isinstance(value, list):
        return ", ".join(map(shown_value, value))
    return value if isinstance(value, str) else dumps(value).decode()


def _result(event: ActionCompleted) -> Line:
    if event.outcome in ("denied", "not_begun"):
        return "not run", event.error or event.outcome
    if not event.success:
        return "failed", event.error or event.outcome
    files = [f"{document.document_name} ({size(document.size)})" for document in event.documents]
    suffix = f" in {event.duration_ms / 1000:.1f} s" if event.reused_from is None else f", {TAKEN_OVER}"
    return "result", f"{', '.join(files) or 'no documents'}{suffix}"
