"""`poweron models check`: ask every configured model small cases of its stages, and report what it is good for."""

import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, Final

import typer
from rich.text import Text

from poweron_events.errors import PowerOnError
from poweron_events.event import NANO
from poweron_events.fold.stage_specs import PROMPT_STAGES
from poweron_services import wiring
from poweron_services.cli.code_advice import advice_for_model
from poweron_services.cli.context import FAILED
from poweron_services.cli.error_messages import load_settings, run_work, sentences
from poweron_services.cli.output import and_joined, one_line, print_json, stdout
from poweron_services.model_check.cases import STAGES
from poweron_services.model_check.check import StageResult, checked
from poweron_services.models.answers import PlanningAnswer, parse
from poweron_services.models.chat_model import Completion
from poweron_services.models.prompts import PlanningPrompt
from poweron_services.roles.planner import TEMPLATE
from poweron_services.settings.config import Settings

TINY = "Greet the user in one sentence."
MAX_SENTENCE = 600  # characters
CASES, DEEP = 5, 25  # cases of each stage
SECONDS, DEEP_SECONDS = 90.0, 7_200.0  # for one model, including its first answer
MAX_WRONG = 3  # kinds of failed cases that are named if a model is too weak
ESTIMATED: Final = (
    "It does not report what it used: tokens and cost are estimates, never too low, so a budget ends early."
)


@dataclass(slots=True)
class CheckedModel:
    """A model, the stages that use it, and the results of checking it."""

    model: str
    stages: Sequence[str]
    duration_ms: int = 0
    """The time of its first answer, to a trivial prompt."""
    completion: Completion | None = None
    problem: str = ""
    code: str | None = None
    """Why it does not work; None if it works."""
    results: list[StageResult] = field(default_factory=list)

    @property
    def too_weak_for(self) -> list[str]:
        return [each.stage for each in self.results if each.is_too_weak]


@sentences()
def check(*, deep: bool, as_json: bool) -> None:
    """Check every configured model; exit 1 if one does not work or is too weak for a stage."""
    found = run_work(_all(load_settings(), deep=deep, as_json=as_json))
    if as_json:
        for each in found:
            print_json(_object(each))
    else:
        stdout.print(_sum(found))
    if any(each.code or each.too_weak_for for each in found):
        raise typer.Exit(FAILED)


async def _all(settings: Settings, *, deep: bool, as_json: bool) -> list[CheckedModel]:
    found = []
    for name in settings.named_models:
        stages = [stage for stage, models in settings.models.items() if name in models]
        found.append(await _one(CheckedModel(name, stages), settings, deep=deep, shows=not as_json))
    return found


async def _one(checked_model: CheckedModel, settings: Settings, *, deep: bool, shows: bool) -> CheckedModel:
    """Send the model a trivial prompt and, if it answers, the cases of its stages; print results as they come."""
    each, alone = checked_model, settings.with_model(checked_model.model)
    async with AsyncExitStack() as opened:
        began = time.monotonic_ns()
        try:
            model = wiring.build_model(alone, opened)
            began = time.monotonic_ns()  # measured again, since building the model imports modules
            each.completion = await model.complete(_prompt())
            _accept(each.completion)
        except PowerOnError as error:
            advice = advice_for_model(error.code, each.model.partition(":")[0])
            each.problem, each.code = f"{error} {advice}".rstrip(), error.code
        each.duration_ms = (time.monotonic_ns() - began) // 1_000_000
        if shows:
            _print(each)
        if each.code is None:
            stages = [stage for stage in STAGES if stage in each.stages]
            count, seconds = (DEEP, DEEP_SECONDS) if deep else (CASES, SECONDS)
            left = seconds - each.duration_ms / 1000
            async for result in checked(model, stages, count, left, settings.model_timeout):
                each.results.append(result)
                if shows:
                    _print_stage(result)
    return each


def _accept(completion: Completion) -> None:
    """Refuse an answer that no stage could use."""
    if completion.refusal is not None:
        raise completion.refusal
    parse(completion.text, PlanningAnswer)


def _prompt() -> PlanningPrompt:
    """Build a trivial planning prompt; its answer has the form that every stage asks for."""
    return PlanningPrompt(
        template=TEMPLATE,
        user_prompt=TINY,
        language="en",
        documents=(),
        connections=(),
        actions=(),
        earlier="",
        max_steps=1,
    )


def _object(checked: CheckedModel) -> dict[str, Any]:
    """Return a model as `--json` prints it."""
    used = checked.completion
    return {
        "model": checked.model,
        "stages": list(checked.stages),
        "works": checked.code is None,
        "problem": checked.problem or None,
        "code": checked.code,
        "answeredBy": used and used.model,
        "inputTokens": used.input_tokens if used else 0,
        "outputTokens": used.output_tokens if used else 0,
        "cachedInputTokens": used.cached_input_tokens if used else 0,
        "reasoningTokens": used.reasoning_tokens if used else 0,
        "usageEstimated": bool(used and used.usage_estimated),
        "costNanoUsd": used.cost_nano_usd if used else 0,
        "durationMs": checked.duration_ms,
        "tries": used.tries if used else None,
        "cases": [
            {
                "stage": each.stage,
                "asked": each.asked,
                "inForm": each.in_form,
                "right": each.right,
                "tooWeak": each.is_too_weak,
                "wrong": each.wrong,
                "seconds": round(each.seconds, 1),
                "tokens": each.tokens,
                "costNanoUsd": each.cost_nano_usd,
            }
            for each in checked.results
        ],
        "tooWeakFor": checked.too_weak_for,
    }


def _print(checked: CheckedModel) -> None:
    used = checked.completion
    stages = "all stages" if len(checked.stages) == len(PROMPT_STAGES) else ", ".join(checked.stages)
    row = Text(f"{one_line(checked.model)}  ")
    row.append("fails" if checked.code else "works", style="bold red" if checked.code else "bold green")
    tokens = used.input_tokens + used.output_tokens if used else 0
    cost = _cost(used.cost_nano_usd if used else 0)
    stdout.print(row.append(f"  {checked.duration_ms / 1000:.1f} s  {tokens} tokens  {cost}  {stages}"))
    if checked.code:
        stdout.print(f"  {one_line(checked.problem, MAX_SENTENCE)}")
        return
    if used and used.usage_estimated:
        stdout.print(f"  {ESTIMATED}")
    stdout.print(f"  {'stage':<12}  {'form':>8}  {'right':>8}  {'time':>8}  {'tokens':>7}  {'cost':>10}")


def _print_stage(result: StageResult) -> None:
    if not result.asked:
        stdout.print(Text(f"  {result.stage:<12}  not asked, since the time was over: --deep takes the time it needs"))
        return
    form, right = (f"{count} of {result.asked}" for count in (result.in_form, result.right))
    cost = _cost(result.cost_nano_usd)
    cells = f"{form:>8}  {right:>8}  {result.seconds:>6.1f} s  {result.tokens:>7,}  {cost:>10}"
    row = Text(f"  {result.stage:<12}  {cells}")
    if result.is_too_weak:
        wrong = "; ".join(list(dict.fromkeys(result.wrong))[:MAX_WRONG])
        row.append("  too weak", style="bold red").append(f": {one_line(wrong, MAX_SENTENCE)}")
    stdout.print(row, soft_wrap=True)


def _cost(nano_usd: int) -> str:
    return f"${nano_usd / NANO:.6f}" if nano_usd else "-"


def _sum(found: Sequence[CheckedModel]) -> str:
    failing = sum(bool(each.code) for each in found)
    said = [
        f"{one_line(each.model)} is too weak for {and_joined(each.too_weak_for)}: name another model with "
        f"{' and '.join(f'POWERON_MODEL_{stage.upper()}' for stage in each.too_weak_for)}."
        for each in found
        if each.too_weak_for
    ]
    if not failing:
        return "\n".join(said) or "Every model works."
    if len(found) == 1:
        return "The model does not work."
    said.append(f"Of {len(found)} models, {failing} {'does' if failing == 1 else 'do'} not work.")
    return "\n".join(said)
