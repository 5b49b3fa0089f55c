"""The appends of a process: one at a time for each partition, in the order in which they were queued.

Messages that are queued during an append go with the next one, so a failed append is repeated before anything that was
written after it.
"""

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial
from typing import NamedTuple

import structlog

from poweron_events import topics
from poweron_events.errors import Refused
from poweron_events.log import EventLog, Message
from poweron_events.retry import Failure, retry
from poweron_services.background_tasks import BackgroundTasks

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
