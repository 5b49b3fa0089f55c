"""A decompression bomb: a record of a few kilobytes that decompresses to far more than PowerOn reads."""

from typing import Final

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from poweron_events.errors import Unavailable
from poweron_events.log.kafka_settings import KafkaSettings

SPACES: Final = 64_000_000  # bytes
MOST_IN_A_REQUEST: Final = 2**30  # bytes before compression, for the producer


async def append_bomb(kafka: KafkaSettings, topic: str, partition: int) -> int:
    """Append a bomb, bypassing the log, which would refuse it, and return its offset.

    Raises:
        Unavailable: Kafka cannot be reached, or it is unknown whether the record was written.
    """
    producer = AIOKafkaProducer(**kafka.client_options(), compression_type="zstd", max_request_size=MOST_IN_A_REQUEST)
    try:
        await producer.start()
        sent = await producer.send_and_wait(kafka.physical(topic), b" " * SPACES, partition=partition)
    except KafkaError as error:
        raise Unavailable(f"No bomb was appended: {error}") from error
    finally:
        await producer.stop()
    return int(sent.offset)
