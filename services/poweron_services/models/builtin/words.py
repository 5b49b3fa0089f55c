"""Words as the built-in model compares them: stems, names and numbers, and which mean the same.

Everything is general vocabulary of English and German business language; nothing is about a
particular document.
"""

import re
import unicodedata
from functools import cache, lru_cache
from typing import Any

from poweron_services.models.builtin.vocabulary import KEPT_APART, SAME_MEANING, STOP_WORDS

STEMMERS = {
    "da": "danish",
    "de": "german",
    "en": "english",
    "es": "spanish",
    "fi": "finnish",
    "fr": "french",
    "hu": "hungarian",
    "it": "italian",
    "nl": "dutch",
    "no": "norwegian",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sv": "swedish",
    "tr": "turkish",
}
MAX_WORD = 100  # characters; what is longer is no word
SURE = 2  # stop words of a language that a text must hold, more than of English

_TOKEN = re.compile(r"\w+(?:[-./@'\u2019,:&+]\w+)*")
_PART = re.compile(r"[^\W_]+")
_SCRIPT_RUN = re.compile(r"[\u4e00-\u9fff々]+|[\u3040-\u309f]+|[\u30a0-\u30ff]+|[\uac00-\ud7af]+")
_GROUPED_NUMBER = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)t(\d\d:\d\d)")
_HIRAGANA = re.compile(r"[\u3040-\u309f]{1,2}")
_TWO_WORDS = re.compile(r"[^\W\d_]{2,}-[^\W\d_]{2,}")
_E_MAIL = re.compile(r"\be-mail", re.IGNORECASE)


def language_of(text: str) -> str:
    """The language whose small words the text uses; English where in doubt."""
    words = [word.casefold() for word in _PART.findall(text[:5_000])]
    counts = {language: sum(word in stop for word in words) for language, stop in STOP_WORDS.items()}
    best = max(counts, key=lambda language: counts[language])
    return best if counts[best] >= counts["en"] + SURE or (counts[best] and not counts["en"]) else "en"


def known_language(language: str | None, text: str) -> str:
    """The language that was said, in two letters, else the one of the text."""
    return (language or language_of(text)).casefold()[:2]


def tokens(text: str) -> list[str]:
    """The words of a text as they stand; `SKU-9201`, `12/20/24` and `a@b.example` are one word each."""
    plain = _E_MAIL.sub("email", unicodedata.normalize("NFKC", text))
    return [part for token in _TOKEN.findall(plain) for part in _by_script(token[:MAX_WORD])]


def terms(text: str, language: str) -> list[str]:
    """What of a text is compared: stems without the small words; a composite also by its parts."""
    return [term for token in tokens(text) for term in token_terms(token, language)]


@lru_cache(maxsize=100_000)
def token_terms(token: str, language: str) -> tuple[str, ...]:
    """A word's terms, the whole first; none for a small word."""
    if is_small(token, language):
        return ()
    plain = re.sub(r"['\u2019](?:s|S)?$|['\u2019]s\b", "", token).casefold()
    if moment := _MOMENT.match(plain):
        return (plain, *moment.groups())
    if _GROUPED_NUMBER.fullmatch(plain):
        return (plain.replace(",", ""),)
    parts = _PART.findall(plain)
    if len(parts) < 2:
        return (stem(plain, language),) if plain else ()
    whole = (plain,) if any(character.isdigit() for character in plain) else ()
    kept = (part for part in parts if len(part) > 1 and not is_small(part, language))
    joined = (stem("".join(parts), language),) if _TWO_WORDS.fullmatch(plain) else ()
    return (*whole, *(stem(part, language) for part in kept), *joined)


def is_small(token: str, language: str) -> bool:
    """Whether a word carries no meaning of its own."""
    word = token.casefold()
    if _HIRAGANA.fullmatch(word):
        return True
    if token.isupper() and len(token) > 1:
        return False  # IT, US, WHO
    return word in STOP_WORDS["en"] or word in STOP_WORDS.get(language, frozenset())


@lru_cache(maxsize=50_000)
def stem(word: str, language: str) -> str:
    """A word without its endings."""
    if word in KEPT_APART:
        return word
    stemmed: list[str] = _analyzer(language).analyze(word)
    return stemmed[0] if stemmed else word


@cache
def meanings(language: str) -> dict[str, frozenset[str]]:
    """For a stem the stems that mean the same."""
    groups: dict[str, set[str]] = {}
    for line in SAME_MEANING:
        stems = {stem(word, language) for word in line.split()}
        for one in stems:
            groups.setdefault(one, set()).update(stems)
    return {one: frozenset(same - {one}) for one, same in groups.items()}


@cache
def _analyzer(language: str) -> Any:
    import tantivy  # noqa: PLC0415 - other models never need it

    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.raw()).filter(tantivy.Filter.lowercase())
    return builder.filter(tantivy.Filter.stemmer(STEMMERS.get(language, "english"))).build()


def _by_script(token: str) -> list[str]:
    if token.isascii():
        return [token]
    runs = _SCRIPT_RUN.findall(token)
    return runs or [token]
