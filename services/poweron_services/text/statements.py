r"""The statements of an answer that cite sources: the numbers that each cites and the words that it quotes from them.

The library that finds the ends of sentences slows down with each character of a text that has many quotation marks or
backticks, and blocks all other threads meanwhile, so it is given a small part at a time. At a wide blank, as in
`A\u3000.`, it panics.
"""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import orjson

from poweron_projections.audit.verifier.quote_search import QUOTATION
from poweron_services.text.citations import BRACKET, MARK, PRIVATE, Block, blocks, numbers_of

WINDOW: Final = 2_000  # characters that are segmented together; a longer sentence is cut between words
_BLANK: Final = re.compile(r"\s")
_AT_FULL_STOPS: Final = re.compile(r"(?<=[\u3002\uff01\uff1f])(?![\u3002\uff01\uff1f\u300d\u300f\u201d])")
"""After Chinese and Japanese full stops, which need no blank."""
_DAY: Final = re.compile(r"(?:^|\s)\d{1,2}\.\s*\Z")
_MONTH: Final = re.compile(
    r"(?:Jan(?:uar)?|Feb(?:ruar)?|Mar|Mär|Apr|May|Mai|Jun|Jul|Aug|Sep|O[ck]t|Nov|De[cz])\w*\.?\s", re.IGNORECASE
)
_BETWEEN_WORDS: Final = re.compile(r"(?<![\[,;\u2013-])\s(?![\],;\u2013-])")  # but not within `[1, 3]`


def segments(text: str, language: str) -> list[str]:
    """The sentences, each with the blanks after it; every blank becomes a plain space."""
    import sentencex  # noqa: PLC0415 - only cutting a text needs it

    text = _BLANK.sub(" ", text)
    result, begin = list[str](), 0
    while begin < len(text):
        pieces = sentencex.segment(language, text[begin : begin + WINDOW])
        if begin + WINDOW < len(text):
            pieces = _without_last(pieces)
        result += pieces
        begin += sum(map(len, pieces))
    return [part for segment in _with_dates(result) for part in _AT_FULL_STOPS.split(segment) if part]


def _with_dates(sentences: list[str]) -> list[str]:
    """Rejoin `on 31.` and `March 2026`, which the library splits in an English text."""
    result: list[str] = []
    for segment in sentences:
        if result and _DAY.search(result[-1]) and _MONTH.match(segment):
            result[-1] += segment
        else:
            result.append(segment)
    return result


def _without_last(sentences: list[str]) -> list[str]:
    """Drop the last sentence, which may continue beyond the window; keep most of a long one, cut at a blank."""
    *complete, last = sentences
    if sum(map(len, complete)) >= WINDOW // 2:
        return complete
    blanks = [match.end() for match in _BETWEEN_WORDS.finditer(last)]
    return [*complete, last[: blanks[-1]] if blanks else last]


MOST_QUOTES: Final = 4_000  # of one paragraph

_FIRST_QUOTE: Final = 0xE100  # each quote is replaced by one character, followed by its final punctuation
_ENDS: Final = ".!?\u2026"
_HIDDEN: Final = re.compile(f"([\ue100-\uf8ff])[{_ENDS}]?")
_MARK: Final = re.compile(MARK)
_MARKS: Final = re.compile(rf"(?:\s*{MARK})+")
_DEFINITION: Final = re.compile(rf"\s*{MARK}:\s")  # a list of sources that a model wrote itself
_LEADING: Final = re.compile(rf"\s*(?:{MARK}\s*)+")
_END_WITH_MARKS: Final = re.compile(rf"[.!?\u2026\u3002][\"”“»«」]?(?:\s*{MARK})+[ \t]+(?=[^\sa-z\[])")


class Quote(NamedTuple):
    """Words that a statement quotes, and the numbers that it cites for them."""

    text: str
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence, a table row or a block quote that cites something; its text excludes the marks."""

    text: str
    numbers: tuple[int, ...]
    quotes: tuple[Quote, ...]
    is_quote: bool = False  # in a block quote


def statements(text: str, mime_type: str = "text/markdown", *, language: str = "en") -> list[Statement]:
    """Return the statements of an answer that cite at least one number."""
    result: list[Statement] = []
    introduction: Statement | None = None  # the statement that introduces the block quote after it
    rows: list[Block] = []  # of the table before
    for block in _blocks(text, mime_type):
        if rows and not block.is_row and not _plain(block.text):
            result += _of_table(rows, _numbers(block.text))
            rows = []
            continue
        rows = [*rows, block] if block.is_row else []
        if block.is_quote and introduction is not None and not _MARK.search(block.text):
            result[-1] = replace(
                introduction, quotes=(*introduction.quotes, Quote(_plain(block.text), introduction.numbers))
            )
            introduction = None
            continue
        group = list(_statements(block, language))
        result += [statement for statement in group if statement.numbers]
        introduction = group[-1] if group and group[-1].numbers and group[-1].text.endswith(":") else None
    return result


def _of_table(rows: Sequence[Block], numbers: tuple[int, ...]) -> Iterator[Statement]:
    """Yield the rows below the head of a table that is cited as a whole; each of their cells is a quote."""
    for row in rows[1:]:
        if not _MARK.search(row.text):
            cells = (_plain(cell) for cell in row.text.split(" | "))
            yield Statement(_plain(row.text), numbers, tuple(Quote(cell, numbers) for cell in cells if cell))


def _blocks(text: str, mime_type: str) -> Iterable[Block]:
    if mime_type == "application/json":
        return [block for value in strings_in(text) for block in blocks(value)]
    if mime_type == "text/csv":
        rows = csv.reader(io.StringIO(PRIVATE.sub("\ufffd", text)))
        return [Block(" | ".join(filter(None, row)), is_row=True) for row in rows]
    return blocks(text)


def strings_in(text: str) -> list[str]:
    """Return all strings in a JSON text; outside of them, numbers in brackets are lists rather than citations."""
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


def _statements(block: Block, language: str) -> Iterator[Statement]:
    if _DEFINITION.match(block.text):
        return
    if not _MARK.search(block.text):
        yield Statement(_plain(block.text), (), ())
        return
    quotes: list[str] = []

    def hide(match: re.Match[str]) -> str:
        """Replace a quote by one character and its final punctuation, so that no sentence ends inside it."""
        inside = next(filter(None, match.groups()))
        if len(quotes) >= MOST_QUOTES or not re.search(r"\w", inside) or _MARK.search(inside):
            return match[0]
        quotes.append(inside)
        end = inside[-1] if inside[-1] in _ENDS else ""
        return f"{match[0][0]}{chr(_FIRST_QUOTE + len(quotes) - 1)}{end}{match[0][-1]}"

    text = QUOTATION.sub(hide, block.text)
    for sentence in [text] if block.is_row or block.is_quote else _sentences(text, language):
        own_quotes = _quotes(sentence, quotes)
        if block.is_quote and not own_quotes:
            own_quotes = [Quote(_plain(sentence), _numbers(sentence))]
        text_shown = _plain(_reveal(sentence, quotes))
        yield Statement(text_shown, _numbers(sentence), tuple(own_quotes), is_quote=block.is_quote)


def _sentences(text: str, language: str) -> list[str]:
    """Split a text into sentences; citations after a full stop belong to the sentence before it."""
    result: list[str] = []
    for segment in segments(text, language[:2]):
        for part in _split(segment):
            leading = _LEADING.match(part)
            of_the_last = leading[0] if leading and result and not _MARK.search(result[-1]) else ""
            if of_the_last:
                result[-1] += of_the_last
            result.append(part[len(of_the_last) :])
    return [part for part in result if part.strip()]


def _split(segment: str) -> list[str]:
    """Split a segment after citations that follow a full stop."""
    ends = [match.end() for match in _END_WITH_MARKS.finditer(segment)]
    return [segment[begin:end] for begin, end in zip([0, *ends], [*ends, len(segment)], strict=True)]


def _quotes(sentence: str, quotes: Sequence[str]) -> list[Quote]:
    """The quotes of a sentence, each with the citations that follow it or, if none do, the last ones before it."""
    groups = [(match.start(), _numbers(match[0])) for match in _MARKS.finditer(sentence)]
    result: list[Quote] = []
    for place, character in enumerate(sentence):
        number = ord(character) - _FIRST_QUOTE
        if groups and 0 <= number < len(quotes):
            behind = next((numbers for start, numbers in groups if start > place), groups[-1][1])
            text = quotes[number].replace(BRACKET, "[")
            result.append(Quote(" ".join(text.split()), behind))
    return result


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(dict.fromkeys(number for mark in _MARK.findall(text) for number in numbers_of(mark)))


def _reveal(sentence: str, quotes: Sequence[str]) -> str:
    """Replace the placeholder characters of a sentence by the quotes themselves."""
    return _HIDDEN.sub(lambda match: quotes[ord(match[1]) - _FIRST_QUOTE], sentence)


def _plain(text: str) -> str:
    """A text on one line, without the marks."""
    without = re.sub(rf"\s*{MARK}", "", text).replace(BRACKET, "[")
    return " ".join(without.split()).strip("| ")
