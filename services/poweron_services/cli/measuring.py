"""`poweron bench`: our figures beside the yardsticks of the same run."""

import asyncio
from collections.abc import Sequence
from typing import Final

import typer
from rich.table import Table
from rich.text import Text

from poweron_services.bench.figures import LINES, Bound, Figures, Line, value, why_void
from poweron_services.bench.run import PARTS, measure
from poweron_services.cli.ending import FAILED, sentences, settled
from poweron_services.cli.printing import print_json, stdout, tell

WIDTH: Final = 110  # columns where nothing says how wide the terminal is
NOTHING: Final = "-"
LEGEND: Final = (
    "The yardsticks are of this run, on the same servers and with payloads of the same sizes: a bare ring of five "
    "Kafka topics, for rates with each of its records written to Postgres, and a bare COPY."
)


@sentences()
def bench(parts: Sequence[str], *, fsync: bool, as_json: bool) -> None:
    """Measure, and print the figures."""
    figures = asyncio.run(measure(settled().home, tell, parts=parts or PARTS, fsync=fsync))
    if as_json:
        print_json(figures.model_dump(mode="json", by_alias=True))
    else:
        _print_table(figures, fsync=fsync)
    void = why_void(figures)
    if void:
        tell(f"This run is void: the machine was busy. {void} Run it again when nothing else works.", "bold red")
        raise typer.Exit(FAILED)


def _print_table(figures: Figures, *, fsync: bool) -> None:
    if not stdout.is_terminal:
        stdout.width = WIDTH
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("")
    for name in ("ours", "yardstick", "ratio"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("wanted")
    table.add_column("met", no_wrap=True)
    for line in LINES:
        if value(figures, line.figure) is not None:
            table.add_row(*_cells(line, figures))
    stdout.print(table)
    stdout.print()
    stdout.print(_legend(figures, fsync=fsync))


def _cells(line: Line, figures: Figures) -> list[str | Text]:
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


def wanted(line: Line) -> str:
    """What is wanted of a figure, in words."""
    said = [f"{line.bound.kind} {amount(line.bound.value, line.unit)}"] if line.bound else []
    said += [f"ratio {_share(line.share)}"] if line.share else []
    return ", ".join(said)


def _share(bound: Bound) -> str:
    return f"{bound.kind} {bound.value:g}"


def amount(value: float | None, unit: str) -> str:
    """A figure with its unit, with as many digits as say something."""
    if value is None:
        return NOTHING
    number = f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.1f}" if abs(value) >= 10 else f"{value:,.2f}"
    return f"{number}{unit}" if unit.startswith("/") or not unit else f"{number} {unit}"


def _legend(figures: Figures, *, fsync: bool) -> str:
    said = LEGEND
    if figures.ring_iterations_per_second is not None:
        said += f" Without Postgres the ring makes {amount(figures.ring_iterations_per_second, '/s')}."
    return said + (" The broker forced every record to the disk." if fsync else "")
