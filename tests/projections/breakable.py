"""A log in memory whose topics somebody deletes, cuts and restores."""

from poweron_events import topics
from poweron_events.log import Record
from poweron_events.log.memory import MemoryLog

EVENTS = topics.EVENTS.name


class Breakable(MemoryLog):
    """What Kafka is when its topics are in wrong hands."""

    def replace(self, *records: Record, topic: str = EVENTS) -> None:
        """Make the topic again, with these records."""
        self._topics[topic] = [[] for _ in self._topics[topic]]
        for record in records:
            self._topics[topic][record.partition].append(record)

    def records(self, topic: str = EVENTS) -> list[Record]:
        return [record for partition in self._topics[topic] for record in partition]
