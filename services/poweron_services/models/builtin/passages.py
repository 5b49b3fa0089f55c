"""Passages: the smallest pieces of the documents that can be an answer, each with its place.

A passage knows the words it says itself (`own`), those it is said about (`near`: the heading, the
title of its record), those of its record's other values (`mates`) and its section's (`around`).
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from poweron_services.models.builtin import sources, tables, values
from poweron_services.models.builtin.sources import Block, Reading, Section
from poweron_services.models.builtin.words import terms
from poweron_services.models.prompts import SourceText

MAX_CHARACTERS = 1_000_000  # of all documents together
MAX_PASSAGES = 30_000
WINDOW = 4  # lines that are read together
MAX_WINDOW_LINE = 120  # characters; longer lines are sentences
BESIDE = 4  # lines above and below that a line belongs to
SENTENCE_WORDS = 4  # at least, with a full stop behind them
MAX_BODY = 700  # characters of what stands below a heading
MAX_STATEMENT = 600  # characters
OPENING = 14  # passages at the start of a document, where its writer may stand
AUTHOR = "author written signed by"  # what a writer's name under a title or a greeting is about
DATED = "date dated published written issued made printed"  # what a date under a title is about
DATE_WITHIN = 20  # characters of a line

PassageKind = Literal["fact", "cell", "row", "sentence", "line", "window", "headed"]

_LABELLED = re.compile(r"(?P<label>[^\W\d_][^:|]{0,58}?|[^\W\d_])\s*[:\uff1a]\s+(?P<value>\S.*)")
_CURRENCY = r"(?:US\$|[$€£¥]|USD|EUR|CHF)"
_AMOUNT = re.compile(
    rf"(?P<label>[^\W\d_][^:|,]{{1,50}}?)(?:\s+|(?<=\)))"
    rf"(?P<value>[-+]?\s?{_CURRENCY}?\s?[-+]?\d[\d.,']*\s?(?:%|{_CURRENCY})?)"
)
_NAME = r"[^\W\d_a-z][\w.'\u2019-]*(?: [^\W\d_a-z][\w.'\u2019-]*){1,3}"
_NAMES = re.compile(rf"{_NAME}(?: ?(?:,|;|&|and|und) ?(?:and |und )?{_NAME})*")
_GREETING = re.compile(
    r"(?:with |mit )?(?:kind|best|warm|many|freundlichen|besten|herzlichen|viele)? ?"
    r"(?:regards|wishes|grüßen?|sincerely)\b|yours \w+",
    re.IGNORECASE,
)
_BRACKETS = re.compile(r"\([^)]*\)")
_TITLED = re.compile(r"^(?:section|sheet|page|slide)\s+")
_DATE_LABEL = re.compile(r"(?P<label>[^\W\d_][^:|,]{0,40}\b[Dd]at(?:e|um))\s+(?P<value>\d[\d/.-]+.*)")
_CODE = re.compile(r"[A-Z]{2,}-?\d|\d@")


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands: a document and its page, sheet, slide or section."""

    document: str
    locator: str

    def __str__(self) -> str:
        return ", ".join(part for part in (self.document, self.locator) if part)


@dataclass(frozen=True, slots=True)
class Passage:
    """Something that the documents say: a label and its value, or a statement without a label."""

    kind: PassageKind
    place: Place
    label: str
    value: str
    own: frozenset[str]
    near: frozenset[str]
    mates: frozenset[str]
    table: frozenset[str]  # all words of its table
    label_terms: frozenset[str]
    heading: str = ""
    order: int = 0
    record: tables.Record | None = None  # the row of a cell
    sequence: tuple[str, ...] = ()  # the terms of a statement in their order

    @property
    def statement(self) -> str:
        """What it says in one line."""
        return f"{self.label}: {self.value}" if self.label else self.value


@dataclass(frozen=True, slots=True)
class Table:
    """A table with named columns, and the words it stands under."""

    place: Place
    records: tuple[tables.Record, ...]
    near: frozenset[str]


@dataclass(frozen=True, slots=True)
class Around:
    """The words of a section and of its document that anything in them is said about."""

    titles: frozenset[str]  # the document's name and first lines
    section: frozenset[str]
    alone: frozenset[str]  # what no other section of the document says
    document: frozenset[str]


@dataclass(slots=True)
class Library:
    """All passages of the documents, and the words around them."""

    passages: list[Passage] = field(default_factory=list)
    around: dict[Place, Around] = field(default_factory=dict)
    sections: list[Section] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)  # of documents whose reading was remarked on


def library(documents: tuple[SourceText, ...], language: str) -> Library:
    """The passages of the documents; what was too much to read is named."""
    found = Library()
    left = MAX_CHARACTERS
    for document in documents:
        if remarked := sources.reading(document):
            found.readings.append(remarked)
        if len(document.text) > left:
            found.left_out.append(document.name)
        if left > 0:
            _add(found, replace(document, text=document.text[:left]), language)
        left -= min(left, len(document.text))
    return found


def _add(found: Library, document: SourceText, language: str) -> None:
    sections = sources.sections(document)
    found.sections += sections
    first = len(found.passages)
    titles = frozenset(terms(document.name.rpartition(".")[0] or document.name, language)) | _titles(sections, language)
    for section in sections:
        place = Place(section.document, section.locator)
        reader = _Reader(place, language, order=len(found.passages), first=first)
        passages = reader.read(section)
        found.passages += passages[: MAX_PASSAGES - len(found.passages)]
        found.tables += reader.found
        words = frozenset(terms(section.locator, language)).union(*map(_said, passages))
        found.around[place] = Around(titles, words, frozenset(), frozenset())
    everything: frozenset[str] = frozenset().union(*(passage.own for passage in found.passages[first:]))
    places = {Place(section.document, section.locator): None for section in sections}
    said = Counter(word for place in places for word in found.around[place].section)
    for place in places:
        around = found.around[place]
        alone = frozenset(word for word in around.section if said[word] == 1) if len(places) > 1 else frozenset[str]()
        found.around[place] = replace(around, alone=alone, document=everything)


def _said(passage: Passage) -> frozenset[str]:
    """The words of a passage that its section is about: a label names its own value alone."""
    return passage.own - passage.label_terms if passage.kind == "fact" else passage.own


def _titles(sections: list[Section], language: str) -> frozenset[str]:
    opening = [block for section in sections[:1] for block in section.blocks[:3] if block.kind != "table"]
    lines = [line for block in opening for line in block.lines[:3] if len(line) <= sources.MAX_HEADING]
    return frozenset(term for line in lines for term in terms(line, language))


@dataclass(slots=True)
class _Reader:
    """Reads one section from top to bottom and remembers the heading it stands under."""

    place: Place
    language: str
    order: int
    heading: str = ""
    heading_terms: frozenset[str] = frozenset()
    before: str = ""
    found: list[Table] = field(default_factory=list)
    signing: bool = False
    title: str = ""
    first: int = 0

    def read(self, section: Section) -> list[Passage]:
        self.title = _TITLED.sub("", section.locator)
        self._under(self.title)
        found: list[Passage] = []
        body = _body(section.blocks)
        if section.locator.startswith("section ") and body and body != self.title:
            found.append(self._passage("headed", self.title.rpartition(" > ")[2], body))
        for index, block in enumerate(section.blocks):
            found += self._block(block, section.blocks[index + 1 :])
        return found

    def _block(self, block: Block, following: tuple[Block, ...]) -> Iterator[Passage]:
        if block.kind == "table":
            yield from self._table(block)
        elif block.kind == "heading":
            yield from self._heading(block, following)
        elif block.kind == "lines":
            yield from self._lines(block)
        else:
            yield from self._prose(block, following)

    def _heading(self, block: Block, following: tuple[Block, ...]) -> Iterator[Passage]:
        self._under(block.text)
        if fact := self._labelled(block.text):
            yield fact
        else:
            yield self._line(block.text, "")
        body = _body(following)
        if body:
            yield self._passage("headed", block.text.rstrip(": "), body)

    def _lines(self, block: Block) -> Iterator[Passage]:
        lines = _whole(block.lines)
        for index, line in enumerate(lines):
            beside = " ".join(lines[max(0, index - BESIDE) : index + BESIDE + 1])
            fact = self._labelled(line, beside)
            yield fact or self._line(line, beside)
            window = lines[index : index + WINDOW + 1]
            if len(window) > 1 and not fact and not _is_whole(line) and max(map(len, window)) <= MAX_WINDOW_LINE:
                yield self._passage("window", window[0], " · ".join(window[1:]), own_from=" ".join(window))
            if len(line) > sources.VERSE_LINE:
                yield from self._said(split_sentences(line, self.language))
        if lines and sources.is_heading(lines[-1]) and lines[-1].endswith(":"):
            self._under(lines[-1])

    def _line(self, line: str, beside: str) -> Passage:
        """A line without a label; at the start of a document it may tell its writer or its date."""
        told = ""
        opening = self.order - self.first < OPENING
        if self.signing or (opening and line != self.title and _NAMES.fullmatch(line)):
            told = AUTHOR
        elif opening and len(line) <= sources.VERSE_LINE and values.holds("date", line[:DATE_WITHIN], ""):
            told = DATED
        self.signing = bool(_GREETING.match(line)) or (self.signing and not told)
        return self._passage("line", "", line, also_near=beside, own_from=f"{line} {told}")

    def _prose(self, block: Block, following: tuple[Block, ...]) -> Iterator[Passage]:
        if self.order - self.first < OPENING and _NAMES.fullmatch(block.text[:1_000]):
            yield self._line(block.text, "")
            return
        if fact := self._labelled(block.text):
            yield fact
        sentences = split_sentences(block.text, self.language)
        if sentences and sentences[-1].endswith(":") and following and following[0].kind == "lines":
            sentences[-1] = f"{sentences[-1]} {_body(following[:1])}"
        yield from self._said(sentences)

    def _said(self, sentences: list[str]) -> Iterator[Passage]:
        for sentence in sentences:
            passage = self._passage("sentence", "", sentence, also_near=self.before)
            self.before = sentence
            yield passage

    def _labelled(self, line: str, beside: str = "") -> Passage | None:
        match = _LABELLED.fullmatch(line) or _DATE_LABEL.fullmatch(line)
        if match is None and not _is_whole(line):
            match = _AMOUNT.fullmatch(line)
        if match is None or len(match["label"].split()) > tables.LABEL_WORDS + 1 or _CODE.search(match["label"]):
            return None
        if "://" in line[: len(match["label"]) + 4] or match["label"].endswith(("#", "$")):
            return None
        return self._passage("fact", match["label"].strip(" .-\u2013"), match["value"].strip(), also_near=beside)

    def _table(self, block: Block) -> Iterator[Passage]:
        headers, rows = tables.headers_of(block.rows)
        if any(headers):
            yield from self._records(tables.records(headers, rows))
            return
        found = tables.pairs(rows)
        title = found[0].value if found else ""
        identity = f"{found[0].label} {title}" if found else ""
        values = " ".join(pair.value for pair in found[:40])
        for pair in found:
            if pair.value:
                yield self._passage("fact", pair.label, pair.value, also_near=identity, mates=values)
            else:
                self._under(pair.label)

    def _records(self, found: list[tables.Record]) -> Iterator[Passage]:
        self.found.append(Table(self.place, tuple(found), self.heading_terms))
        groups: dict[int, list[tables.Record]] = {}
        for record in found:
            groups.setdefault(record.group, []).append(record)
        words = frozenset(term for record in found for cell in record.cells for term in terms(cell, self.language))
        for record in found:
            shared = " ".join(cell for other in groups[record.group] for cell in other.cells if cell)
            for passage in self._record(record, shared):
                yield replace(passage, table=words)

    def _record(self, record: tables.Record, shared: str) -> Iterator[Passage]:
        filled = record.filled
        if not filled:
            return
        name = " ".join(cell for cell in record.inherited if cell)
        statement = "; ".join(f"{header}: {cell}" if header else cell for header, cell in filled)
        whole = " ".join([name, *(cell for _, cell in filled), *record.headers])
        row = self._passage("row", "", f"{name}; {statement}" if name else statement, own_from=whole, also_near=shared)
        yield replace(row, record=record)
        for header, cell in filled:
            cell_passage = self._passage("cell", header, cell, own_from=whole, also_near=shared)
            yield replace(cell_passage, record=record)

    def _passage(
        self, kind: PassageKind, label: str, value: str, *, own_from: str = "", also_near: str = "", mates: str = ""
    ) -> Passage:
        self.order += 1
        value = value[:MAX_STATEMENT] if kind != "headed" else value
        sequence = tuple(terms(own_from or f"{label} {value}", self.language))
        return Passage(
            kind=kind,
            place=self.place,
            label=label,
            value=value,
            own=frozenset(sequence),
            near=self.heading_terms | frozenset(terms(also_near[:2_000], self.language)),
            mates=frozenset(terms(mates[:2_000], self.language)),
            table=frozenset(),
            label_terms=frozenset(terms(_BRACKETS.sub(" ", label), self.language)),
            heading=self.heading,
            order=self.order,
            sequence=sequence if kind in ("sentence", "line") else (),
        )

    def _under(self, heading: str) -> None:
        self.heading = heading.rstrip(": ")
        self.heading_terms = frozenset(terms(heading, self.language))
        self.before = ""


def split_sentences(text: str, language: str) -> list[str]:
    """The sentences of a text."""
    import sentencex  # noqa: PLC0415 - other models never need it

    return [sentence.strip() for sentence in sentencex.segment(language, text) if sentence.strip()]


def _is_whole(line: str) -> bool:
    """Whether a line is a whole sentence, which names nothing that follows and needs no label."""
    return line.endswith(".") and len(line.split()) >= SENTENCE_WORDS


def _whole(lines: tuple[str, ...]) -> tuple[str, ...]:
    """The lines, each with what was broken off it: a line that begins in lower case goes on with the one before."""
    found: list[str] = []
    for line in lines:
        if found and line[:1].islower() and ":" not in line and len(found[-1]) + len(line) < MAX_WINDOW_LINE:
            found[-1] = f"{found[-1]} {line}"
        else:
            found.append(line)
    return tuple(found)


def _body(following: tuple[Block, ...]) -> str:
    parts: list[str] = []
    for block in following:
        if block.kind in ("heading", "table") or sum(map(len, parts)) > MAX_BODY:
            break
        parts.append(" · ".join(block.lines) if block.kind == "lines" else block.text)
    body = " ".join(parts)
    return body if len(body) <= MAX_BODY else f"{body[:MAX_BODY].rsplit(' ', 1)[0]} …"
