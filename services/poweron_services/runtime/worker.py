"""The loop that all roles share: fold the log, see whose turn it is, do one piece of work, append the result.

A role never calls another role. It has an effect only after it has read back the log, but it may work ahead of that on
its next events (E-17). There is no recovery code: after a crash, a rebalance or an outage the same loop loads, folds
and acts (E-06, E-09). Each round with a deadline has a timer.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import assert_never

import structlog

from poweron_events import topics
from poweron_events.codec import sha256
from poweron_events.envelope import Recorded, source
from poweron_events.event import Role
from poweron_events.fold.evolve import answers_head
from poweron_events.fold.stage_specs import TIMED_PHASES, TURNS, round_due_ms, turn
from poweron_events.fold.state import Workflow
from poweron_events.log import EventLog, Follower
from poweron_events.retry import Failure, retry
from poweron_events.round_events import DeadlinePassed
from poweron_events.step_events import CallReserved
from poweron_events.stream import WorkflowEvent
from poweron_services import telemetry
from poweron_services.background_tasks import BackgroundTasks
from poweron_services.decider.rules import budget_expired
from poweron_services.fair_slots import FairSlots, current_sender, current_weight
from poweron_services.models.call_reservations import bind_reserve
from poweron_services.roles.claims import Assignment
from poweron_services.roles.executor import Executor
from poweron_services.runtime.append import Appended, AppendQueue, EventWriter, Written
from poweron_services.runtime.partitions import (
    FoldedRecord,
    HeldPartitions,
    Partition,
    PartitionFact,
    PartitionFacts,
    ReleasedWorkflows,
    Snapshots,
)
from poweron_services.runtime.reservations import Reservations, TurnReservations
from poweron_services.runtime.stages import StageFunction, stage_events
from poweron_services.runtime.stop_requests import StopRequests
from poweron_services.runtime.work import Work, in_flight_already, outgoing, retire

log = structlog.get_logger()

POLL_TIMEOUT = 1.0  # seconds
HAND_OVER_TIMEOUT = 3.0  # seconds that pending appends get before their partition goes to another process
DRAIN_TIMEOUT = 5.0  # seconds that work in hand gets at shutdown
QUICK = 0.02  # seconds; a turn that took longer is in the log before the next one begins
MAX_WAITING = 1_000  # pieces of work that wait for a free slot before reading pauses

BY_INTAKE = source("intake", "")


class RoundDeadlines:
    """One timer for each workflow whose round has a deadline."""

    def __init__(self, now_ms: Callable[[], int], passed: Callable[[Workflow], None]) -> None:
        self._now_ms = now_ms
        self._passed = passed
        self._timers: dict[str, tuple[int, asyncio.TimerHandle]] = {}  # by workflow, with the deadline in ms

    def __len__(self) -> int:
        return len(self._timers)

    def watch(self, partition: Partition, workflow: Workflow) -> None:
        """Call `passed` once the round is out of time, unless the workflow is forgotten or its deadline changes."""
        due_ms = round_due_ms(workflow)
        if due_ms is None:
            self.forget(workflow.id)
        elif workflow.id not in self._timers or self._timers[workflow.id][0] != due_ms:
            self.forget(workflow.id)
            delay = max(0, due_ms - self._now_ms()) / 1000
            timer = asyncio.get_running_loop().call_later(delay, self._tell, partition, workflow.id)
            self._timers[workflow.id] = (due_ms, timer)

    def forget(self, workflow_id: str) -> None:
        _, timer = self._timers.pop(workflow_id, (0, None))
        if timer is not None:
            timer.cancel()

    def forget_all(self) -> None:
        for workflow_id in list(self._timers):
            self.forget(workflow_id)

    def _tell(self, partition: Partition, workflow_id: str) -> None:
        self._passed(partition.fold.workflows[workflow_id])  # still held: no timer outlives the release of its workflow


class Worker:
    """One process's share of the roles, with one consumer and one fold."""

    def __init__(
        self,
        *,
        event_log: EventLog,
        snapshots: Snapshots,
        stage_functions: Mapping[Role, StageFunction],
        executor: Executor | None,
        group: str,
        instance: str,
        concurrency: int,
        now_ms: Callable[[], int],
        spans: telemetry.Sink | None = None,
        meter: telemetry.Meter | None = None,
    ) -> None:
        self._log = event_log
        self._spans = spans
        self._meter = meter
        self._snapshots = snapshots
        self._stage_functions = stage_functions
        self._executor = executor
        self._group = group
        self._instance = instance
        self._now_ms = now_ms
        self._slots = FairSlots(concurrency)
        self._waiting = 0
        self._works: dict[str, Work] = {}
        self._follower: Follower | None = None
        self._held: HeldPartitions | None = None
        self._stops = StopRequests(event_log)
        self._writer = EventWriter(instance=instance, now_ms=now_ms, traced=spans is not None)
        self._queue = AppendQueue(event_log)
        self._reservations = Reservations(self._put_reservation)
        self._deadlines = RoundDeadlines(now_ms, self._deadline_passed)
        self._tasks = BackgroundTasks()

    async def run(self) -> None:
        """Follow the log and act until cancelled; then give work in hand a moment to be appended."""
        async with self._log.follow(topics.EVENTS.name, self._group) as follower:
            self._follower = follower
            self._held = held = HeldPartitions(
                self._log, self._snapshots, follower, written=self._writer.unread, stops=self._stops
            )
            self._tasks.spawn(self._act_on_all(held.tidy()))
            self._tasks.spawn(self._act_on_all(held.go_on_with_settled()))
            try:
                await self._follow(follower, held)
            finally:
                await self._drain(held)

    async def _follow(self, follower: Follower, held: HeldPartitions) -> None:
        def failed(failure: Failure) -> None:
            log.warning("kafka_unavailable", error=str(failure.error))

        while True:
            polled = await retry(partial(follower.poll, POLL_TIMEOUT), failed=failed)
            self._act_on(held.revoke(polled.revoked))
            await self._queue.settle(polled.revoked, HAND_OVER_TIMEOUT)
            if polled.assigned:
                self._tasks.spawn(self._act_on_all(held.assign(polled.assigned)))
            self._act_on(held.take(polled.records))
            full = self._waiting > MAX_WAITING and not self._reservations.awaited
            follower.pause(frozenset(held.partitions) if full else frozenset())

    async def _drain(self, held: HeldPartitions) -> None:
        held.lose_all()
        self._deadlines.forget_all()
        working = [work.task for work in self._works.values() if work.task is not None]
        if working:
            await asyncio.wait(working, timeout=DRAIN_TIMEOUT)
        await self._tasks.cancel(DRAIN_TIMEOUT)
        await self._queue.close(DRAIN_TIMEOUT)

    # --- facts ------------------------------------------------------------------------------------------

    async def _act_on_all(self, facts: PartitionFacts) -> None:
        """Act on facts that come in the background; an error must not end what comes after it."""
        async for some in facts:
            try:
                self._act_on(some)
            except Exception:
                log.exception("background_task_error")

    def _act_on(self, facts: Iterable[PartitionFact]) -> None:
        """Act on what has happened, and consider the workflows that may wait for something else now."""
        assert self._held is not None
        for fact in facts:
            match fact:
                case FoldedRecord(recorded, "superseded", _, workflow):
                    self._superseded(workflow, recorded)
                case FoldedRecord(recorded, "accepted", Workflow() as before, after):
                    self._accepted(before, after, recorded)
                case ReleasedWorkflows(workflow_ids):
                    self._released(workflow_ids)
                case FoldedRecord():
                    pass  # the first opening, or an event of a newer catalogue
                case _:
                    assert_never(fact)
        for look_up in self._held.look_ups():
            self._tasks.spawn(self._act_on_all(look_up))
        for partition in self._held.partitions.values():
            if partition.pending and partition.caught_up:
                pending, partition.pending = partition.pending, set()
                for workflow_id in pending:
                    self._consider(partition, partition.fold.workflows.get(workflow_id))

    def _superseded(self, workflow: Workflow, recorded: Recorded) -> None:
        """Retry if our event answered what the workflow waits for but had no effect, until the workflow is stuck."""
        self._reservations.read_back(recorded.sha256, accepted=False)
        is_ours = recorded.envelope.source.endswith(f"/{self._instance}")
        if workflow.stuck:
            the_last = recorded.sha256 in workflow.superseded  # later events are no longer noted
            if the_last and (is_ours or "reviewer" in self._stage_functions):
                log.error("workflow_stuck", workflow_id=workflow.id, event_id=recorded.envelope.id)
        elif is_ours and (cause := recorded.envelope.cause) is not None and cause.names(workflow.head):
            work = self._works.get(workflow.id)
            if work is not None and work.wrote_at(workflow):
                retire(work)
                self._forget_work(workflow.id)
            if answers_head(workflow, recorded) and not workflow.is_paused:
                log.error("event_without_effect", workflow_id=workflow.id, event_id=recorded.envelope.id)

    def _accepted(self, before: Workflow, after: Workflow, recorded: Recorded) -> None:
        """Report what an event of ours ended; for intake, which has no fold, the reviewer reports it."""
        self._reservations.read_back(recorded.sha256, accepted=True)
        if before.is_paused != after.is_paused and (work := self._works.get(after.id)) is not None:
            if after.is_paused:
                work.pause(after)
            else:
                work.suspend(suspended=False)
        by = recorded.envelope.source
        if by.endswith(f"/{self._instance}") or (by.startswith(BY_INTAKE) and "reviewer" in self._stage_functions):
            telemetry.report_ended(before, after, recorded, self._spans)

    def _released(self, workflow_ids: Iterable[str]) -> None:
        """Start no new effects; results of work in hand are still appended, and the fold decides on them."""
        for workflow_id in workflow_ids:
            self._deadlines.forget(workflow_id)
            if workflow_id not in self._works or not self._works[workflow_id].running:
                self._forget_work(workflow_id)

    # --- acting -----------------------------------------------------------------------------------------

    def _consider(self, partition: Partition, workflow: Workflow | None) -> None:
        """Begin the work of the role whose turn it is, unless work in hand covers what the workflow waits for."""
        if workflow is None or workflow.head is None:
            return
        if "reviewer" in self._stage_functions:
            self._deadlines.watch(partition, workflow)
        work = self._works.get(workflow.id)
        if work is not None:
            work.suspend(suspended=workflow.is_paused)  # a pause in the rows is not read as an event
        if workflow.is_paused:
            if TURNS[workflow.phase] != "executor":
                self._forget_claim(workflow.id)
            if not self._must_give_up_claim(workflow):
                return  # what runs is finished; the rest begins when it is resumed
        elif self._stops.hold(workflow):
            return  # until its answer is folded
        if work is not None and work.partition is partition and work.covers(workflow):
            return
        earlier = outgoing(self._works.pop(workflow.id, None), partition, workflow)
        role = turn(workflow)
        if role != "executor":
            self._forget_claim(workflow.id)
        if role is not None and self._plays(role):
            self._works[workflow.id] = new = Work(partition, earlier)
            new.think_at(workflow)
            new.task = self._tasks.spawn(self._work(new, workflow, role))

    def _must_give_up_claim(self, workflow: Workflow) -> bool:
        """Return whether an action was claimed before a pause and has not begun here."""
        return workflow.phase == "started" and self._executor is not None and not self._executor.runs(workflow.id)

    def _plays(self, role: Role) -> bool:
        return role in self._stage_functions or (role == "executor" and self._executor is not None)

    def _forget_work(self, workflow_id: str) -> None:
        self._works.pop(workflow_id, None)
        self._forget_claim(workflow_id)

    def _forget_claim(self, workflow_id: str) -> None:
        if self._executor is not None:
            self._executor.forget(workflow_id)

    async def _work(self, work: Work, workflow: Workflow, role: Role) -> None:
        """Do the role's work; unexpected errors are logged and the work is retried."""

        def failed(failure: Failure) -> None:
            log.error("work_retried", exc_info=failure.error, workflow_id=workflow.id, role=role)
            work.thinking = True

        sender, policy = workflow.current.opening.request.source, workflow.current.policy
        current_sender.set(sender)
        current_weight.set(policy.source_quota(sender).weight if policy else 1)
        try:
            if work.earlier is None or not await in_flight_already(work, workflow):
                await retry(partial(self._act, work, workflow, role), failed=failed, on=Exception)
        finally:
            work.thinking = False
            if not work.partition.ours and self._works.get(workflow.id) is work:
                self._forget_work(workflow.id)

    async def _act(self, work: Work, workflow: Workflow, role: Role) -> None:
        """Write the events of the role's turn, and of every following turn that can be done ahead (E-17)."""
        following: Role | None = role
        work.think_at(workflow)
        work.reservations = {entry.number for entry in workflow.current.reservations}
        loop = asyncio.get_running_loop()
        while following is not None:
            telemetry.bind_workflow(workflow, self._spans)
            telemetry.bind_meter(self._meter)
            is_paused = partial(self._is_paused, work, workflow.id)
            bind_reserve(TurnReservations(self._reservations, work, workflow, following, is_paused))
            began = loop.time()
            events = await self._events(work, workflow, following)
            if not events:
                break
            events_written, appended = self._put(following, workflow, events)
            work.wrote(workflow, *(entry.after for entry in events_written[:-1] if entry.after is not None))
            following = self._next_ahead(work, events_written[-1].after)
            workflow = events_written[-1].after or workflow
            work.thinking = following is not None
            if work.thinking:
                work.think_at(workflow)  # before the events that it builds on can be read back
            if not work.thinking or loop.time() - began > QUICK:
                await appended

    def _next_ahead(self, work: Work, after: Workflow | None) -> Role | None:
        """Return the role that works ahead on events not read back yet; no action, approval or ending may result."""
        if after is None or after.phase not in TIMED_PHASES or not work.may_go_on(after.id):
            return None
        role = turn(after)
        return role if role in self._stage_functions else None

    async def _events(self, work: Work, workflow: Workflow, role: Role) -> Sequence[WorkflowEvent]:
        if role == "executor":
            assert self._executor is not None
            return await self._executor(workflow, self._assignment(work.partition))
        events = await self._in_a_slot(work, workflow, self._stage_functions[role])
        if self._executor is not None and work.may_go_on(workflow.id):
            return [*events, *await self._executor.claim_at_once(workflow, events)]
        return events

    def _assignment(self, partition: Partition) -> Assignment:
        async def may_begin(workflow: Workflow) -> Workflow | None:
            assert self._follower is not None
            await partition.reach(self._follower.end(partition.number))  # the end seen now: under load, more follow
            if workflow.step.starts[-1].effect_class == "at_most_once":
                await self._until_nothing_stops(partition, workflow)
            return partition.fold.workflows.get(workflow.id, workflow) if partition.ours else None

        async def wait_until(due_ms: int) -> bool:
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0, due_ms - self._now_ms()) / 1000):
                    await partition.lost.wait()
            return partition.ours

        return Assignment(partition.end_at_assignment, lambda: partition.ours, may_begin, wait_until)

    async def _until_nothing_stops(self, partition: Partition, workflow: Workflow) -> None:
        """Wait until no request that exists now would stop the workflow, or the partition is lost."""

        def failed(failure: Failure) -> None:
            log.warning("kafka_unavailable", error=str(failure.error))

        async def read() -> int:
            await self._stops.read()
            return (await self._log.ends(topics.EVENTS.name))[partition.number]  # after answers to skipped requests

        while partition.ours:
            await partition.reach(await retry(read, failed=failed, needed=lambda: partition.ours) or 0)
            if not self._stops.hold(workflow):
                return
            while self._stops.hold(workflow) and not partition.lost.is_set():
                await partition.moved.wait()

    async def _in_a_slot(self, work: Work, workflow: Workflow, function: StageFunction) -> Sequence[WorkflowEvent]:
        self._waiting += 1
        try:
            await self._slots.acquire()
        finally:
            self._waiting -= 1
        try:
            if self._is_paused(work, workflow.id):
                work.begin_again()
                return []
            return await self._done(work, workflow, function) if work.partition.ours else []
        finally:
            work.keep_limit(None)
            self._slots.release()

    async def _done(self, work: Work, workflow: Workflow, function: StageFunction) -> Sequence[WorkflowEvent]:
        """Do the stage, and measure it."""
        began = time.monotonic()
        events = await stage_events(workflow, function, self._now_ms, work.keep_limit)
        if self._meter is not None:
            self._meter.stage_done(telemetry.STAGE_OF_PHASE[workflow.phase], time.monotonic() - began)
        return events

    def _is_paused(self, work: Work, workflow_id: str) -> bool:
        """Return whether this process has read that the workflow is paused.

        It may have lost the partition of the work and got it again: then what it reads is in the new one.
        """
        assert self._held is not None
        held = self._held.partitions.get(work.partition.number, work.partition)
        newest = max(work.partition, held, key=lambda partition: partition.position)
        workflow = newest.fold.workflows.get(workflow_id)
        return workflow is not None and workflow.is_paused

    def _deadline_passed(self, workflow: Workflow) -> None:
        """Record that the time of the round, or of its budget question, is over."""
        round_ = workflow.current
        event: WorkflowEvent = DeadlinePassed(round=round_.number, due_ms=round_.due_ms, moves=round_.moves)
        if workflow.asks_for_budget:
            event = budget_expired(workflow)
        self._put("reviewer", workflow, [event])

    def _put_reservation(self, workflow: Workflow, event: CallReserved) -> tuple[str, Appended]:
        (entry,), appended = self._put(TURNS[workflow.phase], workflow, [event])
        return sha256(entry.message.value), appended

    def _put(self, role: Role, workflow: Workflow, events: Sequence[WorkflowEvent]) -> tuple[list[Written], Appended]:
        entries = self._writer.write(role, workflow, events)
        return entries, self._queue.put(workflow.id, [entry.message for entry in entries])
