"""Repair of words broken across lines: a hyphen at the end of a line may belong to the word or only to the break.

The hyphen is kept if the form of the word calls for it (2025-2026, e-mail, Vor- und Nachteile, an order number).
Otherwise the words of the document decide, and then a word list for the language of the surrounding text: a hyphen is
kept between two words that do not form one word. In German, a noun continues in lower case only if it was broken.
"""

import gzip
import json
import re
from collections.abc import Collection, Iterable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO, Final

BREAK: Final = "\x02"
"""Marks a hyphen at the end of a line, until `mended` keeps or drops it."""
AROUND: Final = 300  # characters before the break that are used to detect the language
LANGUAGES: Final = {
    "en": ("the", "of", "and", "to", "in", "is", "that", "for", "with", "are"),
    "de": ("der", "die", "und", "das", "den", "ist", "von", "mit", "ein", "auf"),
    "fr": ("le", "la", "les", "des", "et", "est", "une", "du", "dans", "pour"),
    "es": ("el", "los", "las", "del", "y", "que", "una", "por", "con", "es"),
    "it": ("il", "di", "che", "della", "per", "gli", "una", "con", "sono", "è"),
    "nl": ("de", "het", "een", "van", "en", "is", "dat", "niet", "zijn", "voor"),
    "pt": ("o", "os", "da", "do", "que", "uma", "com", "não", "para", "em"),
}
"""The languages with a word list, and common words that identify them."""
AND: Final = frozenset(
    {"and", "or", "und", "oder", "bzw", "sowie", "et", "ou", "y", "o", "e", "ed", "en", "of", "och", "og"}
)
"""Words that connect the halves of an expression such as “Vor- und Nachteile”."""

_BROKEN: Final = re.compile(rf"(?P<before>\S*)[-\u00ad\u2010]{BREAK}(?P<after>\S+)")
_WORD: Final = re.compile(r"[^\W\d_]+")


def _open_lists() -> dict[str, BinaryIO]:
    """Open the word lists of the package `spellchecker`, without importing it."""
    package = find_spec("spellchecker")
    assert package is not None and package.origin is not None  # noqa: PT018 - one condition
    folder = Path(package.origin).parent / "resources"
    return {language: (folder / f"{language}.json.gz").open("rb") for language in LANGUAGES}


_LISTS: Final = _open_lists()
"""Opened at import, because this process cannot open files once it reads a document."""


def ends_broken(line: str) -> bool:
    """Return whether the line ends with a hyphen that may come from the line break."""
    return line.endswith(("-", "\u00ad", "\u2010")) and line[-2:-1].isalnum()


def with_break(above: str, below: str) -> str:
    """Join two lines; a hyphen between them is marked, and `mended` decides on it later."""
    return f"{above}{BREAK if ends_broken(above) and below[:1].isalnum() else ' '}{below}"


def mended(text: str, known: Collection[str]) -> str:
    """Return the text with every mark resolved; `known` are words of the document in lower case."""
    return _BROKEN.sub(lambda match: _join(match, known), text) if BREAK in text else text


def words_of(text: str) -> Iterable[str]:
    """Return the words in lower case, with their own hyphens; words broken across lines are left out."""
    tokens = (token for token in text.split() if BREAK not in token)
    return (word for token in tokens for word in re.findall(r"[^\W\d_]+(?:-[^\W\d_]+)*", token.casefold()))


def _join(match: re.Match[str], known: Collection[str]) -> str:
    before, after = match["before"], match["after"]
    first, second = (_WORD.findall(before) or [""])[-1], (_WORD.match(after) or [""])[0]
    if match[0][len(before)] == "\u00ad":
        return before + after
    if second.casefold() in AND:
        return f"{before}- {after}"
    if not second[:1].islower() or len(first) < 2 or _is_code(before):
        return f"{before}-{after}"
    is_one = _is_one_word(
        first.casefold(), second.casefold(), known, match.string[max(0, match.start() - AROUND) : match.end()]
    )
    return before + after if is_one else f"{before}-{after}"


def _is_code(before: str) -> bool:
    """Return whether this looks like the beginning of a code, such as an order number."""
    return any(map(str.isdigit, before)) or before.isupper()


def _is_one_word(first: str, second: str, known: Collection[str], around: str) -> bool:
    if first + second in known:
        return True
    if f"{first}-{second}" in known:
        return False
    language = _language(around)
    if language == "de" or language is None:
        return True
    words = _word_list(language)
    return first + second in words or not (first in words and second in words)


def _language(text: str) -> str | None:
    """The language whose common words are most frequent in the text; None if it has none of any language."""
    words = [word.casefold() for word in _WORD.findall(text)]
    counts = {language: sum(word in common for word in words) for language, common in LANGUAGES.items()}
    language = max(counts, key=lambda language: counts[language])
    return language if counts[language] else None


@cache
def _word_list(language: str) -> frozenset[str]:
    with gzip.open(_LISTS[language]) as words:
        return frozenset(json.load(words))
