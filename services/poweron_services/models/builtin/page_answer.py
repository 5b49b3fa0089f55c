"""What pages of the web say, as an answer shows it: their words between quotation marks, each with its number.

A quote stands so in the page, so that anybody can look for it there.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from poweron_services.models.builtin.page_search import PageSearch
from poweron_services.models.builtin.passage_search import Finding, Statement
from poweron_services.models.builtin.passages import Library, Passage
from poweron_services.models.builtin.phrases import say
from poweron_services.models.builtin.sources import Place
from poweron_services.models.builtin.web_choice import query, without_addresses

LONGEST = 400  # characters of a quote
MOST_QUOTES = 6  # of a page in a report
MAX_QUESTION = 500  # characters of a question that a refusal repeats

_MARKUP = re.compile(r"([\\`*<\[\]])")
_INNER: Final = str.maketrans({"“": "\u2018", "”": "\u2019", '"': "'"})


def answer(findings: Sequence[Finding], language: str, refusing: str) -> str:
    """The findings as markdown, by pages; `refusing` is the phrase where there is none."""
    return "\n\n".join(part for chain in _chains(findings) for part in _chain(chain, language, refusing))


def source(statement: Statement, place: Place) -> str:
    """The words of a page and its number, as they stand beside an answer in another format; else the place."""
    return quoted(replace(statement, places=(place,))) if place.number else str(place)


def digest(held: Library, spoken: str, request: str, language: str) -> str:
    """What the pages say that has to do with a request, page by page; "" where nothing has."""
    search, about = PageSearch(held, spoken), query(request)
    pages: dict[str, list[Passage]] = {}
    for passage in search.telling(without_addresses(about)):
        pages.setdefault(passage.place.source, []).append(passage)
    written = [
        "\n\n".join([f"## {_escaped(told[0].place.document)}", "\n".join(f"- {_passage(one)}" for one in _best(told))])
        for told in pages.values()
    ]
    title = _escaped(" ".join(about.split()))
    return "\n\n".join([f"# {say('pages_on', language, about=title)}", *written]) if written else ""


def _chains(findings: Sequence[Finding]) -> Iterator[list[Finding]]:
    """The questions, each with those that go on from it."""
    chain: list[Finding] = []
    for finding in findings:
        if chain and not finding.goes_on:
            yield chain
            chain = []
        chain.append(finding)
    if chain:
        yield chain


def _chain(chain: list[Finding], language: str, refusing: str) -> Iterator[str]:
    """A list by pages: what each says to the first question, then to those that go on from it."""
    if not chain[0].statements:
        yield from (_refusal(finding, language, refusing) for finding in chain)
        return
    said = [_by_source(finding) for finding in chain]
    lines = []
    for source, place in {source: place for each in said for source, (place, _) in each.items()}.items():
        quotes = [quote for each in said if source in each for quote in each[source][1]]
        unsaid = [finding.question for finding, each in zip(chain, said, strict=True) if source not in each]
        refused = [say("page_not_said", language, question=_shortened(question)) for question in unsaid]
        lines.append(_of_page(place, [*dict.fromkeys(quotes), *refused]))
    yield lines[0] if len(lines) == 1 and "\n" not in lines[0] else "\n".join(f"- {line}" for line in lines)


def _by_source(finding: Finding) -> dict[str, tuple[Place, list[str]]]:
    """What is quoted from each source; the same words on two pages are given once, with both numbers."""
    found: dict[str, tuple[Place, list[str]]] = {}
    for statement in finding.statements:
        place = statement.places[0]
        found.setdefault(place.source, (place, []))[1].append(quoted(statement))
    return found


def _of_page(place: Place, said: list[str]) -> str:
    title = _escaped(place.document)
    return f"{title}: {said[0]}" if len(said) == 1 else "\n".join([f"{title}:", *(f"  - {one}" for one in said)])


def _refusal(finding: Finding, language: str, phrase: str) -> str:
    """What comes closest, told apart from an answer; where nothing is near, that the pages do not say it."""
    question = _shortened(finding.question)
    if not finding.closest:
        return say(phrase, language, question=question)
    close = "\n".join(f"- {_of_page(one.places[0], [quoted(one)])}" for one in finding.closest)
    return f"{say('closest', language, question=question)}\n\n{close}"


def quoted(statement: Statement) -> str:
    """The words of a statement, cited: a page by its number, a document by its name."""
    words = statement.words or (("", statement.value),)
    numbers = "".join(dict.fromkeys(_cited(place) for place in statement.places))
    return f"{', '.join(_labelled(label, text) for label, text in words)}{numbers}"


def _passage(passage: Passage) -> str:
    return quoted(Statement(passage.label, passage.value, (passage.place,), passage.words))


def _cited(place: Place) -> str:
    return f" [{place.number}]" if place.number else f" — {_escaped(str(place))}"


def _labelled(label: str, text: str) -> str:
    cut = text if len(text) <= LONGEST else f"{text[:LONGEST].rpartition(' ')[0]} …"
    quote = f"“{_escaped(cut.translate(_INNER))}”"
    return f"{_escaped(label)}: {quote}" if label else quote


def _best(told: list[Passage]) -> list[Passage]:
    """The passages that tell most, in the order in which they stand in the page."""
    return sorted(told[:MOST_QUOTES], key=lambda one: one.order)


def _shortened(question: str) -> str:
    return " ".join(question.split())[:MAX_QUESTION]


def _escaped(text: str) -> str:
    """A text whose signs are shown, not read as markup or as the number of a source."""
    return _MARKUP.sub(r"\\\1", text)
