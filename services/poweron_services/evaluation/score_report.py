"""Score reports: a Markdown table with the misses below it, or JSON."""

from collections.abc import Iterator, Sequence
from typing import Any

from poweron_events.event import NANO
from poweron_services.evaluation.run_file import StoredRun
from poweron_services.evaluation.scores import JudgedAnswer, Miss, ModelScore, partings

HEAD = "| model | right | share | inconclusive | cost | tokens | time | steps |\n|---|---|---|---|---|---|---|---|"
MAX_FOUND = 100  # characters to show of a missing text


def report_json(run: StoredRun, scores: Sequence[ModelScore]) -> dict[str, Any]:
    """Return the complete report of a run, for programs."""
    return {
        "runId": run.run_id,
        "models": [_score(score) for score in scores],
        "partings": [
            {"line": parting.line, "right": {model: ours for model, (ours, _) in parting.right.items()}}
            for parting in partings(scores)
        ],
        "answers": [_answer(answer) for score in scores for answer in score.answers],
    }


def report_markdown(scores: Sequence[ModelScore]) -> str:
    """Return the report as Markdown, for users."""
    table = "\n".join([HEAD, *map(_row, scores)])
    miss_lines = [line for score in scores for answer in score.answers for line in _miss_lines(answer)]
    parting_lines = [
        f"- line {split.line}: {', '.join(f'{_cell(model)} {of[0]} of {of[1]}' for model, of in split.right.items())}"
        for split in partings(scores)
    ]
    parts = [table]
    parts += ["\n".join(["What was not as expected:", "", *miss_lines])] if miss_lines else []
    parts += (
        ["\n".join(["Where the models part, with how many answers are right:", "", *parting_lines])]
        if parting_lines
        else []
    )
    return "\n\n".join(parts)


def _score(score: ModelScore) -> dict[str, Any]:
    return {
        "model": score.model,
        "asked": len(score.answers),
        "right": score.count("right"),
        "wrong": score.count("wrong"),
        "inconclusive": score.count("inconclusive"),
        "share": score.share,
        "costUsd": score.cost_nano_usd / NANO,
        "tokens": score.tokens,
        "meanDurationMs": score.mean_ms,
        "meanSteps": score.mean_steps,
    }


def _answer(judgement: JudgedAnswer) -> dict[str, Any]:
    answer = judgement.answer
    return {
        "line": judgement.kept.line,
        "model": judgement.kept.model,
        "repetition": judgement.kept.repetition,
        "workflowId": judgement.kept.workflow_id,
        "verdict": judgement.verdict,
        "trouble": judgement.trouble,
        "code": judgement.kept.code,
        "missed": [
            {"expectation": miss.expectation, "expected": miss.expected, "found": miss.found, "known": miss.is_known}
            for miss in judgement.missed
        ],
        "status": answer and answer.status,
        "steps": answer and answer.totals.steps,
        "costUsd": answer and answer.totals.cost_nano_usd / NANO,
        "durationMs": answer and answer.duration_ms,
        "models": list(answer.models) if answer else [],
    }


def _row(score: ModelScore) -> str:
    right, of = score.count("right"), score.count("right") + score.count("wrong")
    share = "-" if score.share is None else f"{score.share:.0%}"
    cells = [
        _cell(score.model),
        f"{right} of {of}",
        share,
        str(score.count("inconclusive")),
        f"${score.cost_nano_usd / NANO:.4f}",
        f"{score.tokens:,}",
        f"{score.mean_ms / 1000:.1f} s",
        f"{score.mean_steps:.1f}",
    ]
    return f"| {' | '.join(cells)} |"


def _miss_lines(answer: JudgedAnswer) -> Iterator[str]:
    prefix = f"- line {answer.kept.line}, {_cell(answer.kept.model)}, {answer.kept.workflow_id or 'never sent'}:"
    if answer.trouble is not None:
        yield f"{prefix} inconclusive. {answer.trouble.removesuffix('.')}."
    yield from (f"{prefix} {_sentence(miss)}" for miss in answer.missed)


def _sentence(miss: Miss) -> str:
    if miss.expectation == "contains":
        text = miss.expected if len(miss.expected) <= MAX_FOUND else f"{miss.expected[:MAX_FOUND]}…"
        place = "the message or a document" if miss.is_known else "what is left; a document of the answer was erased"
        return f"{text!r} is not in {place}."
    if miss.expectation == "maxSteps":
        return f"it took {miss.found} steps, where at most {miss.expected} may be taken."
    if miss.expectation == "actions":
        return (
            f"the actions were {', '.join(miss.found) or 'none'}; expected in this order: {', '.join(miss.expected)}."
        )
    return f"it is {miss.found}, {miss.expected} was expected."


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
