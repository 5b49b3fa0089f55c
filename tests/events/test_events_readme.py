"""The code of the README and of `docs/events.md` runs as it stands: on a real broker, where a service does the work."""

import asyncio
import os
import re
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from beside import beside

from poweron_events import RequestRefused, RoundCompleted, WorkflowRequested, topics, workflow_id
from poweron_events.codec import read_record
from poweron_events.dead_letter import read_dead_letter
from poweron_events.log import EventLog, Message
from poweron_events.log.kafka_settings import KafkaSettings
from poweron_events.stream import WorkflowEvent
from poweron_services.client.connect import Connections, connect
from poweron_services.models.builtin import BuiltinModel
from poweron_services.settings.config import Settings
from poweron_services.wiring import ROLES, serve

ROOT = Path(__file__).parents[2]
SOURCE = "/crm/offers"
PATIENCE = 60.0  # seconds


def blocks(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)


TEN_LINES, BEFOREHAND, REACHED, STRUCTURED, BINARY, STORED, WITHOUT_BROKER = blocks(ROOT / "events" / "README.md")
(OF_THE_PAGE,) = blocks(ROOT / "docs" / "events.md")

pytestmark = pytest.mark.system


@pytest.fixture
async def serving(kafka: KafkaSettings, dsn: str, tmp_path: Path) -> AsyncGenerator[Connections, None]:
    """All roles at work on topics and a database of their own."""
    async with (
        connect(Settings(home=tmp_path), kafka=kafka, postgres=dsn) as connections,
        beside(serve(connections, ROLES, BuiltinModel())),
    ):
        yield connections


async def run(block: str, **environment: str) -> str:
    """What a block prints."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-W", "error", "-c", block),
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(PATIENCE):
        out, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    return out.decode()


async def answer(log: EventLog, workflow: str) -> WorkflowEvent:
    """How a workflow's first round ended, or why its request was refused."""
    key = workflow.encode()
    async with asyncio.timeout(PATIENCE):
        async for records in log.tail(topics.EVENTS.name, {log.partition_of(topics.EVENTS.name, key): 0}):
            for record in records:
                event = read_record(record).envelope.event if record.key == key else None
                if isinstance(event, RoundCompleted | RequestRefused):
                    return event
    raise AssertionError("a tail does not end")


@pytest.mark.req("E-15")
async def test_ten_lines_ask_for_a_workflow_and_hear_its_events(serving: Connections, kafka: KafkaSettings) -> None:
    environment = {**kafka.environment(), "OFFER": "1"}
    *lines, _ = (await run(TEN_LINES, **environment)).splitlines()
    assert lines[0] == "1 accepted WorkflowRequested"
    assert [line.split(" ")[2] for line in lines if line.endswith("Completed")][-1] == "RoundCompleted"
    assert {line.split(" ")[1] for line in lines if line[0].isdigit()} == {"accepted"}


@pytest.mark.req("E-15")
async def test_a_structured_event_of_a_plain_client_gets_its_workflow(
    serving: Connections, kafka: KafkaSettings
) -> None:
    await run(REACHED + STRUCTURED, **kafka.environment(), OFFER="2")
    completed = await answer(serving.log, workflow_id(SOURCE, "2"))
    assert isinstance(completed, RoundCompleted)
    assert "42 dollars" in completed.message


@pytest.mark.req("E-12")
@pytest.mark.req("E-15")
async def test_a_binary_event_of_a_plain_client_gets_its_workflow(serving: Connections, kafka: KafkaSettings) -> None:
    await run(REACHED + BINARY, **kafka.environment(), OFFER="3")
    assert isinstance(await answer(serving.log, workflow_id(SOURCE, "3")), RoundCompleted)


@pytest.mark.req("E-15")
async def test_a_client_that_follows_the_page_of_events_alone_gets_its_answer(
    serving: Connections, kafka: KafkaSettings
) -> None:
    environment = {**kafka.environment(), "OFFER": "5"}
    first, *_, last = (await run(OF_THE_PAGE, **environment)).splitlines()
    assert first.strip() == WorkflowRequested.TYPE
    assert last.startswith(f"{RoundCompleted.TYPE} ")


@pytest.mark.req("E-15")
@pytest.mark.req("X-06")
async def test_a_request_that_cannot_be_taken_gets_a_refusal(serving: Connections, kafka: KafkaSettings) -> None:
    wrong = STRUCTURED.replace('"prompt"', '"promt"')
    await run(REACHED + wrong, **kafka.environment(), OFFER="4")
    refused = await answer(serving.log, workflow_id(SOURCE, "4"))
    assert isinstance(refused, RequestRefused)
    assert (refused.request.id, refused.reason) == ("4", "invalid")
    assert refused.detail.startswith("prompt is missing")


@pytest.mark.req("E-14")
@pytest.mark.req("E-15")
async def test_a_request_without_an_id_becomes_a_dead_letter(serving: Connections, kafka: KafkaSettings) -> None:
    nameless = STRUCTURED.replace('"id": os', '"name": os')
    await run(REACHED + nameless, **kafka.environment())
    async with asyncio.timeout(PATIENCE):
        async for records in serving.log.tail(topics.DEAD_LETTERS.name, {0: 0}):
            letter = read_dead_letter(records[0].value)
            break
    assert (letter.topic, letter.reason) == (
        "poweron.requests",
        "attribute 'id' must be a text that is not empty",
    )


@pytest.mark.req("R-02")
async def test_a_document_may_be_put_into_the_content_store_first(serving: Connections, tmp_path: Path) -> None:
    printed = await run(STORED, POWERON_CONTENT=str(tmp_path / "content"))
    assert re.search(r"StoredDocument\(document_name='long.txt'.*content='[0-9a-f]{64}'\)", printed)


@pytest.mark.req("E-15")
async def test_asking_again_is_the_same_request(serving: Connections, kafka: KafkaSettings) -> None:
    again = TEN_LINES.replace('"4711")', '"4711"), start=0')
    environment = {**kafka.environment(), "OFFER": "5"}
    assert await run(TEN_LINES, **environment) == await run(again, **environment)


async def test_the_workflow_id_is_known_beforehand() -> None:
    assert await run(BEFOREHAND) == ""


async def test_without_a_broker_the_log_is_in_memory() -> None:
    assert (await run(WITHOUT_BROKER)).startswith("the value is not JSON")


@pytest.mark.req("E-15")
async def test_what_is_asked_for_is_sent_as_a_record_that_anyone_could_write(serving: Connections) -> None:
    """A redo of the request after the end is answered by what is there."""
    value = b'{"specversion":"1.0","type":"poweron.request.workflow.v1","source":"/a","id":"b","data":{"prompt":"Hi."}}'
    for _ in range(2):
        await serving.log.append(topics.REQUESTS.name, [Message(b"any key", value)])
    await answer(serving.log, workflow_id("/a", "b"))
    partition = serving.log.partition_of(topics.EVENTS.name, workflow_id("/a", "b").encode())
    ends = await serving.log.ends(topics.EVENTS.name)
    opened = 0
    async for records in serving.log.read(topics.EVENTS.name, {partition: 0}, {partition: ends[partition]}):
        opened += sum(isinstance(read_record(each).envelope.event, WorkflowRequested) for each in records)
    assert opened == 1
