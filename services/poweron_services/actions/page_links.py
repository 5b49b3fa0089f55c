"""The addresses in pages that may be read next, the most promising first."""

from collections.abc import Collection, Iterable
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import unquote, urlsplit

from poweron_services.actions.page_addresses import comparable, same_site
from poweron_services.actions.page_gathering import GatheredPage
from poweron_services.actions.page_relevance import Relevance
from poweron_services.models.builtin.vocabulary import known_language

MAX_LINKS: Final = 20  # links of a result
MAX_LOOKED_AT: Final = 2_000
FILES: Final = frozenset({".pdf", ".docx", ".xlsx", ".pptx"})


def promising(
    pages: Iterable[GatheredPage], question: str, language: str | None, without: Collection[str] = ()
) -> list[str]:
    """Return the addresses that pages link to, each once; those whose words fit the question come first."""
    told: dict[str, str] = {}
    for page in pages:
        for link in page.text.links[:MAX_LOOKED_AT]:
            address = comparable(link.url)
            if address and address not in without and len(told) < MAX_LOOKED_AT:
                told.setdefault(address, f"{link.text} {_words(address)}")
    scores = Relevance(told.values(), known_language(language, question)).scores(question)
    order = sorted(range(len(told)), key=lambda number: (-scores[number], number))
    addresses = [*told]
    return [addresses[number] for number in order]


def of_same_site(page: GatheredPage) -> GatheredPage:
    """Return the page with only those links that stay on its site."""
    links = tuple(link for link in page.text.links if same_site(link.url, page.page.url))
    return replace(page, text=replace(page.text, links=links))


def is_file(address: str) -> bool:
    """Return whether an address ends like that of a PDF or an office file."""
    return PurePosixPath(urlsplit(address).path.casefold()).suffix in FILES


def _words(address: str) -> str:
    return unquote(urlsplit(address).path).replace("/", " ").replace("-", " ").replace("_", " ").replace(".", " ")
