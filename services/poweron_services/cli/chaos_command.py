"""`poweron chaos`: a live table of what struck and what was recovered, and the verdict in counts and sentences."""

import asyncio
import secrets
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import typer
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from poweron_services.chaos import experiment
from poweron_services.chaos.experiment import Audience, Outcome
from poweron_services.chaos.faults import SENTENCES
from poweron_services.chaos.recovery import Strike
from poweron_services.chaos.status import Picture, Tally
from poweron_services.cli.error_messages import FAILED, INTERRUPTED, sentences, settled
from poweron_services.cli.output import print_json, stderr, stdout, tell
from poweron_services.config import Settings
from poweron_services.signals import on_stop

LINE_EVERY = 10.0  # seconds, where nobody looks at a live table
NAMED = 20  # violations that are printed; --json has all
STAGES: Final = {
    "starting": "Starting",
    "striking": "Faults strike",
    "resting": "No more faults; coming to rest",
    "mustering": "Each half of the crew works alone",
    "judging": "Judging",
}


@sentences()
def run(minutes: float, seed: int | None, *, keep: bool, as_json: bool) -> None:
    """Strike, rest, judge."""
    settings = settled()
    seed = secrets.randbelow(1_000_000) if seed is None else seed
    tell(f"Seed {seed}: the same faults and requests come again with --seed {seed}.")
    try:
        outcome = asyncio.run(_run(settings, minutes * 60, seed, keep=keep))
    except asyncio.CancelledError:
        raise KeyboardInterrupt("Stopped before anything was struck.") from None
    if as_json:
        print_json(_object(outcome, seed))
    else:
        _print(outcome, seed)
    if outcome.interrupted:
        raise typer.Exit(INTERRUPTED)
    raise typer.Exit(FAILED if outcome.violations else 0)


async def _run(settings: Settings, seconds: float, seed: int, *, keep: bool) -> Outcome:
    stopping, begun = asyncio.Event(), asyncio.Event()
    task = asyncio.current_task()
    assert task is not None
    on_stop(partial(_stop, stopping, begun, task))
    with _looking_on() as look:

        def shown(picture: Picture) -> None:
            begun.set()
            look(picture)

        return await experiment.run(
            seconds=seconds,
            seed=seed,
            user_home=settings.home,
            keep=keep,
            stopping=stopping,
            audience=Audience(shown, tell),
        )


def _stop(stopping: asyncio.Event, begun: asyncio.Event, task: "asyncio.Task[Any]") -> None:
    """The first signal ends the run: with a verdict so far, or at once if there is nothing to judge yet.

    Any further one changes nothing, so that all that was started is stopped. `timeout -s INT` sends two at once.
    """
    if stopping.is_set():
        return
    stopping.set()
    if begun.is_set():
        tell("Stopping. The report follows when everything is put away; another Ctrl-C does not make it sooner.")
    else:
        task.cancel()


# --- while it runs ------------------------------------------------------------------------------------------


@contextmanager
def _looking_on() -> Generator[Callable[[Picture], None], None, None]:
    """A live table on a terminal, elsewhere a line now and then."""
    if not stderr.is_terminal:
        yield _Lines()
        return
    with Live(console=stderr, auto_refresh=False, transient=True) as live:
        yield lambda picture: live.update(_live(picture), refresh=True)


class _Lines:
    """Tells a picture now and then."""

    def __init__(self) -> None:
        self._next = 0.0

    def __call__(self, picture: Picture) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + LINE_EVERY
            tell(_line(picture))


def _heading(picture: Picture) -> str:
    return f"{STAGES[picture.stage]} ({picture.elapsed:.0f} of {picture.seconds:.0f} s)"


def _line(picture: Picture) -> str:
    struck = sum(each.struck for each in picture.tallies)
    recovered = sum(each.recovered for each in picture.tallies)
    return (
        f"{_heading(picture)}: {struck} faults, {recovered} recovered; "
        f"workflows: {picture.running} running, {picture.completed} completed, {picture.cancelled} cancelled; "
        f"{picture.rate:.0f} events/s"
    )


def _live(picture: Picture) -> Group:
    counts = (
        f"{picture.requested} requests   workflows: {picture.running} running   {picture.completed} completed   "
        f"{picture.cancelled} cancelled   {picture.rate:.0f} events/s"
    )
    heading = Text(_heading(picture), style="bold")
    return Group(heading, *([_table(picture)] if picture.tallies else []), Text(counts))


def _table(picture: Picture) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("fault")
    for heading in ("struck", "recovered", "first sign", "median", "longest"):
        table.add_column(heading, justify="right")
    for each in picture.tallies:
        times = map(_seconds, (each.first, each.median, each.longest))
        table.add_row(SENTENCES[each.kind], str(each.struck), str(each.recovered), *times)
    return table


def _seconds(milliseconds: float | None) -> str:
    return "" if milliseconds is None else f"{milliseconds / 1_000:.1f} s"


# --- the verdict --------------------------------------------------------------------------------------------


def _print(outcome: Outcome, seed: int) -> None:
    if outcome.picture.tallies:
        _print_table(_table(outcome.picture))
        stdout.print()
    counted = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    counted.add_column()
    counted.add_column(justify="right")
    for name, count in _counts(outcome).items():
        counted.add_row(_words(name), str(count))
    _print_table(counted)
    stdout.print()
    for violation in outcome.violations[:NAMED]:
        place = f"Workflow {violation.workflow_id}: " if violation.workflow_id else ""
        stdout.print(f"{violation.promise}: {place}{violation.sentence}")
    if len(outcome.violations) > NAMED:
        stdout.print(f"{len(outcome.violations) - NAMED} more are named by --json.")
    stdout.print(_sentence(outcome, seed))


def _print_table(table: Table) -> None:
    """Without the blanks that fill up rows, where it is no terminal that shows them."""
    if stdout.is_terminal:
        stdout.print(table)
        return
    with stdout.capture() as captured:
        stdout.print(table)
    for row in captured.get().splitlines():
        stdout.print(row.rstrip())


def _words(name: str) -> str:
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name)


def _counts(outcome: Outcome) -> dict[str, int]:
    picture, told = outcome.picture, outcome.evidence.told
    return {
        "faults": sum(each.struck for each in picture.tallies),
        "roleProcessesStarted": outcome.starts,
        "requests": len(outcome.evidence.asked),
        "requestRecords": outcome.posted,
        "roundsOpened": len(told.rounds),
        "roundsCompleted": sum("completed" in each.endings for each in told.rounds.values()),
        "roundsCancelled": sum("cancelled" in each.endings for each in told.rounds.values()),
        "roundsFailed": sum("failed" in each.endings for each in told.rounds.values()),
        "eventsAccepted": told.accepted,
        "eventsSuperseded": told.superseded,
        "eventsUnreadable": told.undecodable,
        "claimsOnActions": sum(len(each.claims) for each in told.steps.values()),
        "effects": outcome.evidence.effects.total(),
        "violations": len(outcome.violations),
    }


def _sentence(outcome: Outcome, seed: int) -> str:
    struck = _counted(sum(each.struck for each in outcome.picture.tallies), "fault")
    kept = f" Everything is kept in {str(outcome.home)!r}." if outcome.home else ""
    if outcome.violations:
        return (
            f"Not clean: {_counted(len(outcome.violations), 'violation')} after {struck}. {_what_next(outcome, seed)}"
        )
    if outcome.interrupted:
        return f"Stopped after {outcome.picture.elapsed:.0f} s. Clean so far: no violation after {struck}.{kept}"
    return (
        f"Clean: {struck}, {_counted(len(outcome.evidence.asked), 'request')}. Nothing was lost, every round ended "
        f"once and as expected, no claim had its effect twice, and the rows are what the log says.{kept}"
    )


def _what_next(outcome: Outcome, seed: int) -> str:
    ids = [each.workflow_id for each in outcome.violations if each.workflow_id]
    look = f"`POWERON_HOME={outcome.home} poweron events {ids[0]}` shows what happened. " if ids else ""
    return (
        f"Servers and rows are kept in {str(outcome.home)!r}, with what the processes said in its folder 'logs'. "
        f"{look}Strike again with --seed {seed}."
    )


def _counted(count: int, thing: str) -> str:
    return f"{count} {thing}{'' if count == 1 else 's'}"


def _object(outcome: Outcome, seed: int) -> dict[str, Any]:
    verdict = "notClean" if outcome.violations else "stopped" if outcome.interrupted else "clean"
    return {
        "verdict": verdict,
        "seed": seed,
        "seconds": round(outcome.picture.elapsed, 1),
        "faults": {each.kind: _tally(each) for each in outcome.picture.tallies},
        "counts": _counts(outcome),
        "struck": [_strike(each, outcome.strikes[0].struck_ms) for each in outcome.strikes],
        "violations": [
            {"promise": each.promise, "workflow": each.workflow_id, "sentence": each.sentence}
            for each in outcome.violations
        ],
        "kept": str(outcome.home) if outcome.home else None,
    }


def _strike(strike: Strike, first_ms: int) -> dict[str, Any]:
    """One fault; when, in ms after the first one."""
    return {
        "kind": strike.kind,
        "atMs": strike.struck_ms - first_ms,
        "firstSignMs": None if strike.first_ms is None else strike.first_ms - strike.struck_ms,
        "recoveredMs": None if strike.all_ms is None else strike.all_ms - strike.struck_ms,
    }


def _tally(tally: Tally) -> dict[str, Any]:
    return {
        "struck": tally.struck,
        "recovered": tally.recovered,
        "firstSignMs": tally.first,
        "medianMs": tally.median,
        "longestMs": tally.longest,
    }
