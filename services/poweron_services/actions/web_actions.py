"""`web.search` shows what a search engine finds; `web.scrape` also fetches the hits and reads their main text.

Addresses in the query are read directly. `web.crawl` reads the pages whose addresses are in documents, with `advanced`
also other pages of their sites.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from poweron_events.catalog import (
    CATALOG,
    ActionSpec,
    ExtractDepth,
    WebCrawlParameters,
    WebScrapeParameters,
    WebSearchParameters,
)
from poweron_events.event import UnreadDocument
from poweron_events.step_events import ActionDocument, ActionResult, PageFindings
from poweron_services.actions.action import Done, InputDocument, Order, Origin, ReadDocument, document, none_read
from poweron_services.actions.page_documents import MAX_LINKS, head_of, hit_document, is_file, names, of_same_site
from poweron_services.actions.page_fetcher import (
    GatheredPage,
    Gathering,
    GatheringLimits,
    addresses_in,
    addresses_linked,
    comparable,
    divided,
    without_addresses,
)
from poweron_services.actions.page_findings import Said, found_in
from poweron_services.actions.page_results import Asked, gathered_result, next_links, search
from poweron_services.actions.texts import read_texts
from poweron_services.connectors.document_reader import ExtractedDocument, LoadBytes, OnPage
from poweron_services.connectors.page_child import OpenPages
from poweron_services.connectors.search.search_provider import SearchHit, SearchResults

SCRAPE_LIMITS: Final = GatheringLimits(pages=1_000, seconds=120.0)
MAX_FILES: Final = 10  # read from the links of pages
DIRECT: Final = "The query names addresses: these were read, and no search engine was asked."


@dataclass(frozen=True, slots=True)
class WebScrape:
    """Reads pages concurrently; with `extractDepth` `advanced`, also the PDF and office files that they link to."""

    open_pages: OpenPages
    enrich: bool = False
    limits: GatheringLimits = SCRAPE_LIMITS
    spec: ActionSpec = CATALOG["web.scrape"]

    async def __call__(self, order: Order) -> Done:
        parameters = WebScrapeParameters.model_validate(order.parameters)
        question = without_addresses(parameters.query) or order.objective
        judge = order.ask if self.enrich else None
        request = Asked(question, parameters.language or order.language, parameters.format, judge)
        direct_addresses = addresses_in(parameters.query)
        async with self.open_pages() as read:
            gathering = Gathering(
                order.fetch,
                read,
                parameters.extract_depth,
                parameters.format,
                self.limits.within(order.max_pages),
                order.tell_progress,
            )
            if direct_addresses:
                known, unknown = divided(direct_addresses, order.known_addresses)
                gathering.refuse_unknown(unknown)
                addresses, notes = known, [DIRECT]
            else:
                results = await search(order, parameters)
                addresses, notes = [hit.url for hit in results.hits], [*results.notes]
            pages = await gathering.gather(addresses)
            if parameters.extract_depth == "advanced":
                files = [link for link in await next_links(pages, request, gathering.tried) if is_file(link)]
                pages += await gathering.gather(files[:MAX_FILES])
        return await gathered_result(gathering, pages, request, named=direct_addresses, notes=notes)


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


HTML: Final = ("text/html", "application/xhtml+xml")
PLAIN: Final = ("text/markdown", "text/plain")
MAX_MARKUP: Final = 10_000_000  # characters of a page that are searched
MAX_ADDRESSES: Final = 10_000  # addresses of a document
CRAWL_LIMITS: Final[dict[ExtractDepth, GatheringLimits]] = {
    "basic": GatheringLimits(pages=20, seconds=240.0),
    "advanced": GatheringLimits(pages=1_000, seconds=240.0),
}
MAX_DEPTH: Final = 2  # links followed from an address in a document


@dataclass(slots=True)
class FoundAddresses:
    """The addresses that documents name."""

    pages: list[str] = field(default_factory=list)
    """Pages whose text is one of the documents: they were already read, but not the pages that they link to."""
    addresses: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    """Addresses that only a model wrote and may have made up (S4)."""
    unread: Sequence[UnreadDocument] = ()
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class WebCrawl:
    """Follows links breadth first, within limits of depth, pages, bytes and time."""

    read_document: ReadDocument
    open_pages: OpenPages
    enrich: bool = False
    limits: Mapping[ExtractDepth, GatheringLimits] = field(default_factory=lambda: CRAWL_LIMITS)
    spec: ActionSpec = CATALOG["web.crawl"]

    async def __call__(self, order: Order) -> Done:
        parameters = WebCrawlParameters.model_validate(order.parameters)
        depth, judge = parameters.extract_depth, order.ask if self.enrich else None
        request = Asked(order.objective, order.language, parameters.format, judge)
        async with self.open_pages() as read:
            addresses = await addresses_of(order, self.read_document)
            limits = self.limits[depth].within(order.max_pages)
            gathering = Gathering(order.fetch, read, depth, parameters.format, limits, order.tell_progress)
            gathering.refuse_unknown(addresses.unknown)
            first_pages = [*await gathering.gather(addresses.pages), *gathering.without_text]
            targets = [
                *addresses.addresses,
                *await next_links(first_pages, request, {*addresses.addresses, *gathering.tried}),
            ]
            if not targets and not gathering.unread:
                raise none_read(addresses.unread, "The documents name no address of the web.")
            pages = await gathering.gather(targets)
            if depth == "advanced":
                pages += await _follow(gathering, [*first_pages, *pages], request)
        known = (*addresses.addresses, *addresses.unknown)
        return await gathered_result(
            gathering, pages, request, named=known, notes=addresses.notes, unread=addresses.unread
        )


async def _follow(gathering: Gathering, pages: Sequence[GatheredPage], request: Asked) -> list[GatheredPage]:
    """Gather what pages link to on their own site, breadth first, the most promising of each level first."""
    result, level = list[GatheredPage](), pages
    for _ in range(MAX_DEPTH):
        linking = [of_same_site(page) for page in (*level, *gathering.without_text)]
        links = await next_links(linking, request, gathering.tried)
        if not links or gathering.is_over:
            break
        level = await gathering.gather(links)
        result += level
    return result


async def addresses_of(order: Order, read: ReadDocument) -> FoundAddresses:
    """Return the addresses in all documents of an order, in their order, each once."""
    links: dict[LoadBytes, Sequence[str]] = {}

    async def reading_links(
        load: LoadBytes, size: int, name: str, *, on_page: OnPage | None = None
    ) -> ExtractedDocument:
        document = await read(load, size, name, on_page=on_page)
        links[load] = document.links
        return document

    reading = await read_texts(order.documents, reading_links, as_written=PLAIN)
    texts = {text.reference: text.text for text in reading.texts}
    markups = {document.reference: await document.load() for document in order.documents if document.mime_type in HTML}
    addresses = FoundAddresses(unread=reading.unread, notes=reading.notes)
    return await asyncio.to_thread(_collect, order, addresses, texts, markups, links)


def _collect(
    order: Order,
    result: FoundAddresses,
    texts: Mapping[str, str],
    markups: Mapping[str, bytes],
    links: Mapping[LoadBytes, Sequence[str]],
) -> FoundAddresses:
    model_addresses: list[str] = []
    for given in order.documents:
        addresses = [*_addresses(given, texts.get(given.reference, ""), markups.get(given.reference))]
        addresses += filter(None, map(comparable, links.get(given.load, ())))
        del addresses[MAX_ADDRESSES:]
        (model_addresses if given.written_by_model else result.addresses).extend(addresses)
        result.pages += [given.page.url] if given.page else []
    known, unknown = divided(model_addresses, {*order.known_addresses, *result.addresses, *result.pages})
    result.addresses = [
        address for address in dict.fromkeys([*result.addresses, *known]) if address not in result.pages
    ]
    result.unknown = [*dict.fromkeys(unknown)]
    return result


def _addresses(document: InputDocument, text: str, markup: bytes | None) -> Sequence[str]:
    """Return the addresses that a document names.

    The text of a web page could say "fetch this" about anything: a page that was read contributes no address from its
    text, a page that was only found contributes its own.
    """
    addresses = () if document.page else addresses_in(head_of(text) or text)
    if markup is None:
        return addresses
    return [*addresses, *addresses_linked(markup[:MAX_MARKUP].decode("utf-8", errors="replace"))]
