"""The documents that a request includes or names: they are in the content store before any event names them (E-10)."""

import mimetypes
from collections.abc import Sequence

from poweron_events.content import ContentStore
from poweron_events.errors import MissingContent
from poweron_events.event import DocumentRef
from poweron_events.request import GivenDocument, InlineDocument
from poweron_services.intake.judgement import Refusal

UNKNOWN_TYPE = "application/octet-stream"


async def store_documents(
    content: ContentStore, workflow: str, round_number: int, given: Sequence[GivenDocument]
) -> tuple[DocumentRef, ...]:
    """Store the documents of a round and return them as its opening names them.

    Raises:
        Refusal: a document that is named by its content is not in the content store.
    """
    return tuple(
        [
            await _stored(content, workflow, f"r{round_number}d{position}", document)
            for position, document in enumerate(given, start=1)
        ]
    )


async def _stored(content: ContentStore, workflow: str, document_id: str, given: GivenDocument) -> DocumentRef:
    if isinstance(given, InlineDocument):
        name, size = await content.put(workflow, given.data), len(given.data)
    else:
        try:
            name, size = given.content, await content.size(workflow, given.content)
        except MissingContent as error:
            missing = f"Document {given.document_name!r} is not in the content store."
            raise Refusal("document_missing", missing) from error
    guessed = mimetypes.guess_type(given.document_name)[0] or UNKNOWN_TYPE
    return DocumentRef(
        document_id=document_id,
        document_name=given.document_name,
        mime_type=guessed if given.mime_type == UNKNOWN_TYPE else given.mime_type,
        size=size,
        content=name,
    )
