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
    pages: Sequence[FoundPage], question: str, language: str | None, ask: Ask
) -> tuple[list[FoundPage], tuple[str, ...]]:
    """Return the pages in the order that a model gives them, and a note if it gives none."""
    best, others = pages[:BEST], pages[BEST:]
    try:
        prompt = await asyncio.to_thread(_prompt, best, question, language)
        answer = parse((await ask(prompt)).text, JudgedPages)
    except PowerOnError:  # the pages remain usable, and the record of the calls says why
        return [*pages], (NOT_JUDGED,)
    judgements = {judgement.page: judgement for judgement in answer.pages}
    result = [_with_judgement(page, judgements.get(number)) for number, page in enumerate(best, start=1)]
    result.sort(key=lambda page: -page.findings.relevance_score)
    return [*result, *others], ()


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


def _with_judgement(page: FoundPage, judgement: JudgedPage | None) -> FoundPage:
    if judgement is None:
        return page
    text = _plain(" ".join(sentence.text for sentence in page.sentences))
    points = [with_place(place) for point in judgement.key_points if (place := _sentence(page, point)) is not None]
    entities = [entity for entity in judgement.entities if entity.strip() and _plain(entity) in text]
    findings = page.findings
    return replace(
        page,
        findings=PageFindings(
            relevance_score=judgement.relevance,
            key_points=tuple(dict.fromkeys(points))[:KEY_POINTS] or findings.key_points,
            entities=tuple(dict.fromkeys(entity[:100] for entity in entities))[:10] or findings.entities,
        ),
    )


def _sentence(page: FoundPage, point: str) -> PageSentence | None:
    """Return the sentence of the page that a model has copied."""
    words = _plain(point)
    return next((sentence for sentence in page.sentences if words and words in _plain(sentence.text)), None)


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()
