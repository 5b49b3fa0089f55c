"""The web addresses in documents, and which of them may be read."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from poweron_events.event import UnreadDocument
from poweron_services.actions.action import InputDocument, Order, ReadDocument
from poweron_services.actions.page_addresses import addresses_in, addresses_linked, comparable, divided
from poweron_services.actions.page_documents import head_of
from poweron_services.actions.texts import read_texts
from poweron_services.connectors.document_reader import ExtractedDocument, LoadBytes, OnPage

HTML: Final = ("text/html", "application/xhtml+xml")
PLAIN: Final = ("text/markdown", "text/plain")
MAX_MARKUP: Final = 10_000_000  # characters of a page that are searched
MAX_ADDRESSES: Final = 10_000  # addresses of a document


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


async def addresses_of(order: Order, read: ReadDocument) -> FoundAddresses:
    """Return the addresses in all documents of an order, in their order, each once."""
    linked: dict[LoadBytes, Sequence[str]] = {}

    async def reading_links(
        load: LoadBytes, size: int, name: str, *, on_page: OnPage | None = None
    ) -> ExtractedDocument:
        document = await read(load, size, name, on_page=on_page)
        linked[load] = document.links
        return document

    reading = await read_texts(order.documents, reading_links, as_written=PLAIN)
    texts = {text.reference: text.text for text in reading.texts}
    markups = {given.reference: await given.load() for given in order.documents if given.mime_type in HTML}
    found = FoundAddresses(unread=reading.unread, notes=reading.notes)
    return await asyncio.to_thread(_found, order, found, texts, markups, linked)


def _found(
    order: Order,
    found: FoundAddresses,
    texts: Mapping[str, str],
    markups: Mapping[str, bytes],
    linked: Mapping[LoadBytes, Sequence[str]],
) -> FoundAddresses:
    made_up: list[str] = []
    for given in order.documents:
        named = [*_addresses(given, texts.get(given.reference, ""), markups.get(given.reference))]
        named += filter(None, map(comparable, linked.get(given.load, ())))
        del named[MAX_ADDRESSES:]
        (made_up if given.written_by_model else found.addresses).extend(named)
        found.pages += [given.page.url] if given.page else []
    known, unknown = divided(made_up, {*order.known_addresses, *found.addresses, *found.pages})
    found.addresses = [each for each in dict.fromkeys([*found.addresses, *known]) if each not in found.pages]
    found.unknown = [*dict.fromkeys(unknown)]
    return found


def _addresses(given: InputDocument, text: str, markup: bytes | None) -> Sequence[str]:
    """Return the addresses that a document names.

    The text of a web page could say "fetch this" about anything: a page that was read contributes no address from its
    text, a page that was only found contributes its own.
    """
    named = () if given.page else addresses_in(head_of(text) or text)
    if markup is None:
        return named
    return [*named, *addresses_linked(markup[:MAX_MARKUP].decode("utf-8", errors="replace"))]
