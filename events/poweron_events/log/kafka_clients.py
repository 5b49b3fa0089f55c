"""Kafka clients: starting them, and taking the records that they fetch."""

import asyncio
import hashlib
import logging
from collections.abc import Sequence
from contextvars import copy_context
from typing import Any

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaConnectionError, KafkaError

from poweron_events import topics
from poweron_events.errors import Unavailable
from poweron_events.log import Record
from poweron_events.log.kafka_batches import Unreadable, limit_batches
from poweron_events.log.kafka_refusals import raise_if_refused
from poweron_events.log.kafka_settings import KafkaSettings
from poweron_events.log.kafka_shutdown import closed
from poweron_events.task_cancellation import cancel_task, retrieve_error

CONNECT_TIMEOUT = 1.0  # seconds that a client which is no longer needed has to connect, and to stop
MAX_RECORDS = 2_000  # in one poll
MAX_BYTES = 8_388_608  # in one poll, approximately: the first records show how many fit
FIRST_RECORDS = 8
MAX_READ = 2 * topics.MAX_RECORD  # bytes of one record with its key and headers; PowerOn's own have at most half of it

logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # errors that matter are raised as our own


def unreachable(settings: KafkaSettings, error: Exception) -> Unavailable:
    """Return the error that Kafka cannot be reached, with the reason if the client knows one."""
    why = "" if isinstance(error, KafkaConnectionError | TimeoutError) else f": {error!r}"
    return Unavailable(f"Kafka at {settings.bootstrap} does not answer, or does not let us in{why}")


async def reach(settings: KafkaSettings, timeout: float) -> None:
    """Return once Kafka has answered.

    Raises:
        Unavailable: it has not answered within `timeout` seconds, or denies access.
        Refused: the settings are unusable, or Kafka refuses them.
    """
    admin = AIOKafkaAdminClient(**settings.client_options())
    try:
        await started(admin, settings, timeout)
    except Unavailable:
        await raise_if_refused(settings)
        raise
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
    """Take fetched records, waiting at most `timeout` seconds for some; a few at a time, since each may be huge.

    `taken` receives the records as they arrive, so that none is lost if the wait is interrupted.
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


def _record(topic: str, fetched: Any) -> Record:
    record = Record(
        topic, fetched.partition, fetched.offset, fetched.timestamp, fetched.key, fetched.value, dict(fetched.headers)
    )
    if isinstance(fetched.value, Unreadable):
        return record._replace(value=None, unreadable=fetched.value.decode())
    return record if record.size <= MAX_READ else _too_large(record)


def _too_large(record: Record) -> Record:
    said = (
        f"the record takes {record.size:,} bytes, and at most {MAX_READ:,} are read; "
        f"the SHA-256 of its value is {hashlib.sha256(record.value or b'').hexdigest()}"
    )
    return record._replace(key=None, value=None, headers={}, unreadable=said)


async def started(client: Any, settings: KafkaSettings, timeout: float) -> None:
    """Start a client; close it if it does not start or if the caller is cancelled.

    It gets a moment to connect before it is interrupted, since otherwise it would leave that connection open.
    """
    context = copy_context()
    context.run(limit_batches)
    starting = asyncio.create_task(client.start(), context=context)
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
