"""References to documents: `docList:<label>` and `docItem:<documentId>:<fileName>`, resolved by one function."""

from collections.abc import Iterable, Sequence

from poweron_events.errors import Refused
from poweron_events.event import DocumentRef
from poweron_events.fold.history import item_reference
from poweron_events.fold.state import ChatMessage

MAX_SHOWN = 5  # references named in an error


class UnknownReference(Refused):
    """A reference that names no document of this workflow."""


def labelled_documents(messages: Iterable[ChatMessage]) -> dict[str, tuple[DocumentRef, ...]]:
    """The documents of a workflow by their label, in the order they came."""
    return {
        message.documents_label: message.documents
        for message in messages
        if message.documents_label and message.documents
    }


def resolve(references: Sequence[str], messages: Iterable[ChatMessage]) -> tuple[DocumentRef, ...]:
    """The documents that the references name, each once, in the order named (R-01).

    Raises:
        UnknownReference: says which reference is unknown and which there are.
    """
    labelled = labelled_documents(messages)
    found: dict[str, DocumentRef] = {}
    for reference in references:
        for document in _named(reference, labelled):
            found[document.document_id] = document
    return tuple(found.values())


def _named(reference: str, labelled: dict[str, tuple[DocumentRef, ...]]) -> Sequence[DocumentRef]:
    kind, _, rest = reference.partition(":")
    if kind == "docList" and rest in labelled:
        return labelled[rest]
    if kind == "docItem":
        named = [
            document
            for documents in labelled.values()
            for document in documents
            if item_reference(document.document_id, document.document_name) == reference
        ]
        if named:
            return named[:1]
    known = [f"docList:{label}" for label in list(labelled)[-MAX_SHOWN:]]
    raise UnknownReference(
        f"{reference[:200]!r} names no document of this workflow; known are {', '.join(known) or 'none'}."
    )
