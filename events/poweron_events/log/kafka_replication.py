"""How many brokers keep a topic, and whether losing one of them loses events."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from poweron_events.errors import Refused

log = logging.getLogger(__name__)

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
