"""Citations: the `[n]` in a markdown text, found and renumbered. Code contains no citations.

`[1, 3]` and `[1-3]` cite several; brackets behind a backslash are text, not a citation. One parser decides what is code
and what is text, both for reading and for renumbering: if one took for code what the other took for a citation, a page
could use the difference to speak for another page.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import count
from typing import Final, NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token

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
