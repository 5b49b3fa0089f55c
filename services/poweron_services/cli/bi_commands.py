"""`poweron bi export` and `poweron bi report`: write the views of `bi` to files."""

import asyncio
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Annotated, Final

import typer

from poweron_services.analytics.html_report import BEGINNING
from poweron_services.analytics.html_report import report as html_report
from poweron_services.analytics.parquet_export import export as export_rows
from poweron_services.analytics.report_figures import Figures, read_figures
from poweron_services.cli import files
from poweron_services.cli.arguments import AsJson
from poweron_services.cli.command_group import command_group
from poweron_services.cli.context import USAGE
from poweron_services.cli.error_messages import sentences, stop
from poweron_services.cli.output import counted, print_json, stdout, tell
from poweron_services.cli.query_commands import bring_rows_on, with_rows
from poweron_services.client.connect import Connections

bi = command_group("Export figures for analysts, or write a report page.")

PERIOD: Final = 10.0  # seconds between exports while following


@bi.command("export")
@sentences()
def bi_export(
    output: Annotated[Path, typer.Option(metavar="DIR", help="The folder for the files.")],
    since: Annotated[
        str | None, typer.Option(metavar="DATE", help="Only days from this one on, such as 2026-07-01.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Keep exporting new data until Ctrl-C.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write workflows, rounds, tasks, steps, calls, tries, documents and approvals as Parquet, by day.

    The day is the one on which a workflow was opened, in UTC. A day is written again only if it has new data.
    Requires DuckDB: `pip install 'poweron-services[bi]'`.
    """
    first_day = None if since is None else _day(since)
    files.check_writable(output)

    async def exporting(connections: Connections) -> None:
        _print_export(await _export(connections, output, first_day), output, as_json=as_json)
        if follow:
            with suppress(asyncio.CancelledError):  # cancellation ends following
                await _follow(connections, output, first_day, as_json=as_json)
            tell(f"Stopped following; {output} is complete, and the next export continues from there.")

    with_rows(exporting)


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        stop(f"--since {text}: give a date such as 2026-07-01.", USAGE)


async def _follow(connections: Connections, output: Path, since: date | None, *, as_json: bool) -> None:
    """Write new data as it arrives; print nothing if there is none."""
    tell(f"New data goes to {output} every {PERIOD:g} s; Ctrl-C stops it.")
    while True:
        await asyncio.sleep(PERIOD)
        await bring_rows_on(connections)
        exported = await _export(connections, output, since)
        if exported.days:
            _print_export(exported, output, as_json=as_json)


@dataclass(frozen=True, slots=True)
class _Exported:
    """The days, files and rows that one export wrote, and how long it took."""

    days: tuple[str, ...]
    files: int
    rows: int
    seconds: float


async def _export(connections: Connections, output: Path, since: date | None) -> _Exported:
    start = time.monotonic()
    exports = [export async for export in export_rows(connections.pool, output, since)]
    days = tuple(sorted({export.day for export in exports}))
    return _Exported(days, len(exports), sum(export.rows for export in exports), round(time.monotonic() - start, 3))


def _print_export(exported: _Exported, output: Path, *, as_json: bool) -> None:
    if as_json:
        print_json(asdict(exported))
    elif exported.days:
        sentence = f"{counted(exported.rows, 'row')} of {counted(len(exported.days), 'day')}"
        stdout.print(f"{sentence} written to {output}.")
    else:
        stdout.print(f"Nothing is new: {output} holds everything.")


@bi.command("report")
@sentences()
def bi_report(
    output: Annotated[Path, typer.Option(metavar="FILE", help="The HTML file. Only an earlier report is replaced.")],
    days: Annotated[int, typer.Option(min=1, max=366, metavar="N", help="The last N days, today included.")] = 30,
    as_json: AsJson = False,
) -> None:
    """Write a page of charts about the last days: one file, without scripts or network access."""
    files.check_file_writable(output)
    now = datetime.now(UTC)
    first = now.date() - timedelta(days=days - 1)

    async def read(connections: Connections) -> Figures:
        return await read_figures(connections.pool, first, now.date())

    page = html_report(with_rows(read), now.strftime("%Y-%m-%d %H:%M UTC"))
    files.write_file(output, page.encode(), lambda earlier: earlier.startswith(BEGINNING.encode()))
    if as_json:
        print_json({"path": str(output), "first": first.isoformat(), "last": now.date().isoformat()})
    else:
        stdout.print(f"{output} covers {counted(days, 'day')}, {first} to {now.date()}.")
