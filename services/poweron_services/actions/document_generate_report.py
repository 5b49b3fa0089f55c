"""`document.generateReport`: one report from several documents, in every requested format."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from poweron_events.catalog import CATALOG, ActionSpec, DocumentGenerateReportParameters
from poweron_events.event import CitedSource
from poweron_events.step_events import ActionDocument, ActionResult
from poweron_services.actions.action import (
    Done,
    Failed,
    Order,
    Origin,
    ReadDocument,
    RenderReport,
    none_read,
)
from poweron_services.actions.source_numbers import MARKDOWN, with_short_titles
from poweron_services.actions.texts import Reading, read_texts
from poweron_services.connectors.report_renderer import Draft, Part, PartKind, ReportFormat
from poweron_services.decider.size_limits import SOURCES_BUDGET, fitting
from poweron_services.text.citations import (
    document_sources,
    place_in,
    renumbered,
    source_list,
    without_document_sources,
)
from poweron_services.text.language_detection import detect

MOST_PLACES: Final = 4  # places of a document that are named one by one
MOST_NAMED: Final = 200  # documents
_EXTRACTED: Final = re.compile(r"\A# ?(?P<name>[^\n]*)\n\s*<!-- [^\n]* -->\n?")
_PLACE: Final = re.compile(r"^## ((?:page|sheet|slide) [^\n]+)$", re.MULTILINE)
FILES: Final[dict[ReportFormat, tuple[str, str]]] = {
    "markdown": ("report.md", MARKDOWN),
    "html": ("report.html", "text/html"),
    "docx": ("report.docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    "pdf": ("report.pdf", "application/pdf"),
    "xlsx": ("report.xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
}
NO_TABLES: Final = "The report has no tables, so there is no Excel workbook of them."


@dataclass(frozen=True, slots=True)
class DocumentGenerateReport:
    """Makes one report from the listed documents; markdown is always included, since later steps read it."""

    read: ReadDocument
    render: RenderReport
    spec: ActionSpec = CATALOG["document.generateReport"]

    async def __call__(self, order: Order) -> Done:
        parameters = DocumentGenerateReportParameters.model_validate(order.parameters)
        reading = await read_texts(order.documents, self.read)
        if not reading.texts:
            raise none_read(reading.unread, "There is no document to make a report from.")
        formats: tuple[ReportFormat, ...] = parameters.expected_document_formats
        pages = with_short_titles(reading.sources)
        draft = _draft(parameters.title, _parts(reading, order), pages, order)
        mark = await order.find_provenance()
        if mark is not None:
            is_composite = any(part.kind != "written" for part in draft.parts)
            draft = replace(draft, provenance=replace(mark, is_composite=is_composite))
        report = await self.render(_in_formats(draft, formats))
        if not report.files:
            raise Failed(report.notes[0] if report.notes else "The report could not be written.")
        names = [name for name, _ in report.files]
        notes = [*reading.notes, *report.notes]
        if "xlsx" in formats and "xlsx" not in names and not report.notes:
            notes.append(NO_TABLES)
        origin = Origin(sources=fitting(pages, SOURCES_BUDGET))
        return Done(
            ActionResult(success=True, documents=tuple(_file(name, data) for name, data in report.files)),
            tuple(notes),
            tuple(reading.unread),
            origins=tuple(origin if name == "markdown" else Origin() for name in names) if pages else (),
        )


def _parts(reading: Reading, order: Order) -> tuple[Part, ...]:
    """Return the texts as parts of the report, each with its kind."""
    model_texts = {
        source.reference for source in order.documents if source.written_by_model and source.mime_type == MARKDOWN
    }
    texts = zip(reading.texts, reading.marked(), strict=True)
    return tuple(Part(text.name, _kind(text.reference in model_texts, body), body) for text, body in texts)


def _kind(is_written: bool, text: str) -> PartKind:
    if is_extracted(text):
        return "extracted"
    return "written" if is_written else "document"


def _draft(title: str, parts: tuple[Part, ...], pages: Sequence[CitedSource], order: Order) -> Draft:
    language = order.language or detect("\n\n".join(part.text for part in parts)) or "en"
    parts, sources, count = with_sources(parts, pages, language)
    day = datetime.fromtimestamp(order.asked_ms / 1000, UTC).date().isoformat() if order.asked_ms else ""
    return Draft(title, language, parts, sources, count, requester=order.requester, day=day)


def _in_formats(draft: Draft, formats: tuple[ReportFormat, ...]) -> Draft:
    """Return the draft in the requested formats, or in all of them if none is requested."""
    chosen = tuple(name for name in FILES if not formats or name in formats or name == "markdown")
    return replace(draft, formats=chosen)


def _file(name: ReportFormat, data: bytes) -> ActionDocument:
    file_name, mime_type = FILES[name]
    return ActionDocument(document_name=file_name, document_data=data, mime_type=mime_type)


def is_extracted(text: str) -> bool:
    """Return whether the text has the head that `document.extract` writes."""
    return _EXTRACTED.match(text) is not None


def with_sources(
    parts: Sequence[Part], pages: Sequence[CitedSource], language: str
) -> tuple[tuple[Part, ...], str, int]:
    """Return the parts without their own lists of sources, one list of all sources, and their number.

    If no web page is among them, the `[n]` by which parts cite documents are renumbered throughout.
    """
    numbers: dict[str, int] = {}
    own_parts = tuple(parts) if pages else tuple(_without_list(part, numbers) for part in parts)
    entries = list(numbers)
    for part in parts:
        if part.kind == "extracted" and (line := _document(part.text, language)) and not _is_named(line, entries):
            entries.append(line)
    lines = entries[:MOST_NAMED]
    document_list = document_sources(lines, language, first=len(pages) + 1, heading=not pages)
    page_list = source_list(pages, language) if pages else ""
    return own_parts, "\n".join(text for text in (page_list, document_list) if text), len(pages) + len(lines)


def _without_list(part: Part, report_numbers: dict[str, int]) -> Part:
    """Return the part without its list of documents, and with the numbers of the report."""
    if part.kind != "written":
        return part
    text, own_lines = without_document_sources(part.text)
    if not own_lines:
        return part
    numbers: Mapping[int, int] = {
        n: report_numbers.setdefault(line, len(report_numbers) + 1) for n, line in own_lines.items()
    }
    return replace(part, text=text if numbers == {n: n for n in own_lines} else renumbered(text, numbers))


def _document(text: str, language: str) -> str:
    """Return the name of an extracted document and the places in it."""
    head = _EXTRACTED.match(text)
    if head is None:
        return ""
    places = [place_in(place, language) for place in _PLACE.findall(text)]
    places_shown = places if len(places) <= MOST_PLACES else [places[0], "…", places[-1]]
    return ", ".join([head["name"].strip(), *places_shown])


def _is_named(line: str, entries: Iterable[str]) -> bool:
    name = line.partition(", ")[0]
    return any(other == line or other.partition(", ")[0] == name for other in entries)
