"""Words that a line breaks: whether the hyphen at its end is one of the word's own, or only of the break.

It is kept where it is one by its looks (2025-2026, e-mail, Vor- und Nachteile, a number of an order). Otherwise the
words of the document decide, and then a list of words in the language around it: a hyphen stays between two words that
are none together. A German noun goes on with a small letter only where it is broken.
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
AROUND: Final = 300  # characters before the break in which the language is looked for
LANGUAGES: Final = {
    "en": ("the", "of", "and", "to", "in", "is", "that", "for", "with", "are"),
    "de": ("der", "die", "und", "das", "den", "ist", "von", "mit", "ein", "auf"),
    "fr": ("le", "la", "les", "des", "et", "est", "une", "du", "dans", "pour"),
    "es": ("el", "los", "las", "del", "y", "que", "una", "por", "con", "es"),
    "it": ("il", "di", "che", "della", "per", "gli", "una", "con", "sono", "è"),
    "nl": ("de", "het", "een", "van", "en", "is", "dat", "niet", "zijn", "voor"),
    "pt": ("o", "os", "da", "do", "que", "uma", "com", "não", "para", "em"),
}
"""The languages that there is a list of words for, and words that tell them."""
AND: Final = frozenset(
    {"and", "or", "und", "oder", "bzw", "sowie", "et", "ou", "y", "o", "e", "ed", "en", "of", "och", "og"}
)
"""What stands between the halves of “Vor- und Nachteile”."""

_BROKEN: Final = re.compile(rf"(?P<before>\S*)[-\u00ad\u2010]{BREAK}(?P<after>\S+)")
_WORD: Final = re.compile(r"[^\W\d_]+")


def _opened() -> dict[str, BinaryIO]:
    """Open the lists of words of a package, which need not be imported for it."""
    package = find_spec("spellchecker")
    assert package is not None and package.origin is not None  # noqa: PT018 - one condition
    folder = Path(package.origin).parent / "resources"
    return {language: (folder / f"{language}.json.gz").open("rb") for language in LANGUAGES}


_LISTS: Final = _opened()
"""Once a document is read, this process can open nothing any more."""


def ends_broken(line: str) -> bool:
    """Whether a hyphen at the end of the line may be one of the break."""
    return line.endswith(("-", "\u00ad", "\u2010")) and line[-2:-1].isalnum()


def with_break(above: str, below: str) -> str:
    """Two lines as one; a hyphen between them is yet to be decided on."""
    return f"{above}{BREAK if ends_broken(above) and below[:1].isalnum() else ' '}{below}"


def mended(text: str, known: Collection[str]) -> str:
    """The text without breaks; `known` are words of the document, in small letters."""
    return _BROKEN.sub(lambda found: _joined(found, known), text) if BREAK in text else text


def words_of(text: str) -> Iterable[str]:
    """The words in small letters, with hyphens of their own; those that a line breaks are left out."""
    whole = (token for token in text.split() if BREAK not in token)
    return (found for token in whole for found in re.findall(r"[^\W\d_]+(?:-[^\W\d_]+)*", token.casefold()))


def _joined(found: re.Match[str], known: Collection[str]) -> str:
    before, after = found["before"], found["after"]
    first, second = (_WORD.findall(before) or [""])[-1], (_WORD.match(after) or [""])[0]
    if found[0][len(before)] == "\u00ad":
        return before + after
    if second.casefold() in AND:
        return f"{before}- {after}"
    if not second[:1].islower() or len(first) < 2 or _is_code(before):
        return f"{before}-{after}"
    joined = _is_one_word(
        first.casefold(), second.casefold(), known, found.string[max(0, found.start() - AROUND) : found.end()]
    )
    return before + after if joined else f"{before}-{after}"


def _is_code(before: str) -> bool:
    """Whether it looks like the beginning of a number with letters."""
    return any(map(str.isdigit, before)) or before.isupper()


def _is_one_word(first: str, second: str, known: Collection[str], around: str) -> bool:
    if first + second in known:
        return True
    if f"{first}-{second}" in known:
        return False
    language = _language(around)
    if language == "de" or language is None:
        return True
    listed = _listed(language)
    return first + second in listed or not (first in listed and second in listed)


def _language(text: str) -> str | None:
    """The one most of whose common words stand in the text; None where there are none."""
    words = [word.casefold() for word in _WORD.findall(text)]
    counts = {language: sum(word in common for word in words) for language, common in LANGUAGES.items()}
    language = max(counts, key=lambda each: counts[each])
    return language if counts[language] else None


@cache
def _listed(language: str) -> frozenset[str]:
    with gzip.open(_LISTS[language]) as words:
        return frozenset(json.load(words))
