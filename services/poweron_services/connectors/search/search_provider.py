"""The interface of all search engines: a query in, hits out, with the same types for every engine.

The hits of every engine pass the same filters: domains, language, duplicates, length.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, Protocol
from urllib.parse import parse_qsl, quote, unquote_to_bytes, urlencode, urlsplit

from poweron_events.catalog import SearchDepth, TimeRange
from poweron_events.codec import writable
from poweron_services.text.language_detection import detect

Topic = Literal["general", "news", "finance"]


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """A search query: the parameters of `web.search`."""

    query: str
    max_results: int = 10
    search_depth: SearchDepth = "basic"
    time_range: TimeRange | None = None
    topic: Topic = "general"
    include_domains: tuple[str, ...] = ()
    exclude_domains: tuple[str, ...] = ()
    language: str | None = None
    include_answer: bool = False
    include_raw_content: bool = False


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A page that was found."""

    url: str
    title: str
    snippet: str = ""
    """The engine's excerpt of the page."""
    published: str | None = None
    """The date that the engine reports, such as `2026-11-23`."""
    language: str | None = None
    raw_content: str = ""
    """The text of the page, if it was requested and the engine has it."""


@dataclass(frozen=True, slots=True)
class SearchResults:
    """The hits, best first, each page once."""

    provider: str
    """The name of the engine, such as `tavily`."""
    hits: tuple[SearchHit, ...]
    answer: str = ""
    """The engine's own answer, if it was requested and the engine gives one."""
    notes: tuple[str, ...] = ()
    """Whole sentences about parameters that were not applied and results that were left out."""


class Search(Protocol):
    """Searches the web.

    Raises `Refused` with a code and a message if the engine rejects the request (key, quota, limits) or does not answer
    in time. An immediate retry would fail in the same way.
    """

    async def __call__(self, query: SearchQuery, /) -> SearchResults: ...


LONGEST_URL = 2_000  # characters; a hit with a longer address is dropped
LONGEST_TITLE, LONGEST_SNIPPET = 300, 1_000  # characters
LONGEST_ANSWER, LONGEST_RAW = 10_000, 200_000  # characters

_TRACKING: Final = re.compile(r"utm_\w+|gclid|dclid|fbclid|msclkid|yclid|igshid|mc_[ce]id|_ga|ref_src|srsltid")
_INDEX: Final = re.compile(r"/(?:index\.(?:html?|php))?$")
_TAG: Final = re.compile(r"</?[a-zA-Z][^<>]{0,200}>")


def tidied(results: SearchResults, query: SearchQuery) -> SearchResults:
    """Filter the hits by the query's domains and language, deduplicate them and limit their number.

    If no hit is in the requested language, all are kept and a note says so: what users ask in one language is often
    published only in another.
    """
    usable = [_limit(hit, query) for hit in results.hits if _is_address(hit.url)]
    within = [hit for hit in usable if _is_within(host_of(hit.url), query)]
    in_language, notes = _in_language(_once(within), query.language)
    hits = [replace(hit, title=hit.title or host_of(hit.url)) for hit in in_language[: query.max_results]]
    return replace(
        results,
        hits=tuple(hits),
        answer=_plain(results.answer, LONGEST_ANSWER) if query.include_answer else "",
        notes=(*results.notes, *notes),
    )


def host_of(url: str) -> str:
    """Return the host name of an address, in lower case."""
    return (urlsplit(url).hostname or "").rstrip(".")


def canonical(url: str) -> str:
    """Normalise an address, so that all addresses of one page compare equal.

    This drops `www.`, tracking parameters and the fragment, unless the fragment names a page, as in `#!/prices`.
    """
    parts = urlsplit(url)
    parameters = [
        (name, value)
        for name, value in parse_qsl(parts.query, keep_blank_values=True)
        if not _TRACKING.fullmatch(name.lower())
    ]
    path = _INDEX.sub("", "/".join(quote(unquote_to_bytes(part), safe="") for part in parts.path.split("/")))
    port = "" if parts.port in (None, 80, 443) else f":{parts.port}"
    page = f"#{parts.fragment}" if parts.fragment.startswith(("!", "/")) else ""
    return f"{host_of(url).removeprefix('www.')}{port}{path}?{urlencode(sorted(parameters))}{page}"


def _is_address(url: str) -> bool:
    """Return whether this can be the address of a page; the web client decides whether it may be fetched."""
    try:
        parts = urlsplit(url)
        return (
            parts.scheme in {"http", "https"}
            and bool(parts.hostname)
            and parts.port != 0
            and url.isprintable()
            and " " not in url
            and len(url) <= LONGEST_URL
        )
    except ValueError:
        return False


def _is_within(host: str, query: SearchQuery) -> bool:
    is_included = not query.include_domains or _is_under(host, query.include_domains)
    return is_included and not _is_under(host, query.exclude_domains)


def _is_under(host: str, domains: Iterable[str]) -> bool:
    return any(host == domain or host.endswith(f".{domain}") for domain in domains)


def _once(hits: Iterable[SearchHit]) -> list[SearchHit]:
    """Keep each page once, at the position of its best hit; fields missing there are filled from the other hits."""
    hits_by_key: dict[str, SearchHit] = {}
    for hit in hits:
        key = canonical(hit.url)
        hits_by_key[key] = _merge(hits_by_key[key], hit) if key in hits_by_key else hit
    return list(hits_by_key.values())


def _merge(best: SearchHit, other: SearchHit) -> SearchHit:
    return replace(
        best,
        title=best.title or other.title,
        snippet=best.snippet or other.snippet,
        published=best.published or other.published,
        language=best.language or other.language,
        raw_content=best.raw_content or other.raw_content,
    )


def _in_language(hits: Sequence[SearchHit], language: str | None) -> tuple[Sequence[SearchHit], tuple[str, ...]]:
    if language is None or not hits:
        return hits, ()
    code = _primary(language)
    matches = [hit for hit in hits if _language_of(hit) in {code, None}]
    count = len(hits) - len(matches)
    if not count:
        return hits, ()
    if not matches:
        return hits, (f"No page in the language {language!r} was found; these are in other languages.",)
    pages = "1 page in another language was" if count == 1 else f"{count} pages in other languages were"
    return matches, (f"{pages} left out.",)


def _language_of(hit: SearchHit) -> str | None:
    """The language that the engine reports, or else the one detected in the text, if it is certain."""
    return _primary(hit.language) if hit.language else detect(f"{hit.title}\n{hit.snippet}")


def _primary(language: str) -> str:
    return re.split("[-_]", language.lower(), maxsplit=1)[0]


def _limit(hit: SearchHit, query: SearchQuery) -> SearchHit:
    return replace(
        hit,
        title=_plain(hit.title, LONGEST_TITLE),
        snippet=_plain(hit.snippet, LONGEST_SNIPPET),
        raw_content=writable(hit.raw_content[:LONGEST_RAW]) if query.include_raw_content else "",
    )


def _plain(text: str, longest: int) -> str:
    """The text on one line, without the tags that engines use to highlight matches."""
    return " ".join(writable(_TAG.sub("", text)).split())[:longest]
