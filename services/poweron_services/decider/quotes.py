"""Whether quoted words occur in a text: word by word, whatever the case, the markup and the kind of quotation marks."""

import re
import unicodedata
from typing import Final

_LINK_TARGET: Final = re.compile(r"\]\([^()\s]*(?:\s+\"[^\"]*\")?\)")
_MARKUP: Final = re.compile(r"[*_`#|\\\[\]<>~\xad\u200b-\u200d\u2060\ufeff]|^[ \t]*[-+]\s", re.MULTILINE)
_QUOTATION_MARKS: Final = re.compile("[\"'\u2018-\u201f\u2039\u203a\u00ab\u00bb\u300c-\u300f]")
_DASHES: Final = re.compile("[\u2010-\u2015\u2212]")
_BLANKS: Final = re.compile(r"\s+")
_LEFT_OUT: Final = re.compile(r"\.{3,}")
_AROUND: Final = " .,;:!?-'"


def comparable(text: str) -> str:
    """A text as quotes are looked for in it: its words and signs, without markup."""
    plain = _MARKUP.sub("", _LINK_TARGET.sub("]", text))
    plain = unicodedata.normalize("NFKC", plain).casefold()
    return _BLANKS.sub(" ", _DASHES.sub("-", _QUOTATION_MARKS.sub("'", plain))).strip()


def occurs(quote: str, text: str) -> bool:
    """Whether the words of a quote stand in a text that is `comparable`; of one with `…` each part, in their order."""
    wanted = comparable(quote)
    return _find(wanted.strip(_AROUND), text, 0) >= 0 or _all_occur(wanted, text)


def _all_occur(wanted: str, text: str) -> bool:
    parts = [part.strip(_AROUND) for part in _LEFT_OUT.split(wanted)]
    place = 0
    for part in filter(None, parts):
        if (place := _find(part, text, place)) < 0:
            return False
    return place > 0


def _find(wanted: str, text: str, begin: int) -> int:
    """Where the words end that are looked for; -1 if they do not stand there as whole words."""
    if not wanted:
        return -1
    while (start := text.find(wanted, begin)) >= 0:
        end = start + len(wanted)
        if not (_joined(text[max(start - 1, 0) : start], wanted[0]) or _joined(wanted[-1], text[end : end + 1])):
            return end
        begin = start + 1
    return -1


def _joined(before: str, after: str) -> bool:
    """Whether two neighbouring characters are of one word, in writing that has blanks between words."""
    return bool(before and after) and all(
        one.isalnum() and unicodedata.category(one) != "Lo" for one in (before, after)
    )
