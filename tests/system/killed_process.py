"""A `poweron serve` that dies with an event: `python killed_process.py FOLDER TYPE,TYPE,… ROLE,ROLE,…`.

It is killed once the log has an event of one of these types that it wrote, before it reads that back. The folder
has a file named after each type that has killed a process: among all processes, each does so once.
"""

import os
import signal
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaConsumer

from poweron_events.log import Message
from poweron_events.log.kafka import KafkaLog
from poweron_services.cli import entry


class KillAtEvent:
    """Watches what this process appends to the log and reads from it, and kills it at an event."""

    def __init__(self, folder: Path, types: Sequence[str]) -> None:
        self._folder = folder
        self._types = types
        self._written = set[str]()

    def watch(self) -> None:
        append, getmany = KafkaLog.append, AIOKafkaConsumer.getmany

        async def watched_append(log: KafkaLog, topic: str, messages: Sequence[Message]) -> Sequence[int]:
            types = self._types_of(message.value for message in messages)
            self._written |= types
            offsets = await append(log, topic, messages)
            self._kill(types)
            return offsets

        async def watched_getmany(consumer: AIOKafkaConsumer, *partitions: Any, **options: Any) -> Any:
            found = await getmany(consumer, *partitions, **options)
            values = (record.value for records in found.values() for record in records)
            self._kill(self._types_of(values) & self._written)  # the log may show it before it has confirmed it
            return found

        KafkaLog.append, AIOKafkaConsumer.getmany = watched_append, watched_getmany

    def _types_of(self, values: Iterable[bytes | None]) -> set[str]:
        return {name for value in values for name in self._types if f'"type":"{name}"'.encode() in (value or b"")}

    def _kill(self, types: set[str]) -> None:
        for name in types:
            try:
                (self._folder / name).touch(exist_ok=False)
            except FileExistsError:
                continue
            os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    folder, types, roles = sys.argv[1:]
    KillAtEvent(Path(folder), [name for name in types.split(",") if name]).watch()
    sys.argv[1:] = ["serve", *(f"--role={role}" for role in roles.split(","))]
    entry.main()


if __name__ == "__main__":
    main()
