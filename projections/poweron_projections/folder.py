"""Fold records into rows without a database: records advance the open workflows.

`LocalFolder` folds in the calling process, `ChildFolder` in a child process, which takes a share of the partitions
when a whole log is folded. A child reads questions from a socket and writes answers to it; when its parent dies, the
socket closes and it exits.
"""

import asyncio
import gc
import os
import pickle
import signal
import socket
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from typing import Any, BinaryIO, Final, Protocol

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
END_TIMEOUT: Final = 5.0  # seconds that a process may take to finish its batch


@asynccontextmanager
async def folders(records: int, partitions: int) -> AsyncGenerator[Sequence[Folder], None]:
    """Provide as many folders as this number of records and partitions justifies: one here, or several children."""
    count = min(_cores(), MAX_PROCESSES, partitions, records // RECORDS_PER_PROCESS)
    if count < 2:
        yield [LocalFolder()]
        return
    async with child_folders(count) as children:
        yield children


def _cores() -> int:
    """Return the number of cores that this process may use, which can be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@asynccontextmanager
async def child_folders(count: int) -> AsyncGenerator[Sequence["ChildFolder"], None]:
    """Run this many processes that fold, until the block ends; the first one starts the others."""
    with ExitStack() as stack:
        ours, theirs = zip(*(map(stack.enter_context, socket.socketpair()) for _ in range(count)), strict=True)
        command = (sys.executable, "-P", "-m", __name__, *(str(end.fileno()) for end in theirs))
        passed = [end.fileno() for end in theirs]
        process = await asyncio.create_subprocess_exec(*command, pass_fds=passed, start_new_session=True)
        for end in theirs:
            end.close()
        try:
            async with AsyncExitStack() as opened:
                yield [await opened.enter_async_context(_folder_at(end)) for end in ours]
        finally:
            await _ended(process)


@asynccontextmanager
async def _folder_at(end: socket.socket) -> AsyncGenerator["ChildFolder", None]:
    """Provide the folder at the other end of a socket; its process ends once the socket is closed."""
    reader, writer = await asyncio.open_connection(sock=end, limit=BUFFER_BYTES)
    try:
        yield ChildFolder(reader, writer)
    finally:
        writer.transport.abort()


async def _ended(process: Process) -> None:
    """Wait for the first process, which waits for the others; kill all of them if one does not finish its batch."""
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(END_TIMEOUT):
                await process.wait()
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


class ChildFolder:
    """A folder in a child process."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def fold(self, records: Sequence[Record], look_up: LookUp) -> Changes:
        unheld: set[str] = await self._ask(columns_of(records))
        new, replacing, letters = await self._ask(await look_up(unheld) if unheld else {})
        return Changes(_rows(new), _rows(replacing), letters)

    async def _ask(self, question: object) -> Any:
        try:
            self._writer.write(pickle.dumps(question, pickle.HIGHEST_PROTOCOL))
            await self._writer.drain()
            length = int.from_bytes(await self._reader.readexactly(LENGTH_BYTES))
            return pickle.loads(await self._reader.readexactly(length))  # noqa: S301 - from our own process
        except (OSError, asyncio.IncompleteReadError) as error:
            raise Unavailable("a process that folds has ended") from error


def main() -> None:
    """Fold for the first of the given sockets, and start a process for each of the others.

    Those are copies of this one, since importing all modules again would take a third of a second.
    """
    gc.disable()  # reference counting frees what a batch leaves behind
    first, *others = [socket.socket(fileno=int(number)) for number in sys.argv[1:]]
    for place, other in enumerate(others):
        if os.fork() == 0:
            for unused in (first, *others[place + 1 :]):
                unused.close()
            _fold_for(other)
            return
        other.close()
    _fold_for(first)
    for _ in others:
        os.wait()


def _fold_for(parent: socket.socket) -> None:
    """Fold batch after batch until the parent closes its end."""
    folding = Folding()
    with suppress(EOFError, OSError), parent, parent.makefile("rb") as questions:
        while True:
            reads = [read(Record._make(record)) for record in zip(*_read(questions), strict=True)]
            _write(parent, folding.unheld(reads))
            folding.hold(_read(questions))
            batch = Batch()
            folding.take(reads, batch)
            folding.settle(batch)
            changes = batch.changes()
            _write(parent, (_columns(changes.new), _columns(changes.replacing), changes.letters))


def _columns(tables: Mapping[str, Collection[Row]]) -> dict[str, Sequence[Row]]:
    """Transpose the rows of each table: a few long tuples travel in half the time of many rows."""
    return {name: columns_of(rows) for name, rows in tables.items() if rows}


def _rows(tables: Mapping[str, Sequence[Row]]) -> dict[str, Collection[Row]]:
    return {name: TransposedRows(columns) for name, columns in tables.items()}


def _read(questions: BinaryIO) -> Any:
    return pickle.load(questions)  # noqa: S301 - from the process that started this one


def _write(parent: socket.socket, answer: object) -> None:
    pickled = pickle.dumps(answer, pickle.HIGHEST_PROTOCOL)
    parent.sendall(len(pickled).to_bytes(LENGTH_BYTES))
    parent.sendall(pickled)


if __name__ == "__main__":
    main()
