"""Workflows that go on by chance, mostly forward, at times of their own: data that views and reports can count."""

import random
from collections.abc import Iterable

from builders import Told, requested
from poweron_events import topics
from poweron_events.log import Record
from poweron_events.log.memory import MemoryLog

EVENTS = topics.EVENTS.name
BEGIN = 1_795_000_000_000  # 2026-11-18 11:06:40 UTC


def wandering(number: int) -> tuple[Told, list[int]]:
    """A workflow that goes on by chance, mostly forward, and when the broker took each of its records."""
    chance, told, times = random.Random(number), Told(f"w{number}"), list[int]()
    time_ms = BEGIN + chance.randrange(5 * 86_400_000)
    for _ in range(chance.randint(1, 45)):
        options = list(told.next_events())
        if not told.values:
            options = [requested(f"w{number}", workflow_mode=chance.choice(("React", "Actionplan")))]
        if chance.random() < 0.02 and told.values:
            told.write(told.values[-1])  # delivered twice
        else:
            told.tell(chance.choices(options, [30, *[1] * (len(options) - 1)])[0])
        time_ms += chance.randrange(10_000)
        times.append(time_ms)
    return told, times


def write(log: MemoryLog, stories: Iterable[tuple[Told, list[int]]]) -> None:
    for told, times in stories:
        for message, time_ms in zip(told.messages, times, strict=True):
            number = log.partition_of(EVENTS, message.key)
            partition = log._topics[EVENTS][number]
            partition.append(Record(EVENTS, number, len(partition), time_ms, message.key, message.value, {}))
