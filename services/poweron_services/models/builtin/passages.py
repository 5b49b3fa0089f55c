"""Passages: the smallest pieces of the documents that can be an answer, each with its place.

A passage knows its own words (`own`) and the words of its context (`near`: the heading, the rest of its record);
`around` knows those of its section and its document.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby, islice, takewhile
from textwrap import shorten
from typing import Final, Literal

from poweron_services.models.builtin import sources, values
from poweron_services.models.builtin.sources import (
    SourceBlock,
    SourcePlace,
    SourceReading,
    SourceSection,
    SourceTable,
    TableRecord,
    headers_of,
    pairs,
    records,
)
from poweron_services.models.builtin.vocabulary import terms
from poweron_services.models.prompts import SourceText
from poweron_services.text.language_detection import detect
from poweron_services.text.statements import segments

MOST_DETECTED = 20_000  # characters used to detect the language of a document
MAX_CHARACTERS = 1_000_000  # of all documents together
MAX_PASSAGES = 30_000
WINDOW = 4  # lines that are read together
MAX_WINDOW_LINE = 120  # characters; longer lines are sentences
SENTENCE_WORDS = 4  # words of a sentence that ends with a full stop, at least
MAX_STATEMENT = 700  # characters
MAX_NEAR = 2_000  # characters
OPENING = 14  # passages at the start of a document, where its author may be named
AUTHOR = "author written signed by"  # words added to a name under a title or a closing phrase
DATED = "date dated published written issued made printed"  # words added to a date under a title
SENDER: Final = ("from", "von", "de")
"""The labels for the sender of a letter or an email."""
SENT = {
    **dict.fromkeys(
        ("from", "von", "de"), "sender sent wrote geschickt gesendet absender envoyé expéditeur mail message"
    ),
    **dict.fromkeys(
        ("to", "an", "à"),
        "recipient received addressed empfänger bekommen erhalten destinataire reçu mail message",
    ),
}
"""The words added to the header lines of a letter or an email."""
DATE_WITHIN = 20  # characters at the start of a line that may hold its date
CELL_BORDER = " | "  # as in the markdown of a table

PassageKind = Literal["fact", "cell", "row", "sentence", "line", "window", "headed"]

_LABEL = re.compile(r"(?P<label>[^\W\d_][^:|]{0,58}?|[^\W\d_])\s*[:\uff1a]\s+(?P<value>\S.*)")
_CURRENCY = r"(?:US\$|[$€£¥]|USD|EUR|CHF)"
_AMOUNT = re.compile(
    rf"(?P<label>[^\W\d_][^:|,]{{1,50}}?)(?:\s+|(?<=\)))"
    rf"(?P<value>[-+]?\s?{_CURRENCY}?\s?[-+]?\d[\d.,']*\s?(?:%|{_CURRENCY})?)"
)
_NAME = r"[^\W\d_a-z][\w.'\u2019-]*(?: [^\W\d_a-z][\w.'\u2019-]*){1,3}"
_NAMES = re.compile(rf"{_NAME}(?: ?(?:,|;|&|and|und) ?(?:and |und )?{_NAME})*")
_GOES_ON = re.compile(r"(?:it|its|they|this|these|he|she|er|sie|es|dies\w*|il|elle|ils|elles)\b", re.IGNORECASE)
"""The beginning of a sentence that refers to the previous one."""
_NOTE_MARK = re.compile(r"\[\^(?P<mark>\w{1,20})\](?!:)")
_STOP = re.compile(r"[.!?\n|]")
MAX_NOTED = 500  # characters of the sentence that a footnote is about
_NOTE = re.compile(r"\[\^(?P<mark>\w{1,20})\]:\s+")
_GREETING = re.compile(r"(?:\w+ ){0,3}(?:regards|wishes|grüßen?|sincerely)\b|yours \w+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of a document: a label and its value, or a statement without a label."""

    kind: PassageKind
    place: SourcePlace
    label: str
    value: str
    own: frozenset[str]
    near: frozenset[str]
    label_terms: frozenset[str]
    heading: str = ""
    order: int = 0
    record: TableRecord | None = None  # the table row that it belongs to

    @property
    def is_whole(self) -> bool:
        """Whether the passage may be quoted on its own: it is neither part of another passage nor a heading."""
        is_heading = self.kind == "line" and self.value.rstrip(": ") == self.heading
        return self.kind in ("fact", "row", "sentence", "line") and not is_heading

    @property
    def goes_on(self) -> bool:
        """Whether the passage refers to the previous sentence."""
        return _GOES_ON.match(self.value) is not None

    @property
    def statement(self) -> str:
        """The passage as one line."""
        return f"{self.label}: {self.value}" if self.label else self.value

    @property
    def words(self) -> tuple[tuple[str, str], ...]:
        """The verbatim words of the passage, each after its label; a row is one entry, its cells side by side."""
        if self.record is None:
            first, *others = self.value.split(" · ")
            return ((self.label, first), *(("", other) for other in others))
        filled = self.record.filled
        if self.kind == "cell":
            return tuple(dict.fromkeys((filled[0], (self.label, self.value))))
        headers, cells = zip(*filled, strict=True)
        return ((CELL_BORDER.join(filter(None, headers)), CELL_BORDER.join(cells)),)


@dataclass(frozen=True, slots=True)
class Around:
    """The words of a section and of its document, as the context of every passage in them."""

    titles: frozenset[str]  # the document's name and first lines
    section: frozenset[str]
    alone: frozenset[str]  # words that no other section of the document contains


@dataclass(slots=True)
class Library:
    """All passages of the documents, and the words around them."""

    passages: list[Passage] = field(default_factory=list)
    around: dict[SourcePlace, Around] = field(default_factory=dict)
    sections: list[SourceSection] = field(default_factory=list)
    tables: list[SourceTable] = field(default_factory=list)
    readings: list[SourceReading] = field(default_factory=list)  # of documents with remarks about their reading

    @property
    def has_pages(self) -> bool:
        """Whether the documents include web pages, which an answer cites by their numbers."""
        return any(section.place.number for section in self.sections)

    @property
    def titles(self) -> dict[str, frozenset[str]]:
        """The words of the name and the first lines of each document."""
        return {place.document: around.titles for place, around in self.around.items()}

    def of(self, documents: Collection[str]) -> "Library":
        """Return the part of the library that these documents make up."""
        return Library(
            [passage for passage in self.passages if passage.place.document in documents],
            {place: around for place, around in self.around.items() if place.document in documents},
            [section for section in self.sections if section.place.document in documents],
            [table for table in self.tables if table.place.document in documents],
            [reading for reading in self.readings if reading.document in documents],
        )


def build_library(documents: tuple[SourceText, ...], language: str) -> Library:
    """Split documents into passages; documents too long to read in full are reported in `readings`."""
    library = Library()
    left = MAX_CHARACTERS
    for document in documents:
        text, reading = document.text[:left], sources.reading(document)
        if len(text) < len(document.text):
            reading = SourceReading(document.name, reading.notes if reading else (), in_part=True)
        library.readings += [reading] if reading else []
        if text:
            _add(library, replace(document, text=text), language)
        left -= len(text)
    return library


def _add(library: Library, document: SourceText, language: str) -> None:
    sections = sources.sections(document)
    library.sections += sections
    titles = _titles(document, sections, language)
    first = len(library.passages)
    words_by_place: dict[SourcePlace, frozenset[str]] = {}
    notes = _note_contexts(document.text)
    text_language = detect(document.text[:MOST_DETECTED]) or language
    for section in sections:
        reader = _Reader(
            section.place, language, titles, notes, order=len(library.passages) - first, written=text_language
        )
        passages = [*islice(reader.read(section), MAX_PASSAGES - len(library.passages))]
        library.passages += passages
        library.tables += reader.found
        words = frozenset(terms(section.place.locator, language))
        words_by_place[section.place] = words.union(*(passage.own for passage in passages))
    times = Counter(word for words in words_by_place.values() for word in words)
    for place, words in words_by_place.items():
        alone = frozenset(word for word in words if times[word] == 1) if len(words_by_place) > 1 else frozenset[str]()
        library.around[place] = Around(titles, words, alone)


def _titles(document: SourceText, sections: list[SourceSection], language: str) -> frozenset[str]:
    """Return the words of a document's name and first lines, or of the title of a web page."""
    if document.page is not None and document.page.title:
        return frozenset(terms(document.page.title, language))
    opening = [block for section in sections[:1] for block in section.blocks[:3] if block.kind != "table"]
    lines = [line for block in opening for line in block.lines[:3] if len(line) <= sources.MAX_HEADING]
    name = document.name.rpartition(".")[0] or document.name
    return frozenset(term for line in (name, *lines) for term in terms(line, language))


def _note_contexts(text: str) -> dict[str, str]:
    """Return the sentence before the mark of each footnote, which is what the footnote is about."""
    marks = _NOTE_MARK.finditer(text)
    return {at["mark"]: _last_sentence(text[max(0, at.start() - MAX_NOTED) : at.start()]) for at in marks}


def _last_sentence(text: str) -> str:
    """Return the text after the last full stop, not counting one at the very end."""
    return _STOP.split(text[:-1])[-1] + text[-1:]


@dataclass(slots=True)
class _Reader:
    """A reader of one section, from top to bottom, that remembers the current heading."""

    place: SourcePlace
    language: str
    titles: frozenset[str]
    noted: Mapping[str, str]  # the sentence that each footnote of the document is about, by mark
    order: int  # of the last passage read in its document
    written: str = "en"  # the language of the document
    heading: str = ""
    heading_terms: frozenset[str] = frozenset()
    title: str = ""
    found: list[SourceTable] = field(default_factory=list)
    signing: bool = False

    def read(self, section: SourceSection) -> Iterator[Passage]:
        self.title = self.place.locator.partition(" ")[2]
        self._under(self.title)
        blocks = section.blocks
        for index, block in enumerate(blocks, start=1):
            yield from self._block(block, blocks[index : index + MAX_STATEMENT])  # no block is empty

    def _block(self, block: SourceBlock, following: tuple[SourceBlock, ...]) -> Iterator[Passage]:
        match block.kind:
            case "table":
                yield from self._table(block)
            case "heading":
                self._under(block.text)
                yield self._fact(block.text) or self._line(block.text)
                if body := _body(following):
                    yield self._passage("headed", block.text.rstrip(": "), body)
            case "lines":
                yield from self._lines(block)
            case "prose":
                yield from self._prose(block, following)

    def _lines(self, block: SourceBlock) -> Iterator[Passage]:
        lines = block.lines
        for index, line in enumerate(lines):
            fact = self._fact(line)
            yield fact or self._line(line)
            window = lines[index : index + WINDOW + 1]
            if len(window) > 1 and not fact and not _is_whole(line) and max(map(len, window)) <= MAX_WINDOW_LINE:
                yield self._passage("window", window[0], " · ".join(window[1:]))

    def _line(self, line: str) -> Passage:
        """Return a line without a label; at the start of a document it may name the author or the date."""
        term = ""
        is_opening = self.order < OPENING
        if self.signing or (is_opening and line != self.title and _NAMES.fullmatch(line)):
            term = AUTHOR
        elif is_opening and len(line) <= sources.VERSE_LINE and values.holds("date", line[:DATE_WITHIN], ""):
            term = DATED
        self.signing = bool(_GREETING.match(line)) or (self.signing and not term)
        return self._passage("line", "", line, own=f"{line} {term}")

    def _prose(self, block: SourceBlock, following: tuple[SourceBlock, ...]) -> Iterator[Passage]:
        if self.order < OPENING and _NAMES.fullmatch(block.text[:1_000]):
            yield self._line(block.text)
            return
        if fact := self._fact(block.text):
            yield fact
        sentences = [segment.strip() for segment in segments(block.text, self.written) if segment.strip()]
        if sentences and sentences[-1].endswith(":") and following and following[0].kind == "lines":
            sentences[-1] += f" {_body(following[:1])}"
        for before, segment in zip(["", *sentences], sentences, strict=False):
            if note := _NOTE.match(segment):
                note_passage = self._passage(
                    "sentence", "", segment[note.end() :], near=self.noted.get(note["mark"], "")
                )
                yield replace(note_passage, heading="")
            else:
                yield self._passage("sentence", "", segment, near=before if _GOES_ON.match(segment) else "")

    def _fact(self, line: str) -> Passage | None:
        match = _LABEL.fullmatch(line)
        if match is None and not _is_whole(line):
            match = _AMOUNT.fullmatch(line)
        if match is None or "://" in line[: len(match["label"]) + 4]:
            return None
        label, value = match["label"].strip(" .-\u2013"), match["value"].strip()
        term = SENT.get(label.casefold(), "")
        return self._passage("fact", label, value, own=f"{label} {value} {term}")

    def _table(self, block: SourceBlock) -> Iterator[Passage]:
        headers, rows = headers_of(block.rows)
        if any(headers):
            table_records = records(headers, rows)
            self.found.append(SourceTable(self.place, tuple(table_records), self.heading_terms | self.titles))
            for _, group in groupby(table_records, key=lambda record: record.group):
                together = list(group)
                shared = " ".join(cell for record in together for cell in record.cells if cell)
                for record in together:
                    yield from self._record(record, shared)
            return
        facts = pairs(rows)
        identity = " ".join(facts[0]) if facts else ""
        for label, value in facts:
            if value:
                yield self._passage("fact", label, value, near=identity)

    def _record(self, record: TableRecord, shared: str) -> Iterator[Passage]:
        if not record.filled:
            return
        text = "; ".join(f"{header}: {cell}" if header else cell for header, cell in record.filled)
        own = " ".join([*(cell for _, cell in record.filled), *record.headers])
        row = self._passage("row", "", text, own=own, near=shared)
        yield replace(row, record=record)
        for header, cell in record.filled:
            yield replace(self._passage("cell", header, cell, own=own, near=shared), record=record)

    def _passage(self, kind: PassageKind, label: str, value: str, *, own: str = "", near: str = "") -> Passage:
        self.order += 1
        return Passage(
            kind=kind,
            place=self.place,
            label=label,
            value=value[:MAX_STATEMENT],
            own=frozenset(terms(own or f"{label} {value}", self.language)),
            near=self.heading_terms | frozenset(terms(near[:MAX_NEAR], self.language)),
            label_terms=frozenset(terms(label, self.language)),
            heading=self.heading,
            order=self.order,
        )

    def _under(self, heading: str) -> None:
        self.heading = heading.rstrip(": ")
        self.heading_terms = frozenset(terms(heading, self.language))


def _body(following: tuple[SourceBlock, ...]) -> str:
    """Return the text below a heading or a colon, up to the next heading or table."""
    below = takewhile(lambda block: block.kind in ("lines", "prose"), following)
    texts = (" · ".join(block.lines) if block.kind == "lines" else block.text for block in below)
    return shorten(" ".join(texts), MAX_STATEMENT, placeholder=" …")


def _is_whole(line: str) -> bool:
    """Return whether a line is a whole sentence, which introduces nothing and needs no label."""
    return line.endswith(".") and len(line.split()) >= SENTENCE_WORDS
