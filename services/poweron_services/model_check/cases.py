"""The cases of a model check: what a model is shown at each stage, and which answers are right."""

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from poweron_events.content import ContentStore
from poweron_events.fold.stage_specs import PromptStage
from poweron_events.fold.state import Workflow
from poweron_events.outcome import RoundCompleted
from poweron_events.parameters import ParametersSet
from poweron_events.planning import TasksPlanned
from poweron_events.selection import ActionSelected
from poweron_services.model_check.facts import FACTS, CaseFact
from poweron_services.model_check.stories import Story

READING: Final = frozenset({"ai.process", "document.extract"})
OBJECTIVE: Final = {"en": "Find out: {}", "de": "Finde heraus: {}"}
PDF: Final = {"en": " Write a short report of it as a PDF.", "de": " Schreibe dazu einen kurzen Bericht als PDF."}
UNSAID: Final = {"en": "The documents do not say it.", "de": "Die Dokumente sagen dazu nichts."}
_DENIAL: Final = re.compile(
    r"\b(?:no|not|n't|nothing|none|unknown|unable|cannot|without|kein\w*|nicht\w*|unbekannt|ohne)\b|n't\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Case:
    """One question to one stage."""

    stage: PromptStage
    asks: str
    """What the case asks of the model, in a few words."""
    workflow: Workflow
    fact: CaseFact
    is_right: Callable[[Any], bool]
    """Return whether the event, or the text from `process`, is a right answer."""


async def cases(stage: PromptStage, count: int, content: ContentStore) -> list[Case]:
    """Return the first `count` cases of a stage, at most 25."""
    return [await _MAKE[stage](Story(content, fact, number), number) for number, fact in enumerate(FACTS[:count])]


async def _plan(story: Story, number: int) -> Case:
    fact, wants_file = story.fact, number % 5 == 1
    await story.asked(fact.question + (PDF[fact.language] if wants_file else ""))

    def is_right(event: TasksPlanned) -> bool:
        formats = [name for task in event.tasks for name in task.expected_formats]
        if wants_file:
            return bool(formats) and {*formats} <= {"pdf", "markdown"}
        return len(event.tasks) == 1 and not formats

    return _case("plan", "plan a file" if wants_file else "plan one task for one question", story, is_right)


async def _select(story: Story, number: int) -> Case:
    fact, kind = story.fact, number % 5
    if kind == 1:
        await story.asked(fact.question + PDF[fact.language])
        story.planned(OBJECTIVE[fact.language].format(fact.question + PDF[fact.language]), "pdf")
        return _case("select", "write the file that is asked for", story, lambda event: _reads(event) or _writes(event))
    other = FACTS[(number + 7) % len(FACTS)]
    await story.asked(fact.question, *([other] if kind == 3 else []))
    story.planned(OBJECTIVE[fact.language].format(fact.question))
    if kind == 3:
        return _case("select", "choose the right document", story, lambda event: _reads(event, fact.document))
    return _case("select", "read before answering", story, _reads)


def _reads(event: ActionSelected, document: str = "") -> bool:
    references = event.required_input_documents
    return event.action in READING and any(
        document in reference or reference.startswith("docList:") for reference in references
    )


def _writes(event: ActionSelected) -> bool:
    return event.action == "document.generateReport"


async def _parameterize(story: Story, _: int) -> Case:
    fact = story.fact
    await story.asked(fact.question)
    story.planned(OBJECTIVE[fact.language].format(fact.question)).selected(context=fact.question)

    def is_right(event: ParametersSet) -> bool:
        return any(word in str(event.parameters["aiPrompt"]).casefold() for word in fact.topic)

    asks = "set a parameter in German" if fact.language == "de" else "set a parameter"
    return _case("parameterize", asks, story, is_right)


async def _refine(story: Story, number: int) -> Case:
    if await _add_step(story, number):
        return _case("refine", "stop when the answer is there", story, lambda event: event.decision == "stop")
    return _case("refine", "continue when it is not", story, lambda event: event.decision == "continue")


async def _review(story: Story, number: int) -> Case:
    is_found = await _add_step(story, number)
    story.refined(met=is_found)
    if is_found:
        return _case("review", "accept what meets its criterion", story, lambda event: event.status == "success")
    return _case("review", "see what was not met", story, lambda event: event.status != "success")


async def _add_step(story: Story, number: int) -> bool:
    """Add a step to the story that found the answer or only read something else; return whether it found it."""
    fact, is_found = story.fact, number % 2 == 0
    await story.asked(fact.question)
    story.planned(OBJECTIVE[fact.language].format(fact.question))
    story.selected("ai.process" if is_found else "document.extract")
    await story.done(_answer_sentence(fact) if is_found else FACTS[(number + 7) % len(FACTS)].text)
    return is_found


async def _process(story: Story, number: int) -> Case:
    fact, is_said = story.fact, number % 5 != 3
    question = fact.question if is_said else fact.unanswered
    story = Story(story.content, fact._replace(question=question), number)
    await story.asked(question)
    if is_said:
        return _case("process", "answer from the text", story, lambda text: _holds(text, fact.answer))
    return _case("process", "refuse to invent", story, _denies)


async def _message(story: Story, number: int) -> Case:
    fact, is_found = story.fact, number % 5 != 3
    await story.asked(fact.question)
    story.planned(OBJECTIVE[fact.language].format(fact.question)).selected()
    await story.done(_answer_sentence(fact) if is_found else UNSAID[fact.language])
    story.refined(met=is_found).reviewed()

    def is_right(event: RoundCompleted) -> bool:
        return _holds(event.message, fact.answer) if is_found else _denies(event.message)

    return _case("message", "tell what was found" if is_found else "tell that nothing was found", story, is_right)


def _answer_sentence(fact: CaseFact) -> str:
    """Return what a good step finds: the sentence of the text that contains the answer."""
    sentences: Sequence[str] = re.split(r"(?<=[.!?])\s+|\n", fact.text)
    holding = (sentence for sentence in sentences if _holds(sentence, fact.answer))
    return f"{next(holding, fact.text)} ({fact.document})"


def _holds(text: str, answers: Sequence[str]) -> bool:
    return any(answer.casefold() in text.casefold() for answer in answers)


def _denies(text: str) -> bool:
    return _DENIAL.search(text) is not None


def _case(stage: PromptStage, asks: str, story: Story, is_right: Callable[[Any], bool]) -> Case:
    return Case(stage, asks, story.workflow, story.fact, is_right)


_MAKE: Final[dict[PromptStage, Callable[[Story, int], Awaitable[Case]]]] = {
    "plan": _plan,
    "select": _select,
    "parameterize": _parameterize,
    "refine": _refine,
    "review": _review,
    "process": _process,
    "message": _message,
}
STAGES: Final[tuple[PromptStage, ...]] = tuple(_MAKE)
"""The stages that are checked: all but the deprecated `plan_actions`."""
