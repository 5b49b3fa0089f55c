"""What Kafka's clients do when something goes wrong, and what we make of it."""

import asyncio
import os
import struct
import time
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaConnectionError

from poweron_events import topics
from poweron_events.errors import Conflict, Refused, Unavailable
from poweron_events.log import Message, Record, kafka_clients, kafka_follower
from poweron_events.log import kafka as kafka_log
from poweron_events.log.kafka import KafkaLog, KafkaSettings, connect
from poweron_events.log.kafka_clients import FIRST_RECORDS, MAX_BYTES
from poweron_events.log.kafka_follower import KafkaFollower, end_offsets

TOPIC = "poweron.events"
METADATA = 3  # the key of the request that tells of the brokers and their topics


@pytest.mark.system
@pytest.mark.req("E-05")
async def test_after_a_record_that_the_broker_refuses_the_next_is_taken(
    kafka: KafkaSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with connect(kafka) as log:
        await log.append(TOPIC, [Message(b"w", b"first")])
        monkeypatch.setattr(topics, "MAX_RECORD", 4_000_000)
        log._producer = None if log._producer is None else await _replaced(log)
        with pytest.raises(Refused, match="as too large"):
            await log.append(TOPIC, [Message(b"w", os.urandom(3_000_000))])
        assert list(await log.append(TOPIC, [Message(b"w", b"second"), Message(b"w", b"third")])) == [1, 2]


@pytest.mark.system
@pytest.mark.req("X-06")
async def test_a_poll_brings_no_more_than_some_megabytes_however_well_they_were_compressed(
    kafka: KafkaSettings,
) -> None:
    sizes = list[int]()
    async with connect(kafka) as log, log.follow(TOPIC, "group") as follower:
        for _ in range(40):
            await log.append(TOPIC, [Message(b"w", b"x" * topics.MAX_RECORD)])
        async with asyncio.timeout(60):
            while sum(sizes) < 40 * topics.MAX_RECORD:
                polled = await follower.poll(1)
                for number in polled.assigned:
                    await follower.seek(number, 0)
                sizes.append(sum(len(record.value or b"") for record in polled.records))
    assert max(sizes) <= 2 * MAX_BYTES


@pytest.mark.system
async def test_a_read_of_one_partition_takes_no_more_records_than_it_was_asked_for(
    kafka: KafkaSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[Record] = []

    def take(*fetched: Any) -> Record:
        taken.append(record(*fetched))
        return taken[-1]

    record = kafka_clients._record
    monkeypatch.setattr(kafka_clients, "_record", take)
    async with connect(kafka) as log:
        number = log.partition_of(TOPIC, b"w")
        for _ in range(4):
            await log.append(TOPIC, [Message(b"w", b"value")] * 500)
        for start, end in ((0, 1), (700, 701), (1_999, 2_000), (490, 510)):
            taken.clear()
            found = [
                record.offset async for records in log.read(TOPIC, {number: start}, {number: end}) for record in records
            ]
            assert found == [record.offset for record in taken] == list(range(start, end))


@pytest.mark.req("E-09")
async def test_what_was_taken_before_an_error_is_not_lost() -> None:
    class Failing:
        """A consumer whose second answer is an error."""

        def __init__(self) -> None:
            self.asked = 0

        async def getmany(self, **_: Any) -> dict[TopicPartition, list[Any]]:
            self.asked += 1
            if self.asked == 2:
                raise KafkaConnectionError
            place = {"partition": 0, "offset": 0, "timestamp": 0}
            records = [SimpleNamespace(**place, key=b"w", value=b"1", headers=()) for _ in range(FIRST_RECORDS)]
            return {TopicPartition(TOPIC, 0): records}

    follower = KafkaFollower(KafkaSettings("127.0.0.1:1"), TOPIC, "group")
    taken = await follower._fetch(cast("Any", Failing()), 1.0)
    assert len(taken) == FIRST_RECORDS


@pytest.mark.req("E-05")
async def test_the_producer_is_idempotent_and_has_no_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[dict[str, Any]] = []

    class Noting(AIOKafkaProducer):
        def __init__(self, **options: Any) -> None:
            told.append(options)
            super().__init__(**options)

    monkeypatch.setattr(kafka_log, "AIOKafkaProducer", Noting)
    with pytest.raises(Unavailable):
        await KafkaLog(KafkaSettings("127.0.0.1:1")).append(TOPIC, [Message(b"w", b"1")])
    (options,) = told
    assert (options["acks"], options["enable_idempotence"]) == ("all", True)
    assert not [name for name in options if "transaction" in name]


async def _replaced(log: KafkaLog) -> None:
    assert log._producer is not None
    await log._producer.stop()


@pytest.mark.system
@pytest.mark.req("E-09")
async def test_a_waiting_poll_tells_at_once_that_partitions_were_taken_away(kafka: KafkaSettings) -> None:
    async with connect(kafka) as log, log.follow(TOPIC, "g") as first:
        await _assigned(first)
        began = time.monotonic()
        waiting = asyncio.create_task(first.poll(30.0))
        async with log.follow(TOPIC, "g") as second:
            joining = asyncio.create_task(second.poll(10.0))
            assert (await waiting).revoked == frozenset(range(12))
            assert time.monotonic() - began < 10
            with pytest.raises(Conflict):
                await first.commit({0: 1})
            await _assigned(first)
            await joining


@pytest.mark.system
@pytest.mark.req("E-06")
async def test_nobody_is_given_a_partition_before_its_follower_has_polled_again(kafka: KafkaSettings) -> None:
    async with connect(kafka) as log, log.follow(TOPIC, "handed-over") as first:
        await _assigned(first)
        async with log.follow(TOPIC, "handed-over") as second:
            joining = asyncio.create_task(_assigned(second))
            while not (await first.poll(5.0)).revoked:
                pass
            done, _ = await asyncio.wait([joining], timeout=1.0)
            assert not done
            mine = await _assigned(first)
            assert mine | await joining == frozenset(range(12))


async def _assigned(follower: KafkaFollower) -> frozenset[int]:
    while not (assigned := (await follower.poll(1.0)).assigned):
        pass
    return assigned


class _Part:
    closed = False

    async def close(self) -> None:
        self.closed = True


class _Silent:
    """A client whose broker does not answer any more."""

    def __init__(self) -> None:
        self._sender, self._fetcher, self._client = _Part(), _Part(), _Part()

    async def stop(self) -> None:
        await asyncio.Event().wait()


@pytest.mark.req("E-09")
async def test_closing_while_the_broker_is_unavailable_ends_and_leaves_nothing_running(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kafka_clients, "STOP_TIMEOUT", 0.01)
    client = _Silent()
    await kafka_clients.closed(client)
    assert (client._sender.closed, client._fetcher.closed, client._client.closed) == (True, True, True)


@pytest.mark.req("E-09")
async def test_closing_that_is_cancelled_leaves_nothing_running(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_clients, "STOP_TIMEOUT", 0.01)
    client = _Silent()
    closing = asyncio.ensure_future(kafka_clients.closed(client))
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.wait({closing})
    assert closing.cancelled()
    assert (client._sender.closed, client._fetcher.closed, client._client.closed) == (True, True, True)


@pytest.mark.req("E-09")
async def test_a_start_that_is_given_up_leaves_no_connection_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker tells which version of the next request it takes, and then is silent."""
    monkeypatch.setattr(kafka_clients, "CONNECT_TIMEOUT", 0.01)
    ended = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await reader.readexactly(int.from_bytes(await reader.readexactly(4)))
        told = asked[4:8] + struct.pack(">hihhh", 0, 1, METADATA, 0, 1)
        writer.write(struct.pack(">i", len(told)) + told)
        await reader.read()
        ended.set()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        settings = KafkaSettings(f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
        with pytest.raises(Unavailable) as found:
            await kafka_clients.started(AIOKafkaProducer(**settings.client_options()), settings, 0.2)
        async with asyncio.timeout(5):
            await ended.wait()
    assert isinstance(found.value.__cause__, TimeoutError)


@pytest.mark.req("E-09")
async def test_a_closing_that_is_cancelled_before_it_begins_closes_the_client() -> None:
    consumer = AIOKafkaConsumer(bootstrap_servers="127.0.0.1:1")

    async def close_while_cancelled() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await kafka_clients.closed(consumer)

    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(close_while_cancelled())
    assert consumer._closed


@pytest.mark.req("E-09")
async def test_a_closing_whose_tasks_are_all_cancelled_before_they_begin_closes_the_client() -> None:
    """An event loop that ends cancels all tasks, the one that closes the client among them."""
    consumer = AIOKafkaConsumer(bootstrap_servers="127.0.0.1:1")
    closing = asyncio.create_task(kafka_clients.closed(consumer))
    others = asyncio.all_tasks()
    await asyncio.sleep(0)
    begun = asyncio.all_tasks() - others
    for task in (closing, *begun):
        task.cancel()
    await asyncio.wait({closing, *begun})
    assert (len(begun), closing.cancelled()) == (1, True)
    assert consumer._closed


class _Starting(_Silent):
    """A client that never gets to its start."""

    async def start(self) -> None:
        await asyncio.Event().wait()


@pytest.mark.req("E-09")
async def test_a_start_that_is_cancelled_twice_still_closes_its_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_clients, "CONNECT_TIMEOUT", 0.01)
    monkeypatch.setattr(kafka_clients, "STOP_TIMEOUT", 0.01)
    client = _Starting()
    starting = asyncio.ensure_future(kafka_clients.started(client, KafkaSettings("127.0.0.1:1"), 60))
    for _ in range(2):
        await asyncio.sleep(0)
        starting.cancel()
    await asyncio.wait({starting})
    assert starting.cancelled()
    assert (client._sender.closed, client._fetcher.closed, client._client.closed) == (True, True, True)


class _Swallowing(_Silent):
    """A client that, as aiokafka's do, swallows a cancellation while it stops, and may go on waiting."""

    def __init__(self, goes_on: bool) -> None:
        super().__init__()
        self._goes_on = goes_on

    async def stop(self) -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        if self._goes_on:
            await asyncio.Event().wait()


@pytest.mark.req("E-09")
@pytest.mark.parametrize("cancelled", [True, False])
async def test_closing_ends_whatever_the_client_swallows(cancelled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service whose end was told while it closed a client went on for ever."""
    monkeypatch.setattr(kafka_clients, "STOP_TIMEOUT", 0.01)
    closing = asyncio.ensure_future(kafka_clients.closed(_Swallowing(goes_on=not cancelled)))
    await asyncio.sleep(0)
    if cancelled:
        closing.cancel()
    await asyncio.wait({closing}, timeout=5)
    assert (closing.done(), closing.cancelled()) == (True, cancelled)


class _OldLeader:
    """A consumer whose partition's leader answers some times as one that was frozen, without what came meanwhile."""

    def __init__(self, answers: list[int]) -> None:
        self._answers = answers
        self._client = self
        self.refreshed = 0

    async def end_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, self._answers.pop(0) if len(self._answers) > 1 else self._answers[0])

    def force_metadata_update(self) -> None:
        self.refreshed += 1


@pytest.mark.req("E-02")
@pytest.mark.parametrize(("answers", "end", "refreshed"), [([7, 7, 9], 9, 2), ([9], 9, 0)])
async def test_a_leader_that_has_less_than_was_seen_is_asked_again_with_new_metadata(
    answers: list[int], end: int, refreshed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_follower, "SHORTER_PERIOD", 0.0)
    consumer = _OldLeader(answers)
    assert await end_offsets(consumer, [TopicPartition(TOPIC, 0)], {0: 8}) == {0: end}
    assert consumer.refreshed == refreshed


@pytest.mark.req("E-02")
async def test_a_log_that_stays_shorter_is_believed_after_some_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_follower, "SHORTER_TIMEOUT", 0.05)
    monkeypatch.setattr(kafka_follower, "SHORTER_PERIOD", 0.01)
    assert await end_offsets(_OldLeader([7]), [TopicPartition(TOPIC, 0)], {0: 8}) == {0: 7}


class _Stuck:
    """A consumer that stands still although there is more to read."""

    stopped = away = False

    def partitions_for_topic(self, topic: str) -> set[int]:
        return {*range(12)}

    async def end_offsets(self, partitions: list[object]) -> dict[object, int]:
        if self.away:
            raise KafkaConnectionError
        return dict.fromkeys(partitions, 9)

    async def position(self, partition: object) -> int:
        return 3

    async def stop(self) -> None:
        self.stopped = True


class _Watched(KafkaFollower):
    """A follower of a consumer that is stuck, on a clock that can be put forward."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(KafkaSettings("nowhere:9"), TOPIC, "g")
        self._consumer = self.stuck = _Stuck()
        self._mine, self._sought = {1, 2}, {1: 3}
        self._loop = asyncio.get_running_loop()
        self._monkeypatch = monkeypatch

    async def polled(self, seconds: int, every: int = 1) -> bool:
        """Whether the consumer was taken for stuck while it was polled for so long."""
        for _ in range(0, seconds, every):
            later = self._loop.time() + every
            self._monkeypatch.setattr(self._loop, "time", lambda later=later: later)
            await self._watch()
        return self.stuck.stopped


async def test_a_consumer_that_stands_still_is_built_anew_and_its_partitions_are_told_as_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    follower = _Watched(monkeypatch)
    assert not await follower.polled(9)
    assert await follower.polled(1)
    assert follower._consumer is None
    assert follower._revoked == {1, 2}


async def test_a_consumer_that_was_paused_meanwhile_is_not_taken_for_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    follower = _Watched(monkeypatch)
    for paused in (frozenset[int](), frozenset({1}), frozenset[int]()):
        follower._paused = paused
        assert not await follower.polled(5)


async def test_a_consumer_that_nobody_polled_meanwhile_is_not_taken_for_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever follows it backed off, or the process was stopped for a while."""
    follower = _Watched(monkeypatch)
    assert not await follower.polled(5)
    assert not await follower.polled(60, every=60)
    assert not await follower.polled(2)
    assert await follower.polled(1)


async def test_a_consumer_that_is_polled_rarely_is_taken_for_stuck_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its polls may fail one after the other, with a pause after each."""
    assert await _Watched(monkeypatch).polled(30, every=5)


async def test_a_consumer_that_stood_still_before_an_outage_is_not_taken_for_stuck_right_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    follower = _Watched(monkeypatch)
    for away in (False, True, False):
        follower.stuck.away = away
        assert not await follower.polled(5)
    assert await follower.polled(5)
