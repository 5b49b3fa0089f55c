"""The command that asks every configured model for something tiny, and says what came of it."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import typer
from rich.text import Text

from poweron_events.errors import PowerOnError
from poweron_events.event import NANO
from poweron_services import wiring
from poweron_services.cli.code_advice import advice_for_model
from poweron_services.cli.context import FAILED
from poweron_services.cli.error_messages import load_settings, run_work, sentences
from poweron_services.cli.output import one_line, print_json, stdout
from poweron_services.config import MODEL_STAGES, Settings
from poweron_services.models.answers import PlanningAnswer, parse
from poweron_services.models.chat_model import Completion
from poweron_services.models.prompts import PlanningPrompt
from poweron_services.roles.planner import TEMPLATE

TINY = "Greet the user in one sentence."
MAX_SENTENCE = 600  # characters


@dataclass(frozen=True, slots=True)
class Checked:
    """A model, the stages that it is for, and what came of asking it."""

    model: str
    stages: Sequence[str]
    duration_ms: int
    completion: Completion | None
    problem: str
    code: str | None
    """Why it does not work; None where it does."""


@sentences()
def check(*, as_json: bool) -> None:
    """Ask every configured model once; exit 1 where one does not answer as it must."""
    checked = run_work(_all(load_settings()))
    if as_json:
        for each in checked:
            print_json(_object(each))
    else:
        _print(checked)
    if any(each.code for each in checked):
        raise typer.Exit(FAILED)


async def _all(settings: Settings) -> list[Checked]:
    return await asyncio.gather(*(_one(name, settings) for name in settings.named_models))


ESTIMATED: Final = (
    "It does not report what it used: tokens and cost are estimates, never too low, so a budget ends early."
)


async def _one(name: str, settings: Settings) -> Checked:
    stages = [stage for stage, models in settings.models.items() if name in models]
    alone = settings.with_model(name)
    completion, problem, code = None, "", None
    began = time.monotonic_ns()
    try:
        async with wiring.open_model(alone) as model:
            began = time.monotonic_ns()  # now that what it stands on is imported
            completion = await model.complete(_prompt())
        _accept(completion)
    except PowerOnError as error:
        problem, code = f"{error} {advice_for_model(error.code, name.partition(':')[0])}".rstrip(), error.code
    return Checked(name, stages, (time.monotonic_ns() - began) // 1_000_000, completion, problem, code)


def _accept(completion: Completion) -> None:
    """Refuse an answer that no stage could use."""
    if completion.refusal is not None:
        raise completion.refusal
    parse(completion.text, PlanningAnswer)


def _prompt() -> PlanningPrompt:
    """A plan for next to nothing: the answer has the form that every stage asks for."""
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


def _object(checked: Checked) -> dict[str, Any]:
    """What `--json` prints of a model."""
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
    }


def _print(checked: Sequence[Checked]) -> None:
    width = max(len(one_line(each.model)) for each in checked)
    for each in checked:
        used = each.completion
        cost = f"${used.cost_nano_usd / NANO:.6f}" if used and used.cost_nano_usd else "-"
        tokens = used.input_tokens + used.output_tokens if used else 0
        stages = "all stages" if len(each.stages) == len(MODEL_STAGES) else ", ".join(each.stages)
        row = Text(f"{one_line(each.model):<{width}}  ")
        row.append(f"{'fails' if each.code else 'works':<5}", style="bold red" if each.code else "bold green")
        stdout.print(row.append(f"  {each.duration_ms / 1000:>6.1f} s  {tokens:>6} tokens  {cost:>9}  {stages}"))
        if each.code:
            stdout.print(f"  {one_line(each.problem, MAX_SENTENCE)}")
        elif used and used.usage_estimated:
            stdout.print(f"  {ESTIMATED}")
    failing = sum(bool(each.code) for each in checked)
    stdout.print(_sum(failing, len(checked)))


def _sum(failing: int, models: int) -> str:
    if not failing:
        return "Every model works."
    if models == 1:
        return "The model does not work."
    return f"Of {models} models, {failing} {'does' if failing == 1 else 'do'} not work."
