"""Plain text: its bytes decoded, its lines kept."""

import re
from collections.abc import Iterator
from itertools import pairwise

from poweron_services.connectors.documents_child import text_encodings
from poweron_services.connectors.documents_child.document import Section
from poweron_services.connectors.documents_child.limits import Limits
from poweron_services.connectors.documents_child.readers import Note, Part

FULL = 0.75  # of the longest line of a paragraph: a line this long was broken by the margin
FULL_WORDS = 6
WIDEST = 120  # characters; nobody breaks prose by hand later than this

_EMPTY_LINES = re.compile(r"\n[ \t]*\n\s*")
_COLUMNS = re.compile(r"\t|\S {2,}\S|\|")


def read(data: bytes, limits: Limits) -> Iterator[Part]:
    text, notes = decoded(data, limits)
    yield Section("", "\n\n".join(map(_mended, _EMPTY_LINES.split(text.replace("\r\n", "\n")))))
    yield from notes


def decoded(data: bytes, limits: Limits, *, whole: bool = False, encoding: str | None = None) -> tuple[str, list[Note]]:
    """The text of the bytes; unless it is wanted whole, no more of them is looked at than it may be long."""
    head = data if whole else data[: limits.characters]
    text = head.decode(encoding or text_encodings.found(head), "replace")
    notes = []
    if len(head) < len(data):
        text = text[: text.rfind("\n") + 1] or text
        notes.append(Note(f"Only the first {len(head):,} of {len(data):,} bytes were read.", truncated=True))
    return text, notes


def _mended(paragraph: str) -> str:
    """The paragraph without the line breaks that only a margin made."""
    lines = paragraph.split("\n")
    margin = max(map(len, lines))
    text = lines[0]
    for above, line in pairwise(lines):
        was_full = margin * FULL <= len(above) and len(above.split()) >= FULL_WORDS and not _COLUMNS.search(above)
        text += " " + line if margin <= WIDEST and was_full and line[:1].isalpha() else "\n" + line
    return text
