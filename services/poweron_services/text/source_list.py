"""The list of sources below an answer: title, address and day of every page that it cites.

The list is part of the answer's text. It is removed before the text is shown to a model or joined with others, so that
each text lists the sources that it cites at that point.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from poweron_events.event import CitedSource, WebPage
from poweron_services.text.language_detection import detect

_WORDS: Final = {
    "en": ("Sources", "fetched"),
    "de": ("Quellen", "abgerufen am"),
    "fr": ("Sources", "consulté le"),
    "it": ("Fonti", "consultato il"),
    "es": ("Fuentes", "consultado el"),
    "pt": ("Fontes", "consultado em"),
    "nl": ("Bronnen", "opgehaald op"),
    "ar": ("المصادر", "تاريخ الاطلاع"),
}
_PLACES: Final = {"de": {"page": "Seite", "sheet": "Tabelle", "slide": "Folie", "section": "Abschnitt"}}
_NUMBERED: Final = re.compile(r"- \[(\d{1,3})\] (.+)")
_UNESCAPED: Final = re.compile(r"\\([\\`*_\[\]<>#|~&!])")
_SIGNS: Final = re.compile(r"([\\`*_\[\]<>#|~&!])")


def source_list(sources: Sequence[CitedSource], language: str) -> str:
    """The list under its heading, in the given language if it is supported."""
    heading, fetched = _WORDS.get(language[:2], _WORDS["en"])
    return "\n".join([f"## {heading}", "", *(f"- [{source.n}] {_entry(source.page, fetched)}" for source in sources)])


def with_list(text: str, sources: Sequence[CitedSource], language: str | None) -> str:
    """The text with the list of its sources below, in the user's language or, if that is unknown, in the text's own."""
    if not sources:
        return text
    return f"{text.rstrip()}\n\n{source_list(sources, language or detect(text) or 'en')}\n"


def without_list(text: str, sources: Sequence[CitedSource]) -> str:
    """The text without the list that `with_list` appended, in any of its languages and with any further lines."""
    for language in _WORDS if sources else ():
        before, separator, more = text.rpartition(f"\n\n{source_list(sources, language)}\n")
        if separator and all(line.startswith("- [") for line in more.splitlines()):
            return before
    return text


def place_in(locator: str, language: str) -> str:
    """A place in a document, such as “page 2”, in the given language if it is supported."""
    kind, space, which = locator.partition(" ")
    return f"{_PLACES.get(language[:2], {}).get(kind, kind)}{space}{which}"


def places_shown(locators: Iterable[str]) -> dict[str, str]:
    """The places of a document, keyed by what `place_in` returns for them in any language, in lower case."""
    return {place_in(locator, language).casefold(): locator for locator in locators for language in _WORDS}


def document_sources(lines: Sequence[str], language: str, *, first: int = 1, heading: bool = True) -> str:
    """Documents and their places, one per line, numbered like pages and listed below them; "" if there are none."""
    if not lines:
        return ""
    entries = "\n".join(f"- [{number}] {_plain(line)}" for number, line in enumerate(lines, start=first))
    return f"## {_WORDS.get(language[:2], _WORDS['en'])[0]}\n\n{entries}" if heading else entries


def without_document_sources(text: str) -> tuple[str, dict[int, str]]:
    """Return a text without the list of documents at its end, and that list's lines by number."""
    before, separator, below = text.rstrip().rpartition("\n\n## ")
    heading, _, entries = below.partition("\n\n")
    lines = [_NUMBERED.fullmatch(line) for line in entries.splitlines()]
    if not separator or heading not in {words[0] for words in _WORDS.values()} or not lines or not all(lines):
        return text, {}
    return before, {int(line[1]): _UNESCAPED.sub(r"\1", line[2]) for line in lines if line}


def _plain(text: str) -> str:
    return _SIGNS.sub(r"\\\1", " ".join(text.split()))


def _entry(page: WebPage, fetched: str) -> str:
    """Title, address and day; the title is escaped, so that markup in it remains text."""
    title = _plain(page.title)
    address = page.url.replace("<", "%3C").replace(">", "%3E")
    return f"{title + ', ' if title else ''}<{address}>, {fetched} {page.fetched_at[:10]}"
