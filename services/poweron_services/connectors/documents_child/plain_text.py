"""The reader of plain text: line breaks caused by a margin are removed; a long text is decoded in sections."""

import io
import re
from collections.abc import Iterator
from itertools import pairwise

from poweron_services.connectors.documents_child import text_encodings
from poweron_services.connectors.documents_child.document import Section
from poweron_services.connectors.documents_child.limits import ReadLimits
from poweron_services.connectors.documents_child.line_ends import BREAK, ends_broken, mended, with_break, words_of
from poweron_services.connectors.documents_child.readers import Note, Part

LONG = 200_000  # bytes; a longer text becomes several sections
SECTION, LONGEST_SECTION = 20_000, 40_000  # characters after which a section may end, and must end
FULL = 0.75  # of the longest line of a paragraph; a line this long was broken by the margin
FULL_WORDS = 6
WIDEST = 120  # characters; longer lines were not wrapped at a margin

_EMPTY_LINES = re.compile(r"\n[ \t]*\n\s*")
_COLUMNS = re.compile(r"\t|\S {2,}\S|\|")


def read(data: bytes, _: ReadLimits) -> Iterator[Part]:
    text = io.TextIOWrapper(io.BytesIO(data), text_encodings.found(data), errors="replace")
    if len(data) <= LONG:
        yield Section("", _tidy(text.read()))
    else:
        yield from _sections(text)


def decoded(
    data: bytes, limits: ReadLimits, *, whole: bool = False, encoding: str | None = None
) -> tuple[str, list[Note]]:
    """Decode the bytes; unless `whole`, only as many as the limits allow, with a note if there are more."""
    head = data if whole else data[: min(limits.characters, limits.whole_text)]
    text = head.decode(encoding or text_encodings.found(head), "replace")
    notes = []
    if len(head) < len(data):
        text = text[: text.rfind("\n") + 1] or text
        notes.append(Note(f"Only the first {len(head):,} of {len(data):,} bytes were read.", truncated=True))
    return text, notes


def _sections(text: io.TextIOWrapper) -> Iterator[Section]:
    """Yield sections of a few pages each, cut between paragraphs where possible."""
    lines: list[str] = []
    first = number = 1
    size = 0
    while line := text.readline(LONGEST_SECTION):
        lines.append(line)
        size += len(line)
        is_end = size >= LONGEST_SECTION or (size >= SECTION and not line.strip())
        if is_end:
            yield Section(_lines(first, number), _tidy("".join(lines)))
            lines, size = [], 0
        number += line.endswith("\n")
        first = number if is_end else first
    if lines:
        yield Section(_lines(first, max(first, number - lines[-1].endswith("\n"))), _tidy("".join(lines)))


def _lines(first: int, last: int) -> str:
    return f"line {first}" if first == last else f"lines {first}-{last}"


def _tidy(text: str) -> str:
    full_text = "\n\n".join(map(_unwrap, _EMPTY_LINES.split(text)))
    return mended(full_text, frozenset(words_of(full_text))) if BREAK in full_text else full_text


def _unwrap(paragraph: str) -> str:
    """Remove the line breaks of a paragraph that only a margin caused."""
    lines = paragraph.split("\n")
    margin = max(map(len, lines))
    text = lines[0]
    for above, line in pairwise(lines):
        was_full = margin * FULL <= len(above) and len(above.split()) >= FULL_WORDS and not _COLUMNS.search(above)
        goes_on = margin <= WIDEST and was_full and (line[:1].isalpha() or ends_broken(above))
        text = with_break(text, line) if goes_on else f"{text}\n{line}"
    return text
