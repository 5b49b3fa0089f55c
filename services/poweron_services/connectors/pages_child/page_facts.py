"""The metadata in a page's markup: title, author, date, language, canonical address and links."""

import re
from copy import copy
from dataclasses import dataclass
from itertools import islice
from typing import Any

import ada_url
import lxml.etree  # type: ignore[import-untyped] # it has no stubs
import trafilatura

from poweron_services.connectors.documents_child.readers import clean
from poweron_services.connectors.pages_child.page_answers import LinkedPage

LINKS = 1_000  # of a page
LOOKED_AT = 5_000  # links that are examined; not all of them are web addresses
LINK_TEXT = 200  # characters
ADDRESS = 2_000  # characters
LONG = 300  # characters; a longer paragraph does not name the author or date of the page

_LANGUAGE = re.compile(r"[a-z]{2,3}(?=$|[-_])")
_LANGUAGES = ("./@lang", ".//meta[@http-equiv='content-language']/@content", ".//meta[@property='og:locale']/@content")
_CANONICAL = (".//link[@rel='canonical']/@href", ".//meta[@property='og:url']/@content")
_TELLING_NOTHING = ("nav", "aside", "footer", "table", "ul", "ol", "form", "svg", "style")
_AROUND = {"nav", "header", "footer", "aside"}


@dataclass(frozen=True, slots=True)
class PageOrigin:
    """Who wrote the page, and when."""

    title: str = ""
    author: str = ""
    published: str | None = None


def origin(root: Any, url: str) -> PageOrigin:
    """Extract the origin with trafilatura, without long or repetitive parts: searching those takes most of its time."""
    about = copy(root)
    lxml.etree.strip_elements(about, *_TELLING_NOTHING, with_tail=False)
    for paragraph in [paragraph for paragraph in about.iter("p") if len(paragraph.text_content()) > LONG]:
        paragraph.drop_tree()
    try:
        facts = trafilatura.extract_metadata(about, url, {"original_date": True, "extensive_search": False})
    except Exception:  # noqa: BLE001 - a page's metadata may break the library: its text is read all the same
        return PageOrigin(title_of(root))
    return PageOrigin(facts.title or "", facts.author or "", facts.date)


def title_of(root: Any) -> str:
    return root.findtext(".//title") or ""


def language(root: Any) -> str | None:
    """The language that the page declares, such as `en`; the declaration may be wrong."""
    for path in _LANGUAGES:
        for value in root.xpath(path):
            match = _LANGUAGE.match(value.strip().lower())
            if match:
                return match[0]
    return None


def canonical_url(root: Any, url: str) -> str | None:
    for path in _CANONICAL:
        for value in root.xpath(path):
            address = _address(value, url)
            if address:
                return address
    return None


def links(root: Any, url: str) -> list[LinkedPage]:
    """List each address once, without its fragment; links in the page's own text come before those in its menus."""
    base = next((_address(reference, url) for reference in root.xpath(".//base/@href")), None) or url
    pages: dict[str, LinkedPage] = {}
    for reference, element in islice(_linking(root).items(), LOOKED_AT):
        address = _address(reference, base).partition("#")[0]
        if address and len(pages) < LINKS:
            pages.setdefault(address, LinkedPage(address, " ".join(clean(element.text_content()).split())[:LINK_TEXT]))
    return list(pages.values())


def _linking(root: Any) -> dict[str, Any]:
    """The first element of each link, by its address as written."""
    around = {link for tag in _AROUND for part in root.iter(tag) for link in part.iter("a", "area")}
    elements: dict[str, Any] = {}
    for is_around in (False, True):
        for element in root.iter("a", "area"):
            if (element in around) is is_around and element.get("href"):
                elements.setdefault(element.get("href"), element)
    return elements


def _address(reference: str, base: str) -> str:
    """The absolute address; empty if it is not a web address or is far too long."""
    try:
        address = str(ada_url.URL(reference, base=base).href)
    except ValueError:
        return ""
    return address if address.startswith(("https://", "http://")) and len(address) <= ADDRESS else ""
