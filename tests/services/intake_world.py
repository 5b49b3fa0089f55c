"""Intake on a log in memory, as its tests run it: with rows that are as far as a test wants them to be."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import cache
from typing import Any

from beside import beside
from structlog.testing import capture_logs

from builders import requested
from poweron_events import RequestApproval, RequestCancellation, RequestWorkflow, encode_request, topics, workflow_id
from poweron_events.catalog import CATALOG
from poweron_events.codec import decode, encode
from poweron_events.content import ContentStore
from poweron_events.dead_letter import DeadLetter, read_dead_letter
from poweron_events.envelope import envelop
from poweron_events.errors import Unavailable
from poweron_events.fold.day_use import DayUse, RequestKey, Use
from poweron_events.fold.partial import Stub
from poweron_events.fold.retention import Retention, retention
from poweron_events.fold.state import ChatMessage, Opening
from poweron_events.log import Message, Record
from poweron_events.log.memory import MemoryLog
from poweron_events.policy import AppliedPolicy
from poweron_events.request import CancellationRequested, PolicyApplied, Spent, WorkflowRequested
from poweron_events.step_events import ApprovalGranted
from poweron_projections.request_answers import OpenRound, StepApproval
from poweron_services.decider.approval import EVERYTHING, ActionLists
from poweron_services.fork.original import AcceptedEvent
from poweron_services.intake.request_intake import Intake
from poweron_services.models.chat_model import NamedModels

SOURCE = "/tests"
TIME = "2026-11-22T00:00:00.000Z"
PAGE = 2  # messages


class Rows:
    """Rows that hold what the log holds, unless they are told to stay behind, to be away or to fail."""

    def __init__(self, log: MemoryLog) -> None:
        self._log = log
        self.behind = False
        self.seal: bytes | None = None  # with which doors seal requests
        self.stands_at: Mapping[int, int] | None = None  # by partition, how far the rows are that get no further
        self.away = False
        self.blind = False  # no answer is ever found
        self.failing: set[str] = set()
        self.looks = 0
        self.asked_for: list[str] = []  # the requests whose answer was looked for
        self.ended = 0
        self.stubs: dict[str, Stub] = {}
        self.asked: StepApproval | None = None
        self.replaced = 0  # look-ups that empty rows answer in place of these
        self.history: list[ChatMessage] = []  # newest first
        self.forgotten = 0  # looks at the history that rows answer which are being made anew
        self.opened: Opening = requested()
        self.before_today = 0  # openings
        self.over: set[str] = set()  # the requests whose workflows have ended
        self.used: list[tuple[str, str, Use]] = []  # by actor and source, beside what was opened
        self.hashes: dict[tuple[str, int], str] = {}

    async def positions(self) -> Mapping[int, int]:
        self.looks += 1
        if self.away:
            raise Unavailable("Postgres is away")
        ends = await self._log.ends(topics.EVENTS.name)
        return dict.fromkeys(ends, 0) if self.behind else self.stands_at or ends

    async def seal_key(self) -> bytes | None:
        return self.seal

    async def answered(self, source: str, request_id: str) -> bool:
        if request_id in self.failing:
            raise KeyError(request_id)
        self.asked_for.append(request_id)
        answers = [event.request.id for event in await accepted(self._log) if hasattr(event, "request")]
        return not self.blind and request_id in answers

    async def look_up(self, partition: int, workflow_ids: Sequence[str]) -> tuple[int, Mapping[str, Stub]]:
        if self.replaced:
            self.replaced -= 1
            return 0, {}
        return (await self._log.ends(topics.EVENTS.name))[partition], self.stubs

    async def count_open(self, most: int) -> int:
        opened = [each for each in await events(self._log) if isinstance(each, WorkflowRequested)]
        return min(len(opened) - self.ended, most)

    async def day_use(self, since_ms: int, *, requests: Collection[RequestKey] = (), calls: bool = True) -> DayUse:
        opened = [each for each in await accepted(self._log) if isinstance(each, WorkflowRequested)]
        answered = {(each.request.source, each.request.id) for each in opened}
        starts = [(each.actor.id, each.request.source, Use(starts=1)) for each in opened[self.before_today :]]
        running = [
            (each.actor.id, each.request.source, Use(open=1)) for each in opened if each.request.id not in self.over
        ]
        return DayUse.of(
            since_ms,
            [*starts, *running, *(self.used if calls else ())],
            answered=answered & set(requests),
            positions=await self._log.ends(topics.EVENTS.name),
        )

    async def approval(self, workflow_id: str, place: tuple[int, int, int, int]) -> StepApproval | None:
        if self.asked and any(isinstance(event, ApprovalGranted) for event in await events(self._log)):
            return replace(self.asked, state="granted", waits=False)
        return self.asked

    async def policy_after(self, partition: int, number: int) -> tuple[int, AppliedPolicy | None]:
        applied = [event for event in await events(self._log) if isinstance(event, PolicyApplied)]
        newer = [AppliedPolicy(each.number, each.sha256, each.policy) for each in applied if each.number > number]
        return (await self._log.ends(topics.EVENTS.name))[partition], newer[-1] if newer else None

    async def accepted_hash(self, workflow_id: str, seq: int) -> str | None:
        return self.hashes.get((workflow_id, seq))

    async def retention(self, workflow_id: str) -> Retention:
        return retention(each.event for each in await self.accepted_events(workflow_id))

    async def accepted_events(self, workflow_id: str) -> Sequence[AcceptedEvent]:
        written = [_decoded(value) for value in await values(self._log, topics.EVENTS.name)]
        of_workflow = [each.event for each in written if each.workflow_id == workflow_id and each.event is not None]
        return [AcceptedEvent(seq, "", event) for seq, event in enumerate(of_workflow)]

    async def open_round(self, workflow_id: str) -> OpenRound:
        closing = any(isinstance(event, CancellationRequested) for event in await events(self._log))
        return OpenRound(closing, paused=False, paused_by=None)

    async def messages(self, workflow_id: str, before_seq: int | None) -> Sequence[ChatMessage]:
        if self.forgotten and before_seq is None:
            self.forgotten -= 1
            return self.history[self.forgotten :][:PAGE] if self.forgotten else []
        older = [each for each in self.history if before_seq is None or each.seq < before_seq]
        return older[:PAGE]

    async def opening(self, workflow_id: str, round_number: int) -> Opening:
        return self.opened

    async def spent(self, workflow_id: str, rounds: int) -> Spent:
        return Spent(steps=2, retries=1, input_tokens=300, output_tokens=60, cost_nano_usd=9_000)


@asynccontextmanager
async def running(
    log: MemoryLog,
    rows: Rows,
    max_open: int = 1_000,
    default_language: str | None = None,
    approve: Collection[str] = (),
    *,
    unpriced: Collection[str] = (),
    named_models: NamedModels | None = None,
    lists: ActionLists = EVERYTHING,
    connections: Collection[str] = (),
    now_ms: Callable[[], int] = lambda: 0,
    content: ContentStore | None = None,
) -> AsyncGenerator[list[Any], None]:
    """Intake at work, and what it logs."""
    intake = Intake(
        event_log=log,
        queries=rows,
        content=content or ContentStore.at("memory:///"),
        instance="1",
        now_ms=now_ms,
        actions=CATALOG,
        default_language=default_language,
        max_open=max_open,
        approve=approve,
        unpriced=unpriced,
        named_models=named_models,
        lists=lists,
        connections=connections,
    )
    with capture_logs() as lines:
        async with beside(intake.run()):
            yield lines


async def request(
    log: MemoryLog, request_id: str, prompt: str = "Write it.", key: bytes = b"k", source: str = SOURCE, **fields: Any
) -> None:
    asked = RequestWorkflow.model_construct(prompt=prompt, **fields)
    value = encode_request(asked, source=source, request_id=request_id, time=TIME)
    await log.append(topics.REQUESTS.name, [Message(key, value)])


def away_once(call: Callable[..., Awaitable[Any]], *needed: object) -> Callable[..., Awaitable[Any]]:
    """The call, which is not answered the first time that it is made with these arguments."""
    away = [True]

    async def called(*arguments: Any) -> Any:
        if away[0] and all(each in arguments for each in needed):
            away[0] = False
            raise Unavailable("Kafka is away")
        return await call(*arguments)

    return called


def overtaken_once(
    log: MemoryLog, call: Callable[..., Awaitable[Any]], began: asyncio.Event | None = None
) -> Callable[..., Awaitable[Any]]:
    """The call, which the first who makes it waits for until somebody else has answered; tells when it waits."""
    first = [True]

    async def called(*arguments: Any) -> Any:
        if first[0]:
            first[0] = False
            if began is not None:
                began.set()
            async with asyncio.timeout(10):
                while not await events(log):  # noqa: ASYNC110 - nobody tells
                    await asyncio.sleep(0.01)
        return await call(*arguments)

    return called


async def records(log: MemoryLog, topic: str) -> list[Record]:
    return [record async for batch in log.read(topic, {}, await log.ends(topic)) for record in batch]


_decoded = cache(decode)


async def values(log: MemoryLog, topic: str) -> list[bytes]:
    return [record.value or b"" for record in await records(log, topic)]


async def events(log: MemoryLog) -> list[Any]:
    return [event_of(value) for value in await values(log, topics.EVENTS.name)]


async def accepted(log: MemoryLog) -> list[Any]:
    """The events, less the openings of workflows that were open already."""
    opened, kept = set[str](), list[Any]()
    for value in await values(log, topics.EVENTS.name):
        workflow, event = _decoded(value).workflow_id, event_of(value)
        if not isinstance(event, WorkflowRequested) or workflow not in opened:
            kept.append(event)
        if isinstance(event, WorkflowRequested):
            opened.add(workflow)
    return kept


def event_of(value: bytes) -> Any:
    return _decoded(value).event


async def committed(log: MemoryLog, number: int, key: bytes = b"k") -> None:
    """Wait until intake has committed this many requests of the key's partition."""
    partition = log.partition_of(topics.REQUESTS.name, key)
    async with asyncio.timeout(10):
        while log._committed.get((topics.REQUESTS.name, topics.INTAKE_GROUP, partition), 0) < number:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)


async def appended(log: MemoryLog, number: int) -> None:
    """Wait until this many events are in the log."""
    async with asyncio.timeout(10):
        while len(await events(log)) < number:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)


async def looked(rows: Rows, times: int) -> None:
    async with asyncio.timeout(10):
        while rows.looks < times:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)


async def forge_opening(log: MemoryLog, request_id: str) -> None:
    """Open the workflow that a request is yet to open, in the name of another one."""
    opening = requested("forged")
    workflow = workflow_id(SOURCE, request_id)
    forged = envelop(opening, workflow_id=workflow, source="/poweron/intake/forged", time=TIME)
    await log.append(topics.EVENTS.name, [Message(workflow.encode(), encode(forged))])


async def dead_letters(log: MemoryLog) -> list[DeadLetter]:
    return [read_dead_letter(value) for value in await values(log, topics.DEAD_LETTERS.name)]


async def passed_by_the_cancellations(log: MemoryLog, number: int) -> None:
    partition = log.partition_of(topics.REQUESTS.name, b"k")
    async with asyncio.timeout(10):
        while log._committed.get((topics.REQUESTS.name, topics.URGENT_INTAKE_GROUP, partition), 0) < number:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)


async def cancel(log: MemoryLog, request_id: str, workflow: str, round: int = 1) -> None:  # noqa: A002 - of the event
    value = encode_request(
        RequestCancellation(workflow_id=workflow, round=round), source=SOURCE, request_id=request_id, time=TIME
    )
    await log.append(topics.REQUESTS.name, [Message(b"k", value)])


async def told(log: MemoryLog, number: int, type_: type = WorkflowRequested) -> None:
    """Wait until intake has written so many events of a type."""
    async with asyncio.timeout(10):
        while sum(isinstance(event, type_) for event in await events(log)) < number:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)


async def approve(log: MemoryLog, request_id: str, workflow: str, **fields: Any) -> None:
    given = {"round": 1, "task": 1, "attempt": 1, "step": 1, "parameters_sha256": "0" * 64, "decision": "approve"}
    asked = RequestApproval(workflow_id=workflow, **{**given, **fields})
    value = encode_request(asked, source=SOURCE, request_id=request_id, time=TIME)
    await log.append(topics.REQUESTS.name, [Message(b"k", value)])
