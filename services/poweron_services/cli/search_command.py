"""`poweron search check`: send a tiny query to the search engine, and report the result."""

import time
from dataclasses import dataclass
from typing import Any

import typer
from rich.text import Text

from poweron_events.errors import PowerOnError
from poweron_services.cli.code_advice import advice_for_search
from poweron_services.cli.context import FAILED
from poweron_services.cli.error_messages import load_settings, run_work, sentences
from poweron_services.cli.output import one_line, print_json, stdout
from poweron_services.connectors.search.search_engine import open_search
from poweron_services.connectors.search.search_provider import SearchQuery, SearchResults
from poweron_services.settings.config import Settings
from poweron_services.settings.search_variables import SearchKeys

TINY = SearchQuery("museum opening hours", max_results=1)
MAX_SENTENCE = 600  # characters


@dataclass(frozen=True, slots=True)
class CheckedEngine:
    """The search engine, and the result of checking it."""

    engine: str | None
    """None if none is set."""
    duration_ms: int
    results: SearchResults | None
    problem: str
    code: str | None
    """Why it does not work; None if it works."""


@sentences()
def check(*, as_json: bool) -> None:
    """Query the engine once; exit 1 if it does not work, or if none is set."""
    checked = run_work(_checked(load_settings()))
    if as_json:
        print_json(_object(checked))
    else:
        _print(checked)
    if checked.code:
        raise typer.Exit(FAILED)


async def _checked(settings: Settings) -> CheckedEngine:
    name = (settings.search or "").partition(":")[0] or None
    began, results, problem, code = time.monotonic_ns(), None, "", None
    try:
        async with open_search(settings, SearchKeys()) as engine:
            began = time.monotonic_ns()  # measured again, since opening imports modules
            if engine is None:
                problem, code = "There is no search engine.", "search_unavailable"
            else:
                results = await engine.search(TINY)
    except PowerOnError as error:
        problem, code = str(error), error.code
    advised = f"{problem} {advice_for_search(code, name)}".strip() if code else ""
    return CheckedEngine(name, (time.monotonic_ns() - began) // 1_000_000, results, advised, code)


def _object(checked: CheckedEngine) -> dict[str, Any]:
    """Return the result as `--json` prints it."""
    return {
        "engine": checked.engine,
        "works": checked.code is None,
        "problem": checked.problem or None,
        "code": checked.code,
        "pages": len(checked.results.hits) if checked.results else 0,
        "durationMs": checked.duration_ms,
    }


def _print(checked: CheckedEngine) -> None:
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
