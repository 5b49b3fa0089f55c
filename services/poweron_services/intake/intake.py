"""Intake: the only writer of openings, cancellations and a person's approvals; every request gets one answer (E-15).

It keeps no fold. How a workflow stands it takes from Postgres, once the projector has passed
everything that was there when the request came. While as many workflows are open as may be, openings wait
in Kafka; cancellations and approvals do not wait behind them.
"""

import asyncio
import mimetypes
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

import structlog

from poweron_events import topics
from poweron_events.catalog import meaningless
from poweron_events.codec import (
    MAX_EVENT,
    InvalidRequest,
    ReceivedRequest,
    Undecodable,
    decode_request,
    encode,
    is_uuid,
)
from poweron_events.content import ContentStore, MissingContent
from poweron_events.dead_letter import DeadLetter
from poweron_events.envelope import envelop, rfc3339, source
from poweron_events.errors import Refused, Unavailable
from poweron_events.event import DocumentRef
from poweron_events.execution import ApprovalDenied, ApprovalGranted
from poweron_events.fold.partial import Stub
from poweron_events.fold.state import ChatMessage, Opening
from poweron_events.log import EventLog, Message, Record
from poweron_events.request import (
    Budgets,
    CancellationRequested,
    EarlierRounds,
    GivenDocument,
    InlineDocument,
    RefusalReason,
    RequestApproval,
    RequestCancellation,
    RequestIdentity,
    RequestRefused,
    RequestRound,
    RequestWorkflow,
    RoundRequested,
    Terms,
    WorkflowRequested,
    workflow_id,
)
from poweron_events.validation_messages import MAX_REASON
from poweron_services import telemetry
from poweron_services.decider.approval import joined
from poweron_services.decider.language_detection import detect
from poweron_services.intake.approvals import answer, why_not
from poweron_services.intake.earlier_rounds import looked_back
from poweron_services.intake.ports import Answers, Look
from poweron_services.intake.priority import cancellation, is_approval, is_urgent, waits_its_turn
from poweron_services.intake.request_queue import Lane

log = structlog.get_logger()

GROUP = "poweron.intake"
URGENT_GROUP = "poweron.intake.cancellations"  # read by their own, and approvals with them
MAX_OPEN = 1_000  # workflows with an open round; more requests wait in Kafka
UNKNOWN_TYPE = "application/octet-stream"

IntakeEvent = (
    WorkflowRequested | RoundRequested | CancellationRequested | ApprovalGranted | ApprovalDenied | RequestRefused
)
Judge = Callable[[], Awaitable[IntakeEvent]]


class _Refuse(Exception):
    """The request cannot be taken."""

    def __init__(self, reason: RefusalReason, detail: str) -> None:
        super().__init__(detail)
        self.reason, self.detail = reason, detail


@dataclass(slots=True)
class _Room:
    """How many more workflows may be opened, as one look at the rows has it."""

    free: int


class Intake:
    """Turns requests into openings, cancellations or refusals; what nobody can be answered for is a dead letter."""

    def __init__(
        self,
        *,
        event_log: EventLog,
        answers: Answers,
        content: ContentStore,
        instance: str,
        now_ms: Callable[[], int],
        actions: Collection[str],
        default_language: str | None,
        max_open: int = MAX_OPEN,
        approve: Collection[str] = (),
        spans: telemetry.Sink | None = None,
    ) -> None:
        self._spans = spans
        self._log = event_log
        self._answers = answers
        self._content = content
        self._source = source("intake", instance)
        self._now_ms = now_ms
        self._actions = actions
        self._default_language = default_language
        self._max_open = max_open
        self._marks = approve
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._positions = Look(answers.positions)
        self._floors: dict[int, int] = {}  # by partition, how far the rows were that were relied upon
        self._room = Look(self._room_left)

    async def run(self) -> None:
        """Answer requests until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(Lane(self._log, GROUP, waits_its_turn, self._answer, self._bury).run())
            group.create_task(Lane(self._log, URGENT_GROUP, is_urgent, self._answer_at_once, self._give_up).run())

    async def _answer(self, record: Record) -> None:
        try:
            received = decode_request(record.value, record.headers)
        except Undecodable as error:
            await self._bury(record, str(error))
            return
        except InvalidRequest as error:
            await self._settle_in_turn(_target(error), error.identity, _always(error.identity, "invalid", str(error)))
            return
        telemetry.asked(record.time_ms, received)
        await self._judge_until_settled(received)

    async def _answer_at_once(self, record: Record) -> None:
        if not is_approval(record):
            await self._cancel_at_once(record)
            return
        received = decode_request(record.value, record.headers)
        telemetry.asked(record.time_ms, received)
        workflow, judge = self._target_of(received)
        await self._settle(workflow, received.identity, judge)

    async def _give_up(self, record: Record, reason: str) -> None:
        await (self._bury if is_approval(record) else _leave)(record, reason)

    async def _cancel_at_once(self, record: Record) -> None:
        """Pass a cancellation on out of its turn, if it can be accepted now: the openings before it may wait for long.

        All that is not, also a refusal, is left to its turn, which finds this answer where there is one.
        """
        received = cancellation(record)
        if received is None:
            return
        telemetry.asked(record.time_ms, received)
        request, identity = received.request, received.identity
        assert isinstance(request, RequestCancellation)
        if await self._is_answered(request.workflow_id, identity):
            return
        with suppress(_Refuse):
            event = await self._cancel(identity, request)
            await self._append(request.workflow_id, identity, event)

    async def _bury(self, record: Record, reason: str) -> None:
        await self._log.append(topics.DEAD_LETTERS.name, [DeadLetter.of(record, reason).message()])
        log.warning("a request became a dead letter", partition=record.partition, offset=record.offset, reason=reason)

    async def _judge_until_settled(self, received: ReceivedRequest) -> None:
        workflow, judge = self._target_of(received)
        await self._settle_in_turn(workflow, received.identity, judge)

    def _target_of(self, received: ReceivedRequest) -> tuple[str, Judge]:
        """The workflow that the request is answered in, and who judges it."""
        request, identity = received.request, received.identity
        own = workflow_id(identity.source, identity.id)
        workflow = own if isinstance(request, RequestWorkflow) else request.workflow_id
        if is_uuid(workflow):
            return workflow, lambda: self._judge(workflow, received)
        reason = f"There is no workflow {workflow!r}; an id is a UUID in lower case."
        return own, _always(identity, "unknown_workflow", reason)

    async def _settle_in_turn(self, workflow: str, identity: RequestIdentity, judge: Judge) -> None:
        """Requests of one workflow one after another, in the order in which they came."""
        async with self._turns.setdefault(workflow, asyncio.Lock()):
            await self._settle(workflow, identity, judge)

    async def _settle(self, workflow: str, identity: RequestIdentity, judge: Judge) -> None:
        """Append until Postgres holds an answer to this request; an answer is final.

        What makes a request impossible may be its own answer, which another lane or process gave meanwhile:
        so before a refusal is appended, the rows are asked again.
        """
        answered = await self._is_answered(workflow, identity)
        while not answered:
            event = await judge()
            if isinstance(event, RequestRefused) and await self._is_answered(workflow, identity):
                return
            offset = await self._append(workflow, identity, event)
            await self._rows_reach(workflow, offset + 1)
            answered = await self._answers.answered(identity.source, identity.id)

    async def _is_answered(self, workflow: str, identity: RequestIdentity) -> bool:
        """Whether the request had its answer when it was asked."""
        await self._rows_reach_the_end(workflow)
        return await self._answers.answered(identity.source, identity.id)

    async def _append(self, workflow: str, identity: RequestIdentity, event: IntakeEvent) -> int:
        with telemetry.answering(workflow, identity, event, self._spans) as answer:
            value = self._encoded(workflow, identity, answer)
            (offset,) = await self._log.append(topics.EVENTS.name, [Message(workflow.encode(), value)])
        return offset

    async def _rows_reach_the_end(self, workflow: str) -> None:
        ends = await self._log.ends(topics.EVENTS.name)
        await self._rows_reach(workflow, ends[self._partition(workflow)])

    async def _rows_reach(self, workflow: str, offset: int) -> None:
        """Wait until the projector's next offset in the workflow's partition is at least this."""
        partition = self._partition(workflow)
        while (await self._positions()).get(partition, 0) < offset:
            pass
        self._floors[partition] = max(self._floors.get(partition, 0), offset)

    def _partition(self, workflow: str) -> int:
        return self._log.partition_of(topics.EVENTS.name, workflow.encode())

    async def _until_there_is_room(self) -> None:
        """Wait while as many workflows are open as may be; who asked first opens first."""
        while (room := await self._room()).free <= 0:
            pass
        room.free -= 1

    async def _room_left(self) -> _Room:
        return _Room(self._max_open - await self._answers.count_open(self._max_open))

    def _encoded(self, workflow: str, identity: RequestIdentity, answer: telemetry.Answering) -> bytes:
        """The answer as record value; a request that is too large to become an event is refused."""
        try:
            return self._written(workflow, answer)
        except Refused:
            detail = f"The prompt and the other fields take more than {MAX_EVENT} bytes together; shorten the prompt."
            answer.event = RequestRefused(request=identity, reason="invalid", detail=detail)
            return self._written(workflow, answer)

    def _written(self, workflow: str, answer: telemetry.Answering) -> bytes:
        time = rfc3339(datetime.fromtimestamp(self._now_ms() / 1000, UTC))
        of = answer.traceparent
        return encode(envelop(answer.event, workflow_id=workflow, source=self._source, time=time, traceparent=of))

    async def _judge(self, workflow: str, received: ReceivedRequest) -> IntakeEvent:
        request, identity = received.request, received.identity
        try:
            if isinstance(request, Terms):
                _check_marks(request, self._actions)
            if isinstance(request, RequestWorkflow):
                return await self._open(workflow, identity, request)
            if isinstance(request, RequestRound):
                return await self._open_round(workflow, identity, request, await self._known(workflow))
            if isinstance(request, RequestApproval):
                return await self._approve(identity, request)
            return await self._cancel(identity, request)
        except _Refuse as refusal:
            return RequestRefused(request=identity, reason=refusal.reason, detail=_sentence(refusal.detail))

    async def _known(self, workflow: str) -> Stub:
        partition = self._partition(workflow)
        projected, stubs = await self._answers.look_up(partition, [workflow])
        if projected < self._floors.get(partition, 0):
            raise Unavailable(f"Postgres was rebuilt and has come to {projected} only; it was further before")
        if workflow not in stubs or not stubs[workflow].openings:
            raise _Refuse("unknown_workflow", f"There is no workflow {workflow}.")
        return stubs[workflow]

    async def _open(self, workflow: str, identity: RequestIdentity, request: RequestWorkflow) -> WorkflowRequested:
        await self._until_there_is_room()
        return WorkflowRequested(
            round=1,
            workflow_mode=request.workflow_mode,
            documents=await self._documents(workflow, 1, request.documents),
            request=identity,
            **self._terms(request),
        )

    async def _open_round(
        self, workflow: str, identity: RequestIdentity, request: RequestRound, stub: Stub
    ) -> RoundRequested:
        last = len(stub.openings)
        if request.after_round > last:
            raise _no_such_round(last, request.after_round)
        if request.after_round < last:
            raise _Refuse("round_ended", f"Round {request.after_round} was followed by round {last} already.")
        if stub.is_open:
            raise _Refuse("round_open", f"Round {last} is still running; wait for its end or cancel it.")
        await self._until_there_is_room()
        return RoundRequested(
            round=last + 1,
            workflow_mode=request.workflow_mode,
            documents=await self._documents(workflow, last + 1, request.documents),
            request=identity,
            earlier=await self._earlier(workflow, last),
            **self._terms(request, await self._answers.opening(workflow, last)),
        )

    async def _cancel(self, identity: RequestIdentity, request: RequestCancellation) -> CancellationRequested:
        workflow = request.workflow_id
        stub = await self._known(workflow)
        last = len(stub.openings)
        if request.round > last:
            raise _no_such_round(last, request.round)
        if request.round < last or not stub.is_open or await self._answers.closing(workflow):
            raise _Refuse("round_ended", f"Round {request.round} has ended or is ending already.")
        return CancellationRequested(
            round=request.round, request=identity, reason=request.reason, requester=request.requester
        )

    async def _earlier(self, workflow: str, last_round: int) -> EarlierRounds:
        """What the rounds so far left behind; what does not fit is put into the content store before it is named."""
        messages = list[ChatMessage]()
        while page := await self._answers.messages(workflow, messages[-1].seq if messages else None):
            messages += page
        ended = bool(messages) and (messages[0].round, messages[0].kind) == (last_round, "round_end")
        if not ended or messages[-1].kind != "workflow_start":
            raise Unavailable(f"Postgres was rebuilt and does not hold all {last_round} rounds of {workflow} yet")
        spent = await self._answers.spent(workflow, last_round)
        return await looked_back(last_round, messages, spent, partial(self._content.put, workflow))

    async def _approve(self, identity: RequestIdentity, request: RequestApproval) -> ApprovalGranted | ApprovalDenied:
        await self._known(request.workflow_id)
        place = (request.round, request.task, request.attempt, request.step)
        asked = await self._answers.approval(request.workflow_id, place)
        if (reason := why_not(request, asked, self._now_ms())) is not None:
            raise _Refuse("invalid", reason)
        return answer(request, identity)

    def _terms(self, request: Terms, before: Opening | None = None) -> dict[str, Any]:
        """The terms of a round, in the language of the request, the workflow, the requester or the prompt (D-01).

        Budgets hold for the whole workflow: what a further round does not limit is limited as in the one `before`.
        So do the marks of actions that a person has to approve: no round takes any of them away.
        """
        terms: dict[str, Any] = {name: getattr(request, name) for name in Terms.model_fields}
        if before is not None:
            own = request.budgets.model_dump(exclude_none=True)
            terms["budgets"] = Budgets(**{**before.budgets.model_dump(), **own})
        terms["approve"] = joined(request.approve, self._marks, before.approve if before else ())
        of_workflow = before and before.user_language
        said = (request.user_language, of_workflow, request.requester.language, self._default_language)
        terms["user_language"] = next(filter(None, said), None) or detect(request.prompt)
        return terms

    async def _documents(
        self, workflow: str, round_number: int, given: Sequence[GivenDocument]
    ) -> tuple[DocumentRef, ...]:
        """Every document in the content store before any event names it (E-10)."""
        return tuple(
            [
                await self._document(workflow, f"r{round_number}d{position}", document)
                for position, document in enumerate(given, start=1)
            ]
        )

    async def _document(self, workflow: str, document_id: str, given: GivenDocument) -> DocumentRef:
        if isinstance(given, InlineDocument):
            content, size = await self._content.put(workflow, given.data), len(given.data)
        else:
            try:
                content, size = given.content, await self._content.size(workflow, given.content)
            except MissingContent as error:
                raise _Refuse("invalid", f"Document {given.document_name!r} is not in the content store.") from error
        guessed = mimetypes.guess_type(given.document_name)[0] or UNKNOWN_TYPE
        return DocumentRef(
            document_id=document_id,
            document_name=given.document_name,
            mime_type=guessed if given.mime_type == UNKNOWN_TYPE else given.mime_type,
            size=size,
            content=content,
        )


async def _leave(record: Record, reason: str) -> None:
    """A request that cannot be answered out of its turn is answered in it."""
    log.warning("a cancellation waits for its turn", partition=record.partition, offset=record.offset, reason=reason)


def _target(invalid: InvalidRequest) -> str:
    """The workflow that an invalid request is about: the one that it names, else the one that it would open."""
    if invalid.workflow_id is not None and is_uuid(invalid.workflow_id):
        return invalid.workflow_id
    return workflow_id(invalid.identity.source, invalid.identity.id)


def _always(identity: RequestIdentity, reason: RefusalReason, detail: str) -> Judge:
    """The judgement of a request that no state of any workflow could make acceptable."""

    async def refuse() -> IntakeEvent:
        return RequestRefused(request=identity, reason=reason, detail=_sentence(detail))

    return refuse


def _check_marks(request: Terms, actions: Collection[str]) -> None:
    """Refuse a mark that means no action: with a slip in it, what it was to hold back would run unasked."""
    for wrong in filter(None, (meaningless(pattern, actions) for pattern in request.approve)):
        raise _Refuse("invalid", f"The request cannot be used: approve: {wrong}")


def _no_such_round(last: int, named: int) -> _Refuse:
    rounds = "1 round" if last == 1 else f"{last} rounds"
    return _Refuse("no_such_round", f"The workflow has {rounds}; there is no round {named}.")


def _sentence(detail: str) -> str:
    return detail[:MAX_REASON].removesuffix(".")[: MAX_REASON - 1] + "."
