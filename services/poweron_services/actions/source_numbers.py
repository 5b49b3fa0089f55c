"""Sources: the web pages that texts come from, under the numbers by which an answer cites them.

When texts are combined, each page gets one number, regardless of its number in each text.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

import orjson

from poweron_events.event import MAX_SOURCES, CitedSource, WebPage
from poweron_services.actions.action import InputDocument
from poweron_services.decider.size_limits import SOURCES_BUDGET, fitting
from poweron_services.models.prompts import OutputFormat, SourceText
from poweron_services.text.citations import cited_numbers, renumbered, with_list, without_list
from poweron_services.text.statements import strings_in

MARKDOWN: Final = "text/markdown"
JSON: Final = "application/json"
SHORT_TITLE: Final = 60  # characters, if full titles would take too much room
MAX_UNKNOWN: Final = 10  # numbers named in a note

_JSON_TEXT: Final = re.compile(r'"(?:[^"\\]|\\.)*+"')


@dataclass(slots=True)
class SourceNumbers:
    """The pages that texts come from or cite, each with one number, regardless of its number before."""

    sources: list[CitedSource] = field(default_factory=list)
    """In the order of their numbers, which start at 1."""

    def number(self, page: WebPage, text: str) -> int:
        """Return the number of a page; `text` is the commitment of its text, and each text has its own number."""
        key = (page.url, page.sha256, text)
        matches = (source.n for source in self.sources if (source.page.url, source.page.sha256, source.text) == key)
        if (known := next(matches, None)) is not None:
            return known
        self.sources.append(CitedSource(n=len(self.sources) + 1, page=page, text=text))
        return len(self.sources)

    def taken_over(self, text: str, sources: Sequence[CitedSource], mime_type: str) -> str:
        """Return a text that cites these sources, without its list of them and with the numbers that they have here."""
        numbers = {source.n: self.number(source.page, source.text) for source in sources}
        if not numbers:
            return text
        if mime_type == JSON:
            return _renumber_json(text, numbers)
        return renumbered(without_list(text, sources), numbers)


def _renumber_json(text: str, numbers: Mapping[int, int]) -> str:
    """Renumber citations in the strings of JSON; outside strings, a number in brackets is a list of one number."""

    def change(match: re.Match[str]) -> str:
        value = orjson.loads(match[0])
        result = renumbered(value, numbers)
        return match[0] if result == value else orjson.dumps(result).decode()

    return _JSON_TEXT.sub(change, text) if strings_in(text) else text


def numbered(pairs: Iterable[tuple[InputDocument, SourceText]]) -> tuple[list[SourceText], tuple[CitedSource, ...]]:
    """Return the texts of documents with the numbers of their sources, pages first, and what the numbers mean."""
    numbers, pairs = SourceNumbers(), list(pairs)
    for document, _ in pairs:
        if document.page is not None:
            numbers.number(document.page, document.content)
    return [_number_text(document, text, numbers) for document, text in pairs], tuple(numbers.sources)


def _number_text(document: InputDocument, text: SourceText, numbers: SourceNumbers) -> SourceText:
    if document.page is not None:
        return replace(text, number=numbers.number(document.page, document.content), page=document.page)
    if not document.sources or document.mime_type != MARKDOWN:
        return text
    own_text = numbers.taken_over(text.text, document.sources, document.mime_type)
    cites = (numbers.number(source.page, source.text) for source in document.sources)
    return replace(text, text=own_text, cites=tuple(dict.fromkeys(cites)))


class CitedAnswer(NamedTuple):
    """What a model wrote, with the sources that it cites."""

    text: str
    sources: tuple[CitedSource, ...]
    notes: tuple[str, ...]


def cited_answer(
    written: str, sources: Sequence[CitedSource], output_format: OutputFormat, language: str | None
) -> CitedAnswer:
    """Return what a model wrote from pages; only markdown gets a list, and numbers from 1 in the order of the text."""
    if not sources:
        return CitedAnswer(written, (), ())
    numbers = cited_numbers("\n\n".join(strings_in(written)) if output_format == "json" else written)
    cited = [source for number in numbers for source in sources if source.n == number]
    notes = _remarks(numbers, cited, sources)
    if output_format == "markdown":
        written = renumbered(written, {source.n: place for place, source in enumerate(cited, start=1)})
        cited = [source.model_copy(update={"n": place}) for place, source in enumerate(cited, start=1)]
    cited_sources = with_short_titles(cited)
    listed = fitting(cited_sources[:MAX_SOURCES], SOURCES_BUDGET)
    if len(listed) < len(cited_sources):
        notes.append(
            f"Only the first {len(listed)} of {len(cited_sources)} sources can be checked; there is no room for more."
        )
    return CitedAnswer(
        with_list(written, cited_sources, language) if output_format == "markdown" else written,
        listed,
        tuple(notes),
    )


def _remarks(numbers: Sequence[int], cited: Sequence[CitedSource], sources: Sequence[CitedSource]) -> list[str]:
    unknown = [number for number in numbers if number not in {source.n for source in sources}]
    notes: list[str] = []
    if not cited:
        notes.append(f"The answer cites none of the {len(sources)} pages that it could be from.")
    if unknown:
        marks = ", ".join(f"[{number}]" for number in unknown[:MAX_UNKNOWN])
        notes.append(f"The answer cites {marks}, which none of its sources is.")
    return notes


def with_short_titles(sources: Sequence[CitedSource]) -> Sequence[CitedSource]:
    """Return the sources, with shorter titles if that lets more of them fit into an event."""
    if len(fitting(sources, SOURCES_BUDGET)) == len(sources):
        return sources
    pages = (source.page.model_copy(update={"title": source.page.title[:SHORT_TITLE]}) for source in sources)
    return [source.model_copy(update={"page": page}) for source, page in zip(sources, pages, strict=True)]
