"""`poweron chaos`: show faults and recoveries in a live table, then the verdict in counts and sentences."""

import asyncio
import secrets
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Any, Final

import typer
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from poweron_services.cli.arguments import AsJson
from poweron_services.cli.context import FAILED, INTERRUPTED
from poweron_services.cli.error_messages import load_settings, sentences
from poweron_services.cli.output import counted, print_json, stderr, stdout, tell
from poweron_services.experiments.chaos import experiment
from poweron_services.experiments.chaos.experiment import ExperimentCallbacks, ExperimentResult
from poweron_services.experiments.chaos.faults import FAULT_NAMES, InjectedFault
from poweron_services.experiments.chaos.status import ExperimentPhase, ExperimentStatus, FaultStatistics
from poweron_services.settings.config import Settings
from poweron_services.signals import on_stop

LINE_EVERY = 10.0  # seconds between status lines, if stderr is not a terminal
MAX_PRINTED = 20  # violations that are printed; --json lists all
PHASES: Final[dict[ExperimentPhase, str]] = {
    "starting": "Starting",
    "injecting": "Injecting faults",
    "recovering": "No more faults; recovering",
    "checking_halves": "Each half of the processes works alone",
    "judging": "Judging",
}


Seed = Annotated[
    int | None, typer.Option("--seed", min=0, metavar="N", help="The same seed gives the same faults and requests.")
]


@sentences()
def chaos(
    minutes: Annotated[
        float, typer.Option(min=0.05, max=1_440, metavar="N", help="For how long to inject faults, in minutes.")
    ] = 1.0,
    seed: Seed = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the data directory even after a clean run.")] = False,
    as_json: AsJson = False,
) -> None:
    """Inject faults, and check that nothing is lost.

    Starts its own servers and role processes, asks for work, and kills, freezes and empties them at random.
    Then everything must settle: every request answered, every workflow ended once, no effect twice, rows matching
    the log.
    It does not touch your own servers and data.

    Exit 0 clean, 1 not clean, 130 stopped by Ctrl-C or SIGTERM.
    """
    settings = load_settings()
    seed = secrets.randbelow(1_000_000) if seed is None else seed
    tell(f"Seed {seed}: repeat the same faults and requests with --seed {seed}.")
    try:
        result = asyncio.run(_run(settings, minutes * 60, seed, keep=keep))
    except asyncio.CancelledError:
        raise KeyboardInterrupt("Stopped before the first fault.") from None
    if as_json:
        print_json(_object(result, seed))
    else:
        _print(result, seed)
    if result.interrupted:
        raise typer.Exit(INTERRUPTED)
    raise typer.Exit(FAILED if result.violations else 0)


async def _run(settings: Settings, seconds: float, seed: int, *, keep: bool) -> ExperimentResult:
    stopping, begun = asyncio.Event(), asyncio.Event()
    task = asyncio.current_task()
    assert task is not None
    on_stop(partial(_stop, stopping, begun, task))
    with _live_status() as show:

        def show_status(status: ExperimentStatus) -> None:
            begun.set()
            show(status)

        return await experiment.run(
            seconds=seconds,
            seed=seed,
            user_home=settings.home,
            keep=keep,
            stopping=stopping,
            callbacks=ExperimentCallbacks(show_status, tell),
        )


def _stop(stopping: asyncio.Event, begun: asyncio.Event, task: "asyncio.Task[Any]") -> None:
    """Handle a signal: the first ends the run, with a verdict so far, or at once if there is nothing to judge yet.

    Further signals are ignored, so that everything that was started is stopped. `timeout -s INT` sends two at once.
    """
    if stopping.is_set():
        return
    stopping.set()
    if begun.is_set():
        tell("Stopping. The report follows when everything is stopped; another Ctrl-C does not make it sooner.")
    else:
        task.cancel()


# --- while it runs ------------------------------------------------------------------------------------------


@contextmanager
def _live_status() -> Generator[Callable[[ExperimentStatus], None], None, None]:
    """Show a live table on a terminal; otherwise print a status line every `LINE_EVERY` seconds."""
    if not stderr.is_terminal:
        yield _Lines()
        return
    with Live(console=stderr, auto_refresh=False, transient=True) as live:
        yield lambda status: live.update(_live(status), refresh=True)


class _Lines:
    """Prints the status every `LINE_EVERY` seconds."""

    def __init__(self) -> None:
        self._next = 0.0

    def __call__(self, status: ExperimentStatus) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + LINE_EVERY
            tell(_line(status))


def _heading(status: ExperimentStatus) -> str:
    return f"{PHASES[status.phase]} ({status.elapsed:.0f} of {status.seconds:.0f} s)"


def _line(status: ExperimentStatus) -> str:
    injected = sum(fault.injected for fault in status.faults)
    recovered = sum(fault.recovered for fault in status.faults)
    return (
        f"{_heading(status)}: {injected} faults, {recovered} recovered; "
        f"workflows: {status.running} running, {status.completed} completed, {status.cancelled} cancelled; "
        f"{status.rate:.0f} events/s"
    )


def _live(status: ExperimentStatus) -> Group:
    counts = (
        f"{status.requested} requests   workflows: {status.running} running   {status.completed} completed   "
        f"{status.cancelled} cancelled   {status.rate:.0f} events/s"
    )
    heading = Text(_heading(status), style="bold")
    return Group(heading, *([_table(status)] if status.faults else []), Text(counts))


def _table(status: ExperimentStatus) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("fault")
    for heading in ("struck", "recovered", "first sign", "median", "longest"):
        table.add_column(heading, justify="right")
    for fault in status.faults:
        times = map(_seconds, (fault.first, fault.median, fault.longest))
        table.add_row(FAULT_NAMES[fault.kind], str(fault.injected), str(fault.recovered), *times)
    return table


def _seconds(milliseconds: float | None) -> str:
    return "" if milliseconds is None else f"{milliseconds / 1_000:.1f} s"


# --- the verdict --------------------------------------------------------------------------------------------


def _print(result: ExperimentResult, seed: int) -> None:
    if result.status.faults:
        _print_table(_table(result.status))
        stdout.print()
    count_table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    count_table.add_column()
    count_table.add_column(justify="right")
    for name, count in _counts(result).items():
        count_table.add_row(_words(name), str(count))
    _print_table(count_table)
    stdout.print()
    for violation in result.violations[:MAX_PRINTED]:
        place = f"Workflow {violation.workflow_id}: " if violation.workflow_id else ""
        stdout.print(f"{violation.promise}: {place}{violation.sentence}")
    if len(result.violations) > MAX_PRINTED:
        stdout.print(f"{len(result.violations) - MAX_PRINTED} more are named by --json.")
    stdout.print(_sentence(result, seed))


def _print_table(table: Table) -> None:
    """Print a table, without trailing blanks if stdout is not a terminal."""
    if stdout.is_terminal:
        stdout.print(table)
        return
    with stdout.capture() as output:
        stdout.print(table)
    for row in output.get().splitlines():
        stdout.print(row.rstrip())


def _words(name: str) -> str:
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name)


def _counts(result: ExperimentResult) -> dict[str, int]:
    status, log = result.status, result.evidence.log
    return {
        "faults": sum(fault.injected for fault in status.faults),
        "roleProcessesStarted": result.starts,
        "requests": len(result.evidence.requests),
        "requestRecords": result.request_records,
        "roundsOpened": len(log.rounds),
        "roundsCompleted": sum("completed" in outcome.endings for outcome in log.rounds.values()),
        "roundsCancelled": sum("cancelled" in outcome.endings for outcome in log.rounds.values()),
        "roundsFailed": sum("failed" in outcome.endings for outcome in log.rounds.values()),
        "eventsAccepted": log.accepted,
        "eventsSuperseded": log.superseded,
        "eventsUnreadable": log.undecodable,
        "claimsOnActions": sum(len(action.claims) for action in log.actions.values()),
        "effects": result.evidence.effects.total(),
        "violations": len(result.violations),
    }


def _sentence(result: ExperimentResult, seed: int) -> str:
    faults = counted(sum(fault.injected for fault in result.status.faults), "fault")
    note = f" Everything is kept in {str(result.home)!r}." if result.home else ""
    if result.violations:
        return f"Not clean: {counted(len(result.violations), 'violation')} after {faults}. {_what_next(result, seed)}"
    if result.interrupted:
        return f"Stopped after {result.status.elapsed:.0f} s. Clean so far: no violation after {faults}.{note}"
    return (
        f"Clean: {faults}, {counted(len(result.evidence.requests), 'request')}. Nothing was lost, every round ended "
        f"once and as expected, no claim had its effect twice, and the rows match the log.{note}"
    )


def _what_next(result: ExperimentResult, seed: int) -> str:
    ids = [violation.workflow_id for violation in result.violations if violation.workflow_id]
    look = f"`POWERON_HOME={result.home} poweron events {ids[0]}` shows what happened. " if ids else ""
    return (
        f"Servers and rows are kept in {str(result.home)!r}, with the output of the processes in its folder 'logs'. "
        f"{look}Repeat it with --seed {seed}."
    )


def _object(result: ExperimentResult, seed: int) -> dict[str, Any]:
    verdict = "notClean" if result.violations else "stopped" if result.interrupted else "clean"
    return {
        "verdict": verdict,
        "seed": seed,
        "seconds": round(result.status.elapsed, 1),
        "faults": {fault.kind: _statistics(fault) for fault in result.status.faults},
        "counts": _counts(result),
        "struck": [_fault(fault, result.faults[0].injected_ms) for fault in result.faults],
        "violations": [
            {"promise": violation.promise, "workflow": violation.workflow_id, "sentence": violation.sentence}
            for violation in result.violations
        ],
        "kept": str(result.home) if result.home else None,
    }


def _fault(fault: InjectedFault, first_ms: int) -> dict[str, Any]:
    """Return a fault as `--json` prints it; `atMs` counts from the first fault."""
    return {
        "kind": fault.kind,
        "atMs": fault.injected_ms - first_ms,
        "firstSignMs": None if fault.first_ms is None else fault.first_ms - fault.injected_ms,
        "recoveredMs": None if fault.all_ms is None else fault.all_ms - fault.injected_ms,
    }


def _statistics(statistics: FaultStatistics) -> dict[str, Any]:
    return {
        "struck": statistics.injected,
        "recovered": statistics.recovered,
        "firstSignMs": statistics.first,
        "medianMs": statistics.median,
        "longestMs": statistics.longest,
    }
