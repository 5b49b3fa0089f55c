"""The contents that an event refers to, in any of its fields."""

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple, get_type_hints

from poweron_events.event import Commitment, DocumentRef, Model, WebPage


class ContentReference(NamedTuple):
    """A content that an event refers to."""

    name: str
    field: str
    """The field that names it, such as `prompt_ref`."""
    document: DocumentRef | None
    """The document whose bytes the content holds; None if it is not a document."""
    owner: DocumentRef | None
    """The document that the content belongs to, also as a page that it was made from; None if it belongs to none."""
    sha256: str | None
    """The SHA-256 of its bytes, if the event says it."""


@cache
def content_fields(kind: type[Model]) -> frozenset[str]:
    """Return the names of a model's fields that name content."""
    hints = get_type_hints(kind, include_extras=True)
    return frozenset(name for name in kind.model_fields if hints[name] in (Commitment, Commitment | None))


def content_references(model: Model, owner: DocumentRef | None = None) -> Iterator[ContentReference]:
    """Yield all contents that an event, or a part of one, refers to; `owner` is the document that the part is of."""
    document = model if isinstance(model, DocumentRef) else None
    owner = document or owner
    sha256 = model.sha256 if isinstance(model, WebPage) else None
    for field in type(model).model_fields:
        value = getattr(model, field)
        if isinstance(value, str) and field in content_fields(type(model)):
            yield ContentReference(value, field, document, owner, sha256)
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, Model):
                yield from content_references(part, owner)


def document_references(model: Model) -> Iterator[DocumentRef]:
    """Yield all documents that an event, or a part of one, refers to."""
    for field in type(model).model_fields:
        value = getattr(model, field)
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, DocumentRef):
                yield part
            elif isinstance(part, Model):
                yield from document_references(part)
