"""Appending what a role came to: each event caused by the one before it, all of them in one append."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial

import structlog

from poweron_events import topics
from poweron_events.codec import encode, sha256
from poweron_events.envelope import Cause, Envelope, envelop, rfc3339, source
from poweron_events.errors import Refused
from poweron_events.event import Role
from poweron_events.execution import ActionCompleted, ActionStarted
from poweron_events.fold.costs import failed_calls, model_calls
from poweron_events.fold.state import Workflow
from poweron_events.fold.turn import STAGES
from poweron_events.log import EventLog, Message
from poweron_events.observation import ObservationRecorded
from poweron_events.outcome import RoundCancelled, RoundCompleted, RoundFailed
from poweron_events.retry import Failure, retry
from poweron_events.stream import WorkflowEvent
from poweron_services import telemetry
from poweron_services.runtime.stages import stage_failed

log = structlog.get_logger()

TRAVELLING: Mapping[type[WorkflowEvent], Role] = {ActionStarted: "executor", ObservationRecorded: "observer"}
"""Whose events these are, also where another role's append takes them along."""

Encoded = tuple[list[Message], list[Cause]]
"""Events as records, and each of them as a cause of what follows it."""


class Appender:
    """Appends the events of one process."""

    def __init__(self, event_log: EventLog, *, instance: str, now_ms: Callable[[], int], traced: bool) -> None:
        self._log = event_log
        self._instance = instance
        self._now_ms = now_ms
        self._traced = traced
        self.written: dict[bytes | None, Envelope] = {}
        """What this process has written and not read back, by its bytes: these need not be decoded."""

    def encoded(self, role: Role, workflow: Workflow, events: Sequence[WorkflowEvent]) -> Encoded:
        """The events as they are appended; in place of what cannot be written, an event that says so."""
        try:
            return self._encoded(role, workflow, events)
        except Refused as error:
            return self._encoded(role, workflow, [_instead(workflow, events, error)])

    async def append(self, workflow: Workflow, messages: Sequence[Message]) -> None:
        """Append them one after the other in one go; an unknown outcome repeats the same bytes."""

        def failed(failure: Failure) -> None:
            log.warning("append_retried", workflow_id=workflow.id, error=str(failure.error))

        await retry(partial(self._log.append, topics.EVENTS.name, messages), failed=failed)

    def _encoded(self, role: Role, workflow: Workflow, events: Sequence[WorkflowEvent]) -> Encoded:
        time = rfc3339(datetime.fromtimestamp(self._now_ms() / 1000, UTC))
        messages, causes = list[Message](), list[Cause]()
        cause = workflow.head
        for event in events:
            if isinstance(event, ActionCompleted):
                cause = workflow.step.starts[event.try_ - 1].cause
            by = source(TRAVELLING.get(type(event), role), self._instance)
            of = telemetry.traceparent(workflow.id, event) if self._traced else None
            envelope = envelop(event, workflow_id=workflow.id, source=by, time=time, cause=cause, traceparent=of)
            value = encode(envelope)
            self.written[value] = envelope
            messages.append(Message(workflow.id.encode(), value))
            cause = Cause(envelope.id, sha256(value))
            causes.append(cause)
        return messages, causes


def _instead(workflow: Workflow, events: Sequence[WorkflowEvent], error: Refused) -> WorkflowEvent:
    """What is said in place of an event that cannot be written: every wait ends in one that can."""
    if workflow.phase in STAGES:
        calls = [call for event in events for call in model_calls(event)]
        failed = [each for event in events for each in failed_calls(event)]
        return stage_failed(workflow, error, 1 + sum(each.count for each in failed), calls, failed)
    ending = events[0]
    if not isinstance(ending, RoundCompleted | RoundFailed | RoundCancelled):
        raise error
    said = "The round has ended, but what it had to say could not be written. Its history has every step."
    return ending.model_copy(update={"message": said, "told": None, "documents": (), "model_calls": ()})
