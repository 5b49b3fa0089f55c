"""Intake: the only writer of openings and cancellations; every request gets one answer (E-15).

It keeps no fold. What a workflow stands at it takes from Postgres, once the projector has passed
everything that was there when the request came.
"""

import asyncio
import mimetypes
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol
from weakref import WeakValueDictionary

import structlog

from poweron_events import topics
from poweron_events.codec import (
    MAX_EVENT,
    MAX_REASON,
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
from poweron_events.errors import Conflict, PowerOnError, Refused, Unavailable
from poweron_events.event import DocumentRef
from poweron_events.fold.partial import Stub
from poweron_events.log import EventLog, Follower, Message, Polled, Record
from poweron_events.request import (
    CancellationRequested,
    EarlierRounds,
    GivenDocument,
    InlineDocument,
    RefusalReason,
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
from poweron_events.stream import Request
from poweron_services.roles.folding import Backoff, Tasks

log = structlog.get_logger()

GROUP = "poweron.intake"
POLL_TIMEOUT = 1.0  # seconds
STOP_TIMEOUT = 5.0  # seconds that requests in hand get at shutdown
POSITION_PERIOD = 0.02  # seconds between looks at the projector's position while somebody waits for it
IN_HAND = 64  # requests worked on at a time
TRIES = 5  # until a request that raises becomes a dead letter
UNKNOWN_TYPE = "application/octet-stream"

IntakeEvent = WorkflowRequested | RoundRequested | CancellationRequested | RequestRefused
Judge = Callable[[], Awaitable[IntakeEvent]]


class Answers(Protocol):
    """What intake asks of Postgres. Every method raises Unavailable while Postgres is away."""

    async def answered(self, source: str, request_id: str) -> bool:
        """Whether the request has its answer."""

    async def look_up(self, partition: int, workflow_ids: Sequence[str]) -> tuple[int, Mapping[str, Stub]]:
        """The projector's next offset and the stubs of those workflows that it knows, read at one moment."""

    async def closing(self, workflow_id: str) -> bool:
        """Whether the workflow's open round was stopped already and only its end is awaited."""

    async def compact_history(self, workflow_id: str) -> str:
        """What the rounds so far did, newest first, at most 8 kB."""

    async def positions(self) -> Mapping[int, int]:
        """The projector's next offset of every partition."""


class _Refuse(Exception):
    """The request cannot be taken."""

    def __init__(self, reason: RefusalReason, detail: str) -> None:
        super().__init__(detail)
        self.reason, self.detail = reason, detail


@dataclass(slots=True)
class _InHand:
    """The requests of a partition that have no answer yet. Offsets may have gaps: deleted records, transactions."""

    next: int
    offsets: set[int] = field(default_factory=set)

    def take(self, offset: int) -> None:
        self.offsets.add(offset)
        self.next = max(self.next, offset + 1)

    def answered(self, offset: int) -> int:
        """Strike a request; returns the offset before which every request is answered."""
        self.offsets.discard(offset)
        return min(self.offsets, default=self.next)


class _Projected:
    """How far the rows are, looked up once for all who wait at the same time."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._next: asyncio.Task[Mapping[int, int]] | None = None
        self._looked = 0.0

    async def passed(self, partition: int, offset: int) -> None:
        """Wait until the projector's next offset is at least this, in rows that were read after the call."""
        while (await self._look()).get(partition, 0) < offset:
            pass

    async def _look(self) -> Mapping[int, int]:
        if self._next is None:
            self._next = asyncio.create_task(self._positions())
        return await asyncio.shield(self._next)

    async def _positions(self) -> Mapping[int, int]:
        """A look that has not begun yet, so that whoever asks meanwhile may share it."""
        await asyncio.sleep(self._looked + POSITION_PERIOD - asyncio.get_running_loop().time())
        self._next, self._looked = None, asyncio.get_running_loop().time()
        return await self._answers.positions()


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
        default_language: str | None,
    ) -> None:
        self._log = event_log
        self._answers = answers
        self._content = content
        self._source = source("intake", instance)
        self._now_ms = now_ms
        self._default_language = default_language
        self._in_hand = asyncio.Semaphore(IN_HAND)
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._partitions: dict[int, _InHand] = {}
        self._unbegun: frozenset[int] = frozenset()
        self._projected = _Projected(answers)
        self._tasks = Tasks()
        self._pending = 0

    async def run(self) -> None:
        """Answer requests until cancelled."""
        async with self._log.follow(topics.REQUESTS.name, GROUP) as follower:
            try:
                await self._follow(follower)
            finally:
                await self._tasks.cancel(STOP_TIMEOUT)

    async def _follow(self, follower: Follower) -> None:
        backoff = Backoff()
        while True:
            try:
                self._take_in(follower, await follower.poll(POLL_TIMEOUT))
                await self._begin(follower)
            except Unavailable as error:
                log.warning("requests are away", error=str(error))
                await backoff.pause()
            else:
                backoff = Backoff()

    def _take_in(self, follower: Follower, polled: Polled) -> None:
        for number in polled.revoked:
            self._partitions.pop(number, None)
        self._unbegun = (self._unbegun - polled.revoked) | polled.assigned
        for record in polled.records:
            self._take(follower, record)
        full = self._pending >= IN_HAND
        follower.pause(frozenset(self._partitions) if full else frozenset())

    async def _begin(self, follower: Follower) -> None:
        """Go on where the group stands; a partition is assigned only once, so one that cannot be begun is kept."""
        for number in sorted(self._unbegun):
            offset = await follower.committed(number)
            self._partitions[number] = _InHand(offset)
            await follower.seek(number, offset)
            self._unbegun -= {number}

    def _take(self, follower: Follower, record: Record) -> None:
        if record.partition in self._partitions:
            self._partitions[record.partition].take(record.offset)
        self._pending += 1
        self._tasks.spawn(self._handle(follower, record))

    async def _handle(self, follower: Follower, record: Record) -> None:
        async with self._in_hand:
            await self._until_answered(record)
        self._pending -= 1
        await self._commit(follower, record)

    async def _until_answered(self, record: Record) -> None:
        """Answer, however long it takes; a request that only ever raises is buried, so that it stops no other."""
        backoff, raised, reason = Backoff(), 0, ""
        while True:
            try:
                if raised < TRIES:
                    await self._answer(record)
                else:
                    await self._bury(record, reason)
            except PowerOnError as error:
                log.warning("a request waits", error=str(error))
            except Exception as error:
                log.exception("a request raised", partition=record.partition, offset=record.offset)
                raised += 1
                reason = f"intake met an unexpected error {raised} times: {error!r}"
            else:
                return
            await backoff.pause()

    async def _commit(self, follower: Follower, record: Record) -> None:
        partition = self._partitions.get(record.partition)
        if partition is None:
            return
        with suppress(Unavailable, Conflict):  # it comes again, and its answer is found
            await follower.commit({record.partition: partition.answered(record.offset)})

    async def _answer(self, record: Record) -> None:
        try:
            received = decode_request(record.value, record.headers)
        except Undecodable as error:
            await self._bury(record, str(error))
            return
        except InvalidRequest as error:
            await self._settle_in_turn(_target(error), error.identity, _always(error.identity, "invalid", str(error)))
            return
        await self._judge_until_settled(received)

    async def _bury(self, record: Record, reason: str) -> None:
        await self._log.append(topics.DEAD_LETTERS.name, [DeadLetter.of(record, reason).message()])
        log.warning("a request became a dead letter", partition=record.partition, offset=record.offset, reason=reason)

    async def _judge_until_settled(self, received: ReceivedRequest) -> None:
        request, identity = received.request, received.identity
        own = workflow_id(identity.source, identity.id)
        workflow = own if isinstance(request, RequestWorkflow) else request.workflow_id
        if is_uuid(workflow):
            await self._settle_in_turn(workflow, identity, lambda: self._judge(workflow, received))
            return
        reason = f"There is no workflow {workflow!r}; an id is a UUID in lower case."
        await self._settle_in_turn(own, identity, _always(identity, "unknown_workflow", reason))

    async def _settle_in_turn(self, workflow: str, identity: RequestIdentity, judge: Judge) -> None:
        """Requests of one workflow one after another, in the order in which they came."""
        async with self._turns.setdefault(workflow, asyncio.Lock()):
            await self._settle(workflow, identity, judge)

    async def _settle(self, workflow: str, identity: RequestIdentity, judge: Judge) -> None:
        """Append until Postgres holds an answer to this request; an answer is final."""
        partition = self._log.partition_of(topics.EVENTS.name, workflow.encode())
        ends = await self._log.ends(topics.EVENTS.name)
        await self._projected.passed(partition, ends[partition])
        while not await self._answers.answered(identity.source, identity.id):
            event = await judge()
            value = self._encoded(workflow, identity, event)
            (offset,) = await self._log.append(topics.EVENTS.name, [Message(workflow.encode(), value)])
            await self._projected.passed(partition, offset + 1)

    def _encoded(self, workflow: str, identity: RequestIdentity, event: IntakeEvent) -> bytes:
        """The event as record value; a request that is too large to become an event is refused."""
        time = rfc3339(datetime.fromtimestamp(self._now_ms() / 1000, UTC))
        try:
            return encode(envelop(event, workflow_id=workflow, source=self._source, time=time))
        except Refused:
            detail = f"The prompt and the other fields take more than {MAX_EVENT} bytes together; shorten the prompt."
            refused = RequestRefused(request=identity, reason="invalid", detail=detail)
            return encode(envelop(refused, workflow_id=workflow, source=self._source, time=time))

    async def _judge(self, workflow: str, received: ReceivedRequest) -> IntakeEvent:
        request, identity = received.request, received.identity
        try:
            _expect_known_mode(request)
            if isinstance(request, RequestWorkflow):
                return await self._open(workflow, identity, request)
            stub = await self._known(workflow)
            if isinstance(request, RequestRound):
                return await self._open_round(workflow, identity, request, stub)
            return await self._cancel(workflow, identity, request, stub)
        except _Refuse as refusal:
            return RequestRefused(request=identity, reason=refusal.reason, detail=_sentence(refusal.detail))

    async def _known(self, workflow: str) -> Stub:
        partition = self._log.partition_of(topics.EVENTS.name, workflow.encode())
        _, stubs = await self._answers.look_up(partition, [workflow])
        if workflow not in stubs or not stubs[workflow].openings:
            raise _Refuse("unknown_workflow", f"There is no workflow {workflow}.")
        return stubs[workflow]

    async def _open(self, workflow: str, identity: RequestIdentity, request: RequestWorkflow) -> WorkflowRequested:
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
            raise _Refuse("no_such_round", f"The workflow has {last} rounds; there is no round {request.after_round}.")
        if request.after_round < last:
            raise _Refuse("round_ended", f"Round {request.after_round} was followed by round {last} already.")
        if stub.is_open:
            raise _Refuse("round_open", f"Round {last} is still running; wait for its end or cancel it.")
        return RoundRequested(
            round=last + 1,
            workflow_mode=request.workflow_mode,
            documents=await self._documents(workflow, last + 1, request.documents),
            request=identity,
            earlier=EarlierRounds(last_round=last, history=await self._answers.compact_history(workflow)),
            **self._terms(request),
        )

    async def _cancel(
        self, workflow: str, identity: RequestIdentity, request: RequestCancellation, stub: Stub
    ) -> CancellationRequested:
        last = len(stub.openings)
        if request.round > last:
            raise _Refuse("no_such_round", f"The workflow has {last} rounds; there is no round {request.round}.")
        if request.round < last or not stub.is_open or await self._answers.closing(workflow):
            raise _Refuse("round_ended", f"Round {request.round} has ended or is ending already.")
        return CancellationRequested(
            round=request.round, request=identity, reason=request.reason, requester=request.requester
        )

    def _terms(self, request: Terms) -> dict[str, Any]:
        terms: dict[str, Any] = {name: getattr(request, name) for name in Terms.model_fields}
        terms["user_language"] = request.user_language or request.requester.language or self._default_language
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


def _sentence(detail: str) -> str:
    return detail[:MAX_REASON].removesuffix(".")[: MAX_REASON - 1] + "."


def _expect_known_mode(request: Request) -> None:
    if not isinstance(request, RequestCancellation) and request.workflow_mode != "React":
        raise _Refuse(
            "invalid", f"workflowMode: this release runs React only, not {request.workflow_mode}; leave it out."
        )
