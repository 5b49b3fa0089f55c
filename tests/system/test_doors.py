"""The doors on Kafka: whatever anyone writes to a topic gets its workflow, a refusal or a dead letter; nothing stops.

What is sent here comes from a plain Kafka client that knows nothing of PowerOn.
"""

import asyncio
import base64
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from commands import NOBODY

from builders import TIME, completed, planned, refused, requested
from poweron_events import topics, workflow_id
from poweron_events.codec import dumps, encode
from poweron_events.envelope import Cause, envelop
from poweron_events.errors import Unavailable
from poweron_events.log.kafka_settings import KafkaSettings
from poweron_events.stream import WorkflowEvent
from poweron_projections import reader, request_answers, workflow_excerpts
from poweron_projections.entries import WorkflowSummary
from poweron_projections.verify import catch_up, verify
from poweron_services.client.connect import Connections

pytestmark = [pytest.mark.system]

SOURCE = "/upstream/crm"
OPEN, FOLLOW_UP, CANCEL = (
    "poweron.request.workflow.v1",
    "poweron.request.round.v1",
    "poweron.request.cancellation.v1",
)
DEADLINE = 60.0  # seconds
STORED = "ab" * 32


class Upstream:
    """A plain Kafka client of somebody else."""

    def __init__(self, kafka: KafkaSettings, producer: AIOKafkaProducer) -> None:
        self._kafka = kafka
        self._producer = producer

    async def send(self, value: bytes | None, topic: str = topics.REQUESTS.name, **options: Any) -> int:
        sent = await self._producer.send_and_wait(self._kafka.physical(topic), value, **options)
        return int(sent.offset)

    async def request(self, request_id: str, data: Any, type_: str = OPEN, **options: Any) -> str:
        """Send a structured CloudEvent; returns the id of the workflow that it would open."""
        await self.send(cloud_event(request_id, data, type_), **options)
        return workflow_id(SOURCE, request_id)


def cloud_event(request_id: str, data: Any, type_: str = OPEN, **changed: Any) -> bytes:
    event = {"specversion": "1.0", "id": request_id, "source": SOURCE, "type": type_, "data": data, **changed}
    return json.dumps({name: value for name, value in event.items() if value is not None}).encode()


@pytest.fixture
async def upstream(service: Connections, kafka: KafkaSettings) -> AsyncGenerator[Upstream, None]:
    producer = AIOKafkaProducer(**kafka.client_options(), max_request_size=2_000_000)
    await producer.start()
    try:
        yield Upstream(kafka, producer)
    finally:
        await producer.stop()


async def until(asked: Callable[[], Awaitable[Any]], period: float = 0.05) -> Any:
    """What the question answers, once it answers anything."""
    async with asyncio.timeout(DEADLINE):
        while not (found := await _or_nothing(asked)):  # noqa: ASYNC110 - Postgres tells nobody
            await asyncio.sleep(period)
    return found


async def _or_nothing(asked: Callable[[], Awaitable[Any]]) -> Any:
    try:
        return await asked()
    except Unavailable:  # the tables are not there yet
        return None


async def answered(service: Connections, request_id: str) -> request_answers.RequestAnswer:
    answer: request_answers.RequestAnswer = await until(
        lambda: request_answers.answer(service.pool, SOURCE, request_id)
    )
    return answer


async def ended(service: Connections, workflow: str) -> WorkflowSummary:
    async def look() -> WorkflowSummary | None:
        found = await reader.workflow(service.pool, workflow)
        return found if found is not None and found.status in ("completed", "failed", "cancelled") else None

    found: WorkflowSummary = await until(look)
    return found


async def types(service: Connections, workflow: str) -> list[str]:
    return [event.type for event in await reader.events(service.pool, workflow)]


@pytest.mark.req("E-15")
async def test_a_structured_event_with_a_document_inside_gets_its_workflow(service, upstream) -> None:
    document = {"documentName": "note.txt", "data": base64.b64encode(b"The total is 42.").decode()}
    workflow = await upstream.request("1", {"prompt": "What is the total?", "documents": [document]})

    row = await ended(service, workflow)

    assert (row.status, row.message) == ("completed", "It is written.")
    (held,) = [
        each for each in await workflow_excerpts.documents(service.pool, workflow) if each.label == "round1_request"
    ]
    assert (held.document_name, held.mime_type, held.size) == ("note.txt", "text/plain", 16)
    assert await service.content.get(workflow, held.content) == b"The total is 42."


@pytest.mark.req("E-12")
async def test_a_binary_event_gets_its_workflow(service, upstream) -> None:
    attributes = {"ce_specversion": "1.0", "ce_id": "1", "ce_source": SOURCE, "ce_type": OPEN}
    headers = [(name, value.encode()) for name, value in attributes.items()]
    headers.append(("content-type", b"application/json"))

    await upstream.send(b'{"prompt": "Write it."}', headers=headers)

    assert (await ended(service, workflow_id(SOURCE, "1"))).status == "completed"


@pytest.mark.req("E-15")
async def test_a_document_in_the_content_store_is_referred_to(service, upstream) -> None:
    workflow = workflow_id(SOURCE, "1")
    content = await service.content.put(workflow, b"The total is 42.")
    reference = {"documentName": "note.txt", "content": content}

    await upstream.request("1", {"prompt": "What is the total?", "documents": [reference]})

    assert (await ended(service, workflow)).status == "completed"


UNREADABLE: Mapping[str, tuple[bytes | None, str]] = {
    "malformed JSON": (b'{"specversion": "1.0", ', "not JSON"),
    "invalid UTF-8": (b'{"specversion": "1.0", "id": "\xff"}', "not JSON"),
    "random bytes": (bytes(range(256)), "not JSON"),
    "nothing": (b"", "not JSON"),
    "a tombstone": (None, "tombstone"),
    "a list": (b"[1, 2]", "must be a JSON object, not list"),
    "nested deeply": (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "not JSON"),
    "another specversion": (cloud_event("u1", {"prompt": "?"}, specversion="0.3"), "specversion must be '1.0'"),
    "no specversion": (cloud_event("u2", {"prompt": "?"}, specversion=None), "specversion must be '1.0'"),
    "an unknown type": (cloud_event("u3", {"prompt": "?"}, "poweron.request.sandwich.v1"), "sandwich"),
    "an event's type": (cloud_event("u4", {"prompt": "?"}, "poweron.workflow.requested.v1"), "is not one of"),
    "no id": (cloud_event("", {"prompt": "?"}, id=None), "attribute 'id' must be a text"),
    "an empty id": (cloud_event("", {"prompt": "?"}), "attribute 'id' must be a text"),
    "a numeric id": (cloud_event("", {"prompt": "?"}, id=7), "attribute 'id' must be a text"),
    "a long id": (cloud_event("u" * 256, {"prompt": "?"}), "at most 255 characters"),
    "no source": (cloud_event("u5", {"prompt": "?"}, source=None), "attribute 'source' must be a text"),
    "no type": (cloud_event("u6", {"prompt": "?"}, type=None), "attribute 'type' must be a text"),
}


@pytest.mark.req("E-14")
async def test_what_names_no_request_becomes_a_dead_letter_with_a_reason(service, upstream) -> None:
    sent = {}
    for name, (value, _) in UNREADABLE.items():
        sent[await upstream.send(value, key=b"any", partition=3)] = name
    headers = [("ce_specversion", b"1.0"), ("ce_id", b"\xff"), ("ce_source", b"s")]
    binary = await upstream.send(b"{}", headers=headers, partition=3)

    assert (await ended(service, await upstream.request("after", {"prompt": "Write it."}, partition=3))).status
    await catch_up(service.log, service.pool)
    letters = {letter.offset: letter for letter in await reader.dead_letters(service.pool)}

    assert set(letters) == {*sent, binary}
    for offset, name in sent.items():
        value, reason = UNREADABLE[name]
        assert reason in letters[offset].reason, name
        assert (letters[offset].raw, letters[offset].topic) == (value, topics.REQUESTS.name), name
    assert "not UTF-8" in letters[binary].reason


def _documents(*given: dict[str, Any]) -> dict[str, Any]:
    return {"prompt": "Read.", "documents": list(given)}


INVALID: Mapping[str, tuple[Any, str]] = {
    "empty prompt": ({"prompt": ""}, "prompt"),
    "blank prompt": ({"prompt": " \n "}, "prompt"),
    "no prompt": ({}, "prompt"),
    "a prompt of 1 MB": ({"prompt": "x" * 1_000_000}, "prompt"),
    "a prompt too large for an event": ({"prompt": "\N{GRINNING FACE}" * 20_000}, "prompt"),
    "no step": ({"prompt": "?", "maxSteps": 0}, "maxSteps"),
    "too many steps": ({"prompt": "?", "maxSteps": 10**9}, "maxSteps"),
    "half a step": ({"prompt": "?", "maxSteps": 2.5}, "maxSteps"),
    "steps in a list": ({"prompt": "?", "maxSteps": [5]}, "maxSteps"),
    "a number as prompt": ({"prompt": 7}, "prompt"),
    "an unknown field": ({"prompt": "?", "sandwich": 1}, "sandwich"),
    "an unknown mode": ({"prompt": "?", "workflowMode": "Dance"}, "workflowMode"),
    "no base64": (_documents({"documentName": "a", "data": "*"}), "documents.0"),
    "701 kB inline": (_documents({"documentName": "a", "data": base64.b64encode(bytes(701_000)).decode()}), "700000"),
    "101 documents": (_documents(*[{"documentName": "a", "data": ""}] * 101), "documents"),
    "a path as content": (_documents({"documentName": "a", "content": "../../etc/passwd"}), "documents.0"),
    "missing content": (_documents({"documentName": "gone.pdf", "content": STORED}), "'gone.pdf'"),
    "a document without name": (_documents({"data": ""}), "documentName"),
    "documents in a text": ({"prompt": "?", "documents": "a.pdf"}, "documents"),
    "another field's type": ({"prompt": "?", "requester": "me"}, "requester"),
    "data is a list": ([1], "data"),
    "data is a text": ("?", "data"),
    "no data": (None, "data"),
}


@pytest.mark.req("E-15")
async def test_what_cannot_be_taken_is_refused_with_a_sentence_that_names_it(service, upstream) -> None:
    for name, (data, _) in INVALID.items():
        await upstream.request(name, data)

    for name, (_, named) in INVALID.items():
        answer = await answered(service, name)
        assert (answer.answer, answer.reason) == ("refused", "invalid"), name
        assert answer.workflow_id == workflow_id(SOURCE, name)
        assert named in answer.detail, (name, answer.detail)
        assert answer.detail.endswith("."), (name, answer.detail)
        assert await types(service, answer.workflow_id) == ["poweron.request.refused.v1"]
    assert (await ended(service, await upstream.request("after", {"prompt": "Write it."}))).status == "completed"
    assert await reader.dead_letters(service.pool) == []
    assert (await verify(service.log, service.pool)).differences == []


@pytest.mark.req("E-15")
async def test_follow_ups_and_cancellations_that_fit_no_round_are_refused(service, upstream) -> None:
    workflow = await upstream.request("1", {"prompt": "Write it."})
    await ended(service, workflow)
    further = {"prompt": "And then?", "workflowId": workflow}
    sent = {
        "unknown workflow": (FOLLOW_UP, {**further, "workflowId": NOBODY, "afterRound": 1}, "unknown_workflow"),
        "not a workflow's id": (FOLLOW_UP, {**further, "workflowId": "../1", "afterRound": 1}, "unknown_workflow"),
        "a round that never was": (FOLLOW_UP, {**further, "afterRound": 2}, "no_such_round"),
        "no round": (FOLLOW_UP, {**further, "afterRound": 0}, "invalid"),
        "an ended round": (CANCEL, {"workflowId": workflow, "round": 1}, "round_ended"),
        "a round to come": (CANCEL, {"workflowId": workflow, "round": 2}, "no_such_round"),
        "nobody's round": (CANCEL, {"workflowId": NOBODY, "round": 1}, "unknown_workflow"),
    }
    for name, (type_, data, _) in sent.items():
        await upstream.request(name, data, type_)

    for name, (_, _, reason) in sent.items():
        answer = await answered(service, name)
        assert (answer.answer, answer.reason) == ("refused", reason), (name, answer)
        assert answer.detail.endswith("."), (name, answer.detail)
    assert (await reader.workflow(service.pool, workflow)).current_round == 1


@pytest.mark.req("E-15")
async def test_a_follow_up_opens_one_more_round_and_a_second_one_comes_too_late(service, upstream) -> None:
    workflow = await upstream.request("1", {"prompt": "Write it."})
    await ended(service, workflow)

    further = {"prompt": "And then?", "workflowId": workflow, "afterRound": 1}
    for request_id in ("2", "3"):
        await upstream.request(request_id, further, FOLLOW_UP, key=b"same")

    assert ((await answered(service, "2")).answer, (await answered(service, "2")).round) == ("accepted", 2)
    second = await answered(service, "3")
    assert (second.answer, second.reason) == ("refused", "round_ended") or second.reason == "round_open"
    assert [each.round for each in await workflow_excerpts.rounds(service.pool, workflow)] == [1, 2]


@pytest.mark.req("E-15")
async def test_the_same_request_sent_three_times_is_one_workflow_with_one_answer(service, upstream) -> None:
    for partition in (None, 1, 2):
        workflow = await upstream.request("1", {"prompt": "Write it."}, partition=partition)
    for _ in range(3):
        await upstream.request("2", {"prompt": ""})
    await ended(service, workflow)
    await answered(service, "2")
    before = await service.log.ends(topics.EVENTS.name)

    for _ in range(3):
        await upstream.request("1", {"prompt": "Write it."})
        await upstream.request("2", {"prompt": ""})
    await ended(service, await upstream.request("last", {"prompt": "Write it."}, key=b"last"))

    await until(lambda: _committed_all(service))
    openings = (await types(service, workflow)).count("poweron.workflow.requested.v1")
    assert openings == 1
    assert await types(service, workflow_id(SOURCE, "2")) == ["poweron.request.refused.v1"]
    after = await service.log.ends(topics.EVENTS.name)
    grown = {partition for partition, end in after.items() if end != before[partition]}
    assert grown == {service.log.partition_of(topics.EVENTS.name, workflow_id(SOURCE, "last").encode())}


async def _committed_all(service: Connections) -> bool:
    """Whether intake has committed every request."""
    ends = await service.log.ends(topics.REQUESTS.name)
    async with service.log.follow(topics.REQUESTS.name, "poweron.intake") as follower:
        done = {partition: await follower.committed(partition) for partition in ends}
    return done == dict(ends)


@pytest.mark.req("E-15")
async def test_two_hundred_requests_at_once_are_two_hundred_workflows(service, upstream) -> None:
    workflows = await asyncio.gather(
        *(upstream.request(f"{n}", {"prompt": "Write it."}, partition=n % 12 if n % 3 else None) for n in range(200))
    )

    async def completed() -> bool:
        found = await reader.workflows(service.pool, limit=300)
        return {each.workflow_id for each in found if each.status == "completed"} == set(workflows)

    assert await until(completed, 0.5)
    assert (await verify(service.log, service.pool)).differences == []


@pytest.mark.req("E-14")
async def test_hostile_records_among_the_events_of_a_running_workflow_change_nothing(service, upstream, model) -> None:
    model.gate.clear()
    workflow = await upstream.request("1", {"prompt": "Write it."})
    await answered(service, "1")
    partition = service.log.partition_of(topics.EVENTS.name, workflow.encode())
    unreadable, without_effect = _unreadable(workflow), _without_effect(workflow)
    for key, value in [*unreadable, *without_effect] * 3:
        await upstream.send(value, topics.EVENTS.name, key=key, partition=partition)
    model.gate.set()

    row = await ended(service, workflow)

    assert (row.status, row.message, row.prompt) == ("completed", "It is written.", "Write it.")
    assert (await verify(service.log, service.pool)).differences == []
    letters = await reader.dead_letters(service.pool, limit=100)
    assert {letter.topic for letter in letters} == {topics.EVENTS.name}
    assert len(letters) == 3 * len(unreadable)
    superseded = [each for each in await reader.events(service.pool, workflow) if each.verdict == "superseded"]
    assert len(superseded) == 3 * len(without_effect)


@pytest.mark.req("E-13")
async def test_a_type_from_a_newer_release_freezes_its_workflow_and_no_other(service, upstream, model) -> None:
    model.gate.clear()
    workflow = await upstream.request("1", {"prompt": "Write it."})
    await answered(service, "1")
    newer = _attributes(workflow, refused("9")) | {"type": "poweron.workflow.teleported.v1", "catalogue": 999}
    await upstream.send(dumps(newer), topics.EVENTS.name, key=workflow.encode())
    await until(lambda: _frozen(service, workflow))
    model.gate.set()

    other = await ended(service, await upstream.request("2", {"prompt": "Write it."}))
    await upstream.request("3", {"workflowId": workflow, "round": 1}, CANCEL)

    assert other.status == "completed"
    assert (await answered(service, "3")).answer == "accepted"


async def _frozen(service: Connections, workflow: str) -> bool:
    found = await reader.workflow(service.pool, workflow)
    return found is not None and found.frozen


def _attributes(workflow: str, event: WorkflowEvent, cause: Cause | None = None) -> dict[str, Any]:
    written: dict[str, Any] = json.loads(
        encode(envelop(event, workflow_id=workflow, source="/somebody", time=TIME, cause=cause))
    )
    return written


def _unreadable(workflow: str) -> list[tuple[bytes | None, bytes | None]]:
    key, strange = workflow.encode(), dumps(_attributes(workflow, requested("9")))
    return [
        (key, b"\x00garbage\xff"),
        (key, b""),
        (key, None),
        (None, strange),
        (b"another", strange),
        (key, b'{"specversion":"1.0"}'),
        (key, json.dumps(json.loads(strange), indent=1).encode()),
    ]


def _without_effect(workflow: str) -> list[tuple[bytes, bytes]]:
    """Openings, plans and an end that somebody made up, and a type that this release should know but does not."""
    cause = Cause(NOBODY, "00" * 32)
    forged = [
        _attributes(workflow, requested("9", prompt="Something else.")),
        _attributes(workflow, planned(9), cause),
        _attributes(workflow, planned(9)),
        _attributes(workflow, completed(message="Done by a forger."), cause),
        _attributes(workflow, planned()) | {"type": "poweron.workflow.teleported.v1"},
    ]
    return [(workflow.encode(), dumps(attributes)) for attributes in forged]
