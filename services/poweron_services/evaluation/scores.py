"""The scores of a run: each model's share of right answers, its costs, and where the models disagree. Pure.

Code alone, not a model, judges whether an answer is as expected, for new and for recorded answers.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Final, Literal

from poweron_events.codes import RUN_TIME
from poweron_services.evaluation.run_file import ExpectedFacts, RunAnswer, StoredRun
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


@dataclass(frozen=True, slots=True)
class JudgedAnswer:
    """An answer of the run and its verdict, with the misses or the reason why it is inconclusive."""

    kept: RunAnswer
    answer: RecordedAnswer | None
    verdict: Verdict
    missed: Sequence[Miss] = ()
    trouble: str | None = None


@dataclass(frozen=True, slots=True)
class ModelScore:
    """The answers of one model; inconclusive ones do not count in the share, the sums and the means."""

    model: str
    answers: Sequence[JudgedAnswer]

    def count(self, kind: Verdict) -> int:
        return sum(answer.verdict == kind for answer in self.answers)

    @property
    def share(self) -> float | None:
        """The share of right answers, from 0 to 1; None if nothing could be judged."""
        right, wrong = self.count("right"), self.count("wrong")
        return right / (right + wrong) if right + wrong else None

    @property
    def judged(self) -> list[RecordedAnswer]:
        return [
            answer.answer for answer in self.answers if answer.answer is not None and answer.verdict != "inconclusive"
        ]

    @property
    def cost_nano_usd(self) -> int:
        return sum(answer.totals.cost_nano_usd for answer in self.judged)

    @property
    def tokens(self) -> int:
        return sum(answer.totals.input_tokens + answer.totals.output_tokens for answer in self.judged)

    @property
    def mean_ms(self) -> int:
        return round(fmean(answer.duration_ms for answer in self.judged)) if self.judged else 0

    @property
    def mean_steps(self) -> float:
        return fmean(answer.totals.steps for answer in self.judged) if self.judged else 0.0


@dataclass(frozen=True, slots=True)
class Parting:
    """A request on which the models differ: how many of how many answers are right, by model."""

    line: int
    right: Mapping[str, tuple[int, int]]


def judged(run: StoredRun, kept: RunAnswer, expected: ExpectedFacts, answer: RecordedAnswer | None) -> JudgedAnswer:
    """Judge one answer; it is None if the workflow no longer exists."""
    if answer is None or answer.status == "open":
        trouble = kept.trouble or "The log holds no end of this workflow"
        return JudgedAnswer(kept, answer, "inconclusive", trouble=trouble)
    if strangers := [worker for worker in answer.workers if not worker.startswith(f"{run.worker}-")]:
        sentence = (
            f"Another process worked on it ({', '.join(sorted(strangers))}), so it may be the answer of another model"
        )
        return JudgedAnswer(kept, answer, "inconclusive", trouble=sentence)
    if answer.code in RUN_TIME and expected.status != answer.status:
        trouble = f"It was not answered, for trouble of the service and not of the model's work ({answer.code})"
        return JudgedAnswer(kept, answer, "inconclusive", trouble=trouble)
    results = misses(expected, answer)
    return JudgedAnswer(kept, answer, verdict(results), results)


def scores(run: StoredRun, answers: Sequence[JudgedAnswer]) -> list[ModelScore]:
    """Return one score for each model, in the order of the run."""
    return [ModelScore(name, [answer for answer in answers if answer.kept.model == name]) for name in run.models]


def partings(model_scores: Sequence[ModelScore]) -> list[Parting]:
    """Return the requests on which the models differ, in the order of the table."""
    lines = sorted({answer.kept.line for score in model_scores for answer in score.answers})
    all_partings = [
        Parting(line, {score.model: _right(score.answers, line) for score in model_scores}) for line in lines
    ]
    return [parting for parting in all_partings if _part(parting.right.values())]


def _right(answers: Iterable[JudgedAnswer], line: int) -> tuple[int, int]:
    verdicts = [answer.verdict for answer in answers if answer.kept.line == line and answer.verdict != "inconclusive"]
    return verdicts.count("right"), len(verdicts)


def _part(right: Iterable[tuple[int, int]]) -> bool:
    return len({count / of for count, of in right if of}) > 1
