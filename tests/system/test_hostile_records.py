"""Thousands of hostile records on both topics of the real broker, between good ones: every good one gets its workflow.

What is unreadable is a dead letter with its reason and its bytes, what is readable is without effect, and no
partition stops.
"""

import asyncio
import itertools
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
import pytest
from aiokafka import AIOKafkaProducer
from hostile_json import ALL, Text, placed

from builders import At, planned, requested
from poweron_events import codec, topics, validation_messages, workflow_id
from poweron_events.codec import InvalidRequest, Undecodable, decode_request, dumps, encode
from poweron_events.envelope import Cause, envelop
from poweron_events.event import CATALOGUE
from poweron_events.log.kafka_settings import KafkaSettings
from poweron_events.stream import WorkflowEvent
from poweron_projections.rebuild import rebuild
from poweron_projections.verify import catch_up, verify
from poweron_services.client.connect import Connections

pytestmark = [pytest.mark.system]

EVENTS, REQUESTS = topics.EVENTS.name, topics.REQUESTS.name
SOURCE = "/upstream"
TIME = "2026-11-21T00:00:00.000Z"
NOBODYS = Cause("7d444840-9dc0-11d1-b245-5ffdce74fad2", "00" * 32, 1)
LARGE = 50_000  # bytes; larger texts come as whole records only
MAX_RAW = 700_000
DEADLINE = 60.0  # seconds

Place = tuple[str, int, int]
"""Topic, partition and offset."""


@dataclass
class Hostile:
    """Somebody who writes whatever they want, and remembers what must come of it."""

    service: Connections
    kafka: KafkaSettings
    producer: AIOKafkaProducer
    letters: dict[Place, tuple[str, bytes | None]] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    opened: set[str] = field(default_factory=set)
    _sent: list[tuple[asyncio.Future[Any], Callable[[Any], None]]] = field(default_factory=list)

    async def event(self, partition: int, key: bytes | None, value: bytes | None) -> None:
        def sent(at: Any) -> None:
            try:
                codec.read(value, key=key, partition=partition, offset=at.offset, time_ms=0)
            except Undecodable as error:
                self.letters[EVENTS, partition, at.offset] = (str(error), value)

        await self._send(EVENTS, partition, value, sent, key=key)

    async def request(self, partition: int, value: bytes | None, headers: Mapping[str, bytes] | None = None) -> None:
        def sent(at: Any) -> None:
            try:
                received = decode_request(value, headers or {})
                self.opened.add(workflow_id(received.identity.source, received.identity.id))
            except InvalidRequest as error:
                self.refused.add(error.identity.id)
            except Undecodable as error:
                self.letters[REQUESTS, partition, at.offset] = (str(error), value)

        await self._send(REQUESTS, partition, value, sent, key=b"", headers=list((headers or {}).items()))

    async def _send(
        self, topic: str, partition: int, value: bytes | None, sent: Callable[[Any], None], **options: Any
    ) -> None:
        physical = self.kafka.physical(topic)
        future = await self.producer.send(physical, value, partition=partition, **options)
        self._sent.append((future, sent))

    async def flush(self) -> None:
        for future, sent in self._sent:
            sent(await future)
        self._sent.clear()


@pytest.fixture
async def hostile(service: Connections, kafka: KafkaSettings) -> AsyncGenerator[Hostile, None]:
    producer = AIOKafkaProducer(**kafka.client_options(), max_request_size=2_000_000)
    await producer.start()
    try:
        yield Hostile(service, kafka, producer)
    finally:
        await producer.stop()


def opening(request_id: str, prompt: str = "Write it.") -> dict[str, Any]:
    return {
        "specversion": "1.0",
        "id": request_id,
        "source": SOURCE,
        "type": "poweron.request.workflow.v1",
        "data": {"prompt": prompt},
    }


def on_every_partition(service: Connections, prefix: str) -> dict[int, str]:
    """By partition of `poweron.events`, the id of a request whose workflow will be there."""
    found: dict[int, str] = {}
    for number in itertools.count():
        request_id = f"{prefix}{number}"
        key = workflow_id(SOURCE, request_id).encode()
        found.setdefault(service.log.partition_of(EVENTS, key), request_id)
        if len(found) == topics.PARTITIONS:
            return found
    raise AssertionError("there is always one more")


def attributes(workflow: str, event: WorkflowEvent, **changed: Any) -> dict[str, Any]:
    written = encode(envelop(event, workflow_id=workflow, source="/somebody", time=TIME, cause=NOBODYS))
    return {**orjson.loads(written), **changed}


async def write_hostile_events(hostile: Hostile, victims: Mapping[int, str]) -> None:
    """Every text as a record and inside one, under the key of a running workflow; other keys, and none."""
    small = {name: text for name, text in ALL.items() if len(text.raw) < LARGE}
    await _write_into_wrong_partitions(hostile, victims)
    for number, text in enumerate(ALL.values()):
        partition = number % topics.PARTITIONS
        await hostile.event(partition, victims[partition].encode(), text.raw)
    for partition, workflow in victims.items():
        forged = attributes(workflow, At().selected())
        await _write_strange_keys(hostile, partition, workflow)
        inside = _each_in_one_place(placed(forged, (("a",), ("data",), ("data", "step")), small))
        for number, value in enumerate(inside):
            if number % topics.PARTITIONS == partition:
                await hostile.event(partition, workflow.encode(), value)


def _each_in_one_place(records: Iterable[tuple[str, Text, bytes]]) -> Iterator[bytes]:
    """Every text in one of the three places in turn; `tests/events` reads each in every place."""
    return (value for _, _, value in itertools.islice(records, 0, None, 3))


async def _write_strange_keys(hostile: Hostile, partition: int, workflow: str) -> None:
    good = dumps(attributes(workflow, planned()))
    for key in (None, b"", b"\xff\xfe", workflow.upper().encode(), workflow[:-1].encode(), b"k" * 100_000):
        await hostile.event(partition, key, good)
    await hostile.event(partition, workflow.encode(), None)
    await hostile.event(partition, b"", None)


async def _write_into_wrong_partitions(hostile: Hostile, victims: Mapping[int, str]) -> None:
    """What a client with another partitioner would write: openings, and events of running workflows."""
    for partition, workflow in victims.items():
        stranger = workflow_id(SOURCE, f"stranger{partition}")
        for event in (requested(f"stranger{partition}"), planned()):
            forged = dumps(attributes(stranger, event))
            home = hostile.service.log.partition_of(EVENTS, stranger.encode())
            for wrong in {(home + 1) % topics.PARTITIONS, (home + 5) % topics.PARTITIONS}:
                await hostile.event(wrong, stranger.encode(), forged)
        wrong = (partition + 1) % topics.PARTITIONS
        await hostile.event(wrong, workflow.encode(), dumps(attributes(workflow, planned())))


async def write_hostile_requests(hostile: Hostile) -> None:
    """Every text as a request and inside one, each with an identity of its own."""
    small = {name: text for name, text in ALL.items() if len(text.raw) < LARGE}
    for number, text in enumerate(ALL.values()):
        await hostile.request(number % topics.PARTITIONS, text.raw)
    inside = _each_in_one_place(placed(opening("hole"), (("data", "prompt"), ("data",), ("type",)), small))
    for number, value in enumerate(inside):
        await hostile.request(number % topics.PARTITIONS, value.replace(b'"id":"hole"', b'"id":"h%d"' % number))
    for partition in range(topics.PARTITIONS):
        await hostile.request(partition, None)
        await hostile.request(partition, b"{}", {"ce_specversion": b"1.0", "ce_id": b"\xff"})
        await hostile.request(
            partition, None, {"ce_specversion": b"1.0", "ce_id": b"t%d" % partition, "ce_source": b"s"}
        )


async def statuses(service: Connections) -> dict[str, str]:
    found = await service.pool.fetch("SELECT workflow_id, status FROM workflows WHERE round > 0")
    return {str(row["workflow_id"]): row["status"] for row in found}


async def until(service: Connections, holds: Callable[[dict[str, str]], bool]) -> None:
    """Wait until the rows say so of the statuses of all workflows."""
    async with asyncio.timeout(DEADLINE):
        while not holds(await _statuses_or_none(service)):  # noqa: ASYNC110 - Postgres tells nobody
            await asyncio.sleep(0.05)


async def _statuses_or_none(service: Connections) -> dict[str, str]:
    exists = await service.pool.fetchval("SELECT to_regclass('workflows') IS NOT NULL")
    return await statuses(service) if exists else {}


async def buried(service: Connections) -> dict[Place, tuple[str, bytes | None, int]]:
    found = await service.pool.fetch("SELECT topic, partition, log_offset, reason, raw, size FROM dead_letters")
    return {
        (row["topic"], row["partition"], row["log_offset"]): (row["reason"], row["raw"], row["size"]) for row in found
    }


@pytest.mark.req("E-14", "S34", "X-06")
@pytest.mark.req("E-02")
async def test_every_good_request_gets_its_workflow_between_thousands_of_hostile_records(
    service: Connections, hostile: Hostile, model: Any
) -> None:
    model.gate.clear()
    first, second = on_every_partition(service, "first"), on_every_partition(service, "second")
    for partition, request_id in first.items():
        await hostile.request(partition, dumps(opening(request_id)))
    victims = {partition: workflow_id(SOURCE, request_id) for partition, request_id in first.items()}
    await until(service, lambda found: found.keys() >= set(victims.values()))

    await write_hostile_events(hostile, victims)
    await write_hostile_requests(hostile)
    for partition, request_id in second.items():
        await hostile.request(partition, dumps(opening(request_id)))
    await hostile.flush()
    model.gate.set()

    good = {workflow_id(SOURCE, request_id) for request_id in (*first.values(), *second.values())}
    assert good <= hostile.opened
    await until(service, lambda found: {found.get(each) for each in hostile.opened} == {"completed"})
    await _until_all_are_answered(service, hostile)  # whoever is named takes turns, and passes those who are not
    await _expect_exactly_these_letters(service, hostile)
    refused = await service.pool.fetch("SELECT id FROM requests WHERE source = $1 AND answer = 'refused'", SOURCE)
    assert {row["id"] for row in refused} == hostile.refused
    assert (await verify(service.log, service.pool)).differences == []
    made_anew = await rebuild(service.log, service.pool)
    assert (made_anew.dead_letters, made_anew.differences) == (len(hostile.letters), [])


async def _until_all_are_answered(service: Connections, hostile: Hostile) -> None:
    """Wait until the rows hold as many dead letters and refusals as there must be."""
    counts = "SELECT (SELECT count(*) FROM dead_letters), (SELECT count(*) FROM requests WHERE answer = 'refused')"
    async with asyncio.timeout(DEADLINE):
        while True:
            letters, refusals = await service.pool.fetchrow(counts)
            if letters >= len(hostile.letters) and refusals >= len(hostile.refused):
                return
            await asyncio.sleep(0.05)


async def _expect_exactly_these_letters(service: Connections, hostile: Hostile) -> None:
    await catch_up(service.log, service.pool)
    found = await buried(service)
    assert found.keys() == hostile.letters.keys()
    for place, (reason, raw) in hostile.letters.items():
        kept = None if raw is None else raw[:MAX_RAW]
        assert found[place] == (
            reason[: validation_messages.MAX_REASON].replace("\0", "\ufffd"),
            kept,
            len(raw or b""),
        ), place


@pytest.mark.req("E-13")
@pytest.mark.parametrize(
    ("changed", "effect"),
    [
        ({"type": "poweron.workflow.teleported.v1"}, "superseded"),
        ({"type": "poweron.action.selected.v2"}, "superseded"),
        ({"type": "com.example.other", "catalogue": -1}, "superseded"),
        ({"type": "poweron.workflow.teleported.v1", "catalogue": CATALOGUE + 1}, "frozen"),
        ({"type": "poweron.action.selected.v2", "catalogue": CATALOGUE + 1}, "frozen"),
        ({"type": "com.example.other", "catalogue": 2**63 - 1}, "frozen"),
    ],
    ids=str,
)
async def test_what_another_release_wrote_freezes_its_workflow_or_is_superseded(
    service: Connections, hostile: Hostile, model: Any, changed: dict[str, Any], effect: str
) -> None:
    model.gate.clear()
    workflow = workflow_id(SOURCE, "1")
    await hostile.request(0, dumps(opening("1")))
    await until(service, lambda found: workflow in found)
    partition = service.log.partition_of(EVENTS, workflow.encode())
    await hostile.event(partition, workflow.encode(), dumps(attributes(workflow, At().selected(), **changed)))
    await hostile.flush()
    await catch_up(service.log, service.pool)
    model.gate.set()

    frozen = await service.pool.fetchval("SELECT frozen FROM workflows WHERE workflow_id = $1", workflow)
    assert frozen == (effect == "frozen")
    if frozen:
        cancelling = {**opening("2"), "type": "poweron.request.cancellation.v1"}
        await hostile.request(0, dumps({**cancelling, "data": {"workflowId": workflow, "round": 1}}))
    ended = "cancelled" if frozen else "completed"
    await until(service, lambda found: found[workflow] == ended)
    assert (await verify(service.log, service.pool)).differences == []
