"""Append the events of a role: each is caused by the one before it, and all of them go into one append."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, cast

import structlog

from poweron_events import topics
from poweron_events.codec import KnownRecord, encode, sha256
from poweron_events.envelope import Cause, envelop, rfc3339_of, source
from poweron_events.errors import Refused
from poweron_events.event import Role
from poweron_events.fold.costs import failed_calls, model_calls
from poweron_events.fold.partial import expected
from poweron_events.fold.stage_specs import TIMED_PHASES
from poweron_events.fold.state import Workflow
from poweron_events.log import EventLog, Message
from poweron_events.retry import Failure, retry
from poweron_events.round_events import DeadlinePassed, RoundCancelled, RoundCompleted, RoundFailed
from poweron_events.step_events import (
    ActionCompleted,
    ActionStarted,
    ApprovalRequested,
    CallReserved,
    ObservationRecorded,
)
from poweron_events.stream import WorkflowEvent
from poweron_services import telemetry
from poweron_services.background_tasks import BackgroundTasks
from poweron_services.runtime.stages import stage_failed

log = structlog.get_logger()
Appended = asyncio.Future[None]


class _Put(NamedTuple):
    workflow_id: str
    messages: Sequence[Message]
    appended: Appended


class AppendQueue:
    """The appends of one process to `poweron.events`."""

    def __init__(self, event_log: EventLog) -> None:
        self._log = event_log
        self._waiting: dict[int, list[_Put]] = {}
        """By partition, for partitions with an append under way."""
        self._under_way: dict[int, asyncio.Task[None]] = {}
        self._tasks = BackgroundTasks()

    def put(self, workflow_id: str, messages: Sequence[Message]) -> Appended:
        """Append these messages of one workflow; the future is done once the log has them.

        It raises Refused if the log does not accept them; if the outcome is unknown, the same bytes are appended again.
        """
        put = _Put(workflow_id, messages, asyncio.get_running_loop().create_future())
        partition = self._log.partition_of(topics.EVENTS.name, messages[0].key)
        if partition in self._waiting:
            self._waiting[partition].append(put)
        else:
            self._waiting[partition] = [put]
            self._under_way[partition] = self._tasks.spawn(self._append_all(partition))
        return put.appended

    async def settle(self, partitions: Iterable[int], timeout: float) -> None:
        """Wait until no append to these partitions is under way, or the time is over."""
        if under_way := [self._under_way[number] for number in partitions if number in self._under_way]:
            await asyncio.wait(under_way, timeout=timeout)

    async def close(self, timeout: float) -> None:
        await self._tasks.cancel(timeout)

    async def _append_all(self, partition: int) -> None:
        while puts := self._waiting[partition]:
            self._waiting[partition] = []
            try:
                await self._append(puts)
            except Refused:
                for put in puts:
                    await self._append_alone(put)
        del self._waiting[partition], self._under_way[partition]

    async def _append_alone(self, put: _Put) -> None:
        """Append the messages of one workflow alone, so that a refusal does not affect other workflows."""
        try:
            await self._append([put])
        except Refused as error:
            if not put.appended.cancelled():
                put.appended.set_exception(error)

    async def _append(self, puts: Sequence[_Put]) -> None:
        def failed(failure: Failure) -> None:
            for workflow_id in dict.fromkeys(put.workflow_id for put in puts):
                log.warning("append_retried", workflow_id=workflow_id, error=str(failure.error))

        messages = [message for put in puts for message in put.messages]
        await retry(partial(self._log.append, topics.EVENTS.name, messages), failed=failed)
        for put in puts:
            if not put.appended.cancelled():
                put.appended.set_result(None)


APPENDED_WITH_OTHERS: Mapping[type[WorkflowEvent], Role] = {ActionStarted: "executor", ObservationRecorded: "observer"}
"""The roles that these events belong to, even if another role's append includes them."""


READ_BACK_FIRST = (
    *(ActionStarted, ApprovalRequested, CallReserved, DeadlinePassed),
    *(RoundCompleted, RoundFailed, RoundCancelled),
)
"""Events that must be read back before any work continues from them."""


class Written(NamedTuple):
    """An event as a record, and the workflow if it is accepted; None if no work may continue from it."""

    message: Message
    after: Workflow | None


class EventWriter:
    """Write the events of one process as records."""

    def __init__(self, *, instance: str, now_ms: Callable[[], int], traced: bool) -> None:
        self._instance = instance
        self._now_ms = now_ms
        self._traced = traced
        self.unread: dict[bytes | None, KnownRecord] = {}
        """The events that this process has written and not read back, by their bytes: they need not be decoded."""

    def write(self, role: Role, workflow: Workflow, events: Sequence[WorkflowEvent]) -> list[Written]:
        """Return the events as records; if they cannot be written, an event that says so replaces them."""
        try:
            return self._write(role, workflow, events)
        except Refused as error:
            return self._write(role, workflow, [_instead(workflow, events, error)])

    def _write(self, role: Role, workflow: Workflow, events: Sequence[WorkflowEvent]) -> list[Written]:
        now_ms, result = self._now_ms(), list[Written]()
        time = rfc3339_of(now_ms)
        cause, after = workflow.head, cast("Workflow | None", workflow)
        for event in events:
            if isinstance(event, ActionCompleted):
                cause = workflow.step.starts[event.try_ - 1].cause
            if isinstance(event, CallReserved):
                cause = None  # it answers nothing: the workflow still waits for the same event
            envelope = envelop(
                event,
                workflow_id=workflow.id,
                source=source(APPENDED_WITH_OTHERS.get(type(event), role), self._instance),
                time=time,
                cause=cause,
                traceparent=telemetry.traceparent(workflow.id, event) if self._traced else None,
            )
            value = encode(envelope)
            digest = sha256(value)
            self.unread[value] = KnownRecord(envelope, digest)
            if after is not None:
                thinks_on = type(event) not in READ_BACK_FIRST
                after = expected(after, envelope, sha256=digest, time_ms=now_ms) if thinks_on else None
            result.append(Written(Message(workflow.id.encode(), value), after))
            cause = Cause(envelope.id, digest)
        return result


def _instead(workflow: Workflow, events: Sequence[WorkflowEvent], error: Refused) -> WorkflowEvent:
    """The replacement for events that cannot be written, since every wait must end in an event."""
    if workflow.phase in TIMED_PHASES:
        calls = [call for event in events for call in model_calls(event)]
        failures = [call for event in events for call in failed_calls(event)]
        return stage_failed(workflow, error, 1 + sum(call.count for call in failures), calls, failures)
    ending = events[0]
    if not isinstance(ending, RoundCompleted | RoundFailed | RoundCancelled):
        raise error
    message = "The round has ended, but what it had to say could not be written. Its history has every step."
    return ending.model_copy(update={"message": message, "told": None, "documents": (), "model_calls": ()})
