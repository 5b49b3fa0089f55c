"""What is worth knowing about pages before reading them: their relevance, key points and named entities (C-07).

A page is as relevant as its best passage. Scores are comparable within one result: the best page scores the share of
the question's words that its best passage contains, and the others score in proportion to their passages.

If a setting asks for it, a model judges the best pages instead. A model may say anything: a sentence or name that it
attributes to a page counts only if it appears there.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Annotated, Final

from pydantic import Field

from poweron_events.errors import PowerOnError
from poweron_events.event import Model
from poweron_events.step_events import PageFindings
from poweron_services.actions.action import Ask
from poweron_services.actions.page_relevance import PageSentence, Relevance, passages, sentences
from poweron_services.models.answers import Texts, parse
from poweron_services.models.builtin.vocabulary import STOP_WORDS, known_language
from poweron_services.models.prompts import ProcessPrompt, SourceText, Template

MAX_ENTITIES: Final = 10
MAX_ENTITY: Final = 100  # characters
MAX_TEXT: Final = 30_000  # characters that are searched
_MONTH: Final = (
    r"(?:jan(?:uary|uar)?|feb(?:ruary|ruar)?|mar(?:ch)?|märz|apr(?:il)?|may|mai|june?|juni|july?|juli|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|okt(?:ober)?|nov(?:ember)?|dec(?:ember)?|dez(?:ember)?)"
)
_CURRENCY: Final = r"(?:US\$|[$€£¥]|(?:USD|EUR|CHF|GBP)\b)"
_NUMBER: Final = r"\d[\d.,'\u2019]{0,20}"
_SCALE: Final = r"(?:\s(?:million|billion|thousand|Mio\.?|Mrd\.?|Millionen|Milliarden))?"
_UNIT: Final = r"(?:%|percent\b|prozent\b|euros?\b|dollars?\b|francs?\b|franken\b|(?:km|kg|kWh|MW|GW|kW|m²|ha)\b)"
_DATES: Final = re.compile(
    r"\b\d{4}-\d\d-\d\d\b|\b\d{1,2}\.\s?\d{1,2}\.\s?\d{4}\b|\b\d{1,2}/\d{1,2}/\d{2,4}\b"
    rf"|\b\d{{1,2}}(?:\.|st|nd|rd|th)?\s(?:of\s)?{_MONTH}\b\.?(?:,?\s\d{{4}})?"
    rf"|\b{_MONTH}\b\.?\s\d{{1,2}}(?:st|nd|rd|th)?,\s\d{{4}}|\b{_MONTH}\b\.?\s\d{{4}}\b",
    re.IGNORECASE,
)
_AMOUNTS: Final = re.compile(
    rf"{_CURRENCY}\s?{_NUMBER}{_SCALE}|\b{_NUMBER}{_SCALE}\s?(?:{_CURRENCY}|{_UNIT})", re.IGNORECASE
)
_NAMES: Final = re.compile(
    r"\b[^\W\d_a-z][\w'\u2019.-]{0,40}"
    r"(?: (?:(?:of|the|de|la|von|van|der|für|and|&) ){0,2}[^\W\d_a-z][\w'\u2019-]{0,40}){1,4}"
)
_SMALL: Final = frozenset().union(*STOP_WORDS.values())
BEST: Final = 10  # pages for which more than the relevance is determined
EXCERPT: Final = 2_000  # characters of a page that fit into a prompt
KEY_POINTS: Final = 3
MAX_KEY_POINT: Final = 300  # characters
LEAST_WORDS: Final = 4  # words of a sentence that is meaningful by itself
TEMPLATE: Final = Template.beside(__file__, "judge_pages.v1.md")
MAX_QUESTION: Final = 2_000  # characters
NOT_JUDGED: Final = "No model has judged the pages; they are in the order of their words."


@dataclass(frozen=True, slots=True)
class Said:
    """The title and the text of a page."""

    title: str
    text: str


@dataclass(frozen=True, slots=True)
class FoundPage:
    """A page by its number, and the findings about it."""

    number: int
    title: str
    sentences: tuple[PageSentence, ...]
    findings: PageFindings


def found_in(pages: Sequence[Said], question: str, language: str | None, *, as_given: bool = False) -> list[FoundPage]:
    """Return the findings about each page, best first or in the given order; ties keep the given order."""
    if not pages:
        return []
    text_language = known_language(language, question or pages[0].text)
    page_sentences = [sentences(page.text, text_language) for page in pages]
    scores = _relevance(pages, page_sentences, question, text_language)
    order = sorted(range(len(pages)), key=lambda number: (0 if as_given else -scores[number], number))
    points = _key_points([page_sentences[number] for number in order[:BEST]], question, text_language)
    results = []
    for place, number in enumerate(order):
        findings = PageFindings(relevance_score=scores[number])
        if place < BEST:
            names = entities("\n".join(sentence.text for sentence in page_sentences[number]))
            findings = findings.model_copy(update={"key_points": points[place], "entities": names})
        results.append(FoundPage(number, pages[number].title, page_sentences[number], findings))
    return results


def excerpt(page: FoundPage, question: str, language: str | None) -> str:
    """Return the sentences of a page that fit a question best, in their order, as many as fit into a prompt."""
    scores = Relevance((sentence.text for sentence in page.sentences), known_language(language, question)).scores(
        question
    )
    places, size = list[int](), 0
    for place in sorted(range(len(scores)), key=lambda place: (-scores[place], place)):
        size += len(page.sentences[place].text)
        if size > EXCERPT:
            break
        places.append(place)
    return "\n".join(page.sentences[place].text for place in sorted(places))


def with_place(sentence: PageSentence) -> str:
    """Return a sentence as a key point, with its place."""
    place = f" ({sentence.place})"
    room = MAX_KEY_POINT - len(place)
    text = sentence.text if len(sentence.text) <= room else f"{sentence.text[: room - 1]}…"
    return text + place


class JudgedPage(Model):
    """What a model says about a page."""

    page: int
    relevance: Annotated[int, Field(ge=0, le=1000)]
    key_points: Texts = ()
    entities: Texts = ()


class JudgedPages(Model):
    """The answer to the prompt."""

    pages: tuple[JudgedPage, ...]


async def judged(
    found: Sequence[FoundPage], question: str, language: str | None, ask: Ask
) -> tuple[list[FoundPage], tuple[str, ...]]:
    """Return the pages in the order that a model gives them, and a note if it gives none."""
    shown, others = found[:BEST], found[BEST:]
    try:
        prompt = await asyncio.to_thread(_prompt, shown, question, language)
        answer = parse((await ask(prompt)).text, JudgedPages)
    except PowerOnError:  # the pages remain usable, and the record of the calls says why
        return [*found], (NOT_JUDGED,)
    said = {each.page: each for each in answer.pages}
    pages = [_told(page, said.get(number)) for number, page in enumerate(shown, start=1)]
    pages.sort(key=lambda page: -page.findings.relevance_score)
    return [*pages, *others], ()


def _relevance(
    pages: Sequence[Said], page_sentences: Sequence[tuple[PageSentence, ...]], question: str, language: str
) -> list[int]:
    texts = [
        (number, f"{page.title} {passage}")
        for number, (page, own_sentences) in enumerate(zip(pages, page_sentences, strict=True))
        for passage in [*passages(own_sentences)] or [""]
    ]
    index = Relevance((text for _, text in texts), language)
    scores = index.scores(question)
    best = max(range(len(texts)), key=lambda place: scores[place], default=None)
    if best is None or not scores[best]:
        return [0] * len(pages)
    scale = 1_000 * index.share(question, texts[best][1]) / scores[best]
    best_scores = [0.0] * len(pages)
    for (number, _), score in zip(texts, scores, strict=True):
        best_scores[number] = max(best_scores[number], score)
    return [round(scale * score) for score in best_scores]


def _key_points(
    page_sentences: Sequence[tuple[PageSentence, ...]], question: str, language: str
) -> list[tuple[str, ...]]:
    """Return the sentences of each page that fit best; if none fits, the first ones."""
    scores = Relevance(
        (f"{sentence.heading} {sentence.text}" for own_sentences in page_sentences for sentence in own_sentences),
        language,
    ).scores(question)
    points, start = list[tuple[str, ...]](), 0
    for own_sentences in page_sentences:
        own_scores = scores[start : start + len(own_sentences)]
        start += len(own_sentences)
        telling = [place for place, sentence in enumerate(own_sentences) if len(sentence.text.split()) >= LEAST_WORDS]
        candidates = [place for place in telling if own_scores[place]] or telling[:KEY_POINTS]
        ranking = sorted(candidates, key=lambda place: (-own_scores[place], place))
        points.append(tuple(dict.fromkeys(with_place(own_sentences[place]) for place in ranking))[:KEY_POINTS])
    return points


def entities(text: str) -> tuple[str, ...]:
    """Return the most frequent names, dates and amounts in a text, some of each kind."""
    beginning = text[:MAX_TEXT]
    dates, amounts = (_most_frequent(_values(pattern, beginning)) for pattern in (_DATES, _AMOUNTS))
    numbers = "\n".join([*dates, *amounts])
    names = [name for name in _most_frequent(_names(beginning)) if name not in numbers]
    in_turn = (entity for turn in zip_longest(names, dates, amounts) for entity in turn if entity)
    return tuple(dict.fromkeys(in_turn))[:MAX_ENTITIES]


def _most_frequent(values: Iterator[str]) -> list[str]:
    """Return the most frequent values; those that come first win ties."""
    return [value for value, _ in Counter(values).most_common(MAX_ENTITIES)]


def _values(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    for match in pattern.finditer(text):
        yield " ".join(match[0].split()).strip(".,'\u2019 ")[:MAX_ENTITY]


def _names(text: str) -> Iterator[str]:
    """Yield adjacent capitalised words; a stop word that only begins a sentence is not part of the name."""
    for match in _NAMES.finditer(text):
        words = match[0].strip(".'\u2019- ").split()
        while words and words[0].casefold() in _SMALL:
            words.pop(0)
        if len(words) > 1:
            yield " ".join(words)[:MAX_ENTITY]


def _prompt(pages: Sequence[FoundPage], question: str, language: str | None) -> ProcessPrompt:
    return ProcessPrompt(
        template=TEMPLATE,
        ai_prompt=question[:MAX_QUESTION],
        custom_instructions="",
        language=language,
        output_format="json",
        documents=tuple(
            SourceText(f"page {number}", page.title, excerpt(page, question, language))
            for number, page in enumerate(pages, start=1)
        ),
    )


def _told(page: FoundPage, said: JudgedPage | None) -> FoundPage:
    if said is None:
        return page
    text = _plain(" ".join(sentence.text for sentence in page.sentences))
    points = [with_place(place) for point in said.key_points if (place := _sentence(page, point)) is not None]
    named = [entity for entity in said.entities if entity.strip() and _plain(entity) in text]
    found = page.findings
    return replace(
        page,
        findings=PageFindings(
            relevance_score=said.relevance,
            key_points=tuple(dict.fromkeys(points))[:KEY_POINTS] or found.key_points,
            entities=tuple(dict.fromkeys(entity[:MAX_ENTITY] for entity in named))[:MAX_ENTITIES] or found.entities,
        ),
    )


def _sentence(page: FoundPage, point: str) -> PageSentence | None:
    """Return the sentence of the page that a model has copied."""
    words = _plain(point)
    return next((one for one in page.sentences if words and words in _plain(one.text)), None)


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()
