"""Clients of Kafka: starting one, and what one brings."""

import asyncio
import logging
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaConnectionError, KafkaError

from poweron_events.errors import Unavailable
from poweron_events.log import Record
from poweron_events.log.kafka_settings import KafkaSettings
from poweron_events.log.kafka_shutdown import closed

MAX_RECORDS = 2_000  # in one poll

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
    try:
        async with asyncio.timeout(timeout):
            await admin.start()
    except (KafkaError, OSError, TimeoutError) as error:
        raise unreachable(settings, error) from error
    finally:
        await closed(admin)


def record_of(topic: str, record: Any) -> Record:
    return Record(
        topic, record.partition, record.offset, record.timestamp, record.key, record.value, dict(record.headers)
    )


async def started(client: Any, settings: KafkaSettings, timeout: float) -> None:
    """Start a client; one that does not start, or is no longer wanted, is closed."""
    try:
        async with asyncio.timeout(timeout):
            await client.start()
    except (KafkaError, OSError, TimeoutError) as error:
        await closed(client)
        raise unreachable(settings, error) from error
    except BaseException:
        await closed(client)
        raise
