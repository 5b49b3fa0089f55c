"""The topics: their names and the settings that they must have."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, get_args

from poweron_events.errors import Refused
from poweron_events.event import Role

PARTITIONS = 12  # fixed for the life of the topic: with more, old keys would belong to other partitions
MAX_RECORD = 1_048_576  # bytes
REMEMBERED = 4_096  # keys whose partition is cached


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic's name, its number of partitions, and the settings that PowerOn depends on."""

    name: str
    partitions: int
    settings: Mapping[str, str]


_KEPT_FOR_EVER = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "message.timestamp.type": "LogAppendTime",
}

EVENTS: Final = Topic("poweron.events", PARTITIONS, _KEPT_FOR_EVER)
REQUESTS: Final = Topic("poweron.requests", PARTITIONS, {"cleanup.policy": "delete", "retention.ms": "-1"})
DEAD_LETTERS: Final = Topic("poweron.deadletter", 1, {**_KEPT_FOR_EVER, "max.message.bytes": str(4 * MAX_RECORD)})
LEDGER: Final = Topic("poweron.ledger", 1, _KEPT_FOR_EVER)
"""The audit ledger: an entry for each record of `poweron.events`, whose offset is its place in the tree."""
CHECKPOINTS: Final = Topic("poweron.checkpoints", 1, _KEPT_FOR_EVER)
"""The signed sizes and roots of the ledger."""
INTAKE_GROUP: Final = "poweron.intake"
"""The consumer group that answers requests in their order: requests from its committed offsets on are pending."""
URGENT_INTAKE_GROUP: Final = "poweron.intake.cancellations"
"""The consumer group that answers cancellations and approvals out of order (docs/decisions/0008)."""

FOLDING: Final = frozenset[str](get_args(Role)) - {"intake"}
"""The roles that follow the events together, in one consumer group of a process."""


def group_of(roles: frozenset[str]) -> str:
    """Return the consumer group of this set of roles, so that no partition lacks one of them (E-06)."""
    return "poweron.all" if roles == FOLDING else f"poweron.{'+'.join(sorted(roles))}"


ALL: Final = (EVENTS, REQUESTS, DEAD_LETTERS, LEDGER, CHECKPOINTS)
"""The topics that PowerOn cannot work without."""
BESIDE_EVENTS: Final = (DEAD_LETTERS, LEDGER, CHECKPOINTS)
"""The topics besides the events that rows are made of."""

HOUR_MS: Final = 3_600_000
PROGRESS: Final = Topic(
    "poweron.progress",
    3,
    {
        "cleanup.policy": "delete",
        "retention.ms": str(HOUR_MS),
        "segment.ms": str(HOUR_MS // 6),
        "message.timestamp.type": "LogAppendTime",
        "max.message.bytes": "65536",
    },
)
"""The progress of long work: it may be lost, missing or unavailable, and nothing else is affected."""


def check(topic: Topic, found: Mapping[str, str]) -> None:
    """Refuse a topic whose settings would break the log.

    Raises:
        Refused: the message says which setting is wrong and gives the command that fixes it.
    """
    for setting, wanted in topic.settings.items():
        actual = found.get(setting, "")
        if actual != wanted:
            raise Refused(
                f"Topic {topic.name!r} has {setting}={actual!r}, but nothing in it may be forgotten or rewritten: "
                f"PowerOn needs {wanted!r}. "
                f"Mend it with: kafka-configs.sh --alter --entity-type topics --entity-name {topic.name} "
                f"--add-config {setting}={wanted}"
            )


def check_partitions(topic: Topic, found: int) -> None:
    """Refuse a topic that has grown or shrunk: readers would look for its workflows in other partitions (E-02).

    Raises:
        Refused: the message says how many there must be and what to do.
    """
    if found != topic.partitions:
        raise Refused(
            f"Topic {topic.name!r} has {found} partitions, but must have {topic.partitions} for all its life: "
            "workflows are found by their partition. Copy its records, in their order, to a new topic of that name "
            f"with {topic.partitions} partitions."
        )


@lru_cache(REMEMBERED)
def partition_of(key: bytes, partitions: int) -> int:
    """Return the partition of a key's records: murmur2, as in Kafka's own clients."""
    return (_murmur2(key) & 0x7FFFFFFF) % partitions


def _murmur2(key: bytes) -> int:
    factor, mask = 0x5BD1E995, 0xFFFFFFFF
    mixed = 0x9747B28C ^ len(key)
    whole = len(key) & ~3
    for start in range(0, whole, 4):
        word = int.from_bytes(key[start : start + 4], "little") * factor & mask
        mixed = (mixed * factor ^ (word ^ word >> 24) * factor) & mask
    if whole < len(key):
        mixed = (mixed ^ int.from_bytes(key[whole:], "little")) * factor & mask
    mixed = (mixed ^ mixed >> 13) * factor & mask
    return mixed ^ mixed >> 15
