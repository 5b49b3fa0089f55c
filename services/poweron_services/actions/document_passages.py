"""A long text cut into passages that know their position: page, sheet or section, heading, and row of a table.

A passage is a range of the text, not a copy of it. An excerpt consists of such ranges, each below the heading of its
place, so that an answer can name the page; a range of a table is shown below the table's own header.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Final

from poweron_services.models.prompts import SourceText

PASSAGE: Final = 1_000  # characters at which a passage is long enough
LONGEST: Final = 2_000  # characters, after which a line is cut
MAX_HEADING: Final = 200  # characters of a heading that are repeated
MAX_TAIL: Final = 4_000  # characters
GAP: Final = "[…]"
"""Marks omitted text."""

_LINE: Final = re.compile(r"[^\n]*\n|[^\n]+")
_EXTRACTED: Final = re.compile(r"\A# ?[^\n]*\n\s*<!-- [^\n]*-->\n?")
_TAIL: Final = re.compile(r"^## (?:metadata|notes)\n\n- ", re.MULTILINE)
_PLACE: Final = re.compile(r"##(?: (?P<name>[^\n]*))?\n?")
_HEADING: Final = re.compile(r"#{1,6} (?P<name>[^\n]*)\n?")
_RULE: Final = re.compile(r"\|(?: *:?-{3,}:? *\|)+\s*")
_ROWS: Final = re.compile(r"(?P<before>.*)\brows (?P<first>\d{1,12})-\d+")
_SPACE: Final = re.compile(r"\s")


@dataclass(frozen=True, slots=True)
class DocumentPassage:
    """A range of a text."""

    number: int
    """Its number among the passages of its text."""
    start: int
    end: int
    place: int
    """The number of its place within the text."""
    heading: str = ""
    """The heading under which it begins, below that of its place."""
    table: tuple[int, int] | None = None
    """The range of the header of the table within which it begins."""
    row: int = 0
    """The row of that table with which it begins; the header is row 1."""


@dataclass(slots=True)
class PassageText:
    """A text and the passages that it consists of, in reading order."""

    source: SourceText
    head: str = ""
    """The text before its first place, which is always shown."""
    tail: str = ""
    """The metadata and notes after the text of the document, which are also always shown."""
    places: list[str] = field(default_factory=lambda: [""])
    """The headings of its pages, sheets, slides or headed sections."""
    passages: list[DocumentPassage] = field(default_factory=list)

    def words(self, passage: DocumentPassage) -> str:
        """Return the words by which a passage is found: its own text, its headings, and the name of the document."""
        head = self.source.text[slice(*passage.table)] if passage.table else ""
        above = f"{self.source.name} {self.places[passage.place]} {passage.heading} {head}"
        return f"{above} {self.source.text[passage.start : passage.end]}"

    def shown(self, passages: Sequence[DocumentPassage]) -> str:
        """Render an excerpt of these passages, which are in reading order."""
        parts = [self.head] if self.head else []
        before: DocumentPassage | None = None
        for run in _runs(passages):
            parts += self._run(run, before)
            before = run[-1]
        if before is not None and before.number + 1 < len(self.passages):
            parts.append(GAP)
        parts += [self.tail] if self.tail else []
        return "\n\n".join(part.strip("\n") for part in parts) + "\n"

    def _run(self, run: Sequence[DocumentPassage], before: DocumentPassage | None) -> Iterator[str]:
        """Yield the excerpt of consecutive passages of one place."""
        first, text = run[0], self.source.text[run[0].start : run[-1].end]
        if first.number > (before.number + 1 if before else 0):
            yield GAP
        if first.table is not None:
            rows = sum(1 for _ in takewhile(lambda line: line.startswith("|"), text.splitlines()))
            has_head = any(map(str.isalnum, self.source.text[slice(*first.table)]))
            begins = first.row if has_head else first.row - 1
            yield of_rows(self.places[first.place], begins, begins + rows - 1, has_head=has_head)
        elif before is None or before.place != first.place:
            yield self.places[first.place]
        if first.heading and (before is None or before.heading != first.heading):
            yield first.heading
        yield self.source.text[slice(*first.table)] + text if first.table else text


def of_rows(heading: str, first: int, last: int, *, has_head: bool = True) -> str:
    """Return the heading of a place with the shown rows of its table; the place may itself begin with a later row.

    Rows are counted as in a spreadsheet program: the header is row 1. It is repeated above each place that begins with
    a later row, which is then the second one there.
    """
    match = _ROWS.fullmatch(heading)
    starts = int(match["first"]) if match else 1
    shift = starts - (2 if has_head and starts > 1 else 1)
    name = match["before"] if match else f"{heading}, " if heading.strip("# ") else "## "
    return f"{name}rows {first + shift}-{last + shift}"


def _runs(passages: Sequence[DocumentPassage]) -> Iterator[list[DocumentPassage]]:
    run: list[DocumentPassage] = []
    for passage in passages:
        if run and (passage.number, passage.place) != (run[-1].number + 1, run[-1].place):
            yield run
            run = []
        run.append(passage)
    if run:
        yield run


def cut(source: SourceText) -> PassageText:
    """Cut a text into passages, at ends of lines and wherever a place begins."""
    head = _EXTRACTED.match(source.text) if source.number is None else None
    end = min((at.start() for at in _TAIL.finditer(source.text)), default=None) if head else None
    tail = "" if end is None else source.text[end:].strip()[:MAX_TAIL]
    text = PassageText(source, head[0].rstrip() if head else "", tail)
    _Cutter(source.text, text, _PLACE if head else _HEADING).read(head.end() if head else 0, end)
    return text


@dataclass(slots=True)
class _Cutter:
    """Reads a text line by line and tracks the current heading and table."""

    text: str
    found: PassageText
    begins_place: re.Pattern[str]
    start: int = 0
    heading: str = ""
    table: tuple[int, int] | None = None
    row: int = 0
    above: tuple[str, tuple[int, int] | None, int] = ("", None, 0)
    """The heading below, the table within and the row with which the current passage begins."""

    def read(self, position: int, end: int | None) -> None:
        """Read from one position to another, or to the end of the text."""
        self.start, until = position, len(self.text) if end is None else end
        for line in _LINE.finditer(self.text, position, until):
            place = self.begins_place.fullmatch(line[0])
            if place is not None:
                self._begin_place(line, place["name"] or "")
            else:
                self._line(line)
        self._end(until)

    def _begin_place(self, line: re.Match[str], name: str) -> None:
        self._end(line.start())
        self.found.places.append(line[0].strip()[:MAX_HEADING] if name else "##")
        self.start, self.heading, self.table = line.end(), "", None

    def _line(self, line: re.Match[str]) -> None:
        if line.end() - self.start > PASSAGE:
            self._end(line.start())
        is_row = line[0].startswith("|")
        begins_table = is_row and (self.table is None or self._is_rule(line))
        if is_row and self.table is not None and not begins_table:
            self.row += 1
        if self.start == line.start():
            inside = self.table if is_row and not begins_table else None
            self.above = (self.heading, inside, self.row)
        if begins_table:
            self.table, self.row = (self.table[0] if self.table else line.start(), line.end()), 1
        elif not is_row:
            self.table = None
        if line[0].startswith("###"):
            self.heading = line[0].strip()[:MAX_HEADING]
        while line.end() - self.start > LONGEST:
            space = _SPACE.search(self.text, self.start + PASSAGE, self.start + LONGEST)
            self._end(space.end() if space else self.start + LONGEST)

    def _is_rule(self, line: re.Match[str]) -> bool:
        """Return whether it is the line of dashes below the header of a table."""
        assert self.table is not None
        return self.table[1] == line.start() and self.row == 1 and _RULE.fullmatch(line[0]) is not None

    def _end(self, position: int) -> None:
        """End the passage here, if it is not blank."""
        if self.text[self.start : position].strip():
            heading, table, row = self.above
            passages = self.found.passages
            place = len(self.found.places) - 1
            passages.append(DocumentPassage(len(passages), self.start, position, place, heading, table, row))
        self.start, self.above = position, (self.heading, None, 0)
