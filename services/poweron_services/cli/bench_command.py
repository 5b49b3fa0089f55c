"""`poweron bench`: print our figures beside the yardsticks of the same run."""

import os
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Annotated, Final

import typer
from rich.table import Table
from rich.text import Text

from poweron_events.errors import Refused
from poweron_services.cli.arguments import AsJson
from poweron_services.cli.context import FAILED, USAGE
from poweron_services.cli.error_messages import load_settings, run_work, sentence, sentences, stop
from poweron_services.cli.output import interpreter_advice, print_json, stdout, tell
from poweron_services.cli.progress_bar import bar
from poweron_services.experiments.bench.benchmark import PARTS, BenchmarkPlan, measure
from poweron_services.experiments.bench.figures import (
    BenchFigures,
    FigureLine,
    lines,
    peer_command,
    peer_lines,
    value,
    why_void,
)

WIDTH: Final = 120  # columns, if stdout is not a terminal
NOTHING: Final = "-"
SIGNS: Final = {"at most": "≤", "at least": "≥"}


class Measured(StrEnum):
    """The parts that can be measured separately."""

    ask = "ask"
    documents = "documents"
    latency = "latency"
    throughput = "throughput"
    growth = "growth"
    history = "history"
    rebuild = "rebuild"
    door = "door"
    scale = "scale"
    ledger = "ledger"


Parts = Annotated[
    list[Measured] | None,
    typer.Option(
        "--only",
        metavar="PART",
        help=f"Measure only this part, repeatable: {', '.join(PARTS[:-1])} or {PARTS[-1]}.",
    ),
]
Peer = Annotated[
    str | None,
    typer.Option(
        "--peer",
        metavar="COMMAND",
        help="Alternate with this command, which runs the same workload and prints its figures as JSON.",
    ),
]


@sentences()
def bench(
    *,
    only: Parts = None,
    fsync: Annotated[bool, typer.Option("--fsync", help="Let Kafka force every record to the disk.")] = False,
    processes: Annotated[
        int, typer.Option(min=1, max=64, metavar="N", help="How many processes play all the roles.", show_default=True)
    ] = 1,
    peer: Peer = None,
    as_json: AsJson = False,
) -> None:
    """Measure how fast PowerOn is on this machine.

    Prints our figures beside yardsticks of the same run: a bare ring of Kafka topics, the same ring written
    to Postgres, a bare COPY. The model and the action answer at once. It takes a few minutes and uses its own
    servers, whose data is removed afterwards; nothing else should be running meanwhile.

    Exit 1 if the run is void because the yardsticks show that the machine was busy.
    """
    home = load_settings().home
    command = None if peer is None else _command(peer)
    if slow := interpreter_advice():
        tell(slow)
    with bar("Measuring", "iterations") as on_progress:
        plan = BenchmarkPlan(processes=processes)
        measuring = measure(
            home, tell, parts=only or PARTS, fsync=fsync, peer=command, plan=plan, on_iterations=on_progress
        )
        figures = run_work(measuring)
    void = why_void(figures, fsync=fsync)
    if as_json:
        print_json({**figures.model_dump(mode="json", by_alias=True), "void": void})
    else:
        figure_lines = lines(fsync=fsync) if peer is None else peer_lines(fsync=fsync)
        _print_table(figures, figure_lines, beside="yardstick" if peer is None else "peer")
        for sentence in legend(figures, fsync=fsync):
            stdout.print(sentence)
    if void:
        tell(f"This run is void: the machine was busy. {void} Run it again when nothing else is running.", "bold red")
        raise typer.Exit(FAILED)


def _command(peer: str) -> tuple[str, ...]:
    try:
        return peer_command(peer)
    except Refused as error:
        stop(sentence(error), USAGE)


def _print_table(figures: BenchFigures, figure_lines: Sequence[FigureLine], beside: str) -> None:
    if not stdout.is_terminal:
        stdout.width = WIDTH
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("")
    for name in ("ours", beside, "ratio"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("wanted", no_wrap=True)
    table.add_column("met", no_wrap=True)
    for line in figure_lines:
        if value(figures, line.figure) is not None:
            table.add_row(*_cells(line, figures))
    stdout.print(table)
    stdout.print()


def _cells(line: FigureLine, figures: BenchFigures) -> list[str | Text]:
    ratio = line.ratio(figures)
    return [
        line.name,
        amount(value(figures, line.figure), line.unit),
        amount(value(figures, line.yardstick), line.unit) if line.yardstick else "",
        "" if ratio is None else f"{ratio:.2f}",
        wanted(line),
        _met(line.met(figures)),
    ]


def _met(met: bool | None) -> Text:
    return {True: Text("yes", "green"), False: Text("no", "bold red"), None: Text("")}[met]


def wanted(line: FigureLine) -> str:
    """Format the targets of a figure."""
    targets = [f"{SIGNS[line.bound.kind]} {amount(line.bound.value, line.unit)}"] if line.bound else []
    targets += [f"ratio {SIGNS[line.share.kind]} {line.share.value:g}"] if line.share else []
    return ", ".join(targets)


def amount(value: float | None, unit: str) -> str:
    """Format a figure with its unit, and with as many digits as are meaningful."""
    if value is None:
        return NOTHING
    number = f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.1f}" if abs(value) >= 10 else f"{value:,.2f}"
    return f"{number}{unit}" if unit.startswith("/") or not unit else f"{number} {unit}"


def legend(figures: BenchFigures, *, fsync: bool) -> Iterator[str]:
    """Yield sentences that explain the table."""
    yield f"Measured on {_cores()}, on servers of its own, with a model and an action that answer at once."
    if figures.peer_iterations_per_second is not None:
        yield "The peer: its command in turn with ours, five times each; its rows, if it has any, are its own matter."
        return
    if figures.iteration_p50_ms is not None:
        yield "One iteration: with one workflow at a time. Yardstick: a lap of a bare ring of five Kafka topics."
    if figures.iterations_per_second is not None:
        yield (
            "Iterations: until their rows are in Postgres. Yardstick: the laps of that ring, each record written to "
            f"Postgres; without it the ring makes {amount(figures.ring_iterations_per_second, '/s')}."
        )
    if figures.rebuild_events_per_second is not None:
        yield "Rebuild: from the log to rows. Yardstick: a bare COPY of the same bytes."
    if figures.open_workflows_mb is not None:
        yield "Processes, open workflows: with a model that takes a second for each call, or does not answer at all."
    if figures.door_followers is not None:
        yield "Followers: of one workflow at ten records a second; one in twenty does not read. Lists: without HTTP."
    if figures.ledger_cpu_ratio is not None:
        yield "Ledger: with its rows, in turn with runs without it. The bundle: in a log of a million events."
    if figures.ask_cold_ms is not None:
        yield "First step: of `poweron ask`, with servers that must start first (cold) and with running ones (warm)."
    if figures.mixed_pages_per_second is not None:
        yield "PDF: pages for each second that a core works for them, in all processes that read."
    if fsync:
        yield "Kafka forced every record to the disk."


def _cores() -> str:
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return "1 core" if count == 1 else f"{count} cores"
