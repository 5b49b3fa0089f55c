"""A parser for documents in markdown: sections, and in them headings, tables, lines and prose.

It reads what the action `document.extract` writes: `# name`, then a heading such as `## page 2` for every part. In any
other markdown, each heading begins a section. The header of a web page (its title, address and time) is not part of its
text. A table has column headers and row names; the cells of a table without headers are pairs of a label and a value.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, takewhile
from textwrap import shorten
from typing import Literal

from poweron_services.models.prompts import SourceText
from poweron_services.text.numbers import is_numeric

MAX_HEADING = 80  # characters
MAX_HEADING_WORDS = 9
VERSE_LINE = 70  # characters; longer lines are prose
MAX_NOTE = 300  # characters
MAX_TITLE = 100  # characters of a page's title

APPARATUS = re.compile(r"\b(?:references|footnotes|bibliography|see also|external links|literatur)$", re.IGNORECASE)
"""Headings of sections that list references and say nothing themselves."""
_EXTRACTED = re.compile(r"\A# ?(?P<name>[^\n]*)\n\s*<!-- (?P<about>[^\n]*)-->\n?")
_NOTES = re.compile(r"^## notes$\n(?P<notes>(?:(?!^## ).*\n?)*)", re.MULTILINE)
_SECTION = re.compile(r"^##(?: (.*))?$", re.MULTILINE)
_ANY_HEADING = re.compile(r"^#{1,6} +(.+?)#*$", re.MULTILINE)
_HEADING = re.compile(r"#{3,6} +(.+?)#*|\*\*(.+?)\*\*:?")
_ESCAPE = re.compile(r"^\\(\\*#{1,2}(?: |$))", re.MULTILINE)
_PAGE_HEAD = re.compile(r"\A(?:# )?(?P<title>[^\n]*)\n\n- URL: (?P<url>\S+)\n(?P<about>(?:- [^\n]*\n)*)\n---\n")
_PAGE_NOTE = re.compile(r"^- Note: (.+)$", re.MULTILINE)
_CELL = re.compile(r"(?<!\\)\|")
_RULE = re.compile(r"[\W_]*")
_BULLET = re.compile(r"\A(?:[-*•▪◦\u2013·]|\d{1,2}[.)]|\(\d{1,2}\))\s+")
_BRACKETS = re.compile(r"[\[\]]")
_MARKUP = re.compile(
    r"\*\*|__|`|<sup>.*?</sup>|</?[a-z]+(?:\s[^>]*)?/?>|\\(?=[\[\]_*#])|(?<=[\w.,;:!?)\"”'\u2019\]])\[(?:\d{1,3}|[a-z])\]"
)
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^)\s]{0,2000}\)")
_ENDS_SENTENCE = re.compile(r"[.!?…。:;,]['\"”\u2019)]*$")
_SENTENCE = re.compile(r".*(?:[^\W\d_A-Z][.!?\u061f]['\"”\u2019)]*|[\u3002\uff01\uff1f][\u300d\u300f\u201d\uff09]*)")

Row = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SourceBlock:
    """A block of a section: a heading, the rows of a table, separate lines, or prose."""

    kind: Literal["heading", "table", "lines", "prose"]
    lines: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()

    @property
    def text(self) -> str:
        return " ".join(self.lines)


@dataclass(frozen=True, slots=True)
class SourcePlace:
    """A place in a document: its page, sheet, slide or section; a web page has a number."""

    document: str
    locator: str
    number: int | None = None

    @property
    def source(self) -> str:
        """The document or the web page, without the place in it."""
        return f"{self.document} [{self.number}]" if self.number else self.document

    def __str__(self) -> str:
        return self.source if self.number else ", ".join(part for part in (self.document, self.locator) if part)

    def as_object(self) -> dict[str, object]:
        """Return the place as a JSON object."""
        return {"document": self.document, "place": self.locator}


@dataclass(frozen=True, slots=True)
class SourceSection:
    """A page, sheet, slide or headed part of a document."""

    place: SourcePlace
    blocks: tuple[SourceBlock, ...]


@dataclass(frozen=True, slots=True)
class SourceReading:
    """The remarks about the reading of a document."""

    document: str
    notes: tuple[str, ...]
    in_part: bool  # not everything was read


def reading(source: SourceText) -> SourceReading | None:
    """Return the remarks about the reading of a document; None if all of it was read without remarks."""
    if page := _page_head(source):
        notes = tuple(note[:MAX_NOTE] for note in _PAGE_NOTE.findall(page["about"]))
        return SourceReading(_name(source), notes, in_part=True) if notes else None
    head = _EXTRACTED.match(source.text)
    if head is None:
        return None
    match = _NOTES.search(source.text, head.end())
    lines = match["notes"].splitlines() if match else []
    notes = tuple(line.removeprefix("- ").strip()[:MAX_NOTE] for line in lines if line.strip())
    truncated = head["about"].split()[-1:] == ["truncated"]
    if not notes and not truncated:
        return None
    return SourceReading(head["name"].strip() or source.name, notes, in_part=truncated)


def sections(source: SourceText) -> list[SourceSection]:
    """Split a document into sections in reading order, without its metadata and the notes about its reading."""
    head = None if source.number else _EXTRACTED.match(source.text)
    if head is None:
        page = _page_head(source)
        first, *rest = _ANY_HEADING.split(source.text[page.end() :] if page else source.text)
        name, titles = _name(source), [f"section {plain(title)}" for title in rest[::2]]
        begins = page["url"] if page and not source.number else ""
    else:
        first, *rest = _SECTION.split(source.text[head.end() :])
        name, titles = head["name"].strip() or source.name, [title or "" for title in rest[::2]]
        begins = ""
    return [
        SourceSection(SourcePlace(name, locator, source.number), tuple(_blocks(_ESCAPE.sub(r"\1", text))))
        for locator, text in zip([begins, *titles], [first, *rest[1::2]], strict=True)
        if text.strip() and not (head and locator in {"notes", "metadata"})
    ]


def bare_text(source: SourceText) -> str:
    """Return the text of a document under its name, without its metadata and the notes about its reading."""
    head = _EXTRACTED.match(source.text)
    if head is None:
        return source.text.strip()
    first, *rest = _SECTION.split(source.text[head.end() :])
    parts = zip([None, *rest[::2]], [first, *rest[1::2]], strict=True)
    body = [
        f"## {title}\n\n{text.strip()}" if title else text.strip()
        for title, text in parts
        if title not in ("notes", "metadata") and text.strip()
    ]
    return "\n\n".join([f"# {head['name'].strip() or source.name}", *body])


def _page_head(source: SourceText) -> re.Match[str] | None:
    """Match the header of a web page, or of a search result for one."""
    return _PAGE_HEAD.match(source.text)


def _name(source: SourceText) -> str:
    """Return the name of a source; for a page, its title."""
    head = _page_head(source)
    title = (source.page.title if source.page else "") or (head["title"] if head else "")
    return shorten(_BRACKETS.sub(" ", plain(title)), MAX_TITLE, placeholder=" …") or source.name


def plain(text: str) -> str:
    """Strip the markup from a line."""
    return " ".join(_MARKUP.sub("", _LINK.sub(r"\1", text)).split())


def is_heading(line: str) -> bool:
    """Return whether a line of its own names what follows."""
    is_short = len(line) <= MAX_HEADING and len(line.split()) <= MAX_HEADING_WORDS
    return is_short and any(map(str.isalpha, line)) and not _ENDS_SENTENCE.search(line.rstrip(":"))


def _blocks(text: str) -> list[SourceBlock]:
    """Split a section into blocks, at blank lines and around table rows."""
    blocks: list[SourceBlock] = []
    for piece in re.split(r"\n\s*\n", text):
        lines = [line.strip() for line in piece.split("\n") if line.strip()]
        for is_table, group in groupby(lines, key=lambda line: line.startswith("|")):
            run = list(group)
            blocks += [_table(run)] if is_table else _text(run)
    return blocks


def _table(lines: list[str]) -> SourceBlock:
    cells = (_CELL.split(line.strip().removeprefix("|").removesuffix("|")) for line in lines)
    rows = [tuple(plain(cell.replace("\\|", "|")) for cell in row) for row in cells]
    return SourceBlock(
        "table", rows=tuple(row for row in rows if not all(_RULE.fullmatch(cell) and cell for cell in row))
    )


def _text(lines: list[str]) -> list[SourceBlock]:
    """Return the headings at the start of the lines, and the block below them."""
    headings = [*takewhile(bool, map(_HEADING.fullmatch, lines))]
    blocks = [SourceBlock("heading", (plain(title[1] or title[2]),)) for title in headings if title]
    body = [line for line in map(plain, lines[len(headings) :]) if line and not _RULE.fullmatch(line)]
    heads = sum(1 for _ in takewhile(bool, map(_heads, body, [*body[1:], ""])))
    blocks += [SourceBlock("heading", (line,)) for line in body[:heads]]
    if below := body[heads:]:
        blocks.append(SourceBlock(_kind(below), tuple(_BULLET.sub("", line, count=1) for line in below)))
    return blocks


def _heads(line: str, following: str) -> bool:
    """Return whether a line is a heading: of the long line that follows, or of nothing."""
    return is_heading(line) and not _BULLET.match(line) and (not following or len(following) > VERSE_LINE)


def _kind(lines: list[str]) -> Literal["lines", "prose"]:
    bullets = sum(bool(_BULLET.match(line)) for line in lines)
    if len(lines) == 1 and not bullets and _SENTENCE.fullmatch(lines[0]):
        return "prose"
    short = sum(len(line) <= VERSE_LINE for line in lines)
    return "lines" if max(bullets, short) * 2 > len(lines) else "prose"


_DIGIT = re.compile(r"\d")
_NO_LABEL = re.compile(r"\d|@")


@dataclass(frozen=True, slots=True)
class TableRecord:
    """A row of a table, with its headers; rows of one group are about the same thing."""

    headers: Row
    cells: Row
    group: int

    @property
    def filled(self) -> list[tuple[str, str]]:
        """The header and value of every cell that is not empty."""
        return [(header, cell) for header, cell in zip(self.headers, self.cells, strict=True) if cell]


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A table with named columns, and the words of its heading and titles."""

    place: SourcePlace
    records: tuple[TableRecord, ...]
    near: frozenset[str]
    record_places: tuple[SourcePlace, ...] = ()
    """The place of each row if the table continues from page to page; else empty."""

    @property
    def places(self) -> tuple[SourcePlace, ...]:
        """All places of the table, in order."""
        return tuple(dict.fromkeys(self.record_places)) or (self.place,)

    def places_of(self, records: Sequence[TableRecord]) -> list[SourcePlace]:
        """Return the place of each of these rows of the table."""
        places = {id(row): place for row, place in zip(self.records, self.record_places, strict=False)}
        return [places.get(id(record), self.place) for record in records]

    @property
    def headers(self) -> Row:
        return self.records[0].headers

    def name_of(self, record: TableRecord) -> str:
        """Return what tells a row from others: its first cell that is not a number, and another one of words."""
        columns = sorted(at for at in self.name_columns if record.cells[at])
        words = [at for at in columns[1:] if not _DIGIT.match(record.cells[at])]
        return ", ".join(record.cells[at] for at in (*columns[:1], *words[:1]))

    @property
    def name_columns(self) -> list[int]:
        """The columns that may name the rows, best first: of distinct words, not of measures or codes."""
        columns = {at: [record.cells[at] for record in self.records] for at in range(len(self.headers))}
        of_words = [at for at, cells in columns.items() if not is_numeric(cells)]
        return sorted(of_words, key=lambda at: _unlike_names(columns[at]))


def _unlike_names(cells: list[str]) -> tuple[bool, bool, bool]:
    texts = list(filter(None, cells))
    is_measure = any(map(_DIGIT.match, texts))
    is_code = all(" " not in cell and _DIGIT.search(cell) for cell in texts)
    return is_measure, len(set(texts)) < len(texts), is_code


def headers_of(rows: tuple[Row, ...]) -> tuple[Row, tuple[Row, ...]]:
    """Return the names of the columns (empty if there are none) and the rows below them."""
    has_names = bool(rows) and any(rows[0])
    rows = tuple(row for row in rows if any(row))
    if len(rows) > 1 and (has_names or _names_columns(rows[0])):
        return (
            (_join_headers(*rows[:2]), rows[2:]) if len(rows) > 2 and _goes_on_below(*rows[:2]) else (rows[0], rows[1:])
        )
    return ("",) * max(map(len, rows), default=0), rows


def records(headers: Row, rows: tuple[Row, ...]) -> list[TableRecord]:
    """Return the rows as records; a row with an empty first cell belongs to the row above."""
    result: list[TableRecord] = []
    group = 0
    for row in rows:
        group += bool(row[0])
        result.append(TableRecord(headers, (row + ("",) * len(headers))[: len(headers)], group))
    return result


def pairs(rows: tuple[Row, ...]) -> list[tuple[str, str]]:
    """Return the labels and values of a table without column names; a row may hold two or more of them."""
    return [pair for row in rows for pair in _row_pairs([cell for cell in row if cell], is_named=bool(row[0]))]


def _names_columns(first: Row) -> bool:
    """Return whether an unmarked row is a header: its first cell is empty and no cell has digits."""
    return not first[0] and sum(map(bool, first)) > 1 and not any(map(_NO_LABEL.search, first))


def _goes_on_below(first: Row, second: Row) -> bool:
    """Return whether the second row is a header too: it distinguishes columns that share a name in the first."""
    if len(first) != len(second) or not all(second) or any(map(_NO_LABEL.search, second)):
        return False
    over_several = [column for column, name in enumerate(first) if name and first.count(name) > 1]
    below = [second[column] for column in over_several]
    return bool(below) and len(set(below)) > 1 and (first[0] == second[0] or not first[0])


def _join_headers(first: Row, second: Row) -> Row:
    return tuple(
        lower if upper in ("", lower) else f"{upper} {lower}" for upper, lower in zip(first, second, strict=True)
    )


def _row_pairs(cells: list[str], *, is_named: bool) -> list[tuple[str, str]]:
    labels, values = [cell.rstrip(": ") for cell in cells[::2]], cells[1::2]
    if len(labels) == len(values) > 1 and not any(map(_NO_LABEL.search, labels)):
        return list(zip(labels, values, strict=True))
    if is_named and len(cells) > 1:
        return [(labels[0], " · ".join(cells[1:]))]
    return [("", " · ".join(cells))] if cells else []
