"""A long text cut into passages that know their position: page, sheet or section, heading, and row of a table.

A passage is a range of the text, not a copy of it. An excerpt consists of the passages that fit a task best over all
texts, with their neighbours, each below the heading of its place, so that an answer can name the page; a range of a
table is shown below the table's own header.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain, takewhile, zip_longest
from typing import Final

from poweron_services.actions.page_relevance import Relevance
from poweron_services.models.builtin.question import searched
from poweron_services.models.builtin.vocabulary import language_of
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
    """The heading and the table in which the current passage begins, and its first row of that table."""

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


MOST: Final = 2_000  # passages that are considered for one question
WITH_NEIGHBOURS: Final = 20  # best passages that are shown with their neighbours
OPENING: Final = 2  # passages at the start of each text with chosen passages, if there is room
TOLD_AFTER: Final = 500  # passages between two reports of progress
AROUND: Final = 120  # characters for a gap, a heading and the row numbers of a passage


OnSearched = Callable[[int, int], None]
"""Called with the number of passages searched, and the total."""


def chosen(
    texts: Sequence[PassageText], task: str, room: int, on_searched: OnSearched = lambda _, __: None
) -> list[list[DocumentPassage]]:
    """Return the passages of each text to show for the task, in reading order and within this many characters."""
    ends = [*accumulate(len(text.passages) for text in texts)]
    all_passages = [(number, passage) for number, text in enumerate(texts) for passage in text.passages]
    language = language_of(task)
    relevance = Relevance(_search_texts(texts, all_passages, on_searched), language)
    rankings = [relevance.best(question, MOST) for question in searched(task, language) or [task]]
    choice = _Choice(texts, all_passages, room)
    for place, number in _in_turn(rankings):
        around = (number, number - 1, number + 1) if place < WITH_NEIGHBOURS else (number,)
        choice.take(number, around)
    openings = sorted({all_passages[number][0] for number in choice.taken}) or range(len(texts))
    for opening in range(OPENING if choice.taken else MOST):
        for number in openings:
            first = ends[number] - len(texts[number].passages)
            choice.take(first, (first + opening,))
    return choice.by_text()


def _search_texts(
    texts: Sequence[PassageText], all_passages: Sequence[tuple[int, DocumentPassage]], on_searched: OnSearched
) -> Iterator[str]:
    """Yield the words by which each passage is found, and report progress every `TOLD_AFTER` passages."""
    for done, (number, passage) in enumerate(all_passages):
        if done % TOLD_AFTER == 0:
            on_searched(done, len(all_passages))
        yield texts[number].words(passage)
    on_searched(len(all_passages), len(all_passages))


def _in_turn(rankings: Sequence[Sequence[int]]) -> Iterator[tuple[int, int]]:
    """Yield the best passage of each question, then the second of each, and so on."""
    for place, numbers in enumerate(zip_longest(*rankings)):
        yield from ((place, number) for number in numbers if number is not None)


@dataclass(slots=True)
class _Choice:
    texts: Sequence[PassageText]
    every: Sequence[tuple[int, DocumentPassage]]
    room: int
    taken: dict[int, None] = field(default_factory=dict)
    begun: set[int] = field(default_factory=set)

    def take(self, of: int, numbers: Sequence[int]) -> None:
        """Take the passages with these numbers that belong to the text of passage `of`, while there is room."""
        for number in numbers:
            if 0 <= number < len(self.every) and self.every[number][0] == self.every[of][0]:
                self._take(number)

    def _take(self, number: int) -> None:
        text, passage = self.every[number]
        takes = size(self.texts[text], passage)
        takes += 0 if text in self.begun else len(self.texts[text].head) + len(self.texts[text].tail) + AROUND
        if number not in self.taken and takes <= self.room:
            self.room -= takes
            self.taken[number] = None
            self.begun.add(text)

    def by_text(self) -> list[list[DocumentPassage]]:
        result: list[list[DocumentPassage]] = [[] for _ in self.texts]
        for number in sorted(self.taken):
            text, passage = self.every[number]
            result[text].append(passage)
        return result


def size(text: PassageText, passage: DocumentPassage) -> int:
    """Return the most characters that a passage takes when it is shown by itself."""
    table = passage.table[1] - passage.table[0] if passage.table else 0
    place = len(text.places[passage.place]) + len(passage.heading)
    return passage.end - passage.start + table + place + AROUND


def in_parts(texts: Sequence[PassageText], room: int) -> list[list[tuple[int, list[DocumentPassage]]]]:
    """Divide all passages into parts of at most this many characters; each part lists its texts by number, in order."""
    parts: list[list[tuple[int, list[DocumentPassage]]]] = []
    left = 0
    for number, passage in chain.from_iterable(
        ((number, passage) for passage in text.passages) for number, text in enumerate(texts)
    ):
        length = passage.end - passage.start
        begins = len(texts[number].head) + len(texts[number].tail) + size(texts[number], passage)
        if not parts or left < length or (parts[-1][-1][0] != number and left < begins):
            parts.append([])
            left = room
        if not parts[-1] or parts[-1][-1][0] != number:
            parts[-1].append((number, []))
            left -= begins - length
        elif parts[-1][-1][1][-1].place != passage.place:
            left -= len(texts[number].places[passage.place]) + AROUND
        parts[-1][-1][1].append(passage)
        left -= length
    return parts
