"""Other forms of the question's words that the documents use: `driver` for `drives`, `go-live` for `go live`."""

import re
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

from poweron_services.models.builtin.question import GENERIC_WEIGHT, Question, Term
from poweron_services.models.builtin.vocabulary import KEPT_APART
from poweron_services.models.builtin.words import meanings, stem, tokens

SHORTEST = 4  # characters of what words of one family share

_DERIVED = re.compile(r"(?:ation|ition|ion|ment|ance|ence|able|ing|al|er|or|iv|ist|e|i)$")


class Forms:
    """The words of a library by their families; what is kept apart has no family."""

    def __init__(self, words: Iterable[str], language: str) -> None:
        self._language = language
        self._known = frozenset(words)
        self._families: dict[str, set[str]] = {}
        for word in self._known:
            self._families.setdefault(_root(word), set()).add(word)

    def applied(self, question: Question) -> Question:
        """The question with the forms that the documents use; two words that are one there count as one."""
        found = {term.stem: self._with_family(term) for term in question.terms}
        for first, second in pairwise(tokens(question.text)):
            whole = stem(f"{first}{second}".casefold(), self._language)
            if whole not in self._known or not f"{first}{second}".isalpha():
                continue
            for part in (stem(first.casefold(), self._language), stem(second.casefold(), self._language)):
                if part in found:
                    found[part] = replace(found[part], weight=GENERIC_WEIGHT, is_name=False)
            same = meanings(self._language).get(whole, frozenset())
            found.setdefault(whole, Term(whole, f"{first}-{second}", same, 1.0, is_name=False))
        return replace(question, terms=tuple(found.values()))

    def _with_family(self, term: Term) -> Term:
        if term.is_name or term.stem in KEPT_APART:
            return term
        family = self._families.get(_root(term.stem), set())
        return replace(term, same=term.same | (frozenset(family) - {term.stem}))


def _root(word: str) -> str:
    """What a word shares with those derived from it."""
    if word in KEPT_APART or not word.isalpha():
        return word
    root = _DERIVED.sub("", word)
    return root if len(root) >= SHORTEST else word
