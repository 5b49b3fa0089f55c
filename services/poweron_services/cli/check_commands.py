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
from poweron_services.settings.config import Settings
from poweron_services.settings.search_variables import SearchKeys

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
        return [each.stage for each in self.results if each.is_too_weak]


@models.command("check")
@sentences()
def models_check(deep: Deep = False, as_json: AsJson = False) -> None:
    """Check for which stages every configured model is good enough.

    Asks up to five small cases of each stage, for 90 seconds in all, and reports how many answers have the right
    form, how many are right, how long they took, what they cost, and for which stages a model is too weak.
    Needs neither Kafka nor Postgres. Exit 1 if a model does not work or is too weak for a stage.
    """
    found = run_work(_all(load_settings(), deep=deep, as_json=as_json))
    if as_json:
        for each in found:
            print_json(_model_object(each))
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
            _print_model(each)
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
        user_prompt=TINY_PROMPT,
        language="en",
        documents=(),
        connections=(),
        actions=(),
        earlier="",
        max_steps=1,
    )


def _model_object(checked: CheckedModel) -> dict[str, Any]:
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


def _print_model(checked: CheckedModel) -> None:
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
    checked = run_work(_checked_search(load_settings()))
    if as_json:
        print_json(_search_object(checked))
    else:
        _print_search(checked)
    if checked.code:
        raise typer.Exit(FAILED)


async def _checked_search(settings: Settings) -> CheckedSearch:
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
    advised = f"{problem} {advice_for_search(code, name)}".strip() if code else ""
    return CheckedSearch(name, (time.monotonic_ns() - began) // 1_000_000, results, advised, code)


def _search_object(checked: CheckedSearch) -> dict[str, Any]:
    """Return the result as `--json` prints it."""
    return {
        "engine": checked.engine,
        "works": checked.code is None,
        "problem": checked.problem or None,
        "code": checked.code,
        "pages": len(checked.results.hits) if checked.results else 0,
        "durationMs": checked.duration_ms,
    }


def _print_search(checked: CheckedSearch) -> None:
    if checked.engine is not None:
        row = Text(f"{one_line(checked.engine)}  ")
        row.append("fails" if checked.code else "works", style="bold red" if checked.code else "bold green")
        stdout.print(row.append(f"  {checked.duration_ms / 1000:>6.1f} s"))
    if checked.code:
        stdout.print(one_line(checked.problem, MAX_SENTENCE))
    elif checked.results is not None and not checked.results.hits:
        stdout.print("It answered, and found nothing.")
    else:
        stdout.print("The search engine works.")
