"""A model's judgement of pages, if a setting asks for it: their relevance, key points and entities.

A model may say anything: a sentence or name that it attributes to a page counts only if it appears there.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Final

from pydantic import Field

from poweron_events.errors import PowerOnError
from poweron_events.event import Model
from poweron_events.execution import PageFindings
from poweron_services.actions.action import Ask
from poweron_services.actions.page_findings import BEST, KEY_POINTS, FoundPage, excerpt, with_place
from poweron_services.actions.page_relevance import PageSentence
from poweron_services.models.answers import Texts, parse
from poweron_services.models.prompts import ProcessPrompt, SourceText, Template

TEMPLATE: Final = Template.beside(__file__, "judge_pages.v1.md")
MAX_QUESTION: Final = 2_000  # characters
NOT_JUDGED: Final = "No model has judged the pages; they are in the order of their words."


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
    judged = [_told(page, said.get(number)) for number, page in enumerate(shown, start=1)]
    judged.sort(key=lambda page: -page.findings.relevance_score)
    return [*judged, *others], ()


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
    entities = [entity for entity in said.entities if entity.strip() and _plain(entity) in text]
    found = page.findings
    return replace(
        page,
        findings=PageFindings(
            relevance_score=said.relevance,
            key_points=tuple(dict.fromkeys(points))[:KEY_POINTS] or found.key_points,
            entities=tuple(dict.fromkeys(entity[:100] for entity in entities))[:10] or found.entities,
        ),
    )


def _sentence(page: FoundPage, point: str) -> PageSentence | None:
    """Return the sentence of the page that a model has copied."""
    words = _plain(point)
    return next((one for one in page.sentences if words and words in _plain(one.text)), None)


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()
