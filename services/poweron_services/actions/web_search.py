"""`web.search`: the pages that a search engine finds, as it shows them; none of them is fetched."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from poweron_events.catalog import CATALOG, ActionSpec, WebSearchParameters
from poweron_events.execution import ActionDocument, ActionResult, PageFindings
from poweron_services.actions.action import Done, Order, Origin, document
from poweron_services.actions.page_documents import MAX_LINKS, hit_document, names
from poweron_services.actions.page_findings import Said, found_in
from poweron_services.actions.page_results import search
from poweron_services.connectors.search.search_provider import SearchHit, SearchResults

ANSWER: Final = "search engine's answer.md"


@dataclass(frozen=True, slots=True)
class WebSearch:
    """Queries the search engine; each hit becomes a document with its address and what the engine shows of it."""

    spec: ActionSpec = CATALOG["web.search"]

    async def __call__(self, order: Order) -> Done:
        parameters = WebSearchParameters.model_validate(order.parameters)
        results = await search(order, parameters)
        findings = await asyncio.to_thread(
            _findings, results.hits, parameters.query, parameters.language or order.language
        )
        titles = names([(hit.title, hit.url) for hit in results.hits], "markdown")
        documents = [hit_document(hit, name, results.provider) for hit, name in zip(results.hits, titles, strict=True)]
        origins = [Origin(findings=finding) for finding in findings]
        return Done(
            ActionResult(success=True, documents=(*documents, *_answer(results))),
            results.notes,
            origins=(*origins, Origin(by_model=True)),
            links=tuple(hit.url for hit in results.hits)[:MAX_LINKS],
        )


def _findings(hits: Sequence[SearchHit], question: str, language: str | None) -> list[PageFindings]:
    """Return the findings about each hit, in the order of the engine, which knows more of the pages than it shows."""
    texts = [Said(hit.title, hit.raw_content or hit.snippet) for hit in hits]
    pages = found_in(texts, question, language, as_given=True)
    return [page.findings.model_copy(update={"url": hits[page.number].url}) for page in pages]


def _answer(results: SearchResults) -> Sequence[ActionDocument]:
    """Return the engine's own answer, which comes last: it is a model's text, not a page, and cannot be verified."""
    if not results.answer.strip():
        return ()
    text = (
        f"# Answer of the search engine {results.provider}\n\nIt names no source.\n\n---\n\n{results.answer.strip()}\n"
    )
    return (document(ANSWER, text, "text/markdown"),)
