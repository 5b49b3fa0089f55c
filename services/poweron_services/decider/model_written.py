"""Which documents a model wrote: an address in them may be made up, so that it counts only where it is known (S4)."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from poweron_events.event import DocumentRef
from poweron_events.fold.state import is_request_label

_ACTION: Final = re.compile(r"_action\d+_(\w+)$")
_READING: Final = frozenset({"search", "scrape", "crawl", "extract"})
"""The actions, as labels name them, whose results are texts of others."""
_ANSWER: Final = re.compile(r"extract( \(\d+\))?\.md")
"""What `document.extract` calls the model's answer beside the texts."""


def written_by_model(document: DocumentRef, labelled: Mapping[str, Iterable[DocumentRef]]) -> bool:
    """Whether a model may have written the document: true of whatever is neither handed over nor read elsewhere."""
    if document.page is not None:
        return False
    labels = [label for label, held in labelled.items() if any(document.document_id == one.document_id for one in held)]
    return not any(is_request_label(label) or _was_read(document, label) for label in labels)


def _was_read(document: DocumentRef, label: str) -> bool:
    action = _ACTION.search(label)
    return action is not None and action[1] in _READING and not _ANSWER.fullmatch(document.document_name)
