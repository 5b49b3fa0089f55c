"""Intake: the only writer of openings and cancellations; every request gets one answer (E-15).

It keeps no fold. What a workflow stands at it takes from Postgres, once the projector has passed
everything that was there when the request came. While as many workflows are open as may be, openings wait
in Kafka; a cancellation does not wait behind them.
"""

import asyncio
import mimetypes
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Generic, Protocol, TypeVar
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
from poweron_events.errors import Refused, Unavailable
from poweron_events.event import DocumentRef
from poweron_events.fold.partial import Stub
from poweron_events.log import EventLog, Message, Record
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
from poweron_services.roles.lane import Lane

log = structlog.get_logger()

GROUP = "poweron.intake"
CANCELLATIONS_GROUP = "poweron.intake.cancellations"
LOOK_PERIOD = 0.02  # seconds between looks at the rows while somebody waits for what they say
MAX_OPEN = 1_000  # workflows with an open round; more requests wait in Kafka
UNKNOWN_TYPE = "application/octet-stream"

IntakeEvent = WorkflowRequested | RoundRequested | CancellationRequested | RequestRefused
Judge = Callable[[], Awaitable[IntakeEvent]]
Seen = TypeVar("Seen")


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

    async def count_open(self, most: int) -> int:
        """How many workflows have an open round, counted no further than `most`."""


_CANCELLATION = RequestCancellation.TYPE.encode()


class _Refuse(Exception):
    """The request cannot be taken."""

    def __init__(self, reason: RefusalReason, detail: str) -> None:
        super().__init__(detail)
        self.reason, self.detail = reason, detail


class _Look(Generic[Seen]):
    """A look at the rows, shared by all who ask at the same time."""

    def __init__(self, ask: Callable[[], Awaitable[Seen]]) -> None:
        self._ask = ask
        self._next: asyncio.Task[Seen] | None = None
        self._looked = 0.0

    async def __call__(self) -> Seen:
        """What the rows say, read after the call."""
        if self._next is None:
            self._next = asyncio.create_task(self._look())
        return await asyncio.shield(self._next)

    async def _look(self) -> Seen:
        """A look that has not begun yet, so that whoever asks meanwhile may share it."""
        await asyncio.sleep(self._looked + LOOK_PERIOD - asyncio.get_running_loop().time())
        self._next, self._looked = None, asyncio.get_running_loop().time()
        return await self._ask()


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
        default_language: str | None,
        max_open: int = MAX_OPEN,
    ) -> None:
        self._log = event_log
        self._answers = answers
        self._content = content
        self._source = source("intake", instance)
        self._now_ms = now_ms
        self._default_language = default_language
        self._max_open = max_open
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._positions = _Look(answers.positions)
        self._floors: dict[int, int] = {}  # by partition, how far the rows were that were relied upon
        self._room = _Look(self._room_left)

    async def run(self) -> None:
        """Answer requests until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(Lane(self._log, GROUP, _every, self._answer, self._bury).run())
            group.create_task(
                Lane(self._log, CANCELLATIONS_GROUP, _is_cancellation, self._cancel_at_once, _leave).run()
            )

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

    async def _cancel_at_once(self, record: Record) -> None:
        """Pass a cancellation on out of its turn, if it can be accepted now: the openings before it may wait for long.

        All that is not, also a refusal, is left to its turn, which finds this answer where there is one.
        """
        received = _cancellation(record)
        if received is None:
            return
        request, identity = received
        await self._rows_reach_the_end(request.workflow_id)
        if await self._answers.answered(identity.source, identity.id):
            return
        with suppress(_Refuse):
            event = await self._cancel(identity, request)
            await self._append(request.workflow_id, identity, event)

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
        await self._rows_reach_the_end(workflow)
        while not await self._answers.answered(identity.source, identity.id):
            offset = await self._append(workflow, identity, await judge())
            await self._rows_reach(workflow, offset + 1)

    async def _append(self, workflow: str, identity: RequestIdentity, event: IntakeEvent) -> int:
        value = self._encoded(workflow, identity, event)
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
            if isinstance(request, RequestRound):
                return await self._open_round(workflow, identity, request, await self._known(workflow))
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
            raise _Refuse("no_such_round", f"The workflow has {last} rounds; there is no round {request.after_round}.")
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
            earlier=EarlierRounds(last_round=last, history=await self._answers.compact_history(workflow)),
            **self._terms(request),
        )

    async def _cancel(self, identity: RequestIdentity, request: RequestCancellation) -> CancellationRequested:
        workflow = request.workflow_id
        stub = await self._known(workflow)
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


def _every(_: Record) -> bool:
    return True


def _is_cancellation(record: Record) -> bool:
    """Whether it may be one, told without reading it: most are not."""
    return _CANCELLATION in (record.value or b"") or record.headers.get("ce_type") == _CANCELLATION


def _cancellation(record: Record) -> tuple[RequestCancellation, RequestIdentity] | None:
    """The cancellation that the record is, if it is one of an id that a workflow can have."""
    try:
        received = decode_request(record.value, record.headers)
    except (Undecodable, InvalidRequest):
        return None
    request = received.request
    if not isinstance(request, RequestCancellation) or not is_uuid(request.workflow_id):
        return None
    return request, received.identity


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


def _sentence(detail: str) -> str:
    return detail[:MAX_REASON].removesuffix(".")[: MAX_REASON - 1] + "."


def _expect_known_mode(request: Request) -> None:
    if not isinstance(request, RequestCancellation) and request.workflow_mode != "React":
        raise _Refuse(
            "invalid", f"workflowMode: this release runs React only, not {request.workflow_mode}; leave it out."
        )
