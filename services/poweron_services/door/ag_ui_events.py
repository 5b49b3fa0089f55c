"""A workflow as a stream of AG-UI events, so that any front end of that protocol can show a run.

A round is a run, an action a tool call. AG-UI has no event for approvals, budgets, pauses and progress; they are CUSTOM
events named `poweron.…`. Only accepted records count; each event but the last of a
record comes without id, so that a client resumes after whole records.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal

import orjson
from ag_ui import core
from fastapi.sse import format_sse_event

from poweron_events.request import RoundPaused, RoundRequested, RoundResumed, WorkflowRequested
from poweron_events.round_events import (
    BudgetDenied,
    BudgetGranted,
    BudgetRequested,
    RoundCancelled,
    RoundCompleted,
    RoundFailed,
    TaskReviewed,
)
from poweron_events.step_events import (
    ActionSelected,
    ApprovalDenied,
    ApprovalEscalated,
    ApprovalGranted,
    ApprovalRequested,
    ObservationRecorded,
    ParametersChanged,
    ParametersSet,
    RefinementDecided,
)
from poweron_projections.entries import EventEntry, WorkflowSummary
from poweron_services.door.record_rows import ProgressBatch, RecordBatch, StreamRecord
from poweron_services.door.stream_views import retry_ms

OPENINGS: Final = frozenset({WorkflowRequested.TYPE, RoundRequested.TYPE})
ENDS: Final = frozenset({RoundCompleted.TYPE, RoundFailed.TYPE, RoundCancelled.TYPE})
PARAMETERS: Final = frozenset({ParametersSet.TYPE, ParametersChanged.TYPE})
CUSTOM_NAMES: Final = {
    event.TYPE: f"poweron.{name}"
    for name, events in {
        "approval": (ApprovalRequested, ApprovalEscalated, ApprovalGranted, ApprovalDenied),
        "budget": (BudgetRequested, BudgetGranted, BudgetDenied),
        "pause": (RoundPaused, RoundResumed),
    }.items()
    for event in events
}
"""The name of the CUSTOM event for each type of event about an approval, a budget or a pause."""
STEP_ENDS: Final = frozenset({RefinementDecided.TYPE, TaskReviewed.TYPE})


class RunEvents:
    """Turns the accepted records of a workflow, in their order, into AG-UI events."""

    def __init__(self, workflow_id: str) -> None:
        self.is_running = False
        self._thread = workflow_id
        self._run = ""
        self._step: str | None = None
        self._action = ""
        self._call: str | None = None
        self._calls = 0

    def of(self, event: EventEntry, state: WorkflowSummary | None) -> list[core.Event]:
        """Return the events of a record; `state` is the workflow after it, if it is known."""
        data = event.data
        if event.verdict != "accepted" or not isinstance(data, dict):
            return []
        events = list(self._events_of(event, data))
        if state is not None and (self.is_running or event.type in ENDS):
            snapshot = snapshot_of(state)
            events.insert(len(events) - 1 if event.type in ENDS else len(events), snapshot)
        return events

    def _events_of(self, event: EventEntry, data: dict[str, Any]) -> Iterator[core.Event]:
        if event.type in OPENINGS:
            self.is_running, self._run = True, f"{self._thread}/r{data['round']}"
            yield core.RunStartedEvent(thread_id=self._thread, run_id=self._run)
            yield from self._message("user", event, data["prompt"])
        elif event.type == ActionSelected.TYPE:
            yield from self._end_step()
            self._step = f"r{data['round']}t{data['task']}a{data['attempt']}s{data['step']}"
            self._action, self._calls = data["action"], 0
            yield core.StepStartedEvent(step_name=self._step)
        elif event.type in PARAMETERS and self._step is not None:
            self._calls += 1
            self._call = f"{self._thread}/{self._step}" + (f"/{self._calls}" if self._calls > 1 else "")
            yield core.ToolCallStartEvent(tool_call_id=self._call, tool_call_name=self._action)
            arguments = orjson.dumps(data["parameters"]).decode()
            yield core.ToolCallArgsEvent(tool_call_id=self._call, delta=arguments)
            yield core.ToolCallEndEvent(tool_call_id=self._call)
        elif event.type == ObservationRecorded.TYPE and self._call is not None:
            message, summary = f"{self._thread}/{event.seq}", data["summary"]
            yield core.ToolCallResultEvent(message_id=message, tool_call_id=self._call, content=summary, role="tool")
        elif event.type in CUSTOM_NAMES:
            yield core.CustomEvent(name=CUSTOM_NAMES[event.type], value={"type": event.type, **data})
        elif event.type in STEP_ENDS:
            yield from self._end_step()
        elif event.type in ENDS:
            yield from self._end(event, data)

    def _end(self, event: EventEntry, data: dict[str, Any]) -> Iterator[core.Event]:
        yield from self._end_step()
        yield from self._message("assistant", event, data["message"])
        self.is_running = False
        if event.type == RoundFailed.TYPE:
            yield core.RunErrorEvent(message=data["reason"], code=data.get("code"))
            return
        outcome: core.RunFinishedSuccessOutcome | core.RunFinishedCancelledOutcome = core.RunFinishedSuccessOutcome()
        if event.type == RoundCancelled.TYPE:
            outcome = core.RunFinishedCancelledOutcome()
        result = {"message": data["message"], "documents": data.get("documents", [])}
        yield core.RunFinishedEvent(thread_id=self._thread, run_id=self._run, result=result, outcome=outcome)

    def _end_step(self) -> Iterator[core.Event]:
        if self._step is not None:
            yield core.StepFinishedEvent(step_name=self._step)
        self._step = self._call = None

    def _message(self, role: Literal["user", "assistant"], event: EventEntry, text: str) -> Iterator[core.Event]:
        message = f"{self._thread}/{event.seq}"
        if text:
            yield core.TextMessageStartEvent(message_id=message, role=role)
            yield core.TextMessageContentEvent(message_id=message, delta=text)
            yield core.TextMessageEndEvent(message_id=message)


def snapshot_of(state: WorkflowSummary) -> core.StateSnapshotEvent:
    """Return the state as GET /workflows/{id} shows it."""
    return core.StateSnapshotEvent(snapshot=state.model_dump(mode="json", by_alias=True))


class AgUiView:
    """The view of one follower: it is given all records from the first one on, and sends those after a seq."""

    shows_progress = True

    def __init__(self, workflow_id: str, after: int) -> None:
        self._events = RunEvents(workflow_id)
        self._after = after

    def encoded(self, batch: RecordBatch[Any]) -> bytes:
        """Encode what the follower lacks of the batch."""
        records, frames = batch.records, list[bytes]()
        for number, record in enumerate(records, 1):
            events = self._events.of(record.event, batch.state if number == len(records) else None)
            if record.event.seq > self._after:
                frames.append(_frames(record, events))
        return b"".join(frames)

    def state(self, state: WorkflowSummary) -> bytes:
        """Encode the state while a run goes on: nothing may come after its end."""
        return _frame(snapshot_of(state)) if self._events.is_running else b""

    def progress(self, batch: ProgressBatch) -> bytes:
        """Encode the progress of steps while a run goes on; it has no id, since it cannot be resumed."""
        values = [progress.model_dump(mode="json", by_alias=True) for progress in batch.steps]
        frames = [_frame(core.CustomEvent(name="poweron.progress", value=value)) for value in values]
        return b"".join(frames) if self._events.is_running else b""

    def end(self) -> bytes:
        return b""

    def bye(self) -> bytes:
        """Encode after how long the client should come back; the protocol has no event for that."""
        return format_sse_event(retry=retry_ms())


def _frames(record: StreamRecord, events: Sequence[core.Event]) -> bytes:
    return b"".join(_frame(event, record.id if event is events[-1] else None) for event in events)


def _frame(event: core.Event, id_: str | None = None) -> bytes:
    return format_sse_event(data_str=event.model_dump_json(by_alias=True), id=id_)
