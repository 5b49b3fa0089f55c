"""The arguments and help of the commands of `poweron bi`."""

from datetime import datetime
from pathlib import Path
from typing import Annotated, Optional

import typer

from poweron_services.cli.arguments import AsJson
from poweron_services.cli.command_group import CommandGroup

bi = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Count what was done: files for analysts, a page to hand on.",
)


@bi.command("export")
def bi_export(
    output: Annotated[Path, typer.Option(metavar="DIR", help="The folder for the files.")],
    since: Annotated[
        Optional[datetime], typer.Option(formats=["%Y-%m-%d"], metavar="DATE", help="Only days from this one on.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Go on with what comes, until Ctrl-C.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write workflows, rounds, tasks, steps, calls, tries, documents and approvals as Parquet, by day.

    The day is the one on which a workflow was opened, in UTC. A day is written again only if it has new data.
    Requires DuckDB: `pip install 'poweron-services[bi]'`.
    """
    from poweron_services.cli import bi_commands

    bi_commands.export(output, None if since is None else since.date(), follow=follow, as_json=as_json)


@bi.command("report")
def bi_report(
    output: Annotated[
        Path, typer.Option(metavar="FILE", help="The HTML file. No file is replaced but an earlier report.")
    ],
    days: Annotated[int, typer.Option(min=1, max=366, metavar="N", help="The last N days, today included.")] = 30,
    as_json: AsJson = False,
) -> None:
    """Write a page of charts about the last days: one file, without scripts or network access."""
    from poweron_services.cli import bi_commands

    bi_commands.report(output, days, as_json=as_json)
