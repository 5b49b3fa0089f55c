"""`web.scrape`: searches, fetches the hits and reads their main text; addresses in the query are read directly."""

from dataclasses import dataclass
from typing import Final

from poweron_events.catalog import CATALOG, ActionSpec, WebScrapeParameters
from poweron_services.actions.action import Done, Order
from poweron_services.actions.page_documents import is_file
from poweron_services.actions.page_fetcher import Gathering, GatheringLimits, addresses_in, divided, without_addresses
from poweron_services.actions.page_results import Asked, gathered_result, next_links, search
from poweron_services.connectors.page_text import OpenPages

LIMITS: Final = GatheringLimits(pages=1_000, seconds=120.0)
MAX_FILES: Final = 10  # read from the links of pages
DIRECT: Final = "The query names addresses: these were read, and no search engine was asked."


@dataclass(frozen=True, slots=True)
class WebScrape:
    """Reads pages concurrently; with `extractDepth` `advanced`, also the PDF and office files that they link to."""

    open_pages: OpenPages
    enrich: bool = False
    limits: GatheringLimits = LIMITS
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
