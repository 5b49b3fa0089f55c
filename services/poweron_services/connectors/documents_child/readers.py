"""The readers by type of document, and the limits on how much they read.

A reader is a generator of sections and notes, so it stops when its consumer stops. Each is imported only when its
format occurs: the child lives for one document, and a user waits for it to start. A reader opens the files that it
needs when it is imported, because it cannot open any while it reads.
"""

import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from importlib import import_module

from poweron_services.connectors.documents_child import media_types, text_encodings
from poweron_services.connectors.documents_child.document import ExtractedDocument, Section, Unreadable
from poweron_services.connectors.documents_child.limits import ReadLimits

MOST_LINKS, LONGEST_LINK = 1_000, 2_000  # of a document; characters
MOST_FACTS, LONGEST_FACT = 60, 500  # of a document; characters
READING_SHARE = 0.7  # of the wall-clock limit; no further part is read after this


@dataclass(frozen=True, slots=True)
class Note:
    """A whole sentence for users about how the document was read."""

    sentence: str
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class Link:
    """An address that the document links to, whether or not its text shows it."""

    address: str


@dataclass(frozen=True, slots=True)
class Fact:
    """An item of the document's metadata."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Picture:
    """A part of the document that is only a picture."""

    locator: str


@dataclass(frozen=True, slots=True)
class OmittedPart:
    """Content of the document that no reader reads."""

    kind: str
    """In the plural, such as "pictures"."""
    place: str = ""
    """A locator; "" if the document has no parts."""


@dataclass(frozen=True, slots=True)
class PageCount:
    """The number of pages of the document."""

    pages: int


@dataclass(frozen=True, slots=True)
class PageRead:
    """Marks that everything on this page was yielded."""

    page: int


Told = Section | Note | PageCount | PageRead
Part = Told | Link | Fact | Picture | OmittedPart
Tell = Callable[[Told], None]
"""Receives each part as soon as it was read."""
Reader = Callable[[bytes, ReadLimits], Iterator[Part]]

READERS = {
    media_types.PDF: "pdf",
    media_types.DOCX: "word",
    media_types.XLSX: "workbook",
    media_types.XLS: "workbook",
    media_types.PPTX: "slides",
    media_types.ODT: "open_document",
    media_types.ODP: "open_document",
    media_types.ODS: "workbook",
    media_types.ZIP: "members",
    media_types.EML: "members",
    media_types.MSG: "members",
    media_types.MBOX: "members",
    media_types.ICS: "calendar_text",
    media_types.RTF: "rich_text",
    media_types.XML: "xml_text",
    **dict.fromkeys(media_types.PICTURES, "picture"),
    media_types.HTML: "webpage",
    media_types.CSV: "csv_text",
    media_types.TSV: "csv_text",
    media_types.JSON: "json_text",
    media_types.TEXT: "plain_text",
    media_types.MARKDOWN: "headings",
}
WORDS_FOR = {
    media_types.PDF: "a PDF document",
    media_types.DOCX: "a Word document",
    media_types.XLSX: "an Excel workbook",
    media_types.XLS: "an Excel workbook",
    media_types.PPTX: "a PowerPoint presentation",
    media_types.ODT: "an OpenDocument text",
    media_types.ODS: "an OpenDocument spreadsheet",
    media_types.ODP: "an OpenDocument presentation",
    media_types.ZIP: "a ZIP archive",
    media_types.EML: "a mail",
    media_types.MSG: "an Outlook message",
    media_types.MBOX: "a mailbox",
    media_types.ICS: "a calendar",
    media_types.RTF: "a text in RTF",
    media_types.XML: "XML data",
    **dict.fromkeys(media_types.PICTURES, "a picture"),
    media_types.HTML: "a web page",
    media_types.CSV: "a table in CSV format",
    media_types.TSV: "a table with tabs between its cells",
    media_types.JSON: "JSON data",
    media_types.TEXT: "plain text",
    media_types.MARKDOWN: "markdown text",
}
CONTAINERS = {media_types.ZIP, media_types.EML, media_types.MSG, media_types.MBOX}
TEXTS = {
    media_types.HTML,
    media_types.CSV,
    media_types.TSV,
    media_types.JSON,
    media_types.TEXT,
    media_types.MARKDOWN,
    media_types.XML,
    media_types.ICS,
}
OF_ANY_ENCODING = {*CONTAINERS, media_types.RTF}
"""Types that declare their encodings, or those of their members, only inside the file."""
READABLE = (
    "PDF, DOCX, XLSX, PPTX, ODT, ODS, ODP, RTF, HTML, XML, CSV, JSON, TXT, MD, EML, MSG, MBOX, ICS, ZIP of these, "
    "and pictures where text recognition is set up"
)
OLD_OFFICE = {
    media_types.DOC: ("an old Word document", "DOCX"),
    media_types.PPT: ("an old PowerPoint presentation", "PPTX"),
}
"""Types that cannot be read, with their name and the format to save them in instead."""

_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u2060\ud800-\udfff\ufeff\ufffe\uffff]")
_BLANK_LINES = re.compile(r"\n[ \t]*\n\s*\n")


def reader_of(kind: str, data: bytes) -> Reader:
    """Return the reader for this type, with everything loaded that it needs to read this document."""
    if kind == media_types.ENCRYPTED:
        raise Unreadable(
            "is protected with a password, so nothing of it can be read; "
            "save it without a password and hand it over again.",
            "document_protected",
        )
    if kind in OLD_OFFICE:
        format_name, newer = OLD_OFFICE[kind]
        raise Unreadable(
            f"is {format_name}, which cannot be read; save it as {newer} or PDF and hand that over.",
            "document_format_unknown",
        )
    if kind not in READERS:
        raise Unreadable(
            f"is not a kind of document that can be read (its content looks like {kind}); hand over one of {READABLE}.",
            "document_format_unknown",
        )
    reader: Reader = import_module(f"poweron_services.connectors.documents_child.{READERS[kind]}").read
    if kind in TEXTS:
        text_encodings.load(data)
    if kind in OF_ANY_ENCODING:
        text_encodings.load_all()
    return reader


def read(parts: Iterable[Part], kind: str, name: str, limits: ReadLimits, tell: Tell) -> ExtractedDocument:
    """Read the document in this process; only the child process may call this.

    The sections are passed to `tell`, and are not in the document that is returned.
    """
    deadline = time.monotonic() + limits.wall_seconds * READING_SHARE
    section_count = 0

    def count_and_tell(part: Told) -> None:
        nonlocal section_count
        section_count += isinstance(part, Section)
        tell(part)

    try:
        document = collect(parts, limits, deadline, count_and_tell)
    except (Unreadable, MemoryError, RecursionError):
        raise
    except Exception as error:
        raise Unreadable(
            f"looks like {WORDS_FOR[kind]} but is damaged or incomplete, so nothing of it was read; "
            f"open it in its own program, save it again and hand over the new file.",
            "document_damaged",
        ) from error
    if not section_count and not document.pictures:
        raise Unreadable(without_text(document.notes), "document_without_text")
    notes = (*mismatch(kind, name), *document.notes)
    return replace(document, name=" ".join(_UNPRINTABLE.sub("", name).split()), mime_type=kind, notes=notes)


def collect(parts: Iterable[Part], limits: ReadLimits, deadline: float, tell: Tell | None = None) -> ExtractedDocument:
    """Collect what the reader yields, until a limit is reached or the monotonic clock passes the deadline.

    If `tell` is given, it receives the sections, and the returned document has none.
    """
    parts_told: list[Told] = []
    tell = tell or parts_told.append
    notes: list[Note] = []
    section_count = 0
    links: dict[str, None] = {}
    about: list[Fact | Picture | OmittedPart] = []
    left = limits.characters
    for part in parts:
        if isinstance(part, PageCount | PageRead):
            tell(part)
            continue
        if isinstance(part, Note):
            notes.append(replace(part, sentence=" ".join(clean(part.sentence).split())))
            tell(notes[-1])
            continue
        if isinstance(part, Fact | Picture | OmittedPart):
            about.append(part)
            continue
        if isinstance(part, Link):
            links |= {part.address: None} if _is_kept(part.address) and len(links) < MOST_LINKS else {}
            continue
        text = clean(part.text)
        if text:
            section_count += 1
            tell(Section(" ".join(clean(part.locator).split()), text[:left]))
        left -= len(text)
        if section_count >= limits.sections:
            notes.append(Note(f"Only the first {limits.sections:,} parts were read.", truncated=True))
            break
        if left < 0:
            notes.append(Note(f"The text was cut off after {limits.characters:,} characters.", truncated=True))
            break
        if time.monotonic() > deadline:
            notes.append(Note(f"Reading took too long and ended after {part.locator or 'a part'}.", truncated=True))
            break
    return ExtractedDocument(
        name="",
        mime_type="",
        sections=tuple(part for part in parts_told if isinstance(part, Section)),
        truncated=any(note.truncated for note in notes),
        notes=tuple(dict.fromkeys(note.sentence for note in notes)),
        links=tuple(links),
        metadata=tuple(_metadata(about)),
        pictures=tuple(dict.fromkeys(part.locator for part in about if isinstance(part, Picture))),
        omitted=tuple(dict.fromkeys((part.kind, part.place) for part in about if isinstance(part, OmittedPart))),
    )


def _metadata(about: Iterable[Fact | Picture | OmittedPart]) -> list[tuple[str, str]]:
    """The facts that have a name and a value, deduplicated."""
    facts = ((_line(fact.name), _line(fact.value)) for fact in about if isinstance(fact, Fact))
    return list(dict.fromkeys(fact for fact in facts if all(fact)))[:MOST_FACTS]


def _line(text: str) -> str:
    return " ".join(clean(text).split())[:LONGEST_FACT]


def _is_kept(address: str) -> bool:
    return address.startswith(("http://", "https://")) and len(address) <= LONGEST_LINK and address.isprintable()


def without_text(notes: tuple[str, ...]) -> str:
    """Explain why there is nothing to read in a document that is not damaged, and what to do."""
    if notes:
        return f"holds no text that can be read: {notes[0]}"
    return "holds no text; check that it is the file you meant."


def mismatch(kind: str, name: str) -> list[str]:
    name_kind = media_types.named_kind(name)
    if name_kind in {None, kind}:
        return []
    return [f"The name {name!r} does not fit the content, which is {WORDS_FOR[kind]} and was read as such."]


def clean(text: str) -> str:
    """Remove characters that are not text, normalise line ends, and reduce blank lines to one."""
    plain = _UNPRINTABLE.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    return _BLANK_LINES.sub("\n\n", plain).strip()
