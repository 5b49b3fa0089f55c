"""The statements of an answer that cite sources: which numbers each cites, and the words that it quotes from them."""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final, NamedTuple

import orjson
from markdown_it import MarkdownIt
from markdown_it.token import Token

from poweron_services.decider.citations import MARK, numbers_of
from poweron_services.decider.sentence_segments import segments

MOST_QUOTES: Final = 4_000  # of one paragraph

_BRACKET: Final = "\ue000"  # a bracket that begins no citation, while the text is cut into sentences
_FIRST_QUOTE: Final = 0xE100  # likewise, a character for each quote, and behind it the end of its sentence
_ENDS: Final = ".!?\u2026"
_HIDDEN: Final = re.compile(f"([\ue100-\uf8ff])[{_ENDS}]?")
_PRIVATE: Final = re.compile("[\ue000-\uf8ff]")
_QUOTED: Final = re.compile(r"“([^“”]+)”|„([^„“”]+)[“”]|«([^«»]+)»|»([^«»]+)«|「([^「」]+)」|\"([^\"]+)\"", re.DOTALL)
_LINK: Final = re.compile(r"!?\[(\[?[^\[\]]{0,500}\]?)\]\((?:[^()\s]|\([^()\s]*\)){0,2048}(?:\s\"[^\"]{0,300}\")?\)")
_MARK: Final = re.compile(MARK)
_MARKS: Final = re.compile(rf"(?:\s*{MARK})+")
_DEFINED: Final = re.compile(rf"\s*{MARK}:\s")  # a list of sources that a model wrote itself
_LEADING: Final = re.compile(rf"\s*(?:{MARK}\s*)+")
_END_WITH_MARKS: Final = re.compile(rf"[.!?\u2026\u3002][\"”“»«」]?(?:\s*{MARK})+[ \t]+(?=[^\sa-z\[])")


class Quote(NamedTuple):
    """Words that a statement quotes, and the numbers that it cites for them."""

    text: str
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence, a row of a table or a block quote that cites something; its text is without the marks."""

    text: str
    numbers: tuple[int, ...]
    quotes: tuple[Quote, ...]


class _Block(NamedTuple):
    """A paragraph, a heading or a row of a table."""

    text: str
    is_quote: bool = False
    is_row: bool = False


def statements(text: str, mime_type: str = "text/markdown", *, language: str = "en") -> list[Statement]:
    """The statements of an answer that cite at least one number."""
    found: list[Statement] = []
    told: Statement | None = None  # what announces the block quote that follows it
    for block in _blocks(text, mime_type):
        if block.is_quote and told is not None and not _MARK.search(block.text):
            found[-1] = replace(told, quotes=(*told.quotes, Quote(_plain(block.text), told.numbers)))
            told = None
            continue
        cut = list(_statements(block, language))
        found += [each for each in cut if each.numbers]
        told = cut[-1] if cut and cut[-1].numbers and cut[-1].text.endswith(":") else None
    return found


def _blocks(text: str, mime_type: str) -> Iterable[_Block]:
    text = _PRIVATE.sub("\ufffd", text)
    if mime_type == "application/json":
        return [block for value in strings_in(text) for block in _markdown_blocks(value)]
    if mime_type == "text/csv":
        return [_Block(" | ".join(filter(None, row)), is_row=True) for row in csv.reader(io.StringIO(text))]
    return _markdown_blocks(text)


def strings_in(text: str) -> list[str]:
    """All texts within a text that is JSON; numbers in brackets outside of them are a list of numbers."""
    try:
        return list(_strings(orjson.loads(text)))
    except orjson.JSONDecodeError:
        return []


def _strings(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            for item in value:
                yield from _strings(item)
        case dict():
            for item in value.values():
                yield from _strings(item)


@cache
def _parser() -> MarkdownIt:
    """An escaped bracket can be told from one that is not, and `[1]: …` defines nothing.

    Links are left to `_LINK`: the parser takes long where brackets open and never close.
    """
    rules = ["reference", "text_join", "link", "image"]
    return MarkdownIt("commonmark", {"html": False}).enable("table").disable(rules)


def _markdown_blocks(text: str) -> Iterator[_Block]:
    quoted, row = 0, None
    for token in _parser().parse(text):
        quoted += (token.type == "blockquote_open") - (token.type == "blockquote_close")
        if token.type == "tr_open":
            row = list[str]()
        elif token.type == "tr_close" and row is not None:
            yield _Block(" | ".join(filter(None, row)), is_row=True)
            row = None
        elif token.type == "inline" and row is not None:
            row.append(_inline(token.children or ()))
        elif token.type == "inline":
            yield _Block(_inline(token.children or ()), is_quote=quoted > 0)


def _inline(children: Sequence[Token]) -> str:
    """The text of a paragraph; a link whose words are a number cites it."""
    parts: list[str] = []
    for child in children:
        match child.type:
            case "text":
                parts.append(child.content)
            case "text_special" | "code_inline":
                parts.append(child.content.replace("[", _BRACKET))
            case "softbreak" | "hardbreak":
                parts.append(" ")
    return _LINK.sub(lambda found: f"[{found[1]}]" if found[1].isdecimal() else found[1], "".join(parts))


def _statements(block: _Block, language: str) -> Iterator[Statement]:
    if _DEFINED.match(block.text):
        return
    if not _MARK.search(block.text):
        yield Statement(_plain(block.text), (), ())
        return
    quotes: list[str] = []

    def kept(found: re.Match[str]) -> str:
        """A quote as one character, and its last, so that no sentence ends within it."""
        inside = next(filter(None, found.groups()))
        if len(quotes) >= MOST_QUOTES or not re.search(r"\w", inside) or _MARK.search(inside):
            return found[0]
        quotes.append(inside)
        end = inside[-1] if inside[-1] in _ENDS else ""
        return f"{found[0][0]}{chr(_FIRST_QUOTE + len(quotes) - 1)}{end}{found[0][-1]}"

    hidden = _QUOTED.sub(kept, block.text)
    for sentence in [hidden] if block.is_row or block.is_quote else _sentences(hidden, language):
        found = _quotes(sentence, quotes)
        if block.is_quote and not found:
            found = [Quote(_plain(sentence), _numbers(sentence))]
        yield Statement(_plain(_shown(sentence, quotes)), _numbers(sentence), tuple(found))


def _sentences(text: str, language: str) -> list[str]:
    """The sentences; citations behind the full stop are of the sentence before it."""
    found: list[str] = []
    for segment in segments(text, language[:2]):
        for part in _split(segment):
            leading = _LEADING.match(part)
            of_the_last = leading[0] if leading and found and not _MARK.search(found[-1]) else ""
            if of_the_last:
                found[-1] += of_the_last
            found.append(part[len(of_the_last) :])
    return [part for part in found if part.strip()]


def _split(segment: str) -> list[str]:
    """A segment, cut where citations behind a full stop end a sentence."""
    ends = [found.end() for found in _END_WITH_MARKS.finditer(segment)]
    return [segment[begin:end] for begin, end in zip([0, *ends], [*ends, len(segment)], strict=True)]


def _quotes(sentence: str, quotes: Sequence[str]) -> list[Quote]:
    """The quotes of a sentence, each with the citations that follow it, else with those before it."""
    groups = [(found.start(), _numbers(found[0])) for found in _MARKS.finditer(sentence)]
    found: list[Quote] = []
    for place, character in enumerate(sentence):
        number = ord(character) - _FIRST_QUOTE
        if groups and 0 <= number < len(quotes):
            behind = next((numbers for start, numbers in groups if start > place), groups[-1][1])
            text = quotes[number].replace(_BRACKET, "[")
            found.append(Quote(" ".join(text.split()), behind))
    return found


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(dict.fromkeys(number for mark in _MARK.findall(text) for number in numbers_of(mark)))


def _shown(sentence: str, quotes: Sequence[str]) -> str:
    """A sentence with its quotes again in place of the characters that stood for them."""
    return _HIDDEN.sub(lambda found: quotes[ord(found[1]) - _FIRST_QUOTE], sentence)


def _plain(text: str) -> str:
    """A text on one line without the marks."""
    without = re.sub(rf"\s*{MARK}", "", text).replace(_BRACKET, "[")
    return " ".join(without.split()).strip("| ")
