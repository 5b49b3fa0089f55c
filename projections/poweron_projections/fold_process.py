"""Folding in a process beside this one: where a whole log is folded, each takes a share of the partitions.

The process is asked through its standard input and answers on its standard output; when the one that started it is
gone, so is its input, and it ends.
"""

import asyncio
import gc
import os
import pickle
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, Final

from poweron_events.errors import Unavailable
from poweron_events.log import Record
from poweron_projections.folder import Folder, Folding, LocalFolder, LookUp
from poweron_projections.projection import Batch, Changes, read
from poweron_projections.table_spec import Row, columns_of

RECORDS_PER_PROCESS: Final = 20_000  # records that pay for starting a process
MAX_PROCESSES: Final = 4  # processes; Postgres takes the rows of more no faster
LENGTH_BYTES: Final = 8  # in which the length of an answer is told before it
BUFFER_BYTES: Final = 2**20  # of an answer that may wait


@asynccontextmanager
async def folders(records: int, partitions: int) -> AsyncGenerator[Sequence[Folder], None]:
    """As many folders as pay for so many records of so many partitions: one here, or several child processes."""
    count = min(_cores(), MAX_PROCESSES, partitions, records // RECORDS_PER_PROCESS)
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(child_folder()) for _ in range(count)] if count > 1 else [LocalFolder()]


def _cores() -> int:
    """How many cores this process may use, which can be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@asynccontextmanager
async def child_folder() -> AsyncGenerator["ChildFolder", None]:
    """A process that folds while the block lasts."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", __name__, stdin=PIPE, stdout=PIPE, limit=BUFFER_BYTES, start_new_session=True
    )
    try:
        yield ChildFolder(process)
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


class ChildFolder:
    """A folder in a process of its own."""

    def __init__(self, process: Process) -> None:
        self._process = process

    async def fold(self, records: Sequence[Record], look_up: LookUp) -> Changes:
        unheld: set[str] = await self._ask([tuple(record) for record in records])
        new, replacing, letters = await self._ask(await look_up(unheld) if unheld else {})
        return Changes(_turned(new), _turned(replacing), letters)

    async def _ask(self, question: object) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(pickle.dumps(question, pickle.HIGHEST_PROTOCOL))
            await self._process.stdin.drain()
            length = int.from_bytes(await self._process.stdout.readexactly(LENGTH_BYTES))
            return pickle.loads(await self._process.stdout.readexactly(length))  # noqa: S301 - from our own process
        except (OSError, asyncio.IncompleteReadError) as error:
            raise Unavailable("a process that folds has ended") from error


def main() -> None:
    """Fold batch after batch until the input ends."""
    gc.disable()  # what a batch leaves behind is freed by counting
    folding = Folding()
    with suppress(EOFError):
        while True:
            reads = [read(Record._make(record)) for record in _read()]
            _write(folding.unheld(reads))
            folding.hold(_read())
            batch = Batch()
            folding.take(reads, batch)
            folding.settle(batch)
            changes = batch.changes()
            _write((_turned(changes.new), _turned(changes.replacing), changes.letters))


def _turned(tables: Mapping[str, Sequence[Row]]) -> dict[str, Sequence[Row]]:
    """The rows of each table turned on their side, or back: a few long tuples travel in half the time of many rows."""
    return {name: columns_of(rows) for name, rows in tables.items()}


def _read() -> Any:
    return pickle.load(sys.stdin.buffer)  # noqa: S301 - from the process that started this one


def _write(answer: object) -> None:
    told = pickle.dumps(answer, pickle.HIGHEST_PROTOCOL)
    sys.stdout.buffer.write(len(told).to_bytes(LENGTH_BYTES))
    sys.stdout.buffer.write(told)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
