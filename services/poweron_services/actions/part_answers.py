"""A task done from all parts of long documents: each part is asked for by itself, then the answers are put together.

Parts are asked for side by side. One that a model does not take is halved. Where a budget holds no more, or a model
will not answer some part, what was answered is what there is, and it is said so.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from poweron_events.errors import Refused
from poweron_services.actions.action import Order
from poweron_services.actions.document_passages import Passage, PassageText
from poweron_services.actions.output_formats import written
from poweron_services.actions.passage_choice import in_parts
from poweron_services.actions.process_prompts import DocumentTask, process_prompt
from poweron_services.actions.side_by_side import side_by_side
from poweron_services.decider.rules import BudgetUsedUp
from poweron_services.models.chat_model import TooLong
from poweron_services.models.prompts import NOTHING, SourceText

AT_ONCE: Final = 8  # parts that are asked for side by side
MAX_PARTS: Final = 200  # of all documents together; of more than these every second, third … one is read
PART: Final = 60_000  # characters of a part, where a model takes as many and these are parts enough
LEAST: Final = 1_000  # characters, below which no part is halved
LAYERS: Final = 8  # times that answers are put together in groups before they are put together as one
BUDGET: Final = "A budget did not hold more: {done} of {total} parts were asked for. {why}"
UNANSWERED: Final = "{count} of {total} parts were not answered. {why}"
OF_A_PART: Final = frozenset({"answer_refused", "answer_cut_off", "answer_empty"})
"""Why a model did not answer one part; it may answer the others, which are paid for."""
NOT_TOGETHER: Final = (
    "A budget did not hold putting the answers from the parts together: they stand one after the other."
)
SHORTENED: Final = "What was found in some parts was too long to be put together, and was shortened."

Part = list[tuple[int, list[Passage]]]
"""Passages of texts, which are known by their numbers."""


@dataclass(frozen=True, slots=True)
class FromParts:
    """What all parts together came to."""

    text: str
    notes: tuple[str, ...]
    shown: tuple[tuple[Passage, ...], ...]
    """The passages of each text that were shown."""


@dataclass(slots=True)
class PartAnswers:
    """Asks for one task over the parts of some texts."""

    order: Order
    task: DocumentTask
    texts: Sequence[PassageText]
    room: int
    """Characters that a model takes at once."""
    notes: list[str] = field(default_factory=list)
    done: int = 0
    is_shortened: bool = False

    async def answer(self) -> FromParts:
        """The task's output from all parts.

        Raises:
            Refused: no part was answered, or no model can be asked at all.
        """
        parts = self._parts()
        answers = await self._asked(parts)
        shown: list[list[Passage]] = [[] for _ in self.texts]
        for part, answer in zip(parts, answers, strict=True):
            for number, passages in part if answer is not None else ():
                shown[number] += passages
        found = [
            SourceText(f"part {number}", f"part {number} of {len(parts)}", answer)
            for number, answer in enumerate(answers, start=1)
            if answer is not None and answer.strip().strip("`*.") != NOTHING
        ]
        text = await self._together(found, len(parts))
        notes = (*self.notes, *([SHORTENED] if self.is_shortened else []))
        return FromParts(text, notes, tuple(map(tuple, shown)))

    def _parts(self) -> list[Part]:
        total = sum(len(text.source.text) for text in self.texts)
        size = min(self.room, max(PART, total * 5 // 4 // MAX_PARTS))
        parts = in_parts(self.texts, size)
        kept = min(len(parts), MAX_PARTS)
        return [parts[number * len(parts) // kept] for number in range(kept)]

    async def _asked(self, parts: Sequence[Part]) -> list[str | None]:
        """The answer from each part; None where a budget did not hold it, or the model would not answer."""
        places = asyncio.Semaphore(AT_ONCE)
        stopped: list[BudgetUsedUp] = []
        unanswered: list[Refused] = []
        self.order.tell_progress("parts_answered", 0, len(parts))

        async def ask(number: int, part: Part) -> str | None:
            async with places:
                if stopped:
                    return None
                try:
                    answer = await self._of_part(part, number, len(parts))
                except BudgetUsedUp as error:
                    stopped.append(error)
                    return None
                except Refused as error:
                    if error.code not in OF_A_PART:
                        raise
                    unanswered.append(error)
                    return None
                self.done += 1
                self.order.tell_progress("parts_answered", self.done, len(parts))
                return answer

        answers = await side_by_side(ask(number, part) for number, part in enumerate(parts, start=1))
        if not self.done and (why := [*stopped, *unanswered]):
            raise why[0]
        if stopped:
            self.notes.append(BUDGET.format(done=self.done, total=len(parts), why=stopped[0]))
        if unanswered:
            self.notes.append(UNANSWERED.format(count=len(unanswered), total=len(parts), why=unanswered[0]))
        return answers

    async def _of_part(self, part: Part, number: int, count: int) -> str:
        texts = [replace(self.texts[text].source, text=self.texts[text].shown(passages)) for text, passages in part]
        try:
            asked = process_prompt(self.task, texts, "part", part=(number, count))
            return (await self.order.ask(asked)).text
        except TooLong:
            halves = _halves(part)
            if sum(len(text.text) for text in texts) < LEAST or len(halves) == 1:
                raise
            self.room = min(self.room, sum(len(text.text) for text in texts) // 2)
        answers = [await self._of_part(half, number, count) for half in halves]
        return "\n\n".join(answer for answer in answers if answer.strip() != NOTHING) or NOTHING

    async def _together(self, found: Sequence[SourceText], count: int) -> str:
        """The answers as one output; where no budget holds that, one after the other."""
        if len(found) == 1 and self.task.output_format == "markdown":
            return found[0].text
        try:
            return await self._put_together(found, count)
        except BudgetUsedUp:
            if not found or self.task.output_format not in ("markdown", "text"):
                raise
            self.notes.append(NOT_TOGETHER)
            return "\n\n".join(text.text for text in found)

    async def _put_together(self, found: Sequence[SourceText], count: int) -> str:
        for _ in range(LAYERS):
            if _size(found) <= self.room:
                break
            groups = _groups([self._shortened(text) for text in found], self.room)
            found = await side_by_side(self._of_group(group, count) for group in groups)
        while True:
            try:
                text, notes = await written(
                    self.order.ask, process_prompt(self.task, found, "answers", part=(0, count))
                )
            except TooLong:
                if self.room < LEAST:
                    raise
                self.room //= 2
                found = [self._shortened(text, of=max(1, len(found))) for text in found]
            else:
                self.notes += notes
                return text

    async def _of_group(self, group: Sequence[SourceText], count: int) -> SourceText:
        asked = process_prompt(self.task, group, "answers", part=(0, count), output_format="markdown")
        return replace(group[0], name=f"{group[0].name} and after it", text=(await self.order.ask(asked)).text)

    def _shortened(self, text: SourceText, of: int = 2) -> SourceText:
        """As much of an answer as leaves room for another one."""
        most = self.room // of - len(text.name) - LEAST // 10
        if len(text.text) <= most:
            return text
        self.is_shortened = True
        return replace(text, text=text.text[: max(most, 0)])


def _halves(part: Part) -> list[Part]:
    """A part as two of about the same size; one of a single passage stays as it is."""
    every = [(number, passage) for number, passages in part for passage in passages]
    half, size = 0, sum(passage.end - passage.start for _, passage in every) // 2
    while half < len(every) - 1 and size > 0:
        size -= every[half][1].end - every[half][1].start
        half += 1
    return [_regrouped(one) for one in (every[:half], every[half:]) if one]


def _regrouped(every: Sequence[tuple[int, Passage]]) -> Part:
    part: Part = []
    for number, passage in every:
        if not part or part[-1][0] != number:
            part.append((number, []))
        part[-1][1].append(passage)
    return part


def _groups(found: Sequence[SourceText], room: int) -> list[list[SourceText]]:
    groups: list[list[SourceText]] = []
    for text in found:
        if not groups or _size([*groups[-1], text]) > room:
            groups.append([])
        groups[-1].append(text)
    return groups


def _size(found: Sequence[SourceText]) -> int:
    return sum(len(text.text) + len(text.name) + LEAST // 10 for text in found)
