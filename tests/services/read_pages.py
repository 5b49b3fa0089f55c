"""Pages of the web for the tests, as if they had been fetched, and the door through which they are read."""

import hashlib
import random
from typing import Final, Protocol

import psutil
from papers import command

from poweron_events.catalog import ExtractDepth, PageFormat
from poweron_services.connectors.page_child import CHILD, PageText, ReadPage
from poweron_services.connectors.web.page_cache import FetchedPage

ADDRESS: Final = "https://museum.example/visit/hours"
WORDS: Final = [
    "museum",
    "clock",
    "hour",
    "visitor",
    "river",
    "mill",
    "tower",
    "collection",
    "restored",
    "painting",
    "garden",
    "ticket",
    "guide",
    "exhibition",
    "history",
    "wheel",
    "spring",
    "escapement",
    "pendulum",
    "maker",
    "city",
    "archive",
    "letter",
    "family",
    "workshop",
    "brass",
    "silver",
    "night",
    "morning",
    "winter",
]


def fetched(body: str | bytes, *, url: str = ADDRESS, content_type: str = "text/html; charset=utf-8") -> FetchedPage:
    data = body.encode() if isinstance(body, str) else body
    digest = hashlib.sha256(data).hexdigest()
    headers = {"content-type": content_type} if content_type else {}
    return FetchedPage(url, url, 200, headers, data, "2026-11-23T10:00:00Z", digest, "kept")


class ReadForTest(Protocol):
    async def __call__(
        self,
        body: str | bytes,
        *,
        depth: ExtractDepth = "basic",
        text_format: PageFormat = "markdown",
        url: str = ADDRESS,
        content_type: str = "text/html; charset=utf-8",
    ) -> PageText: ...


def reading(read: ReadPage) -> ReadForTest:
    async def read_page(
        body: str | bytes,
        *,
        depth: ExtractDepth = "basic",
        text_format: PageFormat = "markdown",
        url: str = ADDRESS,
        content_type: str = "text/html; charset=utf-8",
    ) -> PageText:
        return await read(fetched(body, url=url, content_type=content_type), depth=depth, text_format=text_format)

    return read_page


def article(number: int) -> bytes:
    """A page of 37 kB as they are: menus twice, scripts, an article with headings, links and a table, teasers."""
    chance = random.Random(number)

    def sentence(words: int) -> str:
        return " ".join(chance.choice(WORDS) for _ in range(words)).capitalize() + ". "

    menu = "".join(f"<li><a href='/section/{place}'>{chance.choice(WORDS)}</a></li>" for place in range(40))
    text = "".join(
        f"<h2>{sentence(4)}</h2>" * (place % 5 == 0)
        + f"<p class='text'>{sentence(14)}<a href='/{place}'>{chance.choice(WORDS)}</a> {sentence(43)}</p>"
        for place in range(40)
    )
    rows = "".join(f"<tr><td>{chance.choice(WORDS)}</td><td>{chance.randrange(99)} euros</td></tr>" for _ in range(20))
    teasers = "".join(f"<div class='teaser'><a href='/r/{place}'>{sentence(6)}</a></div>" for place in range(12))
    return (
        f"<!doctype html><html lang='en'><head><title>Page {number} - Museums</title>"
        f"<script>{'var x = 1;' * 800}</script><style>{'.a{b:c}' * 800}</style></head>"
        f"<body><header><nav><ul>{menu}</ul></nav></header><div class='content'><article><h1>Page {number}</h1>"
        f"{text}<table>{rows}</table></article></div><aside>{teasers}</aside><footer><ul>{menu}</ul></footer></body></html>"
    ).encode()


def reading_pages() -> list[psutil.Process]:
    """The processes in which pages are read now, and those that wait for the next."""
    return [child for child in psutil.Process().children() if CHILD in command(child)]
