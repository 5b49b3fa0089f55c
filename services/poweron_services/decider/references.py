"""References to documents: `docList:<label>` and `docItem:<documentId>:<fileName>`, resolved by one function."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from poweron_events.errors import Refused
from poweron_events.event import DocumentRef
from poweron_events.fold.history import item_reference, list_reference
from poweron_events.fold.state import ChatMessage, Workflow
from poweron_events.request import EarlierRounds, RoundRequested

MAX_SHOWN = 5  # references named in an error
_KINDS: Final = {"doclist": "docList", "docitem": "docItem"}


class UnknownReference(Refused):
    """A reference that names no document of this workflow."""

    code = "unknown_reference"


def earlier_rounds(workflow: Workflow) -> EarlierRounds | None:
    """What the open round knows of earlier rounds, or None in the first round."""
    opening = workflow.current.opening
    return opening.earlier if isinstance(opening, RoundRequested) else None


def documents_at_hand(workflow: Workflow) -> dict[str, tuple[DocumentRef, ...]]:
    """The documents of the workflow by label: those of earlier rounds, then those of this one in order of arrival."""
    earlier = earlier_rounds(workflow)
    older = {entry.label: entry.documents for entry in reversed(earlier.documents)} if earlier else {}
    return {**older, **labelled_documents(workflow.current.messages)}


def labelled_documents(messages: Iterable[ChatMessage]) -> dict[str, tuple[DocumentRef, ...]]:
    """The documents of the messages by label, in the order of the messages."""
    return {
        message.documents_label: message.documents
        for message in messages
        if message.documents_label and message.documents
    }


def as_listed(reference: str, labelled: Mapping[str, tuple[DocumentRef, ...]]) -> str:
    """Return the reference as it is listed if it can mean only one document; otherwise leave it for its check.

    Surrounding blanks, the case of the kind, and a missing name after an id that only one document has do not change
    the meaning. A label, an id or a document's name alone is enough if nothing else has the same name.
    """
    kind, _, rest = map(str.strip, reference.partition(":"))
    name = _KINDS.get(kind.casefold())
    if name is None:
        return _by_itself(reference.strip(), labelled) or reference
    if reference in _items(labelled):
        return reference
    same_id = _items(labelled, rest) if name == "docItem" else ()
    return same_id[0] if len(same_id) == 1 else f"{name}:{rest}"


def _by_itself(text: str, labelled: Mapping[str, tuple[DocumentRef, ...]]) -> str | None:
    """Return the only reference whose label, id or name this is, or None if there are none or several."""
    meant = {list_reference(text)} if text in labelled else set[str]()
    for documents in labelled.values():
        for document in documents:
            if text in (document.document_id, document.document_name):
                meant.add(item_reference(document.document_id, document.document_name))
    return meant.pop() if len(meant) == 1 else None


def resolve(references: Sequence[str], labelled: Mapping[str, tuple[DocumentRef, ...]]) -> tuple[DocumentRef, ...]:
    """Return the documents that the references name, each once, in the order named (R-01).

    Raises:
        UnknownReference: names the reference that is unknown or ambiguous, and those that it could be.
    """
    documents: dict[str, DocumentRef] = {}
    for reference in references:
        for document in _matches(reference, labelled):
            documents[document.document_id] = document
    return tuple(documents.values())


def _matches(reference: str, labelled: Mapping[str, tuple[DocumentRef, ...]]) -> Sequence[DocumentRef]:
    kind, _, rest = reference.partition(":")
    if kind == "docList" and rest in labelled:
        return labelled[rest]
    if kind == "docItem":
        matches = [
            document
            for documents in labelled.values()
            for document in documents
            if item_reference(document.document_id, document.document_name) == reference
        ]
        if matches:
            return matches[:1]
        if same_id := _items(labelled, rest):
            raise UnknownReference(f"{reference!r} may mean {' or '.join(same_id[:MAX_SHOWN])}; name one of them.")
    known = [f"docList:{label}" for label in list(labelled)[-MAX_SHOWN:]]
    raise UnknownReference(
        f"{reference[:200]!r} names no document of this workflow; known are {', '.join(known) or 'none'}."
    )


def _items(labelled: Mapping[str, tuple[DocumentRef, ...]], document_id: str | None = None) -> Sequence[str]:
    """The references to single documents, each once: to all of them, or to those with the id."""
    all_documents = [document for documents in labelled.values() for document in documents]
    return list(
        dict.fromkeys(
            item_reference(document.document_id, document.document_name)
            for document in all_documents
            if document_id in (None, document.document_id)
        )
    )
