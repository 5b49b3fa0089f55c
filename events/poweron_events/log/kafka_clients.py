"""Clients of Kafka: starting one, and what one brings."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaConnectionError, KafkaError

from poweron_events.errors import Unavailable
from poweron_events.log import Record
from poweron_events.log.kafka_settings import KafkaSettings
from poweron_events.log.kafka_shutdown import closed
from poweron_events.task_cancellation import cancel_task, retrieve_error

CONNECT_TIMEOUT = 1.0  # seconds that a client which is no longer wanted gets to connect, and to end
MAX_RECORDS = 2_000  # in one poll
MAX_BYTES = 8_388_608  # in one poll, about: how many records that is, is told by the first of them
FIRST_RECORDS = 8

logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # what matters of it is raised as errors of ours


def unreachable(settings: KafkaSettings, error: Exception) -> Unavailable:
    """That Kafka cannot be reached, and why, where the client knows more than that."""
    why = "" if isinstance(error, KafkaConnectionError | TimeoutError) else f": {error!r}"
    return Unavailable(f"Kafka at {settings.bootstrap} does not answer, or does not let us in{why}")


async def reach(settings: KafkaSettings, timeout: float) -> None:
    """Return when Kafka has answered.

    Raises:
        Unavailable: it has not within this many seconds, or it does not let us in.
        Refused: the settings cannot be used.
    """
    admin = AIOKafkaAdminClient(**settings.client_options())
    await started(admin, settings, timeout)
    await closed(admin)


async def take_records(
    consumer: Any,
    topic: str,
    taken: list[Record],
    *,
    timeout: float,
    partitions: Sequence[TopicPartition] = (),
    limit: int = MAX_RECORDS,
) -> None:
    """Take what was fetched, waiting at most `timeout` seconds for something; what compresses well may be huge.

    `taken` gets the records as they come, so that none is lost where the wait is given up.
    """
    count = size = 0
    limit = min(limit, MAX_RECORDS)
    most, timeout_ms = min(FIRST_RECORDS, limit), int(timeout * 1000)
    while most > 0:
        fetched = await consumer.getmany(*partitions, timeout_ms=timeout_ms, max_records=most)
        came = [_record(topic, record) for records in fetched.values() for record in records]
        taken += came
        if len(came) < most:
            return
        count, size, timeout_ms = count + len(came), size + sum(record.size for record in came), 0
        most = min(limit - count, 8 * len(came), (MAX_BYTES - size) * count // (size + 1))


def _record(topic: str, record: Any) -> Record:
    return Record(
        topic, record.partition, record.offset, record.timestamp, record.key, record.value, dict(record.headers)
    )


async def started(client: Any, settings: KafkaSettings, timeout: float) -> None:
    """Start a client; one that does not start, or is no longer wanted, is closed.

    It gets a moment to connect before it is interrupted, since it would leave that connection open.
    """
    starting = asyncio.ensure_future(client.start())
    retrieve_error(starting)
    try:
        async with asyncio.timeout(timeout):
            await asyncio.shield(starting)
    except (KafkaError, OSError, TimeoutError) as error:
        await _stop_starting(client, starting)
        raise unreachable(settings, error) from error
    except BaseException:
        await _stop_starting(client, starting)
        raise


async def _stop_starting(client: Any, starting: "asyncio.Future[None]") -> None:
    await asyncio.wait({starting}, timeout=CONNECT_TIMEOUT)
    await cancel_task(starting, CONNECT_TIMEOUT)
    await closed(client)
