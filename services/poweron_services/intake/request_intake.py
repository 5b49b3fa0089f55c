"""Intake: the only writer of openings, cancellations, pauses and answers of people; it answers each request (E-15).

It keeps no fold. It reads the state of a workflow from Postgres, once the projector has passed everything that was
present when the request arrived. While the maximum number of workflows is open, openings wait in Kafka; cancellations
and approvals do not wait behind them (docs/decisions/0008).
"""

import asyncio
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from typing import get_args

import structlog

from poweron_events import topics
from poweron_events.archive_events import ArchiveRequest, RequestErasure
from poweron_events.catalog import CATALOG, ActionSpec
from poweron_events.codec import InvalidRequest, ReceivedRequest, Undecodable, decode_request, has_seal, is_uuid
from poweron_events.content import ContentStore
from poweron_events.dead_letter import DeadLetter
from poweron_events.errors import Conflict, Refused, Unavailable
from poweron_events.log import EventLog, Record
from poweron_events.request import (
    RequestApproval,
    RequestBudget,
    RequestCancellation,
    RequestPause,
    RequestPolicy,
    RequestResume,
    RequestRules,
    RequestWorkflow,
)
from poweron_events.stream import Request
from poweron_services import telemetry
from poweron_services.decider.approval import EVERYTHING, ActionLists
from poweron_services.intake.consistent_reads import ConsistentReads
from poweron_services.intake.content_erasure import ContentErasure
from poweron_services.intake.intake_ports import IntakeQueries
from poweron_services.intake.judgement import IntakeEvent, Refusal, target, target_of_invalid
from poweron_services.intake.request_judge import RequestJudge
from poweron_services.intake.request_queue import HeldRequest, RequestQueue
from poweron_services.intake.round_limits import OpenLimit, QuotaLimit, Waiting
from poweron_services.intake.settlement import Judge, Settlement
from poweron_services.models.chat_model import NamedModels

log = structlog.get_logger()

MAX_OPEN = 1_000  # workflows with an open round; more requests wait in Kafka
_DECISIONS = (
    RequestApproval,
    RequestBudget,
    RequestPause,
    RequestResume,
    RequestPolicy,
    RequestRules,
    *get_args(ArchiveRequest),
)
"""The requests that open no round and need not wait for one; they are answered at once, in order."""
_DECISION_TYPES = tuple(decision.TYPE.encode() for decision in _DECISIONS)
_CANCELLATION = RequestCancellation.TYPE.encode()


class Intake:
    """Turn each request into an opening, cancellation, approval or refusal; an unanswerable one is a dead letter."""

    def __init__(
        self,
        *,
        event_log: EventLog,
        queries: IntakeQueries,
        content: ContentStore,
        instance: str,
        now_ms: Callable[[], int],
        actions: Collection[str],
        default_language: str | None,
        max_open: int = MAX_OPEN,
        approve: Collection[str] = (),
        unpriced: Collection[str] = (),
        named_models: NamedModels | None = None,
        lists: ActionLists = EVERYTHING,
        connections: Collection[str] = (),
        specs: Mapping[str, ActionSpec] = CATALOG,
        spans: telemetry.Sink | None = None,
    ) -> None:
        self._log = event_log
        self._queries = queries
        self._reads = reads = ConsistentReads(event_log, queries)
        self._judge = RequestJudge(
            queries=queries,
            reads=reads,
            open_limit=OpenLimit(queries, max_open),
            quota_limit=QuotaLimit(reads, queries, now_ms),
            content=content,
            now_ms=now_ms,
            actions=actions,
            default_language=default_language,
            marks=approve,
            unpriced=unpriced,
            named_models=named_models,
            lists=lists,
            connections=connections,
            specs=specs,
        )
        self._erasure = ContentErasure(queries, reads, content)
        self._settlement = Settlement(event_log, queries, reads, instance=instance, now_ms=now_ms, spans=spans)

    async def run(self, *, opens: bool = True) -> None:
        """Answer requests until cancelled; unless it `opens` rounds, only those that need not wait for one."""
        weight = self._reads.weight
        in_turn = RequestQueue(
            self._log, topics.INTAKE_GROUP, _waits_its_turn, self._answer, self._dead_letter, weight=weight
        )
        urgent = RequestQueue(
            self._log, topics.URGENT_INTAKE_GROUP, _is_urgent, self._answer_at_once, self._give_up, weight=weight
        )
        async with asyncio.TaskGroup() as group:
            if opens:
                group.create_task(in_turn.run())
            group.create_task(urgent.run())

    async def _answer(self, held: HeldRequest, is_new: bool) -> None:
        record = held.record
        try:
            received = await self._decoded(record)
        except Undecodable as error:
            await self._dead_letter(record, str(error))
        except InvalidRequest as error:
            await self._settlement.settle(target_of_invalid(error), error.identity, _refusing(error))
        else:
            telemetry.bind_request(record.time_ms, received)
            is_new = is_new and _needs_no_rows(received.request)
            next_cancellation = partial(self._next_cancellation, target(received), held)
            waiting = Waiting(next_cancellation, held.step_aside, held.step_back, record.size)
            judge = partial(self._judge.judge, target(received), received, waiting)
            try:
                await self._settlement.settle(
                    target(received), received.identity, judge, is_new=is_new, next_cancellation=next_cancellation
                )
            except (Unavailable, Conflict):
                raise  # what was appended may still arrive, so it keeps its place while it is tried again
            except BaseException:
                self._judge.release(received.identity)
                raise
            self._judge.release(received.identity)

    async def _next_cancellation(self, workflow: str, held: HeldRequest) -> ReceivedRequest | None:
        """Return the first unanswered cancellation that arrived while the request waits, or None if there is none."""
        for behind in tuple(held.behind):
            received = await self._cancellation(behind.record)
            if received is not None and not await self._settlement.is_answered(workflow, received.identity):
                return received
        return None

    async def _answer_at_once(self, held: HeldRequest, _: bool) -> None:
        record = held.record
        if not _is_decision(record):
            await self._cancel_at_once(record)
            return
        received = await self._decoded(record)
        telemetry.bind_request(record.time_ms, received)
        judge = partial(self._judge.judge, target(received), received)
        await self._settlement.settle(target(received), received.identity, judge)
        if isinstance(received.request, RequestErasure):
            await self._erasure.carry_out(target(received), received.identity)

    async def _cancel_at_once(self, record: Record) -> None:
        """Accept a cancellation out of turn if that is possible now: the openings before it may wait for a long time.

        Anything else, including a refusal, is left to the request's turn, which finds this answer if there is one.
        """
        received = await self._cancellation(record)
        if received is None:
            return
        telemetry.bind_request(record.time_ms, received)
        request, identity = received.request, received.identity
        assert isinstance(request, RequestCancellation)
        if await self._settlement.is_answered(request.workflow_id, identity):
            return
        with suppress(Refusal):
            event = await self._judge.cancel(identity, request)
            await self._settlement.append(request.workflow_id, identity, event)

    async def _decoded(self, record: Record) -> ReceivedRequest:
        """Decode a request and check its seal; raises Unavailable if that cannot be done now."""
        seal_key = await self._queries.seal_key() if has_seal(record.value, record.headers) else None
        return decode_request(record.value, record.headers, seal_key=seal_key)

    async def _cancellation(self, record: Record) -> ReceivedRequest | None:
        """Return the cancellation in the record, or None if it is none or its workflow id is not valid."""
        try:
            received = await self._decoded(record)
        except (Undecodable, InvalidRequest):
            return None
        request = received.request
        if not isinstance(request, RequestCancellation) or not is_uuid(request.workflow_id):
            return None
        return received

    async def _give_up(self, record: Record, reason: str) -> None:
        await (self._dead_letter if _is_decision(record) else _leave_to_its_turn)(record, reason)

    async def _dead_letter(self, record: Record, reason: str) -> None:
        letter = DeadLetter.of(record, reason)
        await self._log.append(topics.DEAD_LETTERS.name, [letter.message()])
        log.warning("request_dead_lettered", partition=record.partition, offset=record.offset, reason=letter.reason)


async def _leave_to_its_turn(record: Record, reason: str) -> None:
    """Log that a request cannot be answered out of turn; it is answered in its turn."""
    log.warning("cancellation_postponed", partition=record.partition, offset=record.offset, reason=reason)


def _waits_its_turn(record: Record) -> bool:
    return not _is_decision(record)


def _is_urgent(record: Record) -> bool:
    return _may_be_cancellation(record) or _is_decision(record)


def _is_decision(record: Record) -> bool:
    """Return whether the record is a decision that can be judged; most others are not even decoded."""
    value = record.value or b""
    if record.headers.get("ce_type") not in _DECISION_TYPES and not any(name in value for name in _DECISION_TYPES):
        return False
    try:
        return isinstance(decode_request(record.value, record.headers).request, _DECISIONS)
    except (Undecodable, Refused):
        return False


def _may_be_cancellation(record: Record) -> bool:
    """Return whether the record may be a cancellation, without decoding it: most are not."""
    return _CANCELLATION in (record.value or b"") or record.headers.get("ce_type") == _CANCELLATION


def _needs_no_rows(request: Request) -> bool:
    """Return whether the request is judged without reading any workflow: it opens one and names no other."""
    return isinstance(request, RequestWorkflow) and not request.forked_from and not request.restarted_from


def _refusing(invalid: InvalidRequest) -> Judge:
    """The judgement of a request that is unacceptable in any state of any workflow."""

    async def refuse() -> IntakeEvent:
        return Refusal("invalid_request", str(invalid)).event(invalid.identity)

    return refuse
