"""`web.crawl`: reads the pages whose addresses are in documents; with `advanced`, also other pages of their sites."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from poweron_events.catalog import CATALOG, ActionSpec, ExtractDepth, WebCrawlParameters
from poweron_events.event import UnreadDocument
from poweron_services.actions.action import Done, InputDocument, Order, ReadDocument, none_read
from poweron_services.actions.page_documents import head_of, of_same_site
from poweron_services.actions.page_fetcher import (
    GatheredPage,
    Gathering,
    GatheringLimits,
    addresses_in,
    addresses_linked,
    comparable,
    divided,
)
from poweron_services.actions.page_results import Asked, gathered_result, next_links
from poweron_services.actions.texts import read_texts
from poweron_services.connectors.document_reader import ExtractedDocument, LoadBytes, OnPage
from poweron_services.connectors.page_text import OpenPages

HTML: Final = ("text/html", "application/xhtml+xml")
PLAIN: Final = ("text/markdown", "text/plain")
MAX_MARKUP: Final = 10_000_000  # characters of a page that are searched
MAX_ADDRESSES: Final = 10_000  # addresses of a document
LIMITS: Final[dict[ExtractDepth, GatheringLimits]] = {
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
    limits: Mapping[ExtractDepth, GatheringLimits] = field(default_factory=lambda: LIMITS)
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
    for document in order.documents:
        addresses = [*_addresses(document, texts.get(document.reference, ""), markups.get(document.reference))]
        addresses += filter(None, map(comparable, links.get(document.load, ())))
        del addresses[MAX_ADDRESSES:]
        (model_addresses if document.written_by_model else result.addresses).extend(addresses)
        result.pages += [document.page.url] if document.page else []
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
