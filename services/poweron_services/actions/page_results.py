"""The result of reading pages: one document for each, best first, with findings and links to read next."""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields, replace
from typing import Final

from poweron_events.catalog import PageFormat, WebSearchParameters
from poweron_events.codec import writable
from poweron_events.event import UnreadDocument
from poweron_events.step_events import ActionResult
from poweron_services.actions.action import Ask, Done, Failed, Order, Origin
from poweron_services.actions.page_documents import MAX_LINKS, merged, names, page_document, promising
from poweron_services.actions.page_fetcher import GatheredPage, Gathering, UnreadPage, comparable, shown
from poweron_services.actions.page_findings import FoundPage, Said, found_in, judged
from poweron_services.connectors.search.search_provider import SearchQuery, SearchResults

MAX_FAILURES: Final = 5  # pages that have a note of their own
MAX_REASON: Final = 1_000  # characters
PARTLY: Final = "partly_read"


@dataclass(frozen=True, slots=True)
class Asked:
    """The question for which the pages are read, and how to return and judge them."""

    question: str
    language: str | None
    text_format: PageFormat
    judge: Ask | None = None
    """Asks the model that judges the pages; None if no model judges them."""


async def gathered_result(
    gathering: Gathering,
    pages: Sequence[GatheredPage],
    request: Asked,
    *,
    named: Collection[str] = (),
    notes: Sequence[str] = (),
    unread: Sequence[UnreadDocument] = (),
) -> Done:
    """Return the pages as documents.

    `named` are the addresses that were explicitly requested: each unread one is reported separately, after the
    documents that are already `unread`.

    Raises:
        Failed: there are no pages; the step fails for the reason of the first one.
    """
    failures = gathering.unread
    untold = [_unread_document(page) for page in failures if page.address in named]
    unread = [*unread, *untold]
    if not pages:
        raise _nothing_read(failures, notes, unread)
    result = await _page_result(merged(pages), gathering, request)
    others = [page for page in failures if page.address not in named]
    all_notes = (*notes, *result.notes, *_failures(others), *_limit_note(gathering))
    return replace(result, notes=all_notes, unread=(*unread, *result.unread))


async def next_links(pages: Sequence[GatheredPage], request: Asked, without: Collection[str]) -> list[str]:
    """Return the addresses that pages link to, except those in `without`, the most promising first."""
    return await asyncio.to_thread(promising, pages, request.question, request.language, without)


async def _page_result(pages: Sequence[GatheredPage], gathering: Gathering, request: Asked) -> Done:
    found_pages, notes = await _find(pages, request)
    best = [pages[found_page.number] for found_page in found_pages]
    titles = names([(page.page.title, page.page.url) for page in best], request.text_format)
    documents = [page_document(page, name, request.text_format) for page, name in zip(best, titles, strict=True)]
    links = await next_links([*best, *gathering.without_text], request, {*gathering.tried, *_places(best)})
    return Done(
        ActionResult(success=True, documents=tuple(documents)),
        (*_duplicate_notes(best), *notes),
        tuple(_partly(best)),
        origins=tuple(
            Origin(page=page.page, findings=found_page.findings)
            for page, found_page in zip(best, found_pages, strict=True)
        ),
        links=tuple(links[:MAX_LINKS]),
    )


def _unread_document(page: UnreadPage) -> UnreadDocument:
    name = shown(page.address)
    reason = writable(f"{name!r} was not read. {page.why}")[:MAX_REASON]
    return UnreadDocument(document_name=name, code=page.code, reason=reason)


def _nothing_read(failures: Sequence[UnreadPage], notes: Sequence[str], unread: Sequence[UnreadDocument]) -> Failed:
    several = f"None of the {len(failures)} pages was read. " if len(failures) > 1 else ""
    first = failures[0]
    message = f"{several}The page {shown(first.address)!r} was not read. {first.why}"
    return Failed(message, *notes, *_failures(failures[1:]), code=first.code, unread=unread)


def _failures(pages: Sequence[UnreadPage]) -> list[str]:
    notes = [f"The page {shown(page.address)!r} was not read. {page.why}" for page in pages[:MAX_FAILURES]]
    more = len(pages) - len(notes)
    return [*notes, f"{more} more pages were not read."] if more else notes


def _limit_note(gathering: Gathering) -> list[str]:
    if not gathering.left_out:
        return []
    return [
        f"{gathering.left_out} more addresses were not read: one step reads at most {gathering.limits.pages} pages."
    ]


async def _find(pages: Sequence[GatheredPage], request: Asked) -> tuple[list[FoundPage], tuple[str, ...]]:
    texts = [Said(page.page.title, page.text.text) for page in pages]
    found_pages = await asyncio.to_thread(found_in, texts, request.question, request.language)
    if request.judge is None or not request.question:
        return found_pages, ()
    return await judged(found_pages, request.question, request.language, request.judge)


def _places(pages: Sequence[GatheredPage]) -> set[str]:
    return {place for page in pages for place in (page.page.url, page.requested, *page.also_at)}


def _duplicate_notes(pages: Sequence[GatheredPage]) -> list[str]:
    return [
        f"{shown(page.page.url)!r} and {shown(other)!r} hold the same text; it is shown once."
        for page in pages
        for other in page.also_at
    ]


def _partly(pages: Sequence[GatheredPage]) -> list[UnreadDocument]:
    return [_partly_read_document(shown(page.page.url), page.text.notes) for page in pages if page.text.truncated]


def _partly_read_document(name: str, notes: Sequence[str]) -> UnreadDocument:
    reason = writable(f"{name!r} was not read as a whole. {' '.join(notes)}".strip())[:MAX_REASON]
    return UnreadDocument(document_name=name, code=PARTLY, reason=reason)


async def search(order: Order, parameters: WebSearchParameters) -> SearchResults:
    """Search, and return the hits with their addresses normalised for comparison.

    Raises:
        Failed: nothing was found.
    """
    values = {part.name: getattr(parameters, part.name) for part in fields(SearchQuery)}
    results = await order.search(SearchQuery(**values))
    hits = [replace(hit, url=address) for hit in results.hits if (address := comparable(hit.url)) is not None]
    if not hits:
        raise Failed("The search found no page.", *results.notes, code="nothing_found")
    return replace(results, hits=tuple(hits))
