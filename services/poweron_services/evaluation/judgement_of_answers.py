"""Whether an answer is what was expected: by code alone, the same for an answer of now and for one of last year."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from poweron_services.evaluation.recorded_answer import RecordedAnswer
from poweron_services.evaluation.request_table import ExpectedFacts

FEWEST_WORDS: Final = 3  # of a sentence of the question that an answer can repeat
REPEATED: Final = "\N{HORIZONTAL ELLIPSIS}"
_EDGES: Final = " .?!:;,…“”„\"'«»()"
_SENTENCE_END: Final = re.compile(r"(?<=[.?!])\s")

Expectation = Literal["contains", "status", "maxSteps", "actions"]
Verdict = Literal["right", "wrong", "inconclusive"]


@dataclass(frozen=True, slots=True)
class Miss:
    """An expectation that was not met, or of which nobody can say."""

    expectation: Expectation
    expected: Any
    found: Any
    is_known: bool = True
    """False where the content is gone that would tell."""


def misses(expected: ExpectedFacts, answer: RecordedAnswer) -> list[Miss]:
    """What of the expected facts the answer does not hold."""
    return list(_misses(expected, answer))


def verdict(missed: Sequence[Miss]) -> Verdict:
    """What is known to be wrong counts, whatever else is gone."""
    if not missed:
        return "right"
    return "wrong" if any(each.is_known for each in missed) else "inconclusive"


def _misses(expected: ExpectedFacts, answer: RecordedAnswer) -> Iterator[Miss]:
    if answer.status != expected.status:
        yield Miss("status", expected.status, answer.status)
    told = [_without_question(_comparable(text), answer.prompt) for text in (answer.message, *answer.texts)]
    for text in expected.contains:
        if not any(_comparable(text) in each for each in told):
            yield Miss("contains", text, None, is_known=not answer.erased)
    if expected.max_steps is not None and answer.totals.steps > expected.max_steps:
        yield Miss("maxSteps", expected.max_steps, answer.totals.steps)
    if not _in_order(expected.actions, answer.actions):
        yield Miss("actions", list(expected.actions), list(answer.actions))


def _without_question(text: str, prompt: str) -> str:
    """The text without the question, whole or sentence by sentence: repeating it answers nothing."""
    question = _comparable(prompt)
    parts = [question, *sorted(_SENTENCE_END.split(question), key=len, reverse=True)]
    for part in parts:
        words = part.strip(_EDGES)
        if len(words.split()) >= FEWEST_WORDS:
            text = text.replace(words, REPEATED)
    return text


def _comparable(text: str) -> str:
    return " ".join(text.casefold().split())


def _in_order(wanted: Sequence[str], done: Sequence[str]) -> bool:
    """Whether all of them were done in this order, whatever was between."""
    left = iter(done)
    return all(action in left for action in wanted)
