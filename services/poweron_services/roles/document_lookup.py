"""The documents that references name, from this round and earlier ones (R-01)."""

from collections.abc import Mapping, Sequence

import orjson
from pydantic import TypeAdapter

from poweron_events.content import ContentStore
from poweron_events.errors import MissingContent
from poweron_events.event import READING, DocumentRef
from poweron_events.fold.state import ChatMessage, Workflow
from poweron_services.decider.references import (
    UnknownReference,
    as_listed,
    documents_at_hand,
    earlier_rounds,
    labelled_documents,
    resolve,
)

_MESSAGES = TypeAdapter(tuple[ChatMessage, ...])


async def documents_named(
    references: Sequence[str], workflow: Workflow, content: ContentStore
) -> tuple[DocumentRef, ...]:
    """Return the documents of this round and of earlier ones that the references name (R-01).

    Raises:
        UnknownReference: names the reference that is unknown and those that are known.
        Unavailable: the content store cannot be reached.
    """
    if not references:
        return ()
    at_hand = documents_at_hand(workflow)
    try:
        return resolve(references, at_hand)
    except UnknownReference:
        older = await _older_documents(workflow, content)
        if not older:
            raise
        return resolve(references, {**older, **at_hand})


async def references_as_listed(references: Sequence[str], workflow: Workflow, content: ContentStore) -> tuple[str, ...]:
    """Return each reference as the prompt lists the document, if it can mean only one; the others are unchanged.

    Raises:
        Unavailable: the content store cannot be reached.
    """
    if not references:
        return ()
    at_hand = documents_at_hand(workflow)
    listed = tuple(as_listed(reference, at_hand) for reference in references)
    try:
        resolve(listed, at_hand)
    except UnknownReference:
        older = await _older_documents(workflow, content)
        return tuple(as_listed(reference, {**older, **at_hand}) for reference in references)
    return listed


async def earlier_messages(workflow: Workflow, content: ContentStore) -> tuple[ChatMessage, ...]:
    """All messages of earlier rounds, newest first, if the opening says where they are; empty once they are erased.

    Raises:
        Unavailable: the content store cannot be reached.
    """
    earlier = earlier_rounds(workflow)
    if earlier is None or earlier.history_ref is None:
        return ()
    try:
        data = await content.get(workflow.id, earlier.history_ref)
    except MissingContent:
        return ()
    return _MESSAGES.validate_python(orjson.loads(data), extra="ignore", context=READING, by_alias=True)


async def _older_documents(workflow: Workflow, content: ContentStore) -> Mapping[str, tuple[DocumentRef, ...]]:
    """All documents of earlier rounds if the opening does not name them all; empty once they are erased."""
    earlier = earlier_rounds(workflow)
    if earlier is None or not earlier.documents_left_out:
        return {}
    return labelled_documents(reversed(await earlier_messages(workflow, content)))
