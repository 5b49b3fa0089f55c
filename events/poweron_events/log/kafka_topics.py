"""The topics on Kafka: created if missing, and checked (E-02).

The topic of the events is never recreated automatically: if the others exist and it does not, it was deleted.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError, TopicAlreadyExistsError, for_code

from poweron_events import topics
from poweron_events.errors import Refused, Unavailable
from poweron_events.log.kafka_clients import closed, started, unreachable
from poweron_events.log.kafka_settings import LEADER_TIMEOUT, REQUEST_TIMEOUT, KafkaSettings
from poweron_events.topics import Topic

BROKER_DEFAULT: Final = -1  # Kafka's value for "the default.replication.factor of the broker"
SAFE_REPLICAS: Final = 3
SAFE_IN_SYNC: Final = 2  # replicas that confirm an append
VARIABLE: Final = "POWERON_KAFKA_REPLICATION_FACTOR"


@dataclass(frozen=True, slots=True)
class Cluster:
    """The number of Kafka's brokers, and their defaults for new topics."""

    brokers: int
    defaults: Mapping[str, str] = field(default_factory=dict)
    """Settings of a broker by name; empty if Kafka does not reveal them."""

    def expect_replicas(self, factor: int | None) -> None:
        """Refuse to create topics that a cluster would keep on one broker, unless `factor` asks for that.

        Raises:
            Refused: the message says what to set.
        """
        if factor is None and self.brokers > 1 and self._default_replicas == 1:
            raise Refused(
                f"Kafka has {self.brokers} brokers, but keeps a new topic on one of them "
                f"(default.replication.factor=1): the loss of its disk loses events. "
                f"Set {VARIABLE}=3; 1 accepts that loss."
            )

    def topic_settings(self, factor: int | None) -> dict[str, str]:
        """Return the settings that a new topic needs so that two brokers hold each append before it is confirmed."""
        replicas = self._default_replicas if factor is None else factor
        in_sync = int(self.defaults.get("min.insync.replicas", 1))
        return (
            {"min.insync.replicas": str(SAFE_IN_SYNC)} if replicas >= SAFE_REPLICAS and in_sync < SAFE_IN_SYNC else {}
        )

    @property
    def _default_replicas(self) -> int:
        return int(self.defaults.get("default.replication.factor", 0))


log = logging.getLogger(__name__)

LOOK_PERIOD: Final = 0.02  # seconds


async def prepare(settings: KafkaSettings, *, recreate_events: bool) -> Mapping[str, int]:
    """Create the topics that are missing, check all, and return the number of partitions of each.

    Args:
        settings: where Kafka is.
        recreate_events: create the topic of the events even if the others exist.

    Raises:
        Unavailable: Kafka cannot be reached, or a topic is missing and cannot be created.
        Refused: a topic's settings would break the log.
    """
    async with _administered(settings) as ours:
        there = await ours.there()
        deleted = [topics.EVENTS] if there and not recreate_events else []
        made = [topic for topic in topics.ALL if topic not in (*there, *deleted)]
        for topic in made:
            await ours.make(topic)
        found = await ours.partitions([*there, *made])
        await ours.check(found)
        await ours.offer(topics.PROGRESS)
    return {topic.name: len(found.get(topic.name, range(topic.partitions))) for topic in topics.ALL}


async def make_again(settings: KafkaSettings, name: str) -> None:
    """Recreate a topic that was deleted while it was in use, but never the topic of the events.

    Raises:
        Unavailable: Kafka cannot be reached, or the topic cannot be created.
    """
    (topic,) = (each for each in topics.ALL if each.name == name)
    if topic == topics.EVENTS:
        return
    async with _administered(settings) as ours:
        if topic not in await ours.there():
            await ours.make(topic)
            await ours.partitions([topic])
            log.error("topic_made_again", extra={"topic": name})


@asynccontextmanager
async def _administered(settings: KafkaSettings) -> AsyncGenerator["_OurTopics", None]:
    admin = AIOKafkaAdminClient(**settings.client_options())
    await started(admin, settings, REQUEST_TIMEOUT)
    try:
        yield _OurTopics(settings, admin)
    except (KafkaError, OSError, TimeoutError) as error:
        raise unreachable(settings, error) from error
    finally:
        await closed(admin)


class _OurTopics:
    """Our topics, seen through an administration client."""

    def __init__(self, settings: KafkaSettings, admin: AIOKafkaAdminClient) -> None:
        self._settings = settings
        self._admin = admin

    async def there(self) -> list[Topic]:
        names = set(await self._admin.list_topics())
        return [topic for topic in topics.ALL if self._settings.physical(topic.name) in names]

    async def make(self, topic: Topic) -> None:
        name, factor = self._settings.physical(topic.name), self._settings.replication_factor
        cluster = await self._cluster()
        if topic in topics.ALL:
            cluster.expect_replicas(factor)
        configs = {**topic.settings, **cluster.topic_settings(factor)}
        # aiokafka accepts a factor of -1 only together with replica assignments: pass an empty dict of them
        placed: dict[int, list[int]] | None = None if factor else {}
        new = NewTopic(name, topic.partitions, factor or BROKER_DEFAULT, placed, topic_configs=configs)
        response = await self._admin.create_topics([new])
        ((_, code, *_),) = response.topic_errors
        error = for_code(code)
        if code and error is not TopicAlreadyExistsError:
            raise Unavailable(
                f"Topic {name!r} is not there, and Kafka did not let us make it ({error.__name__}); "
                "a user with the right to create topics creates it by starting any command of PowerOn"
            )

    async def offer(self, topic: Topic) -> None:
        """Create an optional topic if it is missing and can be created."""
        with suppress(KafkaError, OSError, TimeoutError, Unavailable):
            if self._settings.physical(topic.name) not in await self._admin.list_topics():
                await self.make(topic)

    async def _cluster(self) -> Cluster:
        brokers = await self._brokers()
        return Cluster(len(brokers), await self._configuration(ConfigResourceType.BROKER, str(brokers[0]), default={}))

    async def _brokers(self) -> list[int]:
        return [broker["node_id"] for broker in (await self._admin.describe_cluster())["brokers"]]

    async def partitions(self, expected: Iterable[Topic]) -> dict[str, Sequence[Mapping[str, Any]]]:
        """Return the partitions of each of these topics, once all of them have leaders."""
        names = {self._settings.physical(topic.name): topic.name for topic in expected}
        async with asyncio.timeout(LEADER_TIMEOUT):
            while True:
                described = await self._admin.describe_topics(list(names)) if names else ()
                ready = {names[each["topic"]]: each["partitions"] for each in described if _has_leaders(each)}
                if len(ready) == len(names):
                    return ready
                await asyncio.sleep(LOOK_PERIOD)

    async def check(self, found: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
        """Refuse topics that would break the log."""
        if topics.EVENTS.name in found:
            topics.check_partitions(topics.EVENTS, len(found[topics.EVENTS.name]))
        brokers, factor = len(await self._brokers()), self._settings.replication_factor
        for topic in topics.ALL:
            if topic.name in found:
                name = self._settings.physical(topic.name)
                replicas = min(len(partition["replicas"]) for partition in found[topic.name])
                settings = await self._configuration(ConfigResourceType.TOPIC, name)
                topics.check(topic, settings)
                check_replication(name, replicas, settings, brokers=brokers, factor=factor)

    async def _configuration(
        self, kind: ConfigResourceType, name: str, default: dict[str, str] | None = None
    ) -> dict[str, str]:
        """Return the settings of a topic or of a broker; `default` if Kafka does not reveal them."""
        (response,) = await self._admin.describe_configs([ConfigResource(kind, name)])
        (answer,) = response.resources
        if answer[0] and default is None:
            raise for_code(answer[0])  # it has just been deleted
        return default if answer[0] and default is not None else {entry[0]: entry[1] for entry in answer[4]}


def _has_leaders(described: Mapping[str, Any]) -> bool:
    return described["error_code"] == 0 and all(partition["leader"] >= 0 for partition in described["partitions"])


def check_replication(
    topic: str, replicas: int, settings: Mapping[str, str], *, brokers: int, factor: int | None
) -> None:
    """Refuse a topic that could lose events with one broker, or accept none; warn if one confirms appends too early.

    Raises:
        Refused: the message says what is wrong and how to fix it.
    """
    in_sync = int(settings.get("min.insync.replicas", 1))
    mend = f"kafka-configs.sh --alter --entity-type topics --entity-name {topic} --add-config"
    if replicas == 1 and brokers > 1 and factor != 1:
        raise Refused(
            f"Topic {topic!r} has one replica on a cluster of {brokers} brokers: the loss of one disk loses events. "
            f"Give it three with kafka-reassign-partitions.sh, or accept that loss with {VARIABLE}=1."
        )
    if in_sync > replicas:
        raise Refused(
            f"Topic {topic!r} has min.insync.replicas={in_sync}, but {replicas} replicas: nothing can be appended. "
            f"Give it more with kafka-reassign-partitions.sh, or: {mend} min.insync.replicas={replicas}"
        )
    if replicas > 1 and settings.get("unclean.leader.election.enable") == "true":
        raise Refused(
            f"Topic {topic!r} has unclean.leader.election.enable=true: a broker that missed events may become its "
            f"leader, and they are lost. Mend it with: {mend} unclean.leader.election.enable=false"
        )
    if replicas > 1 and in_sync < SAFE_IN_SYNC:
        log.warning("weak_replication", extra={"topic": topic, "replicas": replicas, "min_insync_replicas": in_sync})
