"""What somebody does to our topics with Kafka's own tools."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from poweron_events.log import Message, Record
from poweron_events.log.kafka import connect
from poweron_events.log.kafka_settings import KafkaSettings
from poweron_events.topics import ALL, Topic


@dataclass(frozen=True)
class TopicAdmin:
    """An administrator of Kafka."""

    kafka: KafkaSettings
    client: AIOKafkaAdminClient

    async def delete(self, topic: Topic) -> None:
        response = await self.client.delete_topics([self.kafka.physical(topic.name)])
        assert [code for _, code in response.topic_error_codes] == [0]
        while topic.name in await self.names():  # brokers hear of it from the controller
            pass

    async def make(self, topic: Topic) -> None:
        """Make the topic, empty, with the settings that it needs."""
        new = NewTopic(self.kafka.physical(topic.name), topic.partitions, 1, topic_configs=dict(topic.settings))
        response = await self.client.create_topics([new])
        assert [each[1] for each in response.topic_errors] == [0]

    async def names(self) -> set[str]:
        """Which of our topics there are."""
        there = {name.removeprefix(self.kafka.prefix) for name in await self.client.list_topics()}
        return there & {topic.name for topic in ALL}

    async def records(self, topic: Topic) -> Sequence[Record]:
        async with connect(self.kafka) as log:
            return [each async for some in log.read(topic.name, {}, await log.ends(topic.name)) for each in some]

    async def restore(self, topic: Topic, records: Sequence[Record]) -> None:
        """Make the topic again, with the records of a copy."""
        await self.make(topic)
        async with connect(self.kafka) as log:
            await log.append(topic.name, [Message(record.key or b"", record.value or b"") for record in records])


@asynccontextmanager
async def administering(kafka: KafkaSettings) -> AsyncGenerator[TopicAdmin, None]:
    client = AIOKafkaAdminClient(**kafka.client_options())
    await client.start()
    try:
        yield TopicAdmin(kafka, client)
    finally:
        await client.close()
