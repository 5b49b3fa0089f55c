"""The documents that two workflows were given: which of the same name and size have different bytes."""

import hashlib
from collections.abc import Iterator, Sequence

from poweron_events.content import ContentStore
from poweron_events.errors import MissingContent
from poweron_events.event import DocumentRef
from poweron_events.fold.state import Opening
from poweron_events.stream import WorkflowEvent

Run = tuple[str, Sequence[WorkflowEvent]]
"""The id of a workflow, and its accepted events."""


async def changed_documents(content: ContentStore, a: Run, b: Run) -> frozenset[str]:
    """Return the contents of documents at the same place that differ although name and size are equal.

    The events cannot say it: each workflow has a key of its own, so equal bytes have different names in them.
    An erased document counts as equal.

    Raises:
        Unavailable: the content store cannot be reached.
    """
    changed = set[str]()
    for first, second in zip(_documents(a), _documents(b), strict=False):
        if (first.document_name, first.size) != (second.document_name, second.size):
            continue
        digests = [await _digest(content, run[0], document) for run, document in ((a, first), (b, second))]
        if None not in digests and digests[0] != digests[1]:
            changed |= {first.content, second.content}
    return frozenset(changed)


def _documents(run: Run) -> Iterator[DocumentRef]:
    return (document for event in run[1] if isinstance(event, Opening) for document in event.documents)


async def _digest(content: ContentStore, workflow_id: str, document: DocumentRef) -> bytes | None:
    digest = hashlib.sha256()
    try:
        async for piece in content.pieces(workflow_id, document.content):
            digest.update(piece)
    except MissingContent:
        return None
    return digest.digest()
