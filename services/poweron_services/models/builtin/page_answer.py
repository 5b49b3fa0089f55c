"""Answers that quote web pages: the words of each page in quotation marks, with the number of the page.

Quotes are verbatim, so that users can find them on the page.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from poweron_services.models.builtin.page_search import PageSearch
from poweron_services.models.builtin.passage_search import Finding, RankedStatement
from poweron_services.models.builtin.passages import Library, Passage
from poweron_services.models.builtin.phrases import say
from poweron_services.models.builtin.sources import SourcePlace
from poweron_services.models.builtin.web_choice import query, without_addresses

LONGEST = 400  # characters of a quote
MOST_QUOTES = 6  # quotes of one page in a report
MAX_QUESTION = 500  # characters of a question that a refusal repeats

_MARKUP = re.compile(r"([\\`*<\[\]])")
_INNER: Final = str.maketrans({"“": "\u2018", "”": "\u2019", '"': "'"})


def answer(findings: Sequence[Finding], language: str, refusing: str) -> str:
    """Return the findings as markdown, grouped by page; `refusing` is the phrase if there are none."""
    return "\n\n".join(part for chain in _chains(findings) for part in _chain(chain, language, refusing))


def source(statement: RankedStatement, place: SourcePlace) -> str:
    """Return a page's words and number, as the source in JSON or CSV; for a document, its place."""
    return quoted(replace(statement, places=(place,))) if place.number else str(place)


def digest(library: Library, text_language: str, request: str, language: str) -> str:
    """Return what the pages say about a request, page by page; "" if nothing is relevant."""
    search, about = PageSearch(library, text_language), query(request)
    pages: dict[str, list[Passage]] = {}
    for passage in search.telling(without_addresses(about)):
        pages.setdefault(passage.place.source, []).append(passage)
    sections = [
        "\n\n".join(
            [
                f"## {_escape(passages[0].place.document)}",
                "\n".join(f"- {_passage(passage)}" for passage in _best(passages)),
            ]
        )
        for passages in pages.values()
    ]
    title = _escape(" ".join(about.split()))
    return "\n\n".join([f"# {say('pages_on', language, about=title)}", *sections]) if sections else ""


def _chains(findings: Sequence[Finding]) -> Iterator[list[Finding]]:
    """Yield the findings in groups: a question and those that continue it."""
    chain: list[Finding] = []
    for finding in findings:
        if chain and not finding.goes_on:
            yield chain
            chain = []
        chain.append(finding)
    if chain:
        yield chain


def _chain(chain: list[Finding], language: str, refusing: str) -> Iterator[str]:
    """Yield a list of pages: what each says about the first question, then about those that continue it."""
    if not chain[0].statements:
        yield from (_refusal(finding, language, refusing) for finding in chain)
        return
    page_maps = [_by_source(finding) for finding in chain]
    lines = []
    for source, place in {source: place for page_map in page_maps for source, (place, _) in page_map.items()}.items():
        quotes = [quote for page_map in page_maps if source in page_map for quote in page_map[source][1]]
        unsaid = [
            finding.question for finding, page_map in zip(chain, page_maps, strict=True) if source not in page_map
        ]
        refusals = [say("page_not_said", language, question=_shorten(question)) for question in unsaid]
        lines.append(_of_page(place, [*dict.fromkeys(quotes), *refusals]))
    yield lines[0] if len(lines) == 1 and "\n" not in lines[0] else "\n".join(f"- {line}" for line in lines)


def _by_source(finding: Finding) -> dict[str, tuple[SourcePlace, list[str]]]:
    """Return the quotes from each source; words that two pages share are quoted once, with both numbers."""
    pages: dict[str, tuple[SourcePlace, list[str]]] = {}
    for statement in finding.statements:
        place = statement.places[0]
        pages.setdefault(place.source, (place, []))[1].append(quoted(statement))
    return pages


def _of_page(place: SourcePlace, quotes: list[str]) -> str:
    title = _escape(place.document)
    return (
        f"{title}: {quotes[0]}" if len(quotes) == 1 else "\n".join([f"{title}:", *(f"  - {quote}" for quote in quotes)])
    )


def _refusal(finding: Finding, language: str, phrase: str) -> str:
    """Return the closest quotes, marked as no answer; if nothing is close, a plain refusal."""
    question = _shorten(finding.question)
    if not finding.closest:
        return say(phrase, language, question=question)
    close = "\n".join(f"- {_of_page(statement.places[0], [quoted(statement)])}" for statement in finding.closest)
    return f"{say('closest', language, question=question)}\n\n{close}"


def quoted(statement: RankedStatement) -> str:
    """Quote a statement with its citations: the number of a page, or the name of a document."""
    words = statement.words or (("", statement.value),)
    numbers = "".join(dict.fromkeys(_citation(place) for place in statement.places))
    return f"{', '.join(_labelled_quote(label, text) for label, text in words)}{numbers}"


def _passage(passage: Passage) -> str:
    return quoted(RankedStatement(passage.label, passage.value, (passage.place,), passage.words))


def _citation(place: SourcePlace) -> str:
    return f" [{place.number}]" if place.number else f" — {_escape(str(place))}"


def _labelled_quote(label: str, text: str) -> str:
    short_text = text if len(text) <= LONGEST else f"{text[:LONGEST].rpartition(' ')[0]} …"
    quote = f"“{_escape(short_text.translate(_INNER))}”"
    return f"{_escape(label)}: {quote}" if label else quote


def _best(passages: list[Passage]) -> list[Passage]:
    """Return the most relevant passages, in page order."""
    return sorted(passages[:MOST_QUOTES], key=lambda passage: passage.order)


def _shorten(question: str) -> str:
    return " ".join(question.split())[:MAX_QUESTION]


def _escape(text: str) -> str:
    """Escape a text, so that it is not read as markup or as the number of a source."""
    return _MARKUP.sub(r"\\\1", text)
