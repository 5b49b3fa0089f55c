"""The scores of a run: each model's share of right answers, its costs, and where the models disagree. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from poweron_events.codes import RUN_TIME
from poweron_services.evaluation.judgement_of_answers import Miss, Verdict, misses, verdict
from poweron_services.evaluation.request_table import ExpectedFacts
from poweron_services.evaluation.run_file import KeptAnswer, KeptRun
from poweron_services.evaluation.workflow_answer import RecordedAnswer


@dataclass(frozen=True, slots=True)
class JudgedAnswer:
    """An answer of the run and its verdict, with the misses or the reason why it is inconclusive."""

    kept: KeptAnswer
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


def judged(run: KeptRun, kept: KeptAnswer, expected: ExpectedFacts, answer: RecordedAnswer | None) -> JudgedAnswer:
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


def scores(run: KeptRun, answers: Sequence[JudgedAnswer]) -> list[ModelScore]:
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
