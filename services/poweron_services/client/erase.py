"""Erase the content of a workflow: send the request, and wait until the content is gone."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from poweron_events.archive_events import ContentErased, RequestErasure
from poweron_events.codes import Code
from poweron_events.content import ContentStore
from poweron_events.errors import Unavailable
from poweron_events.request import RequestIdentity, RequestRefused
from poweron_projections import workflow_lifetimes
from poweron_services.client.connect import Connections
from poweron_services.client.content_inventory import InventoryEntry
from poweron_services.client.follow import Callbacks, send_and_wait
from poweron_services.client.text_remains import RemainingText, remaining_text
from poweron_services.client.workflow_snapshot import read_snapshot

GONE_WITHIN: Final = 60.0  # seconds from the event until the content must be gone
LOOK: Final = 0.05  # seconds between two looks at the store


@dataclass(frozen=True, slots=True)
class Erasure:
    """What became of a request to erase content."""

    workflow_id: str
    code: Code | None = None
    """Why it was refused; None if the content is gone."""
    detail: str = ""
    """The reason as a sentence."""
    documents: Sequence[str] = ()
    """The documents whose content is gone, with those of the same bytes; empty if it was all content."""
    contents: int = 0
    bytes: int = 0
    """The bytes that these contents took in the store."""
    remains: Sequence[RemainingText] = ()
    copies: Sequence[str] = ()
    """The workflows that were forked or restarted from it, which may have copies of its content."""

    def as_object(self) -> dict[str, Any]:
        """Return it with the fields of `--json`."""
        return {
            "workflowId": self.workflow_id,
            "status": "refused" if self.code else "erased",
            "code": self.code,
            "detail": self.detail,
            "documents": [*self.documents],
            "contents": self.contents,
            "bytes": self.bytes,
            "remains": [each.as_object() for each in self.remains],
            "copies": [*self.copies],
        }


async def erase(
    connections: Connections, request: RequestErasure, *, identity: RequestIdentity, callbacks: Callbacks
) -> Erasure:
    """Erase content, and return what is gone; what remains is left to `with_remains`.

    Raises:
        UnknownWorkflow: there is no such workflow.
        NotServed: no process picked up the request in time; it remains in the log.
        Unavailable: a server cannot be reached, or the content is not gone in time.
    """
    workflow_id = request.workflow_id
    snapshot = await read_snapshot(connections, workflow_id)
    before = await stored_content(connections.content, workflow_id)
    record = await send_and_wait(connections, request, snapshot, identity=identity, callbacks=callbacks)
    if isinstance(record.event, RequestRefused):
        return Erasure(workflow_id, record.event.precise_code, record.event.detail)
    assert isinstance(record.event, ContentErased)
    after = await _without(connections.content, workflow_id, record.event)
    gone = [size for path, size in before.items() if path not in after]
    return Erasure(workflow_id, documents=record.event.documents, contents=len(gone), bytes=sum(gone))


async def with_remains(connections: Connections, erasures: Sequence[Erasure]) -> list[Erasure]:
    """Return the same with what remains, and with the workflows that may have copies."""
    remains = await remaining_text(connections, [each.workflow_id for each in erasures if each.code is None])
    return [
        each
        if each.code is not None
        else Erasure(
            each.workflow_id,
            documents=each.documents,
            contents=each.contents,
            bytes=each.bytes,
            remains=remains[each.workflow_id],
            copies=await workflow_lifetimes.copies(connections.pool, each.workflow_id),
        )
        for each in erasures
    ]


async def stored_content(content: ContentStore, workflow_id: str) -> Mapping[str, int]:
    """Return the bytes of what the store has of a workflow, without its key, by path."""
    entries = [InventoryEntry.of(each) async for page in content.stored(workflow_id) for each in page]
    return {entry.path: entry.size for entry in entries if entry is not None and entry.sort != "key"}


async def _without(content: ContentStore, workflow_id: str, erased: ContentErased) -> Mapping[str, int]:
    """Wait until the erased content is gone, and return the rest."""
    paths = {f"{workflow_id}/{name}" for name in erased.contents}
    try:
        async with asyncio.timeout(GONE_WITHIN):
            while True:
                left = await stored_content(content, workflow_id)
                if paths.isdisjoint(left) if erased.documents else not left:
                    return left
                await asyncio.sleep(LOOK)
    except TimeoutError as error:
        raise Unavailable(
            f"The erasure of content of workflow {workflow_id} is recorded, but the content store still has some of it "
            f"after {GONE_WITHIN:g} s. A process that serves continues to remove it.",
            code="content_store_unavailable",
        ) from error
