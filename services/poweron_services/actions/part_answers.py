"""A task done from all parts of long documents: the model answers each part separately, then merges the answers.

Parts are sent concurrently. A part that is too long for the model is halved. If a budget is used up, or the model
refuses a part, the other answers are used, and a note says so. Answers that the model cannot merge follow one another.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Final

from poweron_events.errors import Refused
from poweron_services.actions.action import Failed, Order
from poweron_services.actions.document_passages import DocumentPassage, PassageText, in_parts
from poweron_services.actions.output_formats import joined_by_rule, written
from poweron_services.actions.process_prompts import DocumentTask, process_prompt
from poweron_services.actions.texts import side_by_side
from poweron_services.decider.rules import BudgetUsedUp
from poweron_services.models.chat_model import TooLong
from poweron_services.models.prompts import NOTHING, OutputFormat, SourceText

AT_ONCE: Final = 8  # parts in flight at once
MAX_PARTS: Final = 200  # of all documents together; if there are more, only every second, third … one is read
PART: Final = 60_000  # characters of a part, if the model accepts as many and `MAX_PARTS` parts are enough
LEAST: Final = 1_000  # characters, below which a part is not halved
AROUND: Final = 100  # characters around each answer when several are shown
AFTER: Final = " and after it"
SHRUNK: Final = 0.9  # share of their size to which answers must shrink each time they are merged in groups
BUDGET: Final = "A budget did not hold more: {done} of {total} parts were answered whole. {why}"
UNANSWERED: Final = "{count} of {total} parts were not answered. {why}"
OF_A_PART: Final = frozenset({"answer_refused", "answer_cut_off", "answer_empty"})
"""The error codes for a part that the model did not answer; the answers from the other parts are paid for and used."""
OF_JOINING: Final = OF_A_PART | {"output_invalid", "prompt_too_long"}
"""The error codes for answers that the model did not merge; they are paid for and used unmerged."""

Part = list[tuple[int, list[DocumentPassage]]]
"""Passages of texts, which are identified by number."""
Answered = list[tuple[Part, str]]
"""The answers from a part, or from each piece of it that was sent separately."""


@dataclass(frozen=True, slots=True)
class FromParts:
    """The result from all parts together."""

    text: str
    output_format: OutputFormat
    """The requested one, or markdown if the answers from the parts cannot be joined in it by rule."""
    notes: tuple[str, ...]
    shown: tuple[tuple[DocumentPassage, ...], ...]
    """The passages of each text that were shown."""
    not_joined: str
    """Why the answers from the parts follow one another unmerged; "" if a model merged them."""


@dataclass(slots=True)
class PartAnswers:
    """Does one task over the parts of some texts."""

    order: Order
    task: DocumentTask
    texts: Sequence[PassageText]
    room: int
    """How many characters the model accepts at once."""
    notes: list[str] = field(default_factory=list)
    done: int = 0

    async def answer(self) -> FromParts:
        """Return the task's output from all parts.

        Raises:
            Refused: no part was answered, or no model can be asked at all.
        """
        parts = self._parts()
        answers_of_parts = await self._ask_parts(parts)
        passages_shown: list[list[DocumentPassage]] = [[] for _ in self.texts]
        for number, passages in chain.from_iterable(part for part, _ in chain.from_iterable(answers_of_parts)):
            passages_shown[number] += passages
        answers = [[answer for _, answer in pairs if not _is_nothing(answer)] for pairs in answers_of_parts]
        text, output_format, not_joined = await self._together(answers)
        return FromParts(text, output_format, tuple(self.notes), tuple(map(tuple, passages_shown)), not_joined)

    def _parts(self) -> list[Part]:
        total = sum(len(text.source.text) for text in self.texts)
        size = min(self.room, max(PART, total * 5 // 4 // MAX_PARTS))
        parts = in_parts(self.texts, size)
        count = min(len(parts), MAX_PARTS)
        return [parts[number * len(parts) // count] for number in range(count)]

    async def _ask_parts(self, parts: Sequence[Part]) -> list[Answered]:
        """Return the answers from each part; none if a budget did not cover it, or the model refused to answer."""
        places = asyncio.Semaphore(AT_ONCE)
        budget_errors: list[BudgetUsedUp] = []
        refusals: list[Refused] = []
        answers: list[Answered] = [[] for _ in parts]
        self.order.tell_progress("parts_answered", 0, len(parts))

        async def ask(number: int, part: Part) -> None:
            async with places:
                if budget_errors:
                    return
                try:
                    await self._ask_part(part, (number, len(parts)), answers[number - 1])
                except BudgetUsedUp as error:
                    budget_errors.append(error)
                except Refused as error:
                    if error.code not in OF_A_PART:
                        raise
                    refusals.append(error)
                else:
                    self.done += 1
                    self.order.tell_progress("parts_answered", self.done, len(parts))

        await side_by_side(ask(number, part) for number, part in enumerate(parts, start=1))
        if not any(answers) and (errors := [*budget_errors, *refusals]):
            raise errors[0]
        if budget_errors:
            self.notes.append(BUDGET.format(done=self.done, total=len(parts), why=budget_errors[0]))
        if refusals:
            self.notes.append(UNANSWERED.format(count=len(refusals), total=len(parts), why=refusals[0]))
        return answers

    async def _ask_part(self, part: Part, place: tuple[int, int], answers: Answered) -> None:
        """Ask about a part, or about its halves if it is too long for the model, and store each answer at once."""
        texts = [replace(self.texts[text].source, text=self.texts[text].shown(passages)) for text, passages in part]
        try:
            prompt = process_prompt(self.task, texts, "part", part=place)
            answers.append((part, (await self.order.ask(prompt)).text))
        except TooLong:
            halves = _halves(part)
            if sum(len(text.text) for text in texts) < LEAST or len(halves) == 1:
                raise
            self.room = min(self.room, sum(len(text.text) for text in texts) // 2)
        else:
            return
        for half in halves:
            await self._ask_part(half, place, answers)

    async def _together(self, answers_of_parts: Sequence[Sequence[str]]) -> tuple[str, OutputFormat, str]:
        """Return the answers as one output, its format, and why it was joined by rule; "" if a model merged it."""
        texts = [
            SourceText(f"part {number}", f"part {number} of {len(answers_of_parts)}", "\n\n".join(answers))
            for number, answers in enumerate(answers_of_parts, start=1)
            if answers
        ]
        if len(texts) == 1 and self.task.output_format == "markdown":
            return texts[0].text, "markdown", ""
        try:
            return await self._merge(texts, len(answers_of_parts)), self.task.output_format, ""
        except Refused as error:
            if not texts or not (isinstance(error, BudgetUsedUp) or error.code in OF_JOINING):
                raise
            answers = [*chain.from_iterable(answers_of_parts)]
            try:
                return joined_by_rule(answers, self.task.output_format), self.task.output_format, str(error)
            except Failed:
                return joined_by_rule(answers, "markdown"), "markdown", str(error)

    async def _merge(self, texts: Sequence[SourceText], count: int) -> str:
        """Return the answers as one output, merged in groups first for as long as they do not fit in one call.

        Raises:
            TooLong: they do not get short enough.
            Refused: as for `written`.
        """
        while True:
            while (before := _size(texts)) > self.room:
                texts = await self._in_groups(texts, count)
                if _size(texts) > max(self.room, before * SHRUNK):
                    raise TooLong("They do not get short enough for the model.")
            try:
                text, notes = await written(
                    self.order.ask, process_prompt(self.task, texts, "answers", part=(0, count))
                )
            except TooLong:
                self.room = min(self.room, _size(texts)) // 2
                if self.room < LEAST:
                    raise
            else:
                self.notes += notes
                return text

    async def _in_groups(self, texts: Sequence[SourceText], count: int) -> list[SourceText]:
        pieces = [piece for text in texts for piece in _pieces(text, self.room // 2 - len(text.name) - AROUND)]
        groups = await side_by_side(self._of_group(group, count) for group in _groups(pieces, self.room))
        return [*chain.from_iterable(groups)]

    async def _of_group(self, group: Sequence[SourceText], count: int) -> list[SourceText]:
        """Merge a group into one text, or into several if it is too long for the model."""
        prompt = process_prompt(self.task, group, "answers", part=(0, count), output_format="markdown")
        try:
            text = (await self.order.ask(prompt)).text
        except TooLong:
            if _size(group) < LEAST:
                raise
        else:
            return [replace(group[0], name=f"{group[0].name.removesuffix(AFTER)}{AFTER}", text=text)]
        pieces = group if len(group) > 1 else _pieces(group[0], len(group[0].text) // 2 + 1)
        half = len(pieces) // 2
        return [*await self._of_group(pieces[:half], count), *await self._of_group(pieces[half:], count)]


def _is_nothing(answer: str) -> bool:
    return answer.strip().strip("`*.") == NOTHING


def _pieces(text: SourceText, most: int) -> list[SourceText]:
    """Split a text into pieces of at most this many characters, at the end of a line or a word if possible."""
    pieces, rest = [], text.text
    while len(rest) > most:
        line, word = (rest.rfind(end, most // 2, most) + 1 for end in ("\n", " "))
        pieces.append(rest[: line or word or most])
        rest = rest[line or word or most :]
    return [replace(text, text=piece) for piece in (*pieces, rest)]


def _halves(part: Part) -> list[Part]:
    """Split a part into two of about the same size; a single passage is not split."""
    all_passages = [(number, passage) for number, passages in part for passage in passages]
    half, size = 0, sum(passage.end - passage.start for _, passage in all_passages) // 2
    while half < len(all_passages) - 1 and size > 0:
        size -= all_passages[half][1].end - all_passages[half][1].start
        half += 1
    return [_group(half_passages) for half_passages in (all_passages[:half], all_passages[half:]) if half_passages]


def _group(pairs: Sequence[tuple[int, DocumentPassage]]) -> Part:
    part: Part = []
    for number, passage in pairs:
        if not part or part[-1][0] != number:
            part.append((number, []))
        part[-1][1].append(passage)
    return part


def _groups(texts: Sequence[SourceText], room: int) -> list[list[SourceText]]:
    groups: list[list[SourceText]] = []
    for text in texts:
        if not groups or _size([*groups[-1], text]) > room:
            groups.append([])
        groups[-1].append(text)
    return groups


def _size(texts: Sequence[SourceText]) -> int:
    return sum(len(text.text) + len(text.name) + AROUND for text in texts)
