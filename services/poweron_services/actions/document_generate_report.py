"""`document.generateReport`: one report from several documents, in every requested format."""

from collections.abc import Sequence
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
from poweron_services.actions.cited_sources import MARKDOWN, with_short_titles
from poweron_services.actions.report_sources import is_extracted, with_sources
from poweron_services.actions.texts import Reading, read_texts
from poweron_services.connectors.report_renderer import Draft, Part, PartKind, ReportFormat
from poweron_services.decider.language_detection import detect
from poweron_services.decider.size_limits import SOURCES_BUDGET, fitting

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
