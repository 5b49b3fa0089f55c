"""`web.crawl`: reads the pages whose addresses are in documents; with `advanced`, also other pages of their sites."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from poweron_events.catalog import CATALOG, ActionSpec, ExtractDepth, WebCrawlParameters
from poweron_services.actions.action import Done, Order, ReadDocument, none_read
from poweron_services.actions.document_addresses import addresses_of
from poweron_services.actions.page_gathering import GatheredPage, Gathering, GatheringLimits
from poweron_services.actions.page_links import of_same_site
from poweron_services.actions.page_results import Asked, gathered_result, next_links
from poweron_services.connectors.page_text import OpenPages

LIMITS: Final[dict[ExtractDepth, GatheringLimits]] = {
    "basic": GatheringLimits(pages=20, seconds=240.0),
    "advanced": GatheringLimits(pages=1_000, seconds=240.0),
}
MAX_DEPTH: Final = 2  # links followed from an address in a document


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
        asked = Asked(order.objective, order.language, parameters.format, judge)
        async with self.open_pages() as read:
            found = await addresses_of(order, self.read_document)
            limits = self.limits[depth].within(order.max_pages)
            gathering = Gathering(order.fetch, read, depth, parameters.format, limits, order.tell_progress)
            gathering.refuse_unknown(found.unknown)
            listed = [*await gathering.gather(found.pages), *gathering.without_text]
            named = [*found.addresses, *await next_links(listed, asked, {*found.addresses, *gathering.tried})]
            if not named and not gathering.unread:
                raise none_read(found.unread, "The documents name no address of the web.")
            pages = await gathering.gather(named)
            if depth == "advanced":
                pages += await _followed(gathering, [*listed, *pages], asked)
        told = (*found.addresses, *found.unknown)
        return await gathered_result(gathering, pages, asked, named=told, notes=found.notes, unread=found.unread)


async def _followed(gathering: Gathering, pages: Sequence[GatheredPage], asked: Asked) -> list[GatheredPage]:
    """Gather what pages link to on their own site, breadth first, the most promising of each level first."""
    found, level = list[GatheredPage](), pages
    for _ in range(MAX_DEPTH):
        linking = [of_same_site(page) for page in (*level, *gathering.without_text)]
        links = await next_links(linking, asked, gathering.tried)
        if not links or gathering.is_over:
            break
        level = await gathering.gather(links)
        found += level
    return found
