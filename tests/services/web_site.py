"""A site of the web on this machine, which actions fetch and read as they do any other.

site = WebSite(httpserver, {"/hours": page("Opening hours", "<p>Open on Mondays.</p>")}, hits=["/hours"])
done = await site.done("web.scrape", query="open on Mondays")
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from poweron_events.catalog import CATALOG
from poweron_events.content import ContentStore
from poweron_services.actions.action import Ask, Done, InputDocument, Order, Resources
from poweron_services.actions.registry import actions
from poweron_services.connectors.document_reader import DocumentReader
from poweron_services.connectors.page_reader import PageReader
from poweron_services.connectors.report_renderer import ReportRenderer
from poweron_services.connectors.search.search_provider import SearchHit, SearchQuery, SearchResults
from poweron_services.connectors.web.page_cache import FetchedPage, FetchPage, Reader
from poweron_services.connectors.web.web_rules import WebSettings
from poweron_services.connectors.web_access import open_web
from poweron_services.decider.schema_check import check_values
from poweron_services.models.call import Called
from poweron_services.models.prompts import Prompt
from poweron_services.settings.config import Settings

WORKFLOW = "7d444840-9dc0-11d1-b245-5ffdce74fad2"


def page(title: str, body: str) -> str:
    """A page in HTML."""
    return f"<html lang='en'><head><title>{title}</title></head><body><h1>{title}</h1>{body}</body></html>"


@dataclass
class WebSite:
    """Serves pages, and finds those that are named as hits; what is fetched of it is counted."""

    server: HTTPServer
    pages: Mapping[str, str | bytes | int]
    """By path: HTML, the path of another page, a PDF, or a status."""
    hits: Sequence[str] = ()
    """Paths, best first."""
    answer: str = ""
    enrich: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    fetched: list[str] = field(default_factory=list)
    asked: list[SearchQuery] = field(default_factory=list)

    def __post_init__(self) -> None:
        for path, served in ({"/robots.txt": 404} | {**self.pages}).items():
            self.server.expect_request(path).respond_with_handler(_serving(served))

    def url(self, path: str) -> str:
        """The whole address of a page."""
        return self.server.url_for(path)

    async def search(self, query: SearchQuery, /) -> SearchResults:
        """The pages that are named as hits, whatever is asked."""
        self.asked.append(query)
        hits = [SearchHit(self.url(path), path.strip("/"), f"About {path}.") for path in self.hits]
        return SearchResults("folder", tuple(hits[: query.max_results]), self.answer if query.include_answer else "")

    async def done(
        self,
        action: str,
        *documents: InputDocument,
        known: Sequence[str] = (),
        objective: str = "",
        ask: Ask | None = None,
        **parameters: Any,
    ) -> Done:
        """What an action of the registry makes of an order."""
        if "documentList" in CATALOG[action].parameter_names:
            parameters["documentList"] = [document.reference for document in documents]
        read_document = DocumentReader(2)
        resources = Resources(
            read_document, ReportRenderer(), PageReader(read_document), searches=True, enrich=self.enrich
        )
        async with actions(resources) as ours, self._fetching() as fetch:
            return await ours[action](
                Order(
                    parameters=check_values(parameters, CATALOG[action]),
                    documents=documents,
                    language="en",
                    idempotency_key="key",
                    ask=ask or nobody,
                    objective=objective,
                    fetch=fetch,
                    search=self.search,
                    known_addresses=frozenset(known),
                )
            )

    @asynccontextmanager
    async def _fetching(self) -> AsyncGenerator[FetchPage, None]:
        """The guarded client, which may ask hosts of this machine on the ports that are named."""
        allowed = {"web_private_hosts": f"localhost:{self.server.port}", "web_pause": 0, **self.settings}
        async with open_web(WebSettings.of(Settings(**allowed)), ContentStore.at("memory:///")) as web:
            fetch = partial(web.fetch, Reader(WORKFLOW, "step"))

            async def counted(url: str, /) -> FetchedPage:
                self.fetched.append(url)
                return await fetch(url)

            yield counted


async def nobody(_: Prompt) -> Called:
    """No model is asked."""
    raise AssertionError("A model was asked.")


def texts(done: Done) -> dict[str, str]:
    """The documents of a result by their names."""
    return {each.document_name: each.document_data.decode() for each in done.result.documents}


def _serving(served: str | bytes | int) -> Any:
    def respond(_: Request) -> Response:
        if isinstance(served, int):
            return Response("", status=served)
        if isinstance(served, str) and served.startswith("/"):
            return Response("", status=301, headers={"location": served})
        kind = "application/pdf" if isinstance(served, bytes) else "text/html"
        return Response(served, content_type=kind)

    return respond
