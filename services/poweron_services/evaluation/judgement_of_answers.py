"""Judges by code alone whether an answer is as expected; new and old answers are judged alike."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from poweron_services.evaluation.request_table import ExpectedFacts
from poweron_services.evaluation.workflow_answer import RecordedAnswer

FEWEST_WORDS: Final = 3  # a shorter sentence of the question is not removed from an answer
REPEATED: Final = "\N{HORIZONTAL ELLIPSIS}"
_EDGES: Final = " .?!:;,…“”„\"'«»()"
_SENTENCE_END: Final = re.compile(r"(?<=[.?!])\s")

Expectation = Literal["contains", "status", "maxSteps", "actions"]
Verdict = Literal["right", "wrong", "inconclusive"]


@dataclass(frozen=True, slots=True)
class Miss:
    """An expectation that was not met, or that cannot be checked."""

    expectation: Expectation
    expected: Any
    found: Any
    is_known: bool = True
    """False if the content that would decide it has been erased."""


def misses(expected: ExpectedFacts, answer: RecordedAnswer) -> list[Miss]:
    """Return the expectations that the answer does not meet, or that cannot be checked."""
    return list(_misses(expected, answer))


def verdict(results: Sequence[Miss]) -> Verdict:
    """Return the verdict on an answer: a miss that is certain makes it wrong, even if other content has been erased."""
    if not results:
        return "right"
    return "wrong" if any(miss.is_known for miss in results) else "inconclusive"


def _misses(expected: ExpectedFacts, answer: RecordedAnswer) -> Iterator[Miss]:
    if answer.status != expected.status:
        yield Miss("status", expected.status, answer.status)
    texts = [_without_question(_comparable(text), answer.prompt) for text in (answer.message, *answer.texts)]
    for text in expected.contains:
        if not any(_comparable(text) in answer_text for answer_text in texts):
            yield Miss("contains", text, None, is_known=not answer.erased)
    if expected.max_steps is not None and answer.totals.steps > expected.max_steps:
        yield Miss("maxSteps", expected.max_steps, answer.totals.steps)
    if not _in_order(expected.actions, answer.actions):
        yield Miss("actions", list(expected.actions), list(answer.actions))


def _without_question(text: str, prompt: str) -> str:
    """Remove the question from a text, as a whole and sentence by sentence: repeating it answers nothing."""
    question = _comparable(prompt)
    parts = [question, *sorted(_SENTENCE_END.split(question), key=len, reverse=True)]
    for part in parts:
        words = part.strip(_EDGES)
        if len(words.split()) >= FEWEST_WORDS:
            text = text.replace(words, REPEATED)
    return text


def _comparable(text: str) -> str:
    return " ".join(text.casefold().split())


def _in_order(expectation: Sequence[str], actions: Sequence[str]) -> bool:
    """Return whether the wanted actions were run in this order, with any others in between."""
    left = iter(actions)
    return all(action in left for action in expectation)
