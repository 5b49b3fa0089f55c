"""Citations: the `[n]` in a markdown text, found and renumbered, and the list of sources below an answer.

`[1, 3]` and `[1-3]` cite several; brackets after a backslash are text, not a citation. Code contains no citations.
One parser decides what is code and what is text, both for reading and for renumbering: if one took for code what the
other took for a citation, a page could use the difference to speak for another page.

The list has the title, address and day of every page that the answer cites. It is part of the answer's text, and is
removed before the text is shown to a model or joined with others, so that each text lists the sources that it cites
at that point.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import count
from typing import Final, NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token

from poweron_events.event import CitedSource, WebPage
from poweron_services.text.language_detection import detect

MOST_IN_A_RANGE: Final = 20

_GAP: Final = r"\s{0,3}"
_PART: Final = rf"\d{{1,3}}(?:{_GAP}[-\u2013]{_GAP}\d{{1,3}})?"
MARK: Final = rf"\[{_GAP}{_PART}(?:{_GAP}[,;]{_GAP}{_PART})*{_GAP}\]"
"""The pattern of a citation."""

BRACKET: Final = "\ue000"  # replaces a bracket that does not begin a citation
PRIVATE: Final = re.compile("[\ue000-\uf8ff]")  # private-use characters, which no text needs

_EDGE: Final = "\ue001"  # encloses the index of each possible mark while a text is parsed
_MARK: Final = re.compile(MARK)
_PLACED: Final = re.compile(MARK.replace(r"\[", rf"\[(?:{_EDGE}(\d+){_EDGE})?", 1))
_PLACES: Final = re.compile(rf"{_EDGE}\d+{_EDGE}")
_LINK: Final = re.compile(r"!?\[(\[?[^\[\]]{0,500}\]?)\]\((?:[^()\s]|\([^()\s]*\)){0,2048}(?:\s\"[^\"]{0,300}\")?\)")
_PARTS: Final = re.compile(r"(\d+)(?:\s*[-\u2013]\s*(\d+))?")


def numbers_of(mark: str) -> tuple[int, ...]:
    """The numbers that one citation means: 1, 4, 5 and 6 for `[1, 4-6]`."""
    numbers: list[int] = []
    for first, last in _PARTS.findall(mark):
        begin, end = int(first), int(last or first)
        numbers += range(begin, min(end, begin + MOST_IN_A_RANGE) + 1) if end >= begin else (begin, end)
    return tuple(dict.fromkeys(numbers))


class Block(NamedTuple):
    """A paragraph, a heading or a row of a table."""

    text: str
    is_quote: bool = False
    is_row: bool = False


def cited_numbers(text: str) -> tuple[int, ...]:
    """All numbers that a text cites, each once, in order of appearance."""
    citing = _citing(text)
    marks = (match[0] for place, match in enumerate(_MARK.finditer(text)) if place in citing)
    return tuple(dict.fromkeys(number for mark in marks for number in numbers_of(mark)))


def renumbered(text: str, numbers: Mapping[int, int]) -> str:
    """Renumber the citations of a text; a number without a new one becomes plain text, so it cites no other page."""
    citing, places = _citing(text), count()

    def change(match: re.Match[str]) -> str:
        if next(places) not in citing:
            return match[0]
        citation = numbers_of(match[0])
        return "".join(f"[{numbers[number]}]" if number in numbers else rf"\[{number}\]" for number in citation)

    return _MARK.sub(change, text)


def blocks(text: str) -> Iterator[Block]:
    """Yield the blocks of a markdown text, in which only citations look like citations."""
    for block in _placed_blocks(text):
        marked_text = _PLACED.sub(lambda match: match[0] if match[1] else BRACKET + match[0][1:], block.text)
        yield block._replace(text=_PLACES.sub("", marked_text))


def _citing(text: str) -> set[int]:
    """The marks of a text that are citations, as indexes into all its marks."""
    if not _MARK.search(text):
        return set()
    marks = (match for block in _placed_blocks(text) for match in _PLACED.finditer(block.text))
    return {int(mark[1]) for mark in marks if mark[1]}


def _placed_blocks(text: str) -> Iterator[Block]:
    """Yield the blocks of a text, with its index inside each mark."""
    places = count()
    plain = PRIVATE.sub("\ufffd", text)
    return _parse(_MARK.sub(lambda match: f"[{_EDGE}{next(places)}{_EDGE}{match[0][1:]}", plain))


def _parse(text: str) -> Iterator[Block]:
    depth, row = 0, None
    for token in _parser().parse(text):
        depth += (token.type == "blockquote_open") - (token.type == "blockquote_close")
        if token.type == "tr_open":
            row = list[str]()
        elif token.type == "tr_close" and row is not None:
            yield Block(" | ".join(filter(None, row)), is_row=True)
            row = None
        elif token.type == "inline" and row is not None:
            row.append(_inline(token.children or ()))
        elif token.type == "inline":
            yield Block(_inline(token.children or ()), is_quote=depth > 0)


@cache
def _parser() -> MarkdownIt:
    """A parser that tells escaped brackets from others and takes `[1]: …` for text.

    Links are left to `_LINK`: the parser is slow if brackets open and never close.
    """
    rules = ["reference", "text_join", "link", "image"]
    return MarkdownIt("commonmark", {"html": False}).enable("table").disable(rules)


def _inline(children: Sequence[Token]) -> str:
    """The text of a paragraph; a link whose text is a number cites that number."""
    parts: list[str] = []
    for child in children:
        match child.type:
            case "text":
                parts.append(child.content)
            case "text_special" | "code_inline":
                parts.append(child.content.replace("[", BRACKET))
            case "softbreak" | "hardbreak":
                parts.append(" ")
    return _LINK.sub(lambda match: f"[{match[1]}]" if match[1].startswith(_EDGE) else match[1], "".join(parts))


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
_PLACE_NAMES: Final = {"de": {"page": "Seite", "sheet": "Tabelle", "slide": "Folie", "section": "Abschnitt"}}
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
    return f"{_PLACE_NAMES.get(language[:2], {}).get(kind, kind)}{space}{which}"


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
