"""Replays workflows: makes each of their decisions again and compares the results.

Many workflows are replayed in parallel: each process takes some of them and reads their contents.
"""

import asyncio
import logging
import multiprocessing
import os
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Final, NamedTuple

import structlog

from poweron_events.content import ContentStore
from poweron_projections import reader
from poweron_projections.connection import Pool
from poweron_projections.reader import StoredRecord
from poweron_services.client.client_errors import NewerRelease
from poweron_services.replay.action_specs import KnownActions
from poweron_services.replay.decision_replay import DecisionReplay, Replayed, is_decision
from poweron_services.replay.workflow_records import Damaged, Folded, StoredContent, folded

MAX_PROCESSES: Final = 8


WORKFLOWS_PER_PROCESS: Final = 50  # workflows that justify starting a process


AT_A_TIME: Final = 10  # workflows given to a process


WAITING: Final = 2  # shares in flight for each process


class ReplayedWorkflow(NamedTuple):
    """The result of replaying a workflow."""

    workflow_id: str
    replayed: Sequence[Replayed]
    newer: str = ""
    """Why the workflow cannot be replayed: a newer release worked on it."""


Share = Sequence[tuple[str, Sequence[StoredRecord]]]


@dataclass(frozen=True, slots=True)
class _Context:
    """The data that a replaying process works with."""

    places: tuple[str, str | None]
    known: KnownActions


_context: _Context | None = None


async def replay_all(
    pool: Pool, workflows: int, content: ContentStore, places: tuple[str, str | None], known: KnownActions
) -> AsyncGenerator[ReplayedWorkflow, None]:
    """Replay all workflows that have records and yield each result when it is ready; share many among processes.

    `places` are where other processes find the contents. Only a small part of a long log is in memory at a time.
    """
    count = min(MAX_PROCESSES, _cores(), workflows // WORKFLOWS_PER_PROCESS)
    if count < 2:
        async for ids in _shares(pool):
            for id_ in ids:
                yield await _replay_one(id_, await reader.stored_records(pool, id_), content, known)
        return
    async with _processes(count, _Context(places, known)) as executor:
        async for done in _side_by_side(pool, _shares(pool), executor, count):
            yield done


async def _shares(pool: Pool) -> AsyncIterator[Sequence[str]]:
    """Yield the ids of all workflows, in shares for one process."""
    ids = await reader.workflow_ids(pool, limit=AT_A_TIME)
    while ids:
        yield ids
        ids = await reader.workflow_ids(pool, after=ids[-1], limit=AT_A_TIME)


async def _side_by_side(
    pool: Pool, shares: AsyncIterator[Sequence[str]], executor: ProcessPoolExecutor, count: int
) -> AsyncIterator[ReplayedWorkflow]:
    loop, working = asyncio.get_running_loop(), set[asyncio.Future[list[ReplayedWorkflow]]]()
    async for ids in shares:
        share = [(id_, await reader.stored_records(pool, id_)) for id_ in ids]
        working.add(loop.run_in_executor(executor, _replay_share, share))
        if len(working) == count * WAITING:
            done, working = await asyncio.wait(working, return_when=asyncio.FIRST_COMPLETED)
            for result in chain.from_iterable(future.result() for future in done):
                yield result
    for last in asyncio.as_completed(working):
        for result in await last:
            yield result


@asynccontextmanager
async def _processes(count: int, context: _Context) -> AsyncGenerator[ProcessPoolExecutor, None]:
    spawn = multiprocessing.get_context("spawn")
    executor = ProcessPoolExecutor(count, mp_context=spawn, initializer=_begin, initargs=(context,))
    try:
        yield executor
    finally:
        await asyncio.to_thread(partial(executor.shutdown, cancel_futures=True))


def _begin(context: _Context) -> None:
    global _context  # noqa: PLW0603 - what a process is for, set once at its start
    _context = context
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


def _replay_share(share: Share) -> list[ReplayedWorkflow]:
    assert _context is not None
    return asyncio.run(_replay_each(share, _context))


async def _replay_each(share: Share, context: _Context) -> list[ReplayedWorkflow]:
    content = ContentStore.at(*context.places)
    return [await _replay_one(id_, records, content, context.known) for id_, records in share]


async def _replay_one(
    workflow_id: str, records: Sequence[StoredRecord], content: ContentStore, known: KnownActions
) -> ReplayedWorkflow:
    try:
        return ReplayedWorkflow(
            workflow_id, [decision async for decision in replay(workflow_id, records, content, known)]
        )
    except NewerRelease as error:
        return ReplayedWorkflow(workflow_id, (), f"{error}.")


def _cores() -> int:
    """Return the number of cores that this process may use, which can be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Counted(NamedTuple):
    """The number of replayed decisions, and of each result."""

    decisions: int = 0
    same: int = 0
    differs: int = 0
    inconclusive: int = 0

    @classmethod
    def of(cls, replayed: Iterable[Replayed]) -> "Counted":
        verdicts = [decision.verdict for decision in replayed]
        return cls(len(verdicts), *(verdicts.count(verdict) for verdict in ("same", "differs", "inconclusive")))

    def __add__(self, other: "Counted") -> "Counted":  # type: ignore[override] # sums, where a tuple would grow longer
        return Counted(*(first + second for first, second in zip(self, other, strict=True)))


async def replay(
    workflow_id: str, records: Sequence[StoredRecord], content: ContentStore, known: KnownActions
) -> AsyncGenerator[Replayed, None]:
    """Replay every decision of a workflow, oldest first; also report records whose verdict is different now.

    No model or action is called, and nothing is written.

    Raises:
        NewerRelease: a newer release worked on the workflow.
        Unavailable: the content store cannot be reached.
    """
    again = DecisionReplay(StoredContent(content), known)
    for record in folded(workflow_id, records):
        if isinstance(record, Damaged):
            yield _damage(record)
        elif record.verdict != record.stored.verdict:
            detail = f"The rows call it {record.stored.verdict}, and the rules {record.verdict}."
            yield Replayed(record.seq, record.recorded.envelope.type, "differs", "same", detail)
        elif _counts(record):
            yield await again.again(record)


def _damage(record: Damaged) -> Replayed:
    """Return a damaged record as if it were a decision that differs."""
    return Replayed(record.stored.seq, "record", "differs", "inconclusive", record.why)


def _counts(folded: Folded) -> bool:
    return folded.verdict == "accepted" and is_decision(folded.recorded.envelope.event)
