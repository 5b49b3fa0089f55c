"""The search for sources of answers, in a process of its own where documents are large, so that no other page waits.

Python can do nothing else while it searches a long text.
"""

import asyncio
import logging
import multiprocessing
import os
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Final

import structlog

from poweron_events.codes import Code
from poweron_events.content import ContentStore
from poweron_events.errors import PowerOnError, Unavailable
from poweron_events.event import DocumentRef
from poweron_services.client.source_check import Sources, check_answers, cited_documents
from poweron_services.connectors.document_reader import text_reader
from poweron_services.door.door_state import DoorState

LARGE: Final = 500_000  # bytes of the documents of a workflow, from which a process of its own searches them
WITHIN: Final = 300.0  # seconds
_YIELDING: Final = 10  # by which the process lowers its priority
_SPAWN: Final = multiprocessing.get_context("spawn")


class SearchFailed(Unavailable):
    """The search of large documents took too long, or its process ended, such as for lack of memory."""


@dataclass(frozen=True, slots=True)
class _Task:
    """What a process searches, and where."""

    places: tuple[str, str | None]
    workflow_id: str
    answers: Sequence[DocumentRef]
    documents: Sequence[DocumentRef]
    ocr_command: tuple[str, ...] | None

    async def run(self, content: ContentStore) -> Sources:
        read = text_reader(self.ocr_command)
        return await check_answers(self.answers, content, self.workflow_id, self.documents, read)


@dataclass(frozen=True, slots=True)
class _Failure:
    """Why a process found nothing."""

    sentence: str
    code: Code


async def all_sources(door: DoorState, workflow_id: str) -> Sources:
    """Return the sources that the answers of a workflow cite, from the rows as they are; raises as `search_sources`."""
    answers, documents = await cited_documents(door.opened.pool, workflow_id)
    return await search_sources(door, workflow_id, answers, documents)


async def search_sources(
    door: DoorState, workflow_id: str, answers: Sequence[DocumentRef], documents: Sequence[DocumentRef]
) -> Sources:
    """Return the sources that these answers cite among the documents.

    Raises:
        SearchFailed: the documents are too large to be searched.
        Unavailable: a server cannot be reached.
    """
    task = _Task(door.settings.content_places, workflow_id, answers, documents, door.settings.ocr_command)
    if sum(document.size for document in documents) < LARGE:
        async with door.busy:
            return await task.run(door.opened.content)
    async with door.searching:
        found = await _in_process(task)
    if isinstance(found, _Failure):
        raise Unavailable(found.sentence, code=found.code)
    return found


async def _in_process(task: _Task) -> Sources | _Failure:
    receiver, sender = _SPAWN.Pipe(duplex=False)
    process = _SPAWN.Process(target=_search, args=(sender, task), daemon=True)
    await asyncio.to_thread(process.start)
    sender.close()
    try:
        async with asyncio.timeout(WITHIN):
            found: Sources | _Failure = await asyncio.to_thread(receiver.recv)
            return found
    except TimeoutError:
        raise SearchFailed(f"The documents are too large to be searched within {WITHIN:g} s") from None
    except EOFError:
        raise SearchFailed("The process that searches the documents has ended") from None
    finally:
        process.kill()
        await asyncio.to_thread(process.join)
        receiver.close()


def _search(sender: Connection, task: _Task) -> None:
    """Search in this process, and send what was found."""
    os.nice(_YIELDING)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        sender.send(asyncio.run(task.run(ContentStore.at(*task.places))))
    except PowerOnError as error:
        sender.send(_Failure(str(error), error.code))
