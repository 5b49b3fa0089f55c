"""`document.generateReport`: one report from several documents, as markdown and as HTML."""

from dataclasses import dataclass

from poweron_events.catalog import CATALOG, ActionSpec, DocumentGenerateReportParameters
from poweron_events.execution import ActionResult
from poweron_services.actions.action import (
    Done,
    Order,
    ReadDocument,
    RenderReport,
    document,
    none_read,
)
from poweron_services.actions.texts import MARKDOWN, read_texts


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
        markdown = f"# {parameters.title}\n\n" + "\n\n".join(_demoted(text.text) for text in found.texts) + "\n"
        html = self.render(markdown, title=parameters.title, language=order.language or "en")
        documents = (document("report.md", markdown, MARKDOWN), document("report.html", html, "text/html"))
        return Done(ActionResult(success=True, documents=documents), tuple(found.notes), tuple(found.unread))


def _demoted(markdown: str) -> str:
    """The text with its headings one level lower, below the report's title."""
    return "\n".join(f"#{line}" if line.startswith("#") else line for line in markdown.strip().splitlines())
