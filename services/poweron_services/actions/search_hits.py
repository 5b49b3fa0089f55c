"""The hits of a search engine, in the form that actions use."""

from dataclasses import fields, replace

from poweron_events.catalog import WebSearchParameters
from poweron_services.actions.action import Failed, Order
from poweron_services.actions.page_addresses import comparable
from poweron_services.connectors.search.search_provider import SearchQuery, SearchResults


async def search(order: Order, parameters: WebSearchParameters) -> SearchResults:
    """Search, and return the hits with their addresses normalised for comparison.

    Raises:
        Failed: nothing was found.
    """
    asked = {part.name: getattr(parameters, part.name) for part in fields(SearchQuery)}
    found = await order.search(SearchQuery(**asked))
    hits = [replace(hit, url=address) for hit in found.hits if (address := comparable(hit.url)) is not None]
    if not hits:
        raise Failed("The search found no page.", *found.notes, code="nothing_found")
    return replace(found, hits=tuple(hits))
