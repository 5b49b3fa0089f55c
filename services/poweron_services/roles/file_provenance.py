"""The mark of the files that a step writes: the workflow, the step, and the SHA-256 of the documents that they rest on.

These are the documents that the step reads, and those that people handed over until then.
"""

import hashlib
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Final

from poweron_events.content import ContentStore
from poweron_events.errors import MissingContent
from poweron_events.event import DocumentRef
from poweron_events.fold.state import Workflow, is_request_label
from poweron_services.decider.references import documents_at_hand
from poweron_services.roles.action_results import content_time_limit, retry_content, step_name
from poweron_services.roles.document_lookup import documents_named
from poweron_services.text.provenance import Provenance, SourceDigest

MAX_SOURCES: Final = 100
MAX_UNREAD: Final = 50_000_000  # bytes of documents that are hashed although the step does not read them


@dataclass(frozen=True, slots=True)
class FileProvenance:
    """Finds the mark of the files of one step."""

    workflow: Workflow
    content: ContentStore
    references: Sequence[str]
    """The documents that the step reads."""

    async def __call__(self) -> Provenance:
        """Return the mark of the step's first file.

        Raises:
            Refused: a document of the step is unknown.
            Unavailable: the content store does not answer.
        """
        async with content_time_limit():
            find = partial(documents_named, self.references, self.workflow, self.content)
            read = await retry_content(self.workflow.id, find)
        names = {document.document_id for document in read}
        others = [document for document in _handed_over(self.workflow) if document.document_id not in names]
        digests = [await self._digest(document) for document in [*read, *_fitting(others)][:MAX_SOURCES]]
        sources = tuple(digest for digest in digests if digest is not None)
        return Provenance(
            self.workflow.id,
            step_name(self.workflow),
            sources=sources,
            sources_left_out=len(read) + len(others) - len(sources),
        )

    async def _digest(self, document: DocumentRef) -> SourceDigest | None:
        """Hash a document; None if it was erased."""
        try:
            async with content_time_limit(document.size):
                sha256 = await retry_content(self.workflow.id, partial(self._sha256, document.content))
        except MissingContent:
            return None
        return SourceDigest(document.document_id, sha256)

    async def _sha256(self, name: str) -> str:
        digest = hashlib.sha256()
        async with aclosing(self.content.pieces(self.workflow.id, name)) as pieces:
            async for piece in pieces:
                digest.update(piece)
        return digest.hexdigest()


def _handed_over(workflow: Workflow) -> list[DocumentRef]:
    labelled = documents_at_hand(workflow)
    return [document for label, documents in labelled.items() if is_request_label(label) for document in documents]


def _fitting(documents: Sequence[DocumentRef]) -> list[DocumentRef]:
    """Return the first documents that are not too large together."""
    result, size = list[DocumentRef](), 0
    for document in documents:
        size += document.size
        if size > MAX_UNREAD:
            break
        result.append(document)
    return result
