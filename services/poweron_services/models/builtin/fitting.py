"""Whether a passage can be an answer at all: it says something new, and of the kind that is asked for."""

import re

from poweron_services.models.builtin import kinds, values
from poweron_services.models.builtin.passages import Passage
from poweron_services.models.builtin.question import Question
from poweron_services.models.builtin.words import meanings, stem, terms

COUNTED_WITHIN = 4  # words between a number and what it counts


def fits(passage: Passage, question: Question) -> bool:
    """Whether a passage says more than the question itself and holds a value of the kind that is asked for."""
    return _is_new(passage, question) and (
        _is_asked_by_its_label(passage, question) or _is_of_the_kind(passage, question)
    )


def _is_asked_by_its_label(passage: Passage, question: Question) -> bool:
    """Whether the question says a label, all of it and nothing else that matters: any value of it is the answer."""
    if passage.kind not in ("fact", "cell") or question.kind in kinds.TELLTALE or not passage.label_terms:
        return False
    if len(passage.label_terms) < 2 and question.kind not in ("person", "identifier"):
        return False
    if question.kind in ("amount", "count") and not values.holds("count", passage.value, ""):
        return False
    asked = {term.stem for term in question.terms}
    matter = {term.stem for term in question.terms if term.weight == 1 and not term.is_name}
    return bool(matter) and matter <= passage.label_terms <= asked


def _is_new(passage: Passage, question: Question) -> bool:
    """Whether a passage says more than the question itself."""
    asked = {term.stem for term in question.terms}
    said = passage.own
    if passage.kind in ("fact", "cell", "headed"):
        said = frozenset(terms(passage.value, question.language)) or frozenset({passage.value})
    return bool(said - asked)


def _is_of_the_kind(passage: Passage, question: Question) -> bool:
    match question.kind:
        case "done":
            return _tells_what_was_done(passage, question)
        case "count":
            return _counts(passage, question)
        case "place" if passage.kind in ("headed", "sentence"):
            return _says_where(passage, question)
        case "amount" if kinds.asks_for_money(question.text) and not _has_a_sum(passage, question):
            return False
        case "amount" if kinds.asks_for_money(question.text) and not _is_price(passage, question):
            return False
        case _:
            return _holds_a_value(passage, question)


def _holds_a_value(passage: Passage, question: Question) -> bool:
    labelled = passage.kind in ("fact", "cell")
    if question.kind == "age" and labelled and passage.label_terms & _words_for_age(question.language):
        return values.is_count(passage.value)
    if question.kind == "identifier" and labelled:
        return any(character.isdigit() for character in passage.value) or passage.value.isupper()
    return any(values.holds(question.kind, text, question.text) for text in _texts(passage, question))


def _says_where(passage: Passage, question: Question) -> bool:
    """Whether a sentence names a place, or all of a section is about what is asked."""
    if passage.kind == "headed":
        return passage.label_terms <= {one for term in question.terms for one in (term.stem, *term.same)}
    return values.names_a_place(passage.value, question.text)


def _texts(passage: Passage, question: Question) -> list[str]:
    """What of a passage can be the value: for a person the cells below a header, for units the label as well."""
    if passage.record is not None and question.kind == "person":
        named = [cell for header, cell in passage.record.filled if header and _may_be_named(header, cell, question)]
        return named if passage.kind == "row" else [cell for cell in named if cell == passage.value]
    if passage.kind in ("fact", "cell") and question.kind in ("duration", "percent"):
        return [f"{passage.value} {passage.label}"]
    return [passage.value]


def _may_be_named(header: str, cell: str, question: Question) -> bool:
    """Whether a cell can be somebody's name: of two words or more, or below a header that the question says."""
    asked = {one for term in question.terms for one in (term.stem, *term.same)}
    return len(cell.split()) > 1 or not cell.isascii() or bool(asked & frozenset(terms(header, question.language)))


def _words_for_age(language: str) -> frozenset[str]:
    age = stem("age", language)
    return meanings(language)[age] | {age}


def _counts(passage: Passage, question: Question) -> bool:
    """Whether a passage counts what is asked for, or is the number below a label."""
    if passage.kind in ("fact", "cell") and values.is_count(passage.value):
        return True
    if passage.kind == "row" and passage.record is not None:
        return any(values.is_count(cell) for _, cell in passage.record.filled)
    counted = frozenset(one for term in question.terms[:2] for one in (term.stem, *term.same))
    words = re.findall(r"[\w,.-]*\w", passage.statement.casefold())
    return any(stem(word, question.language) in counted and _counted(words, index) for index, word in enumerate(words))


def _counted(words: list[str], index: int) -> bool:
    """Whether a number stands before a word, or the text says what the number of it is."""
    if any(values.is_number(word) for word in words[max(0, index - COUNTED_WITHIN) : index]):
        return True
    return "number" in words[max(0, index - 3) : index] and any(map(values.is_number, words))


def _is_price(passage: Passage, question: Question) -> bool:
    """Whether a passage holds a sum of money, or a bare number below a word for it."""
    priced = frozenset(one for term in question.terms if term.weight < 1 for one in (term.stem, *term.same))
    asked = {term.stem for term in question.terms}
    is_asked = passage.kind == "cell" and bool(passage.label_terms) and passage.label_terms <= asked
    return values.holds_money(passage.value) or is_asked or bool(passage.label_terms & priced)


def _has_a_sum(passage: Passage, question: Question) -> bool:
    """Whether one of several lines read together holds money that no label of its own gives another meaning."""
    if passage.kind not in ("fact", "window") or " · " not in passage.value:
        return True
    asked = {one for term in question.terms for one in (term.stem, *term.same)}
    priced = [line for line in passage.value.split(" · ") if values.holds_money(line)]
    return any(":" not in line or asked & frozenset(terms(line, question.language)) for line in priced)


def _tells_what_was_done(passage: Passage, question: Question) -> bool:
    if passage.kind in ("line", "window", "headed"):
        return False
    said = frozenset(terms(passage.value, question.language))
    return all(term.stem in said or term.same & said for term in question.terms if term.weight == 1)
