"""What is worth knowing of pages before anybody reads them: how well each fits, its key points, whom it names (C-07).

A page is as relevant as its best passage. Scores are comparable within one result: the best page has the share of the
question's words that its best passage holds, the others as much of it as their passages score.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from poweron_events.execution import PageFindings
from poweron_services.actions.named_entities import entities
from poweron_services.actions.page_passages import PageSentence, passages, sentences
from poweron_services.actions.page_relevance import Relevance
from poweron_services.models.builtin.vocabulary import known_language

BEST: Final = 5  # pages of which more than the relevance is told
KEY_POINTS: Final = 3
MAX_KEY_POINT: Final = 300  # characters
LEAST_WORDS: Final = 4  # of a sentence that says something by itself


@dataclass(frozen=True, slots=True)
class Said:
    """What a page says."""

    title: str
    text: str


def ranked(
    pages: Sequence[Said], question: str, language: str | None, *, as_given: bool = False
) -> list[tuple[int, PageFindings]]:
    """The numbers of the pages, best first or as they were given, with what was found in each.

    Of equals, the first comes first.
    """
    if not pages:
        return []
    spoken = known_language(language, question or pages[0].text)
    read = [sentences(page.text, spoken) for page in pages]
    scores = _relevance(pages, read, question, spoken)
    order = sorted(range(len(pages)), key=lambda number: (0 if as_given else -scores[number], number))
    best = order[:BEST]
    points = _key_points([read[number] for number in best], question, spoken)
    told = {
        number: PageFindings(
            relevance_score=scores[number], key_points=said, entities=entities(_plain_text(read[number]))
        )
        for number, said in zip(best, points, strict=True)
    }
    return [(number, told.get(number) or PageFindings(relevance_score=scores[number])) for number in order]


def _relevance(
    pages: Sequence[Said], read: Sequence[tuple[PageSentence, ...]], question: str, language: str
) -> list[int]:
    texts = [
        (number, f"{page.title} {passage}")
        for number, (page, said) in enumerate(zip(pages, read, strict=True))
        for passage in [*passages(said)] or [""]
    ]
    index = Relevance((text for _, text in texts), language)
    scores = index.scores(question)
    best = max(range(len(texts)), key=lambda place: scores[place], default=None)
    if best is None or not scores[best]:
        return [0] * len(pages)
    whole = 1_000 * index.share(question, texts[best][1]) / scores[best]
    found = [0.0] * len(pages)
    for (number, _), score in zip(texts, scores, strict=True):
        found[number] = max(found[number], score)
    return [round(whole * score) for score in found]


def _key_points(read: Sequence[tuple[PageSentence, ...]], question: str, language: str) -> list[tuple[str, ...]]:
    """Of each page the sentences that fit best; where none does, the first ones."""
    scores = Relevance((f"{each.place} {each.text}" for said in read for each in said), language).scores(question)
    points, start = list[tuple[str, ...]](), 0
    for said in read:
        own = scores[start : start + len(said)]
        start += len(said)
        telling = [place for place, each in enumerate(said) if len(each.text.split()) >= LEAST_WORDS]
        fitting = [place for place in telling if own[place]] or telling[:KEY_POINTS]
        chosen = sorted(fitting, key=lambda place: (-own[place], place))
        points.append(tuple(dict.fromkeys(_with_place(said[place]) for place in chosen))[:KEY_POINTS])
    return points


def _with_place(sentence: PageSentence) -> str:
    place = f" ({sentence.place})"
    room = MAX_KEY_POINT - len(place)
    text = sentence.text if len(sentence.text) <= room else f"{sentence.text[: room - 1]}…"
    return text + place


def _plain_text(read: tuple[PageSentence, ...]) -> str:
    return "\n".join(sentence.text for sentence in read)
