r"""The sentences of a text, in time that grows with its length only.

The library takes ever longer for each character of a text with many quotation marks or backticks, and lets no other
thread run meanwhile, so that it is given a little at a time. At a wide blank, as in `A\u3000.`, it panics.
"""

import re
from typing import Final

WINDOW: Final = 2_000  # characters that are looked at together; a longer sentence is cut between words
_BLANK: Final = re.compile(r"\s")
_AT_FULL_STOPS: Final = re.compile(r"(?<=[\u3002\uff01\uff1f])(?![\u3002\uff01\uff1f\u300d\u300f\u201d])")
"""Behind those of Chinese and Japanese, which need no blank."""
_DAY: Final = re.compile(r"(?:^|\s)\d{1,2}\.\s*\Z")
_MONTH: Final = re.compile(
    r"(?:Jan(?:uar)?|Feb(?:ruar)?|Mar|Mär|Apr|May|Mai|Jun|Jul|Aug|Sep|O[ck]t|Nov|De[cz])\w*\.?\s", re.IGNORECASE
)
_BETWEEN_WORDS: Final = re.compile(r"(?<![\[,;\u2013-])\s(?![\],;\u2013-])")  # none of those within `[1, 3]`


def segments(text: str, language: str) -> list[str]:
    """The sentences, each with the blanks behind it; every blank is a plain one."""
    import sentencex  # noqa: PLC0415 - who never cuts a text needs it not

    text = _BLANK.sub(" ", text)
    found, begin = list[str](), 0
    while begin < len(text):
        cut = sentencex.segment(language, text[begin : begin + WINDOW])
        if begin + WINDOW < len(text):
            cut = _ended(cut)
        found += cut
        begin += sum(map(len, cut))
    return [part for one in _with_dates(found) for part in _AT_FULL_STOPS.split(one) if part]


def _with_dates(cut: list[str]) -> list[str]:
    """With `on 31.` and `March 2026` as one: in an English text the library takes that for the end of a sentence."""
    whole: list[str] = []
    for one in cut:
        if whole and _DAY.search(whole[-1]) and _MONTH.match(one):
            whole[-1] += one
        else:
            whole.append(one)
    return whole


def _ended(cut: list[str]) -> list[str]:
    """Without the last sentence, which may go on behind what was looked at; of a long one, what will do for one."""
    *whole, last = cut
    if sum(map(len, whole)) >= WINDOW // 2:
        return whole
    blanks = [found.end() for found in _BETWEEN_WORDS.finditer(last)]
    return [*whole, last[: blanks[-1]] if blanks else last]
