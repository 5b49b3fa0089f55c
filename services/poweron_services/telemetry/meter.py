"""What a process counts and measures while it works; it knows nothing of Prometheus, which keeps the numbers."""

import time
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import Final, NamedTuple, Protocol

from poweron_events.fold.stage_specs import STAGES
from poweron_events.fold.state import Phase
from poweron_events.log import EventLog, Follower, GroupState, Message, Polled, Record

STAGE_OF_PHASE: Final[Mapping[Phase, str]] = {phase: stage.name for stage in STAGES for phase in stage.phases}


class ModelAnswer(NamedTuple):
    """The answer to one request to a model, and what it took."""

    stage: str
    provider: str
    model: str
    seconds: float
    input_tokens: int
    output_tokens: int
    cached_input_tokens: int
    reasoning_tokens: int
    cost_nano_usd: int


class Meter(Protocol):
    """Receives what a process counts and measures. No method waits, and none raises."""

    def events_projected(self, counts: Mapping[tuple[str | None, str], int]) -> None:
        """Count events that were written into the rows, by type and verdict; a record that is no event has no type."""

    def stage_done(self, stage: str, seconds: float) -> None:
        """Measure a stage of a workflow, or an action."""

    def model_answered(self, answer: ModelAnswer) -> None:
        """Measure an answer of a model, and count its tokens and its cost."""

    def model_failed(self, stage: str, code: str) -> None:
        """Count a request to a model that has no usable answer."""

    def request_answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Measure an HTTP request until its response began; `route` is the template of its path."""

    def polled(self, group: str) -> None:
        """Note that the process has asked Kafka for new records as a member of this consumer group."""

    def left(self, group: str) -> None:
        """Note that the process has left this consumer group."""


_METER: ContextVar[Meter | None] = ContextVar("poweron_meter", default=None)


def bind_meter(meter: Meter | None) -> None:
    """From now on in this task, count what models and actions do."""
    _METER.set(meter)


def count_answer(answer: Callable[[], ModelAnswer]) -> None:
    """Count the answer to a request to a model; it is not even described if no meter counts it."""
    if (meter := _METER.get()) is not None:
        meter.model_answered(answer())


def count_failure(stage: str, code: str) -> None:
    """Count a request to a model that has no usable answer."""
    if (meter := _METER.get()) is not None:
        meter.model_failed(stage, code)


@contextmanager
def measured_action() -> Generator[None, None, None]:
    """Measure an action."""
    began = time.monotonic()
    yield
    if (meter := _METER.get()) is not None:
        meter.stage_done(STAGE_OF_PHASE["started"], time.monotonic() - began)


class WatchedLog:
    """A log that notes each time when one of its followers is polled; all else is up to the log within."""

    def __init__(self, log: EventLog, meter: Meter) -> None:
        self._log, self._meter = log, meter

    @asynccontextmanager
    async def follow(self, topic: str, group: str) -> AsyncGenerator[Follower, None]:
        self._meter.polled(group)
        try:
            async with self._log.follow(topic, group) as follower:
                yield _WatchedFollower(follower, group, self._meter)
        finally:
            self._meter.left(group)

    async def append(self, topic: str, messages: Sequence[Message]) -> Sequence[int]:
        return await self._log.append(topic, messages)

    async def group_state(self, topic: str, group: str) -> GroupState:
        return await self._log.group_state(topic, group)

    async def partitions(self, topic: str) -> int:
        return await self._log.partitions(topic)

    async def ends(self, topic: str, at_least: Mapping[int, int] | None = None) -> Mapping[int, int]:
        return await self._log.ends(topic, at_least)

    def read(
        self, topic: str, start: Mapping[int, int], end: Mapping[int, int]
    ) -> AsyncGenerator[Sequence[Record], None]:
        return self._log.read(topic, start, end)

    def tail(self, topic: str, start: Mapping[int, int]) -> AsyncGenerator[Sequence[Record], None]:
        return self._log.tail(topic, start)

    def partition_of(self, topic: str, key: bytes) -> int:
        return self._log.partition_of(topic, key)


class _WatchedFollower:
    def __init__(self, follower: Follower, group: str, meter: Meter) -> None:
        self._follower, self._group, self._meter = follower, group, meter

    async def poll(self, timeout: float) -> Polled:
        try:
            return await self._follower.poll(timeout)
        finally:
            self._meter.polled(self._group)  # a poll that fails because Kafka is unavailable is a poll

    async def seek(self, partition: int, offset: int) -> None:
        await self._follower.seek(partition, offset)

    def pause(self, partitions: frozenset[int]) -> None:
        self._follower.pause(partitions)

    def end(self, partition: int) -> int:
        return self._follower.end(partition)

    async def commit(self, offsets: Mapping[int, int]) -> None:
        await self._follower.commit(offsets)

    async def committed(self, partition: int) -> int:
        return await self._follower.committed(partition)
