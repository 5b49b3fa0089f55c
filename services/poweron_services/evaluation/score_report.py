"""Score reports: a Markdown table with the misses below it, or JSON."""

from collections.abc import Iterator, Sequence
from typing import Any

from poweron_events.event import NANO
from poweron_services.evaluation.judgement_of_answers import Miss
from poweron_services.evaluation.run_file import KeptRun
from poweron_services.evaluation.scores import JudgedAnswer, ModelScore, partings

HEAD = "| model | right | share | inconclusive | cost | tokens | time | steps |\n|---|---|---|---|---|---|---|---|"
MAX_FOUND = 100  # characters to show of a missing text


def report_json(run: KeptRun, scores: Sequence[ModelScore]) -> dict[str, Any]:
    """Return the complete report of a run, for programs."""
    return {
        "runId": run.run_id,
        "models": [_score(each) for each in scores],
        "partings": [
            {"line": each.line, "right": {model: ours for model, (ours, _) in each.right.items()}}
            for each in partings(scores)
        ],
        "answers": [_answer(each) for score in scores for each in score.answers],
    }


def report_markdown(scores: Sequence[ModelScore]) -> str:
    """Return the report as Markdown, for users."""
    table = "\n".join([HEAD, *map(_row, scores)])
    missed = [line for score in scores for each in score.answers for line in _told(each)]
    parted = [
        f"- line {each.line}: {', '.join(f'{_cell(model)} {of[0]} of {of[1]}' for model, of in each.right.items())}"
        for each in partings(scores)
    ]
    parts = [table]
    parts += ["\n".join(["What was not as expected:", "", *missed])] if missed else []
    parts += ["\n".join(["Where the models part, with how many answers are right:", "", *parted])] if parted else []
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


def _answer(judged: JudgedAnswer) -> dict[str, Any]:
    answer = judged.answer
    return {
        "line": judged.kept.line,
        "model": judged.kept.model,
        "repetition": judged.kept.repetition,
        "workflowId": judged.kept.workflow_id,
        "verdict": judged.verdict,
        "trouble": judged.trouble,
        "code": judged.kept.code,
        "missed": [
            {"expectation": each.expectation, "expected": each.expected, "found": each.found, "known": each.is_known}
            for each in judged.missed
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


def _told(judged: JudgedAnswer) -> Iterator[str]:
    where = f"- line {judged.kept.line}, {_cell(judged.kept.model)}, {judged.kept.workflow_id or 'never sent'}:"
    if judged.trouble is not None:
        yield f"{where} nobody can say. {judged.trouble.removesuffix('.')}."
    yield from (f"{where} {_sentence(each)}" for each in judged.missed)


def _sentence(miss: Miss) -> str:
    if miss.expectation == "contains":
        text = miss.expected if len(miss.expected) <= MAX_FOUND else f"{miss.expected[:MAX_FOUND]}…"
        where = "the message or a document" if miss.is_known else "what is left; a document of the answer was erased"
        return f"{text!r} does not stand in {where}."
    if miss.expectation == "maxSteps":
        return f"it took {miss.found} steps, where at most {miss.expected} may be taken."
    if miss.expectation == "actions":
        return (
            f"the actions were {', '.join(miss.found) or 'none'}; expected in this order: {', '.join(miss.expected)}."
        )
    return f"it is {miss.found}, {miss.expected} was expected."


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
