"""`poweron models check` and `poweron search check`: ask external services small things, and report the results."""

import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

import typer
from rich.text import Text

from poweron_events.errors import PowerOnError
from poweron_events.event import NANO
from poweron_events.fold.stage_specs import PROMPT_STAGES
from poweron_services import wiring
from poweron_services.cli.advice import advice_for_model, advice_for_search
from poweron_services.cli.arguments import AsJson
from poweron_services.cli.command_group import command_group
from poweron_services.cli.context import FAILED
from poweron_services.cli.error_messages import load_settings, run_work, sentences
from poweron_services.cli.output import and_joined, one_line, print_json, stdout
from poweron_services.connectors.search.search_engine import open_search
from poweron_services.connectors.search.search_provider import SearchQuery, SearchResults
from poweron_services.model_check.cases import STAGES
from poweron_services.model_check.check import StageResult, checked
from poweron_services.models.answers import PlanningAnswer, parse
from poweron_services.models.chat_model import Completion
from poweron_services.models.prompts import PlanningPrompt
from poweron_services.roles.planner import TEMPLATE
from poweron_services.settings.action_variables import SearchKeys
from poweron_services.settings.config import Settings

Deep = Annotated[bool, typer.Option("--deep", help="Ask 25 cases of each stage, without a time limit.")]

models = command_group("Check the language models.")
search = command_group("Check the search engine.")

TINY_PROMPT = "Greet the user in one sentence."
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
        return [result.stage for result in self.results if result.is_too_weak]


@models.command("check")
@sentences()
def models_check(deep: Deep = False, as_json: AsJson = False) -> None:
    """Check for which stages every configured model is good enough.

    Asks up to five small cases of each stage, for 90 seconds in all, and reports how many answers have the right
    form, how many are right, how long they took, what they cost, and for which stages a model is too weak.
    Needs neither Kafka nor Postgres. Exit 1 if a model does not work or is too weak for a stage.
    """
    checked_models = run_work(_all(load_settings(), deep=deep, as_json=as_json))
    if as_json:
        for checked_model in checked_models:
            print_json(_model_object(checked_model))
    else:
        stdout.print(_sum(checked_models))
    if any(checked_model.code or checked_model.too_weak_for for checked_model in checked_models):
        raise typer.Exit(FAILED)


async def _all(settings: Settings, *, deep: bool, as_json: bool) -> list[CheckedModel]:
    results = []
    for name in settings.named_models:
        stages = [stage for stage, models in settings.models.items() if name in models]
        results.append(await _check_one(CheckedModel(name, stages), settings, deep=deep, shows=not as_json))
    return results


async def _check_one(checked_model: CheckedModel, settings: Settings, *, deep: bool, shows: bool) -> CheckedModel:
    """Send the model a trivial prompt and, if it answers, the cases of its stages; print results as they come."""
    entry, alone = checked_model, settings.with_model(checked_model.model)
    async with AsyncExitStack() as stack:
        began = time.monotonic_ns()
        try:
            model = wiring.build_model(alone, stack)
            began = time.monotonic_ns()  # measured again, since building the model imports modules
            entry.completion = await model.complete(_prompt())
            _accept(entry.completion)
        except PowerOnError as error:
            advice = advice_for_model(error.code, entry.model.partition(":")[0])
            entry.problem, entry.code = f"{error} {advice}".rstrip(), error.code
        entry.duration_ms = (time.monotonic_ns() - began) // 1_000_000
        if shows:
            _print_model(entry)
        if entry.code is None:
            stages = [stage for stage in STAGES if stage in entry.stages]
            count, seconds = (DEEP, DEEP_SECONDS) if deep else (CASES, SECONDS)
            left = seconds - entry.duration_ms / 1000
            async for result in checked(model, stages, count, left, settings.model_timeout):
                entry.results.append(result)
                if shows:
                    _print_stage(result)
    return entry


def _accept(completion: Completion) -> None:
    """Refuse an answer that no stage could use."""
    if completion.refusal is not None:
        raise completion.refusal
    parse(completion.text, PlanningAnswer)


def _prompt() -> PlanningPrompt:
    """Build a trivial planning prompt; its answer has the form that every stage asks for."""
    return PlanningPrompt(
        template=TEMPLATE,
        user_prompt=TINY_PROMPT,
        language="en",
        documents=(),
        connections=(),
        actions=(),
        earlier="",
        max_steps=1,
    )


def _model_object(model: CheckedModel) -> dict[str, Any]:
    """Return a model as `--json` prints it."""
    completion = model.completion
    return {
        "model": model.model,
        "stages": list(model.stages),
        "works": model.code is None,
        "problem": model.problem or None,
        "code": model.code,
        "answeredBy": completion and completion.model,
        "inputTokens": completion.input_tokens if completion else 0,
        "outputTokens": completion.output_tokens if completion else 0,
        "cachedInputTokens": completion.cached_input_tokens if completion else 0,
        "reasoningTokens": completion.reasoning_tokens if completion else 0,
        "usageEstimated": bool(completion and completion.usage_estimated),
        "costNanoUsd": completion.cost_nano_usd if completion else 0,
        "durationMs": model.duration_ms,
        "tries": completion.tries if completion else None,
        "cases": [
            {
                "stage": result.stage,
                "asked": result.asked,
                "inForm": result.in_form,
                "right": result.right,
                "tooWeak": result.is_too_weak,
                "wrong": result.wrong,
                "seconds": round(result.seconds, 1),
                "tokens": result.tokens,
                "costNanoUsd": result.cost_nano_usd,
            }
            for result in model.results
        ],
        "tooWeakFor": model.too_weak_for,
    }


def _print_model(model: CheckedModel) -> None:
    completion = model.completion
    stages = "all stages" if len(model.stages) == len(PROMPT_STAGES) else ", ".join(model.stages)
    row = Text(f"{one_line(model.model)}  ")
    row.append("fails" if model.code else "works", style="bold red" if model.code else "bold green")
    tokens = completion.input_tokens + completion.output_tokens if completion else 0
    cost = _cost(completion.cost_nano_usd if completion else 0)
    stdout.print(row.append(f"  {model.duration_ms / 1000:.1f} s  {tokens} tokens  {cost}  {stages}"))
    if model.code:
        stdout.print(f"  {one_line(model.problem, MAX_SENTENCE)}")
        return
    if completion and completion.usage_estimated:
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


def _sum(checks: Sequence[CheckedModel]) -> str:
    failing = sum(bool(check.code) for check in checks)
    lines = [
        f"{one_line(check.model)} is too weak for {and_joined(check.too_weak_for)}: name another model with "
        f"{' and '.join(f'POWERON_MODEL_{stage.upper()}' for stage in check.too_weak_for)}."
        for check in checks
        if check.too_weak_for
    ]
    if not failing:
        return "\n".join(lines) or "Every model works."
    if len(checks) == 1:
        return "The model does not work."
    lines.append(f"Of {len(checks)} models, {failing} {'does' if failing == 1 else 'do'} not work.")
    return "\n".join(lines)


# --- the search engine --------------------------------------------------------------------------------

TINY_QUERY = SearchQuery("museum opening hours", max_results=1)


@dataclass(frozen=True, slots=True)
class CheckedSearch:
    """The search engine, and the result of checking it."""

    engine: str | None
    """None if none is set."""
    duration_ms: int
    results: SearchResults | None
    problem: str
    code: str | None
    """Why it does not work; None if it works."""


@search.command("check")
@sentences()
def search_check(as_json: AsJson = False) -> None:
    """Send a tiny query to the configured search engine.

    Reports whether it works, how long it took, and what to do if it does not work.
    Needs neither Kafka nor Postgres. Exit 1 if it does not work, or if none is set.
    """
    result = run_work(_check_search(load_settings()))
    if as_json:
        print_json(_search_object(result))
    else:
        _print_search(result)
    if result.code:
        raise typer.Exit(FAILED)


async def _check_search(settings: Settings) -> CheckedSearch:
    name = (settings.search or "").partition(":")[0] or None
    began, results, problem, code = time.monotonic_ns(), None, "", None
    try:
        async with open_search(settings, SearchKeys()) as engine:
            began = time.monotonic_ns()  # measured again, since opening imports modules
            if engine is None:
                problem, code = "There is no search engine.", "search_unavailable"
            else:
                results = await engine.search(TINY_QUERY)
    except PowerOnError as error:
        problem, code = str(error), error.code
    message = f"{problem} {advice_for_search(code, name)}".strip() if code else ""
    return CheckedSearch(name, (time.monotonic_ns() - began) // 1_000_000, results, message, code)


def _search_object(result: CheckedSearch) -> dict[str, Any]:
    """Return the result as `--json` prints it."""
    return {
        "engine": result.engine,
        "works": result.code is None,
        "problem": result.problem or None,
        "code": result.code,
        "pages": len(result.results.hits) if result.results else 0,
        "durationMs": result.duration_ms,
    }


def _print_search(result: CheckedSearch) -> None:
    if result.engine is not None:
        row = Text(f"{one_line(result.engine)}  ")
        row.append("fails" if result.code else "works", style="bold red" if result.code else "bold green")
        stdout.print(row.append(f"  {result.duration_ms / 1000:>6.1f} s"))
    if result.code:
        stdout.print(one_line(result.problem, MAX_SENTENCE))
    elif result.results is not None and not result.results.hits:
        stdout.print("It answered, and found nothing.")
    else:
        stdout.print("The search engine works.")
