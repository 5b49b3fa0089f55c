"""`document.generateReport`: one report from several documents, as markdown and as HTML."""

from collections.abc import Sequence

from poweron_events.catalog import CATALOG, DocumentGenerateReportParameters
from poweron_events.event import UnreadDocument
from poweron_events.execution import ActionResult
from poweron_services.actions.action import Done, InputDocument, Order, document, none_read
from poweron_services.actions.texts import MARKDOWN, texts_of
from poweron_services.connectors.report_renderer import markdown_to_html


class DocumentGenerateReport:
    """Puts the texts of the listed documents one after the other under a title."""

    spec = CATALOG["document.generateReport"]

    async def __call__(self, order: Order) -> Done:
        parameters: DocumentGenerateReportParameters = order.parameters
        texts, unread = await _texts(order.documents)
        markdown = f"# {parameters.title}\n\n" + "\n\n".join(texts) + "\n"
        html = markdown_to_html(markdown, title=parameters.title, language=order.language or "en")
        documents = (document("report.md", markdown, MARKDOWN), document("report.html", html, "text/html"))
        return Done(ActionResult(success=True, documents=documents), unread=tuple(unread))


async def _texts(documents: Sequence[InputDocument]) -> tuple[list[str], list[UnreadDocument]]:
    texts, unread = await texts_of(documents)
    if not texts:
        raise none_read(unread, "There is no document to make a report from.")
    return [_demoted(text) for _, text in texts], unread


def _demoted(markdown: str) -> str:
    """The text with its headings one level lower, below the report's title."""
    return "\n".join(f"#{line}" if line.startswith("#") else line for line in markdown.strip().splitlines())
