"""Web access for one step: on behalf of its workflow, and never to an address that a model invented (S4)."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import structlog

from poweron_events.errors import Refused
from poweron_services.actions.action import InputDocument
from poweron_services.connectors.search.search_provider import SearchQuery, SearchResults
from poweron_services.connectors.web.fetched_page import FetchedPage
from poweron_services.connectors.web.kept_answers import Reader
from poweron_services.connectors.web_port import Web
from poweron_services.decider.web_addresses import addresses_in, canonical, is_known, unknown_address

log = structlog.get_logger()


@dataclass(slots=True)
class WebAccess:
    """The functions behind `Order.fetch` and `Order.search`.

    The selection and the parameters were already checked. What remains are documents of the step that a model wrote: an
    address in them counts only if the workflow knows it or another document of the step contains it.
    """

    web: Web
    reader: Reader
    known: frozenset[str]
    documents: Sequence[InputDocument]
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _made_up: frozenset[str | None] | None = None

    async def fetch(self, url: str, /) -> FetchedPage:
        if not is_known(url, self.known) and canonical(url) in await self._invented():
            raise unknown_address(url)
        try:
            return await self.web.fetch(self.reader, url)
        except Refused as error:
            workflow_id, detail = self.reader.workflow_id, error.detail
            log.warning("page_refused", workflow_id=workflow_id, code=error.code, error=str(error), detail=detail)
            raise

    async def search(self, query: SearchQuery, /) -> SearchResults:
        return await self.web.search(self.reader, query)

    async def _invented(self) -> frozenset[str | None]:
        async with self._turn:
            if self._made_up is None:
                written = [document for document in self.documents if document.written_by_model]
                others = [document for document in self.documents if written and not document.written_by_model]
                self._made_up = await _addresses(written) - await _addresses(others)
            return self._made_up


async def _addresses(documents: Iterable[InputDocument]) -> frozenset[str | None]:
    texts = [(await document.load()).decode("utf-8", errors="replace") for document in documents]
    return frozenset(canonical(address) for text in texts for address in addresses_in(text)) - {None}
