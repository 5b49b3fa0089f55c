"""The history: what a person or a model sees of a workflow.

One pure function from events to messages serves both the prompts and the rows in Postgres (H-03).
"""

from collections.abc import Iterable
from typing import assert_never

from poweron_events.archive_events import ArchiveEvent
from poweron_events.codes import FOR_PEOPLE
from poweron_events.envelope import Recorded
from poweron_events.event import FreeText
from poweron_events.fold.state import ChatMessage, MessageKind, MessageStatus, Workflow, request_label
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
    Observation,
    ObservationRecorded,
    ParametersChanged,
    ParametersRejected,
    ParametersSet,
    RefinementDecided,
    SelectionRejected,
)


def message(before: Workflow, recorded: Recorded, after: Workflow) -> ChatMessage | None:  # noqa: PLR0911 - one case per event
    """Return the message that an accepted event adds to the history; None if it adds none.

    `before` and `after` are the workflow without and with the event. An event adds at most one message, so the `seq`
    of its record identifies the message. A refinement adds what it learned about a step to the step's message: that
    message is returned again, under its own `seq`.
    """
    event = recorded.envelope.event
    match event:
        case ParametersSet() | ActionStarted() | ActionCompleted():  # the events of every step first: most are these
            return None
        case ActionSelected() | SelectionRejected():
            return None if before.task.announced else _task_started(before, recorded)
        case ObservationRecorded():
            return _step_done(before, recorded, event)
        case RefinementDecided():
            return _step_judged(before, event)
        case WorkflowRequested() | RoundRequested():
            return _opened(before, recorded, event)
        case TaskReviewed():
            return _task_ended(before, recorded, event, after)
        case RoundCompleted() | RoundFailed() | RoundCancelled():
            return _round_ended(before, recorded, event)
        case (
            None
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
            | ParametersRejected()
            | ApprovalRequested()
            | ApprovalGranted()
            | ApprovalDenied()
            | ApprovalEscalated()
            | ParametersChanged()
            | AnswerRejected()
            | StageFailed()
            | BudgetRequested()
            | BudgetGranted()
            | BudgetDenied()
            | DeadlinePassed()
        ):
            return None
        case _:
            assert_never(event)


def _say(
    before: Workflow,
    recorded: Recorded,
    *,
    kind: MessageKind,
    text: str,
    status: MessageStatus = "step",
    round_number: int | None = None,
    **fields: object,
) -> ChatMessage:
    return ChatMessage(
        seq=before.seq,
        time_ms=recorded.time_ms,
        kind=kind,
        status=status,
        round=before.place[0] if round_number is None else round_number,
        message=text,
        **fields,  # type: ignore[arg-type] # the callers name fields of ChatMessage
    )


def _opened(before: Workflow, recorded: Recorded, event: WorkflowRequested | RoundRequested) -> ChatMessage:
    return _say(
        before,
        recorded,
        kind="workflow_start",
        status="first",
        round_number=event.round,
        text=event.prompt,
        actor=event.actor,
        documents_label=request_label(event.round) if event.documents else None,
        documents=event.documents,
    )


def _task_started(before: Workflow, recorded: Recorded) -> ChatMessage:
    task, total = before.task, len(before.current.tasks)
    return _say(
        before,
        recorded,
        kind="task_start",
        text=f"Task {task.number} of {total} starts: {task.plan.objective}",
        task=task.number,
        attempt=task.attempt,
    )


def _step_done(before: Workflow, recorded: Recorded, event: ObservationRecorded) -> ChatMessage:
    selection, completed = before.step.selection, before.step.completed
    assert selection is not None
    assert completed is not None
    return _say(
        before,
        recorded,
        kind="step",
        text=event.summary,
        task=event.task,
        attempt=event.attempt,
        step=event.step,
        action=selection.action,
        success=event.observation.success,
        summary=event.summary,
        documents_label=completed.result_label if completed.documents else None,
        documents=completed.documents,
        error=(completed.error or "") if completed.code in FOR_PEOPLE else "",
        findings=findings(event.observation),
        links=event.observation.links,
        unread=completed.unread,
        unread_left_out=completed.unread_left_out,
        learnings=selection.learnings,
    )


def _step_judged(before: Workflow, event: RefinementDecided) -> ChatMessage | None:
    """Return the step's message with what the refinement learned (H-01)."""
    last = before.current.messages[-1] if before.current.messages else None
    if last is None or last.kind != "step":
        return None
    learned = dict.fromkeys((*last.learnings, *filter(None, (event.reason, *event.improvements))))
    return last.model_copy(update={"learnings": tuple(learned)})


def with_message(messages: tuple[ChatMessage, ...], said: ChatMessage) -> tuple[ChatMessage, ...]:
    """Add a message, or replace the last one if it is a new version of that."""
    again = bool(messages) and messages[-1].seq == said.seq
    return (*messages[:-1], said) if again else (*messages, said)


_REVIEWED = {
    "success": "is done",
    "retry": "is tried again",
    "failed": "could not be done",
}


def _task_ended(before: Workflow, recorded: Recorded, event: TaskReviewed, after: Workflow) -> ChatMessage:
    ended = event.status if event.status != "retry" or after.phase != "closing" else "failed"
    reason = f": {event.reason}" if event.reason else "."
    return _say(
        before,
        recorded,
        kind="task_end",
        text=f"Task {event.task} of {len(before.current.tasks)} {_REVIEWED[ended]}{reason}",
        task=event.task,
        attempt=event.attempt,
        success=ended == "success",
        learnings=event.improvements,
    )


def _round_ended(
    before: Workflow, recorded: Recorded, event: RoundCompleted | RoundFailed | RoundCancelled
) -> ChatMessage:
    return _say(
        before,
        recorded,
        kind="round_end",
        status="last",
        text=event.message,
        told=event.told,
        success=isinstance(event, RoundCompleted),
        actor=before.current.cancelled_by,
        documents=event.documents,
    )


def findings(observation: Observation) -> tuple[FreeText, ...]:
    """Return the findings of an observation as sentences: documents that were not read, then its notes."""
    return (*(document.reason for document in observation.unread), *observation.notes)


def reverse_chronological(messages: Iterable[ChatMessage]) -> list[ChatMessage]:
    """Sort messages newest first: by round, and by `seq` within a round (H-01)."""
    return sorted(messages, key=lambda message: (message.round, message.seq), reverse=True)


def item_reference(document_id: str, document_name: FreeText) -> str:
    """Return `docItem:<documentId>:<fileName>`, the reference to one document (R-01)."""
    return f"docItem:{document_id}:{document_name}"


def list_reference(label: str) -> str:
    """Return `docList:<label>`, the reference to all documents of a label (R-01)."""
    return f"docList:{label}"


MAX_ITEMS = 10  # documents of one message that are listed one by one; also the limit for links


def render(message: ChatMessage) -> str:
    """Render a message as the few lines that a prompt shows; only the first line begins at the margin."""
    place = f"round {message.round}" + (f", task {message.task}" if message.task else "")
    place += f", attempt {message.attempt}" if message.attempt else ""
    place += f", step {message.step}" if message.step else ""
    action = f", {message.action}" if message.action else ""
    outcome = {True: ", success", False: ", failed", None: ""}[message.success]
    lines = [f"[{place}{action}{outcome}] {_within(message.summary or message.told or message.message)}"]
    if message.documents_label:
        shown, count = message.documents[:MAX_ITEMS], len(message.documents)
        lines.append(f"  documents: {list_reference(message.documents_label)}")
        lines += [f"    {_within(item_reference(ref.document_id, ref.document_name))}" for ref in shown]
        if count > len(shown):
            lines.append(f"    ({count - len(shown)} more of {count} are left out.)")
    lines += [f"  finding: {_within(finding)}" for finding in message.findings]
    lines += [f"  link: {link}" for link in message.links[:MAX_ITEMS]]
    lines += [f"  learning: {_within(learning)}" for learning in message.learnings]
    return "\n".join(lines)


def _within(text: FreeText) -> str:
    """Indent the later lines of a text further than all lines of `render`, so that none looks like another message."""
    return "\n      ".join(text.splitlines())
