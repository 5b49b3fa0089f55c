"""`poweron bi export` and `poweron bi report`: write the views of `bi` to files."""

import asyncio
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Final

from poweron_services.analytics.html_report import BEGINNING
from poweron_services.analytics.html_report import report as html_report
from poweron_services.analytics.parquet_export import export as export_rows
from poweron_services.analytics.report_figures import Figures, read_figures
from poweron_services.cli import files
from poweron_services.cli.error_messages import sentences
from poweron_services.cli.output import counted, print_json, stdout, tell
from poweron_services.cli.query_commands import bring_rows_on, with_rows
from poweron_services.client.connect import Connections

PERIOD: Final = 10.0  # seconds between exports while following


@sentences()
def export(output: Path, since: date | None, *, follow: bool, as_json: bool) -> None:
    """Write what is new; with `follow`, keep writing until stopped."""
    files.check_writable(output)

    async def exporting(connections: Connections) -> None:
        _tell_written(await _export(connections, output, since), output, as_json=as_json)
        if follow:
            with suppress(asyncio.CancelledError):  # cancellation ends following
                await _follow(connections, output, since, as_json=as_json)
            tell(f"Stopped following; {output} is whole, and the next export goes on from there.")

    with_rows(exporting)


async def _follow(connections: Connections, output: Path, since: date | None, *, as_json: bool) -> None:
    """Write new data as it arrives; print nothing if there is none."""
    tell(f"What is new comes to {output} every {PERIOD:g} s; Ctrl-C ends it.")
    while True:
        await asyncio.sleep(PERIOD)
        await bring_rows_on(connections)
        exported = await _export(connections, output, since)
        if exported.days:
            _tell_written(exported, output, as_json=as_json)


@dataclass(frozen=True, slots=True)
class _Exported:
    """The days, files and rows that one export wrote, and how long it took."""

    days: tuple[str, ...]
    files: int
    rows: int
    seconds: float


async def _export(connections: Connections, output: Path, since: date | None) -> _Exported:
    started = time.monotonic()
    written = [each async for each in export_rows(connections.pool, output, since)]
    days = tuple(sorted({each.day for each in written}))
    return _Exported(days, len(written), sum(each.rows for each in written), round(time.monotonic() - started, 3))


def _tell_written(exported: _Exported, output: Path, *, as_json: bool) -> None:
    if as_json:
        print_json(asdict(exported))
    elif exported.days:
        said = f"{counted(exported.rows, 'row')} of {counted(len(exported.days), 'day')}"
        stdout.print(f"{said} written to {output}.")
    else:
        stdout.print(f"Nothing is new: {output} holds everything.")


@sentences()
def report(output: Path, days: int, *, as_json: bool) -> None:
    """Write the HTML report."""
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
        stdout.print(f"{output} tells of {counted(days, 'day')}, {first} to {now.date()}.")
