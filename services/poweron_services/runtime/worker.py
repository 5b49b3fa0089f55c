"""The loop that all roles share: fold the log, see whose turn it is, do one piece of work, append what came of it.

A role never calls another role and acts only on events read back from the log. There is no recovery
code: after a crash, a rebalance or an outage the same loop loads, folds and acts (E-06, E-09).
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import cast

import structlog

from poweron_events import topics
from poweron_events.codec import encode, sha256, writable
from poweron_events.envelope import Cause, Recorded, envelop, rfc3339, source
from poweron_events.errors import PowerOnError, Refused, Unavailable
from poweron_events.event import ModelCall, Role
from poweron_events.execution import ActionCompleted, ActionStarted
from poweron_events.fold.costs import model_calls
from poweron_events.fold.state import Workflow
from poweron_events.fold.turn import STAGES, round_due_ms, turn
from poweron_events.log import EventLog, Follower, Message
from poweron_events.observation import ObservationRecorded
from poweron_events.outcome import DeadlinePassed, RoundCancelled, RoundCompleted, RoundFailed, Stage, StageFailed
from poweron_events.stream import WorkflowEvent
from poweron_services import telemetry
from poweron_services.background_tasks import BackgroundTasks
from poweron_services.decider.size_limits import fitting_calls
from poweron_services.models.time_limit import TimeLimit, Unkept
from poweron_services.retry import Backoff
from poweron_services.roles.executor import Executor, Standing
from poweron_services.runtime.partitions import Holding, Partition, Snapshots
from poweron_services.runtime.work import Work, in_flight_already, retire

log = structlog.get_logger()

POLL_TIMEOUT = 1.0  # seconds
DRAIN_TIMEOUT = 5.0  # seconds that work in hand gets at shutdown
STAGE_PAUSE = 30.0  # seconds at most between two tries of a stage: each may be a call that costs
MAX_WAITING = 1_000  # pieces of work that wait for a free place before reading pauses
MAX_ERROR = 4_000  # characters

BY_INTAKE = source("intake", "")

TRAVELLING: Mapping[type[WorkflowEvent], Role] = {ActionStarted: "executor", ObservationRecorded: "observer"}
"""Whose events these are, also where another role's append takes them along."""

Think = Callable[[Workflow], Awaitable[Sequence[WorkflowEvent]]]
"""What a role that is not the executor does when it is its turn."""


class Worker:
    """One process' share of the roles, over one consumer and one fold."""

    def __init__(
        self,
        *,
        event_log: EventLog,
        snapshots: Snapshots,
        thinkers: Mapping[Role, Think],
        executor: Executor | None,
        group: str,
        instance: str,
        concurrency: int,
        now_ms: Callable[[], int],
        spans: telemetry.Sink | None = None,
    ) -> None:
        self._log = event_log
        self._spans = spans
        self._snapshots = snapshots
        self._thinkers = thinkers
        self._executor = executor
        self._group = group
        self._instance = instance
        self._now_ms = now_ms
        self._slots = asyncio.Semaphore(concurrency)
        self._waiting = 0
        self._works: dict[str, Work] = {}
        self._deadlines: dict[str, tuple[int, asyncio.TimerHandle]] = {}
        self._stopped: set[str] = set()
        self._follower: Follower | None = None
        self._holding: Holding | None = None
        self._tasks = BackgroundTasks()

    async def run(self) -> None:
        """Follow and act until cancelled; then give work in hand a moment to be appended."""
        async with self._log.follow(topics.EVENTS.name, self._group) as follower:
            self._follower = follower
            self._holding = Holding(self._log, self._snapshots, follower, self)
            self._tasks.spawn(self._holding.tidy())
            try:
                await self._follow(follower, self._holding)
            finally:
                await self._drain(self._holding)

    async def _follow(self, follower: Follower, holding: Holding) -> None:
        backoff = Backoff()
        while True:
            try:
                polled = await follower.poll(POLL_TIMEOUT)
            except Unavailable as error:
                log.warning("the log is away", error=str(error))
                await backoff.pause()
                continue
            backoff = Backoff()
            holding.take(polled)
            full = self._waiting > MAX_WAITING
            follower.pause(frozenset(holding.partitions) if full else frozenset())

    # --- what `Holding` tells ---------------------------------------------------------------------------

    def changed(self) -> None:
        assert self._holding is not None
        for partition in self._holding.partitions.values():
            if partition.caught_up and partition.pending:
                pending, partition.pending = partition.pending, set()
                for workflow_id in pending:
                    self._consider(partition, partition.fold.workflows.get(workflow_id))

    def superseded(self, workflow: Workflow, recorded: Recorded) -> None:
        """Stop on a workflow whose fold and ours disagree: our event was refused by its own cause (E-06).

        An event that travelled with its cause, whose offset it could not know, was written before the
        verdict on that: where the round was stopped meanwhile, it is honestly too late.
        """
        ours = recorded.envelope.source.endswith(f"/{self._instance}")
        cause = recorded.envelope.cause
        if ours and workflow.is_open and cause is not None and cause.offset is not None and cause.names(workflow.head):
            self._stopped.add(workflow.id)
            self._forget_claim(workflow.id)
            log.critical(
                "stopped on a workflow: an event of ours was not what it waited for",
                workflow_id=workflow.id,
                event_id=recorded.envelope.id,
            )

    def accepted(self, before: Workflow, after: Workflow, recorded: Recorded) -> None:
        """Tell what an event of ours ended; for intake, which folds nothing, the reviewer tells it."""
        by = recorded.envelope.source
        if by.endswith(f"/{self._instance}") or (by.startswith(BY_INTAKE) and "reviewer" in self._thinkers):
            telemetry.tell_ended(before, after, recorded, self._spans)

    def released(self, workflow_ids: Iterable[str]) -> None:
        """Results of work in hand are still appended, the fold decides on them; new effects do not start."""
        for workflow_id in workflow_ids:
            self._stopped.discard(workflow_id)
            self._forget_deadline(workflow_id)
            if workflow_id not in self._works or not self._works[workflow_id].running:
                self._let_go(workflow_id)

    # --- acting -----------------------------------------------------------------------------------------

    def _consider(self, partition: Partition, workflow: Workflow | None) -> None:
        if workflow is None or workflow.head is None or workflow.id in self._stopped:
            return
        self._watch_deadline(partition, workflow)
        work = self._works.pop(workflow.id, None)
        if work is not None and work.covers(workflow):
            if work.partition is partition:
                self._works[workflow.id] = work
                return
        elif work is not None:
            retire(work)
            work = work if work.running or work.earlier is not None else None
        role = turn(workflow)
        if role != "executor":
            self._forget_claim(workflow.id)
        if role is not None and self._plays(role):
            self._works[workflow.id] = new = Work(workflow.head, partition, work)
            new.task = self._tasks.spawn(self._work(new, workflow, role))

    def _plays(self, role: Role) -> bool:
        return role in self._thinkers or (role == "executor" and self._executor is not None)

    def _let_go(self, workflow_id: str) -> None:
        self._works.pop(workflow_id, None)
        self._forget_claim(workflow_id)

    def _forget_claim(self, workflow_id: str) -> None:
        if self._executor is not None:
            self._executor.forget(workflow_id)

    async def _work(self, work: Work, workflow: Workflow, role: Role) -> None:
        """Do what it is the role's turn to do; what nobody foresaw is logged and tried again."""
        telemetry.begin(workflow, self._spans)
        backoff = Backoff()
        try:
            if work.earlier is not None and await in_flight_already(work, workflow):
                return
            while True:
                try:
                    await self._act(work, workflow, role)
                except Exception:
                    log.exception("work is tried again", workflow_id=workflow.id, role=role)
                    work.appending = False
                    await backoff.pause()
                else:
                    return
        finally:
            if not work.partition.ours and self._works.get(workflow.id) is work:
                self._let_go(workflow.id)

    async def _act(self, work: Work, workflow: Workflow, role: Role) -> None:
        if role == "executor":
            assert self._executor is not None
            events = await self._executor(workflow, self._standing(work.partition))
        else:
            events = await self._in_a_slot(work.partition, workflow, self._thinkers[role])
            if self._executor is not None and work.partition.ours:
                events = [*events, *await self._executor.claim_at_once(workflow, events)]
        if events:
            work.appending = True
            await self._append(role, workflow, events, work)

    def _standing(self, partition: Partition) -> Standing:
        async def caught_up() -> bool:
            assert self._follower is not None
            end = self._follower.end(partition.number)  # seen now: under load there is always more to come
            while partition.ours and partition.position < end:
                await partition.moved.wait()
            return partition.ours

        async def wait_until(due_ms: int) -> bool:
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0, due_ms - self._now_ms()) / 1000):
                    await partition.lost.wait()
            return partition.ours

        return Standing(partition.end_at_assignment, lambda: partition.ours, caught_up, wait_until)

    async def _in_a_slot(self, partition: Partition, workflow: Workflow, think: Think) -> Sequence[WorkflowEvent]:
        self._waiting += 1
        try:
            await self._slots.acquire()
        finally:
            self._waiting -= 1
        try:
            thought = self._thought if workflow.phase in STAGES else self._insisted
            return await thought(workflow, think) if partition.ours else []
        finally:
            self._slots.release()

    async def _thought(self, workflow: Workflow, think: Think) -> Sequence[WorkflowEvent]:
        """What the role came to; a stage that cannot be done at all is itself an event."""
        stage_timeout_ms = workflow.current.opening.stage_timeout_ms
        tries, trouble = 0, ""
        backoff = Backoff(STAGE_PAUSE)
        try:
            async with TimeLimit(stage_timeout_ms / 1000):  # of all tries, from the first, however late that is (E-16)
                while True:
                    tries += 1
                    try:
                        return await think(workflow)
                    except Unavailable as away:
                        trouble = str(away)
                        log.warning(telemetry.WAITS, workflow_id=workflow.id, stage=workflow.phase, error=trouble)
                        if self._now_ms() >= workflow.head_ms + stage_timeout_ms:
                            return [_stage_failed(workflow, trouble, tries)]
                        await backoff.pause()
                    except PowerOnError as refused:
                        return [_stage_failed(workflow, str(refused), tries)]
                    except Exception:
                        log.exception("a stage raised", workflow_id=workflow.id, stage=workflow.phase)
                        return [_stage_failed(workflow, "An unexpected error; the log of the service has it.", tries)]
        except Unkept as unkept:
            return [_stage_failed(workflow, str(unkept), tries, unkept.calls)]
        except TimeoutError:
            return [_stage_failed(workflow, _too_long(workflow, tries, trouble), tries)]

    async def _insisted(self, workflow: Workflow, think: Think) -> Sequence[WorkflowEvent]:
        """The end of a round is written whatever happens: only what is away is waited for."""
        backoff = Backoff()
        while True:
            try:
                return await think(workflow)
            except Unavailable as error:
                log.warning("an ending waits", workflow_id=workflow.id, error=str(error))
                await backoff.pause()

    async def _append(
        self, role: Role, workflow: Workflow, events: Sequence[WorkflowEvent], work: Work | None = None
    ) -> None:
        """Append events one after the other in one go; an unknown outcome repeats the same bytes."""
        try:
            messages, causes = self._messages(role, workflow, events)
        except Refused as error:
            messages, causes = self._messages(role, workflow, [_instead(workflow, events, error)])
        if work is not None:
            work.told = causes
        backoff = Backoff()
        while True:
            try:
                await self._log.append(topics.EVENTS.name, messages)
            except Unavailable as error:
                log.warning("an append is repeated", workflow_id=workflow.id, error=str(error))
                await backoff.pause()
            else:
                return

    def _messages(
        self, role: Role, workflow: Workflow, events: Sequence[WorkflowEvent]
    ) -> tuple[list[Message], list[Cause]]:
        time = rfc3339(datetime.fromtimestamp(self._now_ms() / 1000, UTC))
        assert self._holding is not None
        messages, causes = list[Message](), list[Cause]()
        cause = workflow.head
        for event in events:
            if isinstance(event, ActionCompleted):
                cause = workflow.step.starts[event.try_ - 1].cause
            by = source(TRAVELLING.get(type(event), role), self._instance)
            of = telemetry.traceparent(workflow.id, event) if self._spans is not None else None
            envelope = envelop(event, workflow_id=workflow.id, source=by, time=time, cause=cause, traceparent=of)
            value = encode(envelope)
            self._holding.written[value] = envelope
            messages.append(Message(workflow.id.encode(), value))
            cause = Cause(envelope.id, sha256(value))
            causes.append(cause)
        return messages, causes

    # --- deadlines --------------------------------------------------------------------------------------

    def _watch_deadline(self, partition: Partition, workflow: Workflow) -> None:
        """State that the round's time is over when our clock passes it; the fold decides on the event (E-16)."""
        if "reviewer" not in self._thinkers:
            return
        due_ms = round_due_ms(workflow)
        if due_ms is None:
            self._forget_deadline(workflow.id)
        elif workflow.id not in self._deadlines or self._deadlines[workflow.id][0] != due_ms:
            self._forget_deadline(workflow.id)
            delay = max(0, due_ms - self._now_ms()) / 1000
            timer = asyncio.get_running_loop().call_later(delay, self._deadline_passed, partition, workflow.id)
            self._deadlines[workflow.id] = (due_ms, timer)

    def _deadline_passed(self, partition: Partition, workflow_id: str) -> None:
        workflow = partition.fold.workflows[workflow_id]  # held: a timer does not outlive the release of its workflow
        passed = DeadlinePassed(round=workflow.current.number, due_ms=workflow.current.due_ms)
        self._tasks.spawn(self._append("reviewer", workflow, [passed]))

    def _forget_deadline(self, workflow_id: str) -> None:
        _, timer = self._deadlines.pop(workflow_id, (0, None))
        if timer is not None:
            timer.cancel()

    async def _drain(self, holding: Holding) -> None:
        holding.lose_all()
        for workflow_id in list(self._deadlines):
            self._forget_deadline(workflow_id)
        working = [work.task for work in self._works.values() if work.task is not None and work.running]
        if working:
            await asyncio.wait(working, timeout=DRAIN_TIMEOUT)
        await holding.close(DRAIN_TIMEOUT)
        await self._tasks.cancel(DRAIN_TIMEOUT)


def _instead(workflow: Workflow, events: Sequence[WorkflowEvent], error: Refused) -> WorkflowEvent:
    """What is said in place of an event that cannot be written: every wait ends in one that can."""
    if workflow.phase in STAGES:
        calls = [call for event in events for call in model_calls(event)]
        return _stage_failed(workflow, str(error), 1, calls)
    ending = events[0]
    if not isinstance(ending, RoundCompleted | RoundFailed | RoundCancelled):
        raise error
    said = "The round has ended, but what it had to say could not be written. Its history has every step."
    return ending.model_copy(update={"message": said, "documents": (), "model_calls": ()})


def _too_long(workflow: Workflow, tries: int, trouble: str) -> str:
    """That the time of a stage is over, with what kept it: only that tells a person what to mend."""
    seconds = workflow.current.opening.stage_timeout_ms / 1000
    limit = f"within {seconds:g} s, the time limit of a stage (`stageTimeoutMs` of the request)."
    if trouble:
        return f"It was tried {'once' if tries == 1 else f'{tries} times'} {limit} The last trouble: {trouble}"
    return f"It was not done {limit}" if workflow.phase == "observe" else f"The model has not answered {limit}"


def _stage_failed(workflow: Workflow, error: str, tries: int, calls: Sequence[ModelCall] = ()) -> StageFailed:
    round_number, task, attempt, step = workflow.place
    return StageFailed(
        round=round_number,
        task=task,
        attempt=attempt,
        step=step,
        stage=cast("Stage", workflow.phase),
        error=writable(error)[:MAX_ERROR],
        tries=tries,
        model_calls=fitting_calls(calls),
    )
