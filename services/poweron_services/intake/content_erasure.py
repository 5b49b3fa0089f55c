"""Erasure of content: carries out what an event says was erased.

The event comes first, then the content goes, and the request is committed last: a process that dies in between leaves
the request to another one, which finds the event and removes the content again.
"""

from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

import structlog
from pydantic import TypeAdapter, ValidationError

from poweron_events.archive_events import ContentErased
from poweron_events.content import ContentStore
from poweron_events.content_references import content_references
from poweron_events.errors import MissingContent
from poweron_events.event import DocumentRef, Event
from poweron_events.request import RequestIdentity, RoundRequested
from poweron_events.step_events import ActionCompleted
from poweron_services.intake.consistent_reads import ConsistentReads
from poweron_services.intake.intake_ports import IntakeQueries

log = structlog.get_logger()

_DOCUMENTS: Final = TypeAdapter(list[DocumentRef])


@dataclass(frozen=True, slots=True)
class ContentErasure:
    """Removes content whose erasure is in the log; may be repeated."""

    queries: IntakeQueries
    reads: ConsistentReads
    content: ContentStore

    async def carry_out(self, workflow: str, identity: RequestIdentity) -> None:
        """Remove what was erased in answer to the request, if it was not refused.

        Raises:
            Unavailable: Postgres or the content store does not answer, or not everything was removed.
        """
        accepted = await self.reads.checked(self.queries.accepted_events(workflow))
        for seq, _, event in accepted:
            if not isinstance(event, ContentErased) or event.request != identity:
                continue
            names = None
            if event.documents:  # a later round may have got the same bytes again
                names = {*event.contents} - {
                    name for later, _, other in accepted if later > seq for name in _new_contents(other)
                }
            await self.content.erase(workflow, names)
            log.info("content_erased", workflow_id=workflow, contents=None if names is None else len(names))


def _new_contents(event: Event) -> Iterator[str]:
    """Yield the contents that an event refers to first: a further round also lists the documents of earlier ones."""
    for part in event.documents if isinstance(event, RoundRequested) else (event,):
        yield from (reference.name for reference in content_references(part))


async def has_content(content: ContentStore, workflow: str) -> bool:
    """Return whether the store has anything of a workflow; raise Unavailable if it does not answer."""
    async with aclosing(content.stored(workflow)) as pages:
        return any([page async for page in pages])


async def is_stored(content: ContentStore, workflow: str, name: str) -> bool:
    """Return whether the store has a content; raise Unavailable if it does not answer."""
    try:
        await content.size(workflow, name)
    except MissingContent:
        return False
    return True


async def listed_documents(
    content: ContentStore, workflow: str, events: Iterable[Event]
) -> AsyncGenerator[DocumentRef, None]:
    """Yield the documents of results that have more than their event lists; those of a missing list are left out."""
    for event in events:
        if isinstance(event, ActionCompleted) and event.documents_left_out and event.documents:
            try:
                listed = _DOCUMENTS.validate_json(await content.get(workflow, event.documents[-1].content))
            except (MissingContent, ValidationError):
                continue
            for document in listed:
                yield document
