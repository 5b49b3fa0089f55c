"""A search for answers in web pages, each page judged on its own.

A question about “them” is answered from the pages, and from the table rows, that answered the previous question.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import groupby
from typing import Final

from poweron_services.models.builtin import opening_days, values
from poweron_services.models.builtin.passage_search import (
    COMPARED,
    ENOUGH,
    MARGIN,
    Candidate,
    Finding,
    PassageSearch,
    merged,
)
from poweron_services.models.builtin.passages import Passage
from poweron_services.models.builtin.question import Question, clauses
from poweron_services.models.builtin.vocabulary import stem, words_in
from poweron_services.models.builtin.web_choice import without_addresses

SPREAD = 0.2  # if several pages may answer, a page counts if its best passage scores this close to the best of all
MANY = 12  # answers at most
MOST = 4  # answers from one page
LABEL = 5  # words; a longer text before a colon is not a label
WIDE = 8  # cells; of a wider row only the answering cell and the row's name are given
TELLING = 0.7  # share of the best passage's coverage that another passage needs to be part of a report
FARE = 0.15  # bonus for a price of admission

_ABOUT_IT = re.compile(
    r"\b(?:it|its|they|them|their|theirs|he|him|his|she|her|hers|es|sie|er|ihn|ihm|ihr\w*)\b", re.IGNORECASE
)
_SEVERAL = re.compile(r"^\W*(?:which|what|who|where|list|name|show|find|welche\w*|wer|wo|nenne|zeige)\b", re.IGNORECASE)
_YES_OR_NO = re.compile(r"^\W*(?:is|are|does|do|can|ist|sind|hat|haben|kann)\b", re.IGNORECASE)
_FREE = re.compile(r"\bfree\b|\bnobody pays\b|\bkostenlos\b|\bkostenfrei\b|\bfreier eintritt\b", re.IGNORECASE)
_VERB = re.compile(r"\b(?:is|are|opens?|stays?|closes?|can be|ist|sind|hat|öffnet|schließt|kann)\b", re.IGNORECASE)
_FARES: Final = words_in(
    "admission admitted ticket tickets entry entrance fare fares adults adult children pay free"
    " eintritt eintrittskarte erwachsene kinder kostenlos"
)
_SAYING: Final = ("sentence", "fact", "line", "row", "cell")


class PageSearch(PassageSearch):
    """A search for answers in web pages, whose titles say what the whole page is about."""

    title = 0.9
    closest_of_each = 1

    def findings(self, request: str) -> list[Finding]:
        """Return what the pages say about each question of a request."""
        findings: list[Finding] = []
        anchors: list[Passage] = []
        for clause in clauses(without_addresses(request)):
            goes_on = bool(findings) and _ABOUT_IT.search(clause) is not None
            candidates = self._select(clause, anchors if goes_on else None)
            finding = Finding(clause, merged(candidates, self.language), goes_on=goes_on)
            if not goes_on:
                anchors = [candidate.passage for candidate in candidates]
                closest = () if candidates else self._closest(clause)
                finding = replace(finding, closest=closest)
            findings.append(finding)
        return findings

    def telling(self, about: str) -> list[Passage]:
        """Return the most relevant passages by page, best first; all passages if `about` has no significant word."""
        question = self._understand(about)
        if not any(term.weight == 1 for term in question.terms):
            return [passage for passage in self.library.passages if passage.is_whole and not _is_part(passage)]
        matches = [
            match for match in self._coverages(question) if match[0].is_whole and self._shares(question, match[0])
        ]
        least = TELLING * max((coverage for _, coverage in matches), default=0.0)
        relevant = [match for match in matches if match[1] >= least]
        ranking = sorted(relevant, key=lambda match: (match[0].place.number or 0, match[0].place.source, -match[1]))
        return list({passage.statement: passage for passage, _ in ranking}.values())

    @staticmethod
    def _shares(question: Question, passage: Passage) -> bool:
        """Return whether a passage shares a significant word with the question and says more than that."""
        terms = [term for term in question.terms if term.weight == 1 and term.in_(passage.own)]
        return bool(terms) and bool(passage.own - {term.stem for term in question.terms})

    def _select(self, clause: str, anchors: Sequence[Passage] | None) -> list[Candidate]:
        """Return the passages that answer a question; with `anchors`, only those beside one of them."""
        question = self._parse(clause)
        if anchors is not None:
            beside = [candidate for candidate in self._candidates(question) if _is_beside(candidate.passage, anchors)]
            return _best_of_pages(beside, SPREAD + 1)
        if (day_question := opening_days.asked_day(clause)) and (opening := self._opening(question, *day_question)):
            return opening
        candidates = self._candidates(question)
        if comparison := COMPARED.search(clause):  # a comparison must be in the passage itself
            candidates = [
                candidate
                for candidate in candidates
                if comparison[0].casefold() in candidate.passage.statement.casefold()
            ]
        return _best_of_pages(candidates, SPREAD if _SEVERAL.search(clause) else MARGIN)

    def _parse(self, clause: str) -> Question:
        """Parse the question; asking for the price of a place also means asking for its admission fee."""
        question = self._understand(clause)
        if not question.asks_for_money:
            return question
        fares = _fares(self.language)
        terms = (replace(term, same=term.same | fares) if term.weight < 1 else term for term in question.terms)
        return replace(question, terms=tuple(terms))

    def _coverages(self, question: Question) -> Iterator[tuple[Passage, float]]:
        """Skip facts that are part of a sentence: a long text before a colon is not a label."""
        return (pair for pair in super()._coverages(question) if not _is_part(pair[0]))

    def _answers(self, passage: Passage, question: Question) -> bool:
        if passage.kind == "cell" and not _is_wide(passage):
            return False  # its row is the answer
        if (
            question.kind == "person"
            and passage.kind == "sentence"
            and values.names_within(passage.value, question.text)
        ):
            return super()._answers(passage, replace(question, kind="thing"))
        is_free = question.asks_for_money and _FREE.search(passage.value) and passage.own & question.said
        return bool(is_free) or super()._answers(passage, question)

    def _candidates(self, question: Question) -> list[Candidate]:
        candidates = super()._candidates(question)
        if not question.asks_for_money:
            return candidates
        fares = _fares(self.language)
        scored = (
            replace(candidate, score=candidate.score + FARE * bool(candidate.passage.own & fares))
            for candidate in candidates
        )
        return sorted(scored, key=lambda candidate: -candidate.score)

    def _opening(self, question: Question, day: int, wants_open: bool) -> list[Candidate]:
        """Return what pages say about opening on a day; the plainest passage of each page or row counts."""
        terms = tuple(term for term in question.terms if not opening_days.is_about_opening(term.word))
        about = replace(question, terms=terms)
        weights = {term: self._weight(term) for term in terms}
        best: dict[object, tuple[tuple[float, bool, bool], Candidate]] = {}
        for passage in self.library.passages:
            of_hours = opening_days.is_about_opening(passage.heading)
            is_open = opening_days.is_open(passage.statement, day, of_hours=of_hours)
            if is_open is None or passage.kind not in _SAYING or _is_part(passage):
                continue
            coverage = self._coverage(passage, about, weights) if terms else 1.0
            unit = (passage.place.source, id(passage.record) if passage.record else None)
            rank = (round(coverage, 2), opening_days.names_day(passage.statement, day), is_open)
            is_better = unit not in best or rank > best[unit][0]
            if coverage >= ENOUGH and is_better and self._speaks_of(about, passage):
                best[unit] = rank, Candidate(passage, coverage, coverage)
        is_yes_or_no = _YES_OR_NO.search(question.text)
        return [candidate for (_, _, is_open), candidate in best.values() if is_yes_or_no or is_open == wants_open][
            :MANY
        ]

    def _speaks_of(self, question: Question, passage: Passage) -> bool:
        """Return whether a sentence is about the subject of the question, not about something else on its page."""
        verb = _VERB.search(passage.value) if passage.kind in ("sentence", "line") else None
        if verb is None:
            return True
        subject = self._terms(passage.value[: verb.start()])
        around = self.library.around[passage.place].titles | passage.near
        return subject <= around or any(term.in_(subject) for term in question.terms)


def _best_of_pages(candidates: Sequence[Candidate], spread: float) -> list[Candidate]:
    """Return the best of every page whose best is close to the best of all, in the order of the pages."""
    least = candidates[0].score - spread if candidates else 0.0
    by_page = sorted(
        candidates,
        key=lambda candidate: (candidate.passage.place.number or 0, candidate.passage.place.source, -candidate.score),
    )
    selection: list[Candidate] = []
    for _, group in groupby(by_page, key=lambda candidate: candidate.passage.place.source):
        relevant = [candidate for candidate in group if candidate.score >= least]
        best = [candidate for candidate in relevant if candidate.score >= relevant[0].score - MARGIN][:MOST]
        selection += sorted(best, key=lambda candidate: candidate.passage.order)
    return selection[:MANY]


def _is_beside(passage: Passage, anchors: Sequence[Passage]) -> bool:
    """Return whether a passage is on the page of an anchor or, if an anchor is a table row, in that row."""
    same_page = [anchor for anchor in anchors if anchor.place.source == passage.place.source]
    rows = [anchor.record for anchor in same_page if anchor.record is not None]
    return any(passage.record is row for row in rows) if rows else bool(same_page)


def _is_wide(passage: Passage) -> bool:
    return passage.record is not None and len(passage.record.filled) > WIDE


def _is_part(passage: Passage) -> bool:
    return passage.kind == "fact" and len(passage.label.split()) > LABEL


@cache
def _fares(language: str) -> frozenset[str]:
    return frozenset(stem(word, language) for word in _FARES)
