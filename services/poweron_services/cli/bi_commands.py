"""`poweron bi export` and `poweron bi report`: what the views of `bi` say, as files."""

import asyncio
import time
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Final

from poweron_services.analytics.html_report import report as html_report
from poweron_services.analytics.parquet_export import export as export_rows
from poweron_services.analytics.report_figures import Figures, read_figures
from poweron_services.cli.error_messages import sentences
from poweron_services.cli.output import counted, print_json, stdout
from poweron_services.cli.query_commands import bring_rows_on, with_rows
from poweron_services.client.connect import Connections

PERIOD: Final = 10.0  # seconds after which a follower looks again


@sentences()
def export(output: Path, since: date | None, *, follow: bool, as_json: bool) -> None:
    """Write what is new; with `follow`, again and again."""

    async def exporting(connections: Connections) -> None:
        await _export(connections, output, since, as_json=as_json)
        while follow:
            await asyncio.sleep(PERIOD)
            await bring_rows_on(connections)
            await _export(connections, output, since, as_json=as_json)

    with_rows(exporting)


async def _export(connections: Connections, output: Path, since: date | None, *, as_json: bool) -> None:
    started, days, files, rows = time.monotonic(), set[str](), 0, 0
    async for written in export_rows(connections.pool, output, since):
        days.add(written.day)
        files, rows = files + 1, rows + written.rows
    if as_json:
        print_json(
            {"days": sorted(days), "files": files, "rows": rows, "seconds": round(time.monotonic() - started, 3)}
        )
    elif days:
        stdout.print(f"{counted(rows, 'row')} of {counted(len(days), 'day')} written to {output}.")
    else:
        stdout.print(f"Nothing is new: {output} holds everything.")


@sentences()
def report(output: Path, days: int, *, as_json: bool) -> None:
    """Write the page."""
    now = datetime.now(UTC)
    first = now.date() - timedelta(days=days - 1)

    async def read(connections: Connections) -> Figures:
        return await read_figures(connections.pool, first, now.date())

    page = html_report(with_rows(read), now.strftime("%Y-%m-%d %H:%M UTC"))
    output.write_text(page, encoding="utf-8")
    if as_json:
        print_json({"path": str(output), "first": first.isoformat(), "last": now.date().isoformat()})
    else:
        stdout.print(f"{output} tells of {counted(days, 'day')}, {first} to {now.date()}.")
