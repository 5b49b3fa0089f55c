"""`document.generateReport`: one report from several documents, in every requested format."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from poweron_events.catalog import CATALOG, ActionSpec, DocumentGenerateReportParameters
from poweron_events.event import CitedSource
from poweron_events.execution import ActionDocument, ActionResult
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
from poweron_services.text.citations import renumbered
from poweron_services.text.language_detection import detect
from poweron_services.text.source_list import document_sources, place_in, source_list, without_document_sources

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
        found = await read_texts(order.documents, self.read)
        if not found.texts:
            raise none_read(found.unread, "There is no document to make a report from.")
        asked: tuple[ReportFormat, ...] = parameters.expected_document_formats
        pages = with_short_titles(found.sources)
        draft = _draft(parameters.title, _parts(found, order), pages, order)
        rendered = await self.render(_formatted(draft, asked))
        if not rendered.files:
            raise Failed(rendered.notes[0] if rendered.notes else "The report could not be written.")
        made = [name for name, _ in rendered.files]
        notes = [*found.notes, *rendered.notes]
        if "xlsx" in asked and "xlsx" not in made and not rendered.notes:
            notes.append(NO_TABLES)
        cited = Origin(sources=fitting(pages, SOURCES_BUDGET))
        return Done(
            ActionResult(success=True, documents=tuple(_file(name, data) for name, data in rendered.files)),
            tuple(notes),
            tuple(found.unread),
            origins=tuple(cited if name == "markdown" else Origin() for name in made) if pages else (),
        )


def _parts(found: Reading, order: Order) -> tuple[Part, ...]:
    """Return the texts as parts of the report, each with its kind."""
    written = {given.reference for given in order.documents if given.written_by_model and given.mime_type == MARKDOWN}
    texts = zip(found.texts, found.marked(), strict=True)
    return tuple(Part(text.name, _kind(text.reference in written, marked), marked) for text, marked in texts)


def _kind(is_written: bool, text: str) -> PartKind:
    if is_extracted(text):
        return "extracted"
    return "written" if is_written else "document"


def _draft(title: str, parts: tuple[Part, ...], pages: Sequence[CitedSource], order: Order) -> Draft:
    language = order.language or detect("\n\n".join(part.text for part in parts)) or "en"
    parts, sources, count = with_sources(parts, pages, language)
    day = datetime.fromtimestamp(order.asked_ms / 1000, UTC).date().isoformat() if order.asked_ms else ""
    return Draft(title, language, parts, sources, count, requester=order.requester, day=day)


def _formatted(draft: Draft, asked: tuple[ReportFormat, ...]) -> Draft:
    """Return the draft in the requested formats, or in all of them if none is requested."""
    wanted = tuple(name for name in FILES if not asked or name in asked or name == "markdown")
    return replace(draft, formats=wanted)


def _file(name: ReportFormat, data: bytes) -> ActionDocument:
    file_name, mime_type = FILES[name]
    return ActionDocument(document_name=file_name, document_data=data, mime_type=mime_type)


def is_extracted(text: str) -> bool:
    """Return whether `document.extract` wrote the text, or it looks like it."""
    return _EXTRACTED.match(text) is not None


def with_sources(
    parts: Sequence[Part], pages: Sequence[CitedSource], language: str
) -> tuple[tuple[Part, ...], str, int]:
    """Return the parts without their own lists of sources, one list of all sources, and their number.

    If no web page is among them, the `[n]` by which parts cite documents are renumbered throughout.
    """
    named: dict[str, int] = {}
    kept = tuple(parts) if pages else tuple(_lifted(part, named) for part in parts)
    said = list(named)
    for part in parts:
        if part.kind == "extracted" and (line := _document(part.text, language)) and not _is_named(line, said):
            said.append(line)
    lines = said[:MOST_NAMED]
    told = document_sources(lines, language, first=len(pages) + 1, heading=not pages)
    listed = source_list(pages, language) if pages else ""
    return kept, "\n".join(text for text in (listed, told) if text), len(pages) + len(lines)


def _lifted(part: Part, named: dict[str, int]) -> Part:
    """Return the part without its list of documents, and with the numbers of the report."""
    if part.kind != "written":
        return part
    text, own = without_document_sources(part.text)
    if not own:
        return part
    numbers: Mapping[int, int] = {n: named.setdefault(line, len(named) + 1) for n, line in own.items()}
    return replace(part, text=text if numbers == {n: n for n in own} else renumbered(text, numbers))


def _document(text: str, language: str) -> str:
    """Return the name of an extracted document and the places in it."""
    head = _EXTRACTED.match(text)
    if head is None:
        return ""
    places = [place_in(place, language) for place in _PLACE.findall(text)]
    shown = places if len(places) <= MOST_PLACES else [places[0], "…", places[-1]]
    return ", ".join([head["name"].strip(), *shown])


def _is_named(line: str, said: Iterable[str]) -> bool:
    name = line.partition(", ")[0]
    return any(other == line or other.partition(", ")[0] == name for other in said)
