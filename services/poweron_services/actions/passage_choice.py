"""Choosing the passages of long texts to show for a task: the best ones over all texts, with their neighbours."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain, zip_longest
from typing import Final

from poweron_services.actions.document_passages import DocumentPassage, PassageText
from poweron_services.actions.page_relevance import Relevance
from poweron_services.models.builtin.question import searched
from poweron_services.models.builtin.vocabulary import language_of

MOST: Final = 2_000  # passages that are considered for one question
WITH_NEIGHBOURS: Final = 20  # best passages that are shown with their neighbours
OPENING: Final = 2  # passages at the start of each text with chosen passages, if there is room
TOLD_AFTER: Final = 500  # passages between two reports of progress
AROUND: Final = 120  # characters for a gap, a heading and the row numbers of a passage


OnSearched = Callable[[int, int], None]
"""Called with the number of passages searched, and the total."""


def chosen(
    texts: Sequence[PassageText], task: str, room: int, on_searched: OnSearched = lambda _, __: None
) -> list[list[DocumentPassage]]:
    """Return the passages of each text to show for the task, in reading order and within this many characters."""
    ends = [*accumulate(len(text.passages) for text in texts)]
    all_passages = [(number, passage) for number, text in enumerate(texts) for passage in text.passages]
    language = language_of(task)
    relevance = Relevance(_search_texts(texts, all_passages, on_searched), language)
    rankings = [relevance.best(question, MOST) for question in searched(task, language) or [task]]
    choice = _Choice(texts, all_passages, room)
    for place, number in _in_turn(rankings):
        around = (number, number - 1, number + 1) if place < WITH_NEIGHBOURS else (number,)
        choice.take(number, around)
    openings = sorted({all_passages[number][0] for number in choice.taken}) or range(len(texts))
    for opening in range(OPENING if choice.taken else MOST):
        for number in openings:
            first = ends[number] - len(texts[number].passages)
            choice.take(first, (first + opening,))
    return choice.by_text()


def _search_texts(
    texts: Sequence[PassageText], all_passages: Sequence[tuple[int, DocumentPassage]], on_searched: OnSearched
) -> Iterator[str]:
    """Yield the words by which each passage is found, and report progress every `TOLD_AFTER` passages."""
    for done, (number, passage) in enumerate(all_passages):
        if done % TOLD_AFTER == 0:
            on_searched(done, len(all_passages))
        yield texts[number].words(passage)
    on_searched(len(all_passages), len(all_passages))


def _in_turn(rankings: Sequence[Sequence[int]]) -> Iterator[tuple[int, int]]:
    """Yield the best passage of each question, then the second of each, and so on."""
    for place, numbers in enumerate(zip_longest(*rankings)):
        yield from ((place, number) for number in numbers if number is not None)


@dataclass(slots=True)
class _Choice:
    texts: Sequence[PassageText]
    every: Sequence[tuple[int, DocumentPassage]]
    room: int
    taken: dict[int, None] = field(default_factory=dict)
    begun: set[int] = field(default_factory=set)

    def take(self, of: int, numbers: Sequence[int]) -> None:
        """Take those of the passages that are of the same text, while there is room."""
        for number in numbers:
            if 0 <= number < len(self.every) and self.every[number][0] == self.every[of][0]:
                self._take(number)

    def _take(self, number: int) -> None:
        text, passage = self.every[number]
        takes = size(self.texts[text], passage)
        takes += 0 if text in self.begun else len(self.texts[text].head) + len(self.texts[text].tail) + AROUND
        if number not in self.taken and takes <= self.room:
            self.room -= takes
            self.taken[number] = None
            self.begun.add(text)

    def by_text(self) -> list[list[DocumentPassage]]:
        result: list[list[DocumentPassage]] = [[] for _ in self.texts]
        for number in sorted(self.taken):
            text, passage = self.every[number]
            result[text].append(passage)
        return result


def size(text: PassageText, passage: DocumentPassage) -> int:
    """Return the most characters that a passage takes when it is shown by itself."""
    table = passage.table[1] - passage.table[0] if passage.table else 0
    place = len(text.places[passage.place]) + len(passage.heading)
    return passage.end - passage.start + table + place + AROUND


def in_parts(texts: Sequence[PassageText], room: int) -> list[list[tuple[int, list[DocumentPassage]]]]:
    """Divide all passages into parts of at most this many characters; each part lists its texts by number, in order."""
    parts: list[list[tuple[int, list[DocumentPassage]]]] = []
    left = 0
    for number, passage in chain.from_iterable(
        ((number, passage) for passage in text.passages) for number, text in enumerate(texts)
    ):
        length = passage.end - passage.start
        begins = len(texts[number].head) + len(texts[number].tail) + size(texts[number], passage)
        if not parts or left < length or (parts[-1][-1][0] != number and left < begins):
            parts.append([])
            left = room
        if not parts[-1] or parts[-1][-1][0] != number:
            parts[-1].append((number, []))
            left -= begins - length
        elif parts[-1][-1][1][-1].place != passage.place:
            left -= len(texts[number].places[passage.place]) + AROUND
        parts[-1][-1][1].append(passage)
        left -= length
    return parts
