"""`document.generateReport`: one report from several documents, as markdown and as HTML."""

import asyncio
from dataclasses import dataclass

from poweron_events.catalog import CATALOG, ActionSpec, DocumentGenerateReportParameters
from poweron_events.execution import ActionResult
from poweron_services.actions.action import (
    Done,
    Order,
    Origin,
    ReadDocument,
    RenderReport,
    document,
    none_read,
)
from poweron_services.actions.cited_sources import MARKDOWN, with_short_titles
from poweron_services.actions.texts import read_texts
from poweron_services.decider.size_limits import SOURCES_BUDGET, fitting
from poweron_services.decider.source_list import with_list


@dataclass(frozen=True, slots=True)
class DocumentGenerateReport:
    """Puts the texts of the listed documents one after the other under a title."""

    read: ReadDocument
    render: RenderReport
    spec: ActionSpec = CATALOG["document.generateReport"]

    async def __call__(self, order: Order) -> Done:
        parameters = DocumentGenerateReportParameters.model_validate(order.parameters)
        found = await read_texts(order.documents, self.read)
        if not found.texts:
            raise none_read(found.unread, "There is no document to make a report from.")
        joined = "\n\n".join(map(_demoted, await asyncio.to_thread(found.marked)))
        sources = with_short_titles(found.sources)
        markdown = with_list(f"# {parameters.title}\n\n{joined}\n", sources, order.language)
        html = self.render(markdown, title=parameters.title, language=order.language or "en")
        documents = (document("report.md", markdown, MARKDOWN), document("report.html", html, "text/html"))
        return Done(
            ActionResult(success=True, documents=documents),
            tuple(found.notes),
            tuple(found.unread),
            origins=(Origin(sources=fitting(sources, SOURCES_BUDGET)), Origin()) if sources else (),
        )


def _demoted(markdown: str) -> str:
    """The text with its headings one level lower, below the report's title."""
    return "\n".join(f"#{line}" if line.startswith("#") else line for line in markdown.strip().splitlines())
