"""Answers from web pages, each page judged on its own, in the words of each page with the number of the page.

A question about “them” is answered from the pages, and from the table rows, that answered the previous question.
Quotes are verbatim, so that users can find them on the page. A question about opening days is answered from the days
of the week on which something is open or closed.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import groupby
from typing import Final

from poweron_services.models.builtin import values
from poweron_services.models.builtin.passage_search import (
    COMPARED,
    ENOUGH,
    MARGIN,
    Candidate,
    Finding,
    PassageSearch,
    RankedStatement,
    merged,
)
from poweron_services.models.builtin.passages import Library, Passage
from poweron_services.models.builtin.phrases import say
from poweron_services.models.builtin.question import Question, clauses
from poweron_services.models.builtin.sources import SourcePlace
from poweron_services.models.builtin.vocabulary import stem, words_in
from poweron_services.models.builtin.web_choice import query, without_addresses

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
        if (day_question := asked_day(clause)) and (opening := self._opening(question, *day_question)):
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
        terms = tuple(term for term in question.terms if not is_about_opening(term.word))
        about = replace(question, terms=terms)
        weights = {term: self._weight(term) for term in terms}
        best: dict[object, tuple[tuple[float, bool, bool], Candidate]] = {}
        for passage in self.library.passages:
            of_hours = is_about_opening(passage.heading)
            opens = is_open(passage.statement, day, of_hours=of_hours)
            if opens is None or passage.kind not in _SAYING or _is_part(passage):
                continue
            coverage = self._coverage(passage, about, weights) if terms else 1.0
            unit = (passage.place.source, id(passage.record) if passage.record else None)
            rank = (round(coverage, 2), names_day(passage.statement, day), opens)
            is_better = unit not in best or rank > best[unit][0]
            if coverage >= ENOUGH and is_better and self._speaks_of(about, passage):
                best[unit] = rank, Candidate(passage, coverage, coverage)
        is_yes_or_no = _YES_OR_NO.search(question.text)
        wanted = [candidate for (_, _, opens), candidate in best.values() if is_yes_or_no or opens == wants_open]
        return wanted[:MANY]

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


Days = frozenset[int]  # 0 is Monday


ALL: Final[Days] = frozenset(range(7))


WEEKDAYS: Final[Days] = frozenset(range(5))


A_WEEK = 4  # days; if this many are named as open, the others are closed


_DAY_PATTERN = (
    r"(?:monday|tuesday|wednesday|thursday|friday|saturday|sunday|montag|dienstag|mittwoch|donnerstag|freitag|samstag"
    r"|sonnabend|sonntag)s?|(?:mon|tues?|wed|thurs?|thu|fri|sat|sun)\b\.?|(?-i:\b(?:Mo|Di|Mi|Do|Fr|Sa|So)\b)\.?"
)


_FIRST_LETTERS: Final = {
    letters: day
    for day, names in enumerate(("mo", "tu di", "we mi", "th do", "fr", "sa", "su so"))
    for letters in names.split()
}


_DAY = re.compile(rf"\b(?:{_DAY_PATTERN})", re.IGNORECASE)


_RANGE = re.compile(
    rf"\b(?P<first>{_DAY_PATTERN})\s*(?:[-\u2013\u2014]|to|through|thru|until|till|bis)\s*(?P<last>{_DAY_PATTERN})",
    re.IGNORECASE,
)


_EVERY_DAY = re.compile(
    r"\b(?:daily|every ?day|each day|(?:seven|7) days|all week|täglich|jeden tag|alle tage)\b", re.IGNORECASE
)


_ON_WEEKDAYS = re.compile(r"\b(?:on weekdays|werktags|wochentags)\b", re.IGNORECASE)


_AT_WEEKENDS = re.compile(r"\bweekends?\b|\bwochenende\w*", re.IGNORECASE)


_BUT = re.compile(r"\b(?:except(?:ing)?(?: for)?|but|other than|außer|ausser|bis auf)\b", re.IGNORECASE)


_CLOSED = re.compile(
    r"\bclosed\b|\bcloses? (?:on|from)\b|\bshut\b|\brests? on\b|\bgeschlossen\b|\bschlie(?:ß|ss)t am\b|\bruhetag\b"
    r"|:\s*(?:no|nein|\u2013|-)(?=\W*$|,)",
    re.IGNORECASE,
)


_OPEN = re.compile(r"\bopen(?:s|ing)?\b|\bopened\b|\b(?:geöffnet|offen|öffnet|öffnungs\w*)\b|\bhours\b", re.IGNORECASE)


_CLOSE = re.compile(r"^clos\w+$|^schlie\w+$", re.IGNORECASE)


_TIME = re.compile(
    r"\b\d{1,2}(?:[:.]\d\d)?\s*(?:a\.?m|p\.?m|uhr|h)?\.?\s*(?:[-\u2013\u2014]|to|until|till|bis)\s*\d{1,2}",
    re.IGNORECASE,
)


_PIECE = re.compile(r"(?:;|,|\.(?=\s+[A-ZÄÖÜ])|\s+(?:and|und)\s+(?=(?:it |es )?(?:is|ist|closed|geschlossen)\b))\s*")


def asked_day(question: str) -> tuple[int, bool] | None:
    """Return the day of the week that a question about opening names, and whether it asks what is open then."""
    days = _days_of(question)
    is_closed = bool(_CLOSED.search(question))
    if len(days) != 1 or not (is_closed or _OPEN.search(question)):
        return None
    return next(iter(days)), not is_closed


def is_open(text: str, day: int, *, of_hours: bool = False) -> bool | None:
    """Return whether a text says that something is open on a day; None if it does not say.

    `of_hours` marks text below a heading such as “Opening hours”, where every time is an opening time.
    """
    opened, closed = set[int](), set[int]()
    for days, says_closed in _statements(text, of_hours=of_hours):
        (closed if says_closed else opened).update(days)
    if day in closed:
        return False
    if day in opened:
        return True
    return False if len(opened) >= A_WEEK else None


def is_about_opening(text: str) -> bool:
    """Return whether a text or a word is about opening: hours, days, or being closed."""
    return any(pattern.search(text) for pattern in (_OPEN, _CLOSED, _DAY, _CLOSE))


def names_day(text: str, day: int) -> bool:
    """Return whether a text names the day itself."""
    return any(_number(match[0]) == day for match in _DAY.finditer(text))


def _statements(text: str, *, of_hours: bool) -> Iterator[tuple[Days, bool]]:
    """Yield the days that each piece of a text names, and whether it says they are closed."""
    pending_days: Days = frozenset()
    is_about_opening = of_hours or bool(_OPEN.search(text))
    for piece in _PIECE.split(text):
        plain, _, but = piece.partition(match[0]) if (match := _BUT.search(piece)) else (piece, "", "")
        days = (pending_days | _days_of(plain)) - _days_of(but)
        pending_days = frozenset()
        if _CLOSED.search(plain):
            yield days, True
            yield _days_of(but), False
        elif _OPEN.search(plain) or (is_about_opening and (_TIME.search(plain) or _EVERY_DAY.search(plain) or but)):
            yield days, False
            yield _days_of(but), True
        else:
            pending_days = days
    if pending_days and is_about_opening:
        yield pending_days, False


def _days_of(text: str) -> Days:
    days = set[int]()
    for match in _RANGE.finditer(text):
        first, last = _number(match["first"]), _number(match["last"])
        days.update((first + step) % 7 for step in range((last - first) % 7 + 1))
    days.update(_number(match[0]) for match in _DAY.finditer(text))
    days.update(ALL if _EVERY_DAY.search(text) else ())
    days.update(WEEKDAYS if _ON_WEEKDAYS.search(text) else ())
    days.update(ALL - WEEKDAYS if _AT_WEEKENDS.search(text) else ())
    return frozenset(days)


def _number(name: str) -> int:
    return _FIRST_LETTERS[name.casefold()[:2]]


LONGEST = 400  # characters of a quote


MOST_QUOTES = 6  # quotes of one page in a report


MAX_QUESTION = 500  # characters of a question that a refusal repeats


_MARKUP = re.compile(r"([\\`*<\[\]])")


_INNER: Final = str.maketrans({"“": "\u2018", "”": "\u2019", '"': "'"})


def answer(findings: Sequence[Finding], language: str, refusing: str) -> str:
    """Return the findings as markdown, grouped by page; `refusing` is the phrase if there are none."""
    return "\n\n".join(part for chain in _chains(findings) for part in _chain(chain, language, refusing))


def source(statement: RankedStatement, place: SourcePlace) -> str:
    """Return a page's words and number, as the source in JSON or CSV; for a document, its place."""
    return quoted(replace(statement, places=(place,))) if place.number else str(place)


def digest(library: Library, text_language: str, request: str, language: str) -> str:
    """Return what the pages say about a request, page by page; "" if nothing is relevant."""
    search, about = PageSearch(library, text_language), query(request)
    pages: dict[str, list[Passage]] = {}
    for passage in search.telling(without_addresses(about)):
        pages.setdefault(passage.place.source, []).append(passage)
    sections = [
        "\n\n".join(
            [
                f"## {_escape(passages[0].place.document)}",
                "\n".join(f"- {_passage(passage)}" for passage in _best(passages)),
            ]
        )
        for passages in pages.values()
    ]
    title = _escape(" ".join(about.split()))
    return "\n\n".join([f"# {say('pages_on', language, about=title)}", *sections]) if sections else ""


def _chains(findings: Sequence[Finding]) -> Iterator[list[Finding]]:
    """Yield the findings in groups: a question and those that continue it."""
    chain: list[Finding] = []
    for finding in findings:
        if chain and not finding.goes_on:
            yield chain
            chain = []
        chain.append(finding)
    if chain:
        yield chain


def _chain(chain: list[Finding], language: str, refusing: str) -> Iterator[str]:
    """Yield a list of pages: what each says about the first question, then about those that continue it."""
    if not chain[0].statements:
        yield from (_refusal(finding, language, refusing) for finding in chain)
        return
    page_maps = [_by_source(finding) for finding in chain]
    lines = []
    for source, place in {source: place for page_map in page_maps for source, (place, _) in page_map.items()}.items():
        quotes = [quote for page_map in page_maps if source in page_map for quote in page_map[source][1]]
        unsaid = [
            finding.question for finding, page_map in zip(chain, page_maps, strict=True) if source not in page_map
        ]
        refusals = [say("page_not_said", language, question=_shorten(question)) for question in unsaid]
        lines.append(_of_page(place, [*dict.fromkeys(quotes), *refusals]))
    yield lines[0] if len(lines) == 1 and "\n" not in lines[0] else "\n".join(f"- {line}" for line in lines)


def _by_source(finding: Finding) -> dict[str, tuple[SourcePlace, list[str]]]:
    """Return the quotes from each source; words that two pages share are quoted once, with both numbers."""
    pages: dict[str, tuple[SourcePlace, list[str]]] = {}
    for statement in finding.statements:
        place = statement.places[0]
        pages.setdefault(place.source, (place, []))[1].append(quoted(statement))
    return pages


def _of_page(place: SourcePlace, quotes: list[str]) -> str:
    title = _escape(place.document)
    return (
        f"{title}: {quotes[0]}" if len(quotes) == 1 else "\n".join([f"{title}:", *(f"  - {quote}" for quote in quotes)])
    )


def _refusal(finding: Finding, language: str, phrase: str) -> str:
    """Return the closest quotes, marked as no answer; if nothing is close, a plain refusal."""
    question = _shorten(finding.question)
    if not finding.closest:
        return say(phrase, language, question=question)
    close = "\n".join(f"- {_of_page(statement.places[0], [quoted(statement)])}" for statement in finding.closest)
    return f"{say('closest', language, question=question)}\n\n{close}"


def quoted(statement: RankedStatement) -> str:
    """Quote a statement with its citations: the number of a page, or the name of a document."""
    words = statement.words or (("", statement.value),)
    numbers = "".join(dict.fromkeys(_citation(place) for place in statement.places))
    return f"{', '.join(_labelled_quote(label, text) for label, text in words)}{numbers}"


def _passage(passage: Passage) -> str:
    return quoted(RankedStatement(passage.label, passage.value, (passage.place,), passage.words))


def _citation(place: SourcePlace) -> str:
    return f" [{place.number}]" if place.number else f" — {_escape(str(place))}"


def _labelled_quote(label: str, text: str) -> str:
    short_text = text if len(text) <= LONGEST else f"{text[:LONGEST].rpartition(' ')[0]} …"
    quote = f"“{_escape(short_text.translate(_INNER))}”"
    return f"{_escape(label)}: {quote}" if label else quote


def _best(passages: list[Passage]) -> list[Passage]:
    """Return the most relevant passages, in page order."""
    return sorted(passages[:MOST_QUOTES], key=lambda passage: passage.order)


def _shorten(question: str) -> str:
    return " ".join(question.split())[:MAX_QUESTION]


def _escape(text: str) -> str:
    """Escape a text, so that it is not read as markup or as the number of a source."""
    return _MARKUP.sub(r"\\\1", text)
