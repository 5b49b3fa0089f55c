r"""The sentences of a text, in time that grows only with its length.

The library slows down with each character of a text that has many quotation marks or backticks, and blocks all other
threads meanwhile, so it is given a small part at a time. At a wide blank, as in `A\u3000.`, it panics.
"""

import re
from typing import Final

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
    import sentencex  # noqa: PLC0415 - who never cuts a text needs it not

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
