"""Records of some kilobytes that decompress to 64 MB, on every topic: all who read go on behind them."""

import asyncio
from collections.abc import Mapping
from contextlib import aclosing
from pathlib import Path

import orjson
import pytest
from aiokafka import AIOKafkaProducer
from commands import Shell
from processes import ONE_STEP, script, serving

from poweron_events import topics, workflow_id
from poweron_events.client import ask
from poweron_events.log.kafka_settings import KafkaSettings
from poweron_events.request import RequestWorkflow
from poweron_events.round_events import RoundCompleted
from poweron_projections.rebuild import rebuild
from poweron_projections.verify import catch_up
from poweron_services.client.connect import Connections

pytestmark = [pytest.mark.system]

EVENTS, REQUESTS, DEAD_LETTERS = topics.EVENTS.name, topics.REQUESTS.name, topics.DEAD_LETTERS.name
CODECS = {EVENTS: "zstd", REQUESTS: "gzip", DEAD_LETTERS: "lz4"}
SPACES = 64_000_000  # bytes
MOST_USED = (
    120_000_000  # bytes above what a process has used that served a workflow; aiokafka holds a batch three times
)
DEADLINE = 60.0  # seconds
SOURCE = "/one"

Place = tuple[str, int]
"""Topic and partition."""


async def put_bombs(kafka: KafkaSettings, places: Mapping[str, int]) -> dict[Place, int]:
    """The offset of each bomb that was put there, one in each topic."""
    return {(topic, places[topic]): await _put(kafka, topic, codec, places[topic]) for topic, codec in CODECS.items()}


async def _put(kafka: KafkaSettings, topic: str, codec: str, partition: int) -> int:
    producer = AIOKafkaProducer(
        **kafka.client_options() | {"request_timeout_ms": 60_000}, compression_type=codec, max_request_size=2**30
    )
    await producer.start()
    try:
        sent = await producer.send_and_wait(kafka.physical(topic), b" " * SPACES, partition=partition)
        return int(sent.offset)
    finally:
        await producer.stop()


async def complete(connections: Connections, request_id: str) -> None:
    """Send a request and follow it to its end, as a client that knows the log alone."""
    request = RequestWorkflow(prompt="Write it.")
    asking = ask(connections.log, request, source=SOURCE, request_id=request_id, start=0)
    async with asyncio.timeout(DEADLINE), aclosing(asking) as heard:
        events = [each.event async for each in heard]
    assert isinstance(events[-1], RoundCompleted)


def most_used(process: int) -> int:
    """The most memory that a process has used, in bytes."""
    (line,) = (each for each in Path(f"/proc/{process}/status").read_text().splitlines() if each.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


async def listed(shell: Shell) -> dict[tuple[str, int, int], str]:
    """The reasons of the dead letters that the command shows."""
    shown = [orjson.loads(line) for line in (await shell("deadletters", "--json")).out.splitlines()]
    return {(each["topic"], each["partition"], each["offset"]): each["reason"] for each in shown}


@pytest.mark.req("E-14", "X-06")
async def test_all_who_read_go_on_behind_records_that_decompress_to_too_much(
    environment: dict[str, str], connections: Connections, kafka: KafkaSettings, shell: Shell, tmp_path: Path
) -> None:
    settings = {**environment, "POWERON_MODEL": script(tmp_path, ONE_STEP)}
    workflow = workflow_id(SOURCE, "behind")
    home = connections.log.partition_of(EVENTS, workflow.encode())
    with serving(settings, tmp_path, ["all"]) as processes:
        await complete(connections, "warm")
        process = processes.running["all"]
        before = most_used(process.pid)
        bombs = await put_bombs(kafka, {EVENTS: home, REQUESTS: home, DEAD_LETTERS: 0})
        await complete(connections, "behind")
        await _until_all_are_listed(shell, bombs)
        assert process.poll() is None, processes.log()
        assert most_used(process.pid) - before < MOST_USED
        processes.replace(["all"])
        await complete(connections, "after a restart")

    await catch_up(connections.log, connections.pool)
    made_anew = await rebuild(connections.log, connections.pool)
    assert made_anew.differences == []
    await _until_all_are_listed(shell, bombs)
    for command in (("verify",), ("replay", workflow), ("export", workflow, "--format", "events"), ("watch", workflow)):
        assert (await shell(*command)).code == 0


async def _until_all_are_listed(shell: Shell, bombs: Mapping[Place, int]) -> None:
    async with asyncio.timeout(DEADLINE):
        while not {(*place, offset) for place, offset in bombs.items()} <= (found := await listed(shell)).keys():  # noqa: ASYNC110 - it is another process
            await asyncio.sleep(0.1)
    for (topic, partition), offset in bombs.items():
        reason = found[topic, partition, offset]
        assert "cannot be decompressed" in reason
        assert "SHA-256" in reason
