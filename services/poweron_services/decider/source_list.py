"""The list of sources below an answer: title, address and day of every page that it cites.

It is a part of the answer's text, and is taken off before the text is shown to a model or joined to others, so that
each text names the sources that it has then.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from poweron_events.event import CitedSource, WebPage
from poweron_services.decider.language_detection import detect

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
    """The list under its heading, in the language if it is known here."""
    heading, fetched = _WORDS.get(language[:2], _WORDS["en"])
    return "\n".join([f"## {heading}", "", *(f"- [{source.n}] {_told(source.page, fetched)}" for source in sources)])


def with_list(text: str, sources: Sequence[CitedSource], language: str | None) -> str:
    """The text and below it the list of its sources, in the language of the user or, if nobody knows it, its own."""
    if not sources:
        return text
    return f"{text.rstrip()}\n\n{source_list(sources, language or detect(text) or 'en')}\n"


def without_list(text: str, sources: Sequence[CitedSource]) -> str:
    """The text without the list that `with_list` has put below it, in whichever language and of however many more."""
    for language in _WORDS if sources else ():
        before, found, more = text.rpartition(f"\n\n{source_list(sources, language)}\n")
        if found and all(line.startswith("- [") for line in more.splitlines()):
            return before
    return text


def place_in(locator: str, language: str) -> str:
    """A place of a document such as “page 2” in the language, if it is known here."""
    kind, space, which = locator.partition(" ")
    return f"{_PLACES.get(language[:2], {}).get(kind, kind)}{space}{which}"


def places_shown(locators: Iterable[str]) -> dict[str, str]:
    """The places of a document by what `place_in` makes of them in any language, in lower case."""
    return {place_in(locator, language).casefold(): locator for locator in locators for language in _WORDS}


def document_sources(lines: Sequence[str], language: str, *, first: int = 1, heading: bool = True) -> str:
    """Documents and their places, a line each, numbered like pages and below them; "" where there are none."""
    if not lines:
        return ""
    told = "\n".join(f"- [{number}] {_plain(line)}" for number, line in enumerate(lines, start=first))
    return f"## {_WORDS.get(language[:2], _WORDS['en'])[0]}\n\n{told}" if heading else told


def without_document_sources(text: str) -> tuple[str, dict[int, str]]:
    """A text without the list of documents that stands below it, and what that says by its numbers."""
    before, found, below = text.rstrip().rpartition("\n\n## ")
    heading, _, listed = below.partition("\n\n")
    lines = [_NUMBERED.fullmatch(line) for line in listed.splitlines()]
    if not found or heading not in {words[0] for words in _WORDS.values()} or not lines or not all(lines):
        return text, {}
    return before, {int(line[1]): _UNESCAPED.sub(r"\1", line[2]) for line in lines if line}


def _plain(text: str) -> str:
    return _SIGNS.sub(r"\\\1", " ".join(text.split()))


def _told(page: WebPage, fetched: str) -> str:
    """Title, address and day; what the title says is text, whatever it looks like."""
    title = _plain(page.title)
    address = page.url.replace("<", "%3C").replace(">", "%3E")
    return f"{title + ', ' if title else ''}<{address}>, {fetched} {page.fetched_at[:10]}"
