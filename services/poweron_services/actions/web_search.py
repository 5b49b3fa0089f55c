"""`web.search`: pages that a search engine finds, as it shows them; none of them is fetched."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from poweron_events.catalog import CATALOG, ActionSpec, WebSearchParameters
from poweron_events.execution import ActionDocument, ActionResult
from poweron_services.actions.action import Done, Order, Origin, document
from poweron_services.actions.page_documents import hit_document, names
from poweron_services.actions.page_findings import Said, ranked
from poweron_services.actions.page_links import MAX_LINKS
from poweron_services.actions.search_hits import search
from poweron_services.connectors.search.search_provider import SearchResults

ANSWER: Final = "search engine's answer.md"


@dataclass(frozen=True, slots=True)
class WebSearch:
    """Asks the search engine; each hit becomes a document that says where the page is and what is shown of it."""

    spec: ActionSpec = CATALOG["web.search"]

    async def __call__(self, order: Order) -> Done:
        parameters = WebSearchParameters.model_validate(order.parameters)
        found = await search(order, parameters)
        said = [Said(hit.title, hit.raw_content or hit.snippet) for hit in found.hits]
        in_order = await asyncio.to_thread(ranked, said, parameters.query, parameters.language or order.language)
        best = [found.hits[number] for number, _ in in_order]
        titles = names([(hit.title, hit.url) for hit in best], "markdown")
        documents = [hit_document(hit, name, found.provider) for hit, name in zip(best, titles, strict=True)]
        answer = _answer(found)
        return Done(
            ActionResult(success=True, documents=(*documents, *answer)),
            found.notes,
            origins=(*(Origin(findings=said) for _, said in in_order), *(Origin() for _ in answer)),
            links=tuple(hit.url for hit in best)[:MAX_LINKS],
        )


def _answer(found: SearchResults) -> Sequence[ActionDocument]:
    """The engine's own answer, last: it is no page, and nobody can check it."""
    if not found.answer.strip():
        return ()
    said = f"# Answer of the search engine {found.provider}\n\nIt names no source.\n\n---\n\n{found.answer.strip()}\n"
    return (document(ANSWER, said, "text/markdown"),)
