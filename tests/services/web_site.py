"""A site of the web on this machine, and the smallest real ways to fetch, read and search it.

site = WebSite(httpserver, {"/hours": page("Opening hours", "<p>Open on Mondays.</p>")})
done = await site.done("web.scrape", query="open on Mondays")
"""

import hashlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import httpx2
import lxml.html  # type: ignore[import-untyped] # it has no stubs
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from poweron_events.catalog import CATALOG, ExtractDepth
from poweron_events.errors import Refused
from poweron_services.actions.action import Ask, Done, InputDocument, Order, Resources
from poweron_services.actions.registry import actions
from poweron_services.connectors.document_reader import DocumentReader
from poweron_services.connectors.page_text import PageLink, PageText
from poweron_services.connectors.report_renderer import markdown_to_html
from poweron_services.connectors.search.search_provider import SearchHit, SearchQuery, SearchResults
from poweron_services.connectors.web.page import FetchedPage
from poweron_services.decider.schema_check import check_values
from poweron_services.models.call import Called
from poweron_services.models.prompts import Prompt

FETCHED_AT = "2026-11-23T10:00:00Z"


def page(title: str, body: str) -> str:
    """A page in HTML."""
    return f"<html lang='en'><head><title>{title}</title></head><body><h1>{title}</h1>{body}</body></html>"


@dataclass
class WebSite:
    """Serves pages, fetches and reads them, and finds those that are named as hits."""

    server: HTTPServer
    pages: Mapping[str, str | bytes | int]
    """By path: HTML, the path of another page, a PDF, or a status."""
    hits: Sequence[str] = ()
    """Paths, best first."""
    answer: str = ""
    fetched: list[str] = field(default_factory=list)
    asked: list[SearchQuery] = field(default_factory=list)
    closed: int = 0

    def __post_init__(self) -> None:
        for path, served in self.pages.items():
            self.server.expect_request(path).respond_with_handler(_serving(served))

    def url(self, path: str) -> str:
        """The whole address of a page."""
        return self.server.url_for(path)

    async def fetch(self, url: str, /) -> FetchedPage:
        """The page, as a guarded client would bring it."""
        self.fetched.append(url)
        async with httpx2.AsyncClient(trust_env=False, follow_redirects=True) as client:
            answer = await client.get(url)
        if answer.status_code != 200:
            raise Refused(f"The server answered with {answer.status_code}.", code="page_unavailable")
        digest = hashlib.sha256(answer.content).hexdigest()
        headers = {"content-type": answer.headers["content-type"]}
        return FetchedPage(url, str(answer.url), 200, headers, answer.content, FETCHED_AT, digest, digest)

    async def search(self, query: SearchQuery, /) -> SearchResults:
        """The pages that are named as hits, whatever is asked."""
        self.asked.append(query)
        hits = [SearchHit(self.url(path), path.strip("/"), f"About {path}.") for path in self.hits]
        return SearchResults("folder", tuple(hits[: query.max_results]), self.answer if query.include_answer else "")

    @asynccontextmanager
    async def open_pages(self) -> AsyncGenerator[Any, None]:
        """A reader in this process."""
        try:
            yield read
        finally:
            self.closed += 1

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
        resources = Resources(DocumentReader(1), markdown_to_html, self.open_pages, searches=True)
        if "documentList" in CATALOG[action].parameter_names:
            parameters["documentList"] = [document.reference for document in documents]
        async with actions(resources) as ours:
            return await ours[action](
                Order(
                    parameters=check_values(parameters, CATALOG[action]),
                    documents=documents,
                    language="en",
                    idempotency_key="key",
                    ask=ask or nobody,
                    objective=objective,
                    fetch=self.fetch,
                    search=self.search,
                    known_addresses=frozenset(known),
                )
            )


async def nobody(_: Prompt) -> Called:
    """No model is asked."""
    raise AssertionError("A model was asked.")


async def read(page: FetchedPage, *, depth: ExtractDepth, text_format: Literal["markdown", "text"]) -> PageText:
    """The paragraphs of a page and what it links to; of a PDF just its bytes."""
    if page.media_type == "application/pdf":
        return PageText(page.body.decode(), "A file")
    root = lxml.html.fromstring(page.body.decode())
    root.make_links_absolute(page.url)
    blocks = [(each.tag, " ".join(each.text_content().split())) for each in root.iter("h2", "p", "li")]
    text = "\n\n".join(f"## {words}" if tag == "h2" and text_format == "markdown" else words for tag, words in blocks)
    links = tuple(PageLink(each.get("href"), each.text_content()) for each in root.iter("a"))
    obstacle = root.get("data-obstacle")
    return PageText(text, root.findtext(".//title") or "", language="en", links=links, obstacle=obstacle)


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
