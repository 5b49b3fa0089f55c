"""Which documents a model wrote: an address in them may be invented, so it counts only if it is known otherwise (S4).

The event that records a document says whether a model may have written it; for older events, the label and the name
decide.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from poweron_events.catalog import READING
from poweron_events.event import DocumentRef
from poweron_events.fold.state import action_label, is_request_label

_LABELS: Final = frozenset(map(action_label, READING))
_ACTION: Final = re.compile(r"_action\d+_(\w+)$")
_ANSWER: Final = re.compile(r"extract( \(\d+\))?\.md")
"""The name that `document.extract` gives the model's answer, which it returns next to the texts."""


def written_by_model(document: DocumentRef, labelled: Mapping[str, Iterable[DocumentRef]]) -> bool:
    """Return whether a model may have written the document: True unless it was handed over or read from elsewhere."""
    if document.by_model:
        return True
    if document.page is not None:
        return False
    labels = [
        label
        for label, documents in labelled.items()
        if any(document.document_id == entry.document_id for entry in documents)
    ]
    return not any(is_request_label(label) or _was_read(document, label) for label in labels)


def _was_read(document: DocumentRef, label: str) -> bool:
    action = _ACTION.search(label)
    return action is not None and action[1] in _LABELS and not _ANSWER.fullmatch(document.document_name)
