"""The text of a page, cut into sentences with their places, and adjacent sentences grouped into passages."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from poweron_services.decider.sentence_segments import segments

MAX_TEXT: Final = 200_000  # characters of a page that are read
MAX_SENTENCES: Final = 2_000  # sentences of a page
MAX_SENTENCE: Final = 1_000  # characters
MAX_MARKED: Final = 10_000  # characters of a sentence, including markdown markup
PASSAGE: Final = 700  # characters that are enough for a passage
MAX_PLACE: Final = 80  # characters

_BLANK: Final = re.compile(r"\n[ \t]*\n")
_HEADING: Final = re.compile(r"#{1,6}[ \t]+(?P<title>\S.*)")
_ITEM: Final = re.compile(r"[ \t]*(?:[-*+\u2022]|\d{1,3}[.)]|\|)[ \t]+")
_RULE: Final = re.compile(r"[\s|:=-]+")
_LINK: Final = re.compile(r"!?\[([^\[\]\n]{0,300})\]\([^)\s]{0,2048}\)")
_MARKS: Final = re.compile(r"\*\*|__|`+")


@dataclass(frozen=True, slots=True)
class PageSentence:
    """A sentence, an entry of a list or a row of a table."""

    text: str
    heading: str
    """The heading above it; empty if there is none."""
    paragraph: int

    @property
    def place(self) -> str:
        """The heading above it, or the number of its paragraph if there is none."""
        return self.heading or f"paragraph {self.paragraph}"


def sentences(text: str, language: str) -> tuple[PageSentence, ...]:
    """Return the sentences of a page in reading order, up to `MAX_SENTENCES`."""
    found: list[PageSentence] = []
    for sentence in _sentences(text[:MAX_TEXT], language):
        found.append(sentence)
        if len(found) == MAX_SENTENCES:
            break
    return tuple(found)


def passages(read: tuple[PageSentence, ...]) -> Iterator[str]:
    """Yield adjacent sentences under one heading, with the heading before them."""
    heading, together, size = "", list[str](), 0
    for sentence in read:
        if together and (sentence.heading != heading or size >= PASSAGE):
            yield " ".join([heading, *together])
            together, size = [], 0
        heading = sentence.heading
        together.append(sentence.text)
        size += len(sentence.text)
    if together:
        yield " ".join([heading, *together])


def _sentences(text: str, language: str) -> Iterator[PageSentence]:
    heading, paragraph = "", 0
    for block in _BLANK.split(text):
        lines = [line.strip() for line in block.splitlines() if line.strip()]
        while lines and (found := _HEADING.fullmatch(lines[0])):
            heading = _plain(found["title"])[:MAX_PLACE]
            lines.pop(0)
        if lines:
            paragraph += 1
            yield from (PageSentence(one[:MAX_SENTENCE], heading, paragraph) for one in _of_block(lines, language))


def _of_block(lines: list[str], language: str) -> Iterator[str]:
    """Yield the statements of a block: the lines of a table or list, or the sentences of a paragraph."""
    if any(map(_ITEM.match, lines)):
        units = _rows(lines) or [_cells(_ITEM.sub("", line, count=1)) for line in lines if not _RULE.fullmatch(line)]
    else:
        units = segments(" ".join(lines), language)
    yield from filter(None, (_plain(unit) for unit in units))


def _rows(lines: list[str]) -> list[str]:
    """Return the rows of a table with headers, each cell after its header; none if there is no such table."""
    if len(lines) < 3 or not lines[0].startswith("|") or not _RULE.fullmatch(lines[1]):
        return []
    headers = _split(lines[0])
    rows = (zip_longest(headers, _split(line)[: len(headers)], fillvalue="") for line in lines[2:])
    return ["; ".join(f"{header}: {cell}" if header else cell for header, cell in row if cell) for row in rows]


def _split(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip("|").split("|")]


def _cells(row: str) -> str:
    return "; ".join(cell for cell in _split(row) if cell)


def _plain(text: str) -> str:
    """Remove markdown markup."""
    return " ".join(_MARKS.sub("", _LINK.sub(r"\1", text[:MAX_MARKED])).split())
