"""Fold records into rows without a database: records advance the open workflows.

`LocalFolder` folds in the calling process, `ChildFolder` in a child process, which takes a share of the partitions
when a whole log is folded. A child reads questions from its standard input and writes answers to its standard output;
when its parent dies, its input closes and it exits.
"""

import asyncio
import gc
import os
import pickle
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, Final, Protocol

from poweron_events.codec import Undecodable
from poweron_events.errors import Unavailable
from poweron_events.fold.state import Workflow
from poweron_events.log import Record
from poweron_projections.projection import (
    Batch,
    Changes,
    Judged,
    Read,
    View,
    advance,
    judge,
    project,
    put_undecodable,
    read,
    settle,
)
from poweron_projections.table_spec import Row, TransposedRows, columns_of

AT_ONCE: Final = 100  # records folded before rows are made of them, and before other tasks get their turn

LookUp = Callable[[Collection[str]], Awaitable[Mapping[str, View]]]
"""Returns the workflows of these ids that have records, as the rows hold them."""


class Folder(Protocol):
    """Folds the records of some partitions, in order within each partition and from batch to batch."""

    async def fold(self, records: Sequence[Record], look_up: LookUp) -> Changes:
        """Return what these records change in the rows."""


class Folding:
    """The open workflows, and how records change them."""

    def __init__(self) -> None:
        self._views: dict[str, View] = {}
        self._touched: set[str] = set()

    def unheld(self, reads: Sequence[Read]) -> set[str]:
        """Return the workflows that must be held before these records are taken."""
        named = {recorded.envelope.workflow_id for _, recorded in reads if not isinstance(recorded, Undecodable)}
        return named - self._views.keys()

    def hold(self, found: Mapping[str, View]) -> None:
        self._views.update(found)

    def take(self, reads: Sequence[Read], batch: Batch) -> None:
        for start in range(0, len(reads), AT_ONCE):
            self._take(reads[start : start + AT_ONCE], batch)

    def _take(self, reads: Sequence[Read], batch: Batch) -> None:
        workflows = dict[str, Workflow]()
        judged = list[Judged]()
        for record, recorded in reads:
            if isinstance(recorded, Undecodable):
                put_undecodable(record, recorded, batch)
                continue
            workflow_id = recorded.envelope.workflow_id
            workflow = workflows.get(workflow_id) or self._view(workflow_id, batch).workflow
            judged.append(judge(workflow, record, recorded))
            workflows[workflow_id] = judged[-1].after
        project(judged, batch)
        for one in judged:
            self._views[one.after.id] = advance(self._views[one.after.id], one, batch)
        self._touched |= workflows.keys()

    def _view(self, workflow_id: str, batch: Batch) -> View:
        if workflow_id not in self._views:  # it is not in the rows
            batch.begun.add(workflow_id)
            self._views[workflow_id] = View.of(workflow_id)
        return self._views[workflow_id]

    def settle(self, batch: Batch) -> None:
        """Put the rows that later records may change into the batch; release workflows that are not open."""
        for workflow_id in self._touched:
            view = settle(self._views.pop(workflow_id), batch)
            if view.workflow.is_open:
                self._views[workflow_id] = view
        self._touched.clear()


class LocalFolder:
    """Folds in this process."""

    def __init__(self) -> None:
        self._folding = Folding()

    async def fold(self, records: Sequence[Record], look_up: LookUp) -> Changes:
        batch, reads = Batch(), [read(record) for record in records]
        unheld = self._folding.unheld(reads)
        if unheld:
            self._folding.hold(await look_up(unheld))
        for start in range(0, len(reads), AT_ONCE):
            self._folding.take(reads[start : start + AT_ONCE], batch)
            await asyncio.sleep(0)
        self._folding.settle(batch)
        return batch.changes()


RECORDS_PER_PROCESS: Final = 20_000  # records that make starting a process worthwhile
MAX_PROCESSES: Final = 4  # Postgres does not take the rows of more any faster
LENGTH_BYTES: Final = 8  # of the length that precedes an answer
BUFFER_BYTES: Final = 2**20  # of an answer that may be buffered


@asynccontextmanager
async def folders(records: int, partitions: int) -> AsyncGenerator[Sequence[Folder], None]:
    """Provide as many folders as this number of records and partitions justifies: one here, or several children."""
    count = min(_cores(), MAX_PROCESSES, partitions, records // RECORDS_PER_PROCESS)
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(child_folder()) for _ in range(count)] if count > 1 else [LocalFolder()]


def _cores() -> int:
    """Return the number of cores that this process may use, which can be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@asynccontextmanager
async def child_folder() -> AsyncGenerator["ChildFolder", None]:
    """Run a process that folds, until the block ends."""
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
    """A folder in a child process."""

    def __init__(self, process: Process) -> None:
        self._process = process

    async def fold(self, records: Sequence[Record], look_up: LookUp) -> Changes:
        unheld: set[str] = await self._ask(columns_of(records))
        new, replacing, letters = await self._ask(await look_up(unheld) if unheld else {})
        return Changes(_rows(new), _rows(replacing), letters)

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
    gc.disable()  # reference counting frees what a batch leaves behind
    folding = Folding()
    with suppress(EOFError):
        while True:
            reads = [read(Record._make(record)) for record in zip(*_read(), strict=True)]
            _write(folding.unheld(reads))
            folding.hold(_read())
            batch = Batch()
            folding.take(reads, batch)
            folding.settle(batch)
            changes = batch.changes()
            _write((_columns(changes.new), _columns(changes.replacing), changes.letters))


def _columns(tables: Mapping[str, Collection[Row]]) -> dict[str, Sequence[Row]]:
    """Transpose the rows of each table: a few long tuples travel in half the time of many rows."""
    return {name: columns_of(rows) for name, rows in tables.items() if rows}


def _rows(tables: Mapping[str, Sequence[Row]]) -> dict[str, Collection[Row]]:
    return {name: TransposedRows(columns) for name, columns in tables.items()}


def _read() -> Any:
    return pickle.load(sys.stdin.buffer)  # noqa: S301 - from the process that started this one


def _write(answer: object) -> None:
    told = pickle.dumps(answer, pickle.HIGHEST_PROTOCOL)
    sys.stdout.buffer.write(len(told).to_bytes(LENGTH_BYTES))
    sys.stdout.buffer.write(told)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
