"""The arguments and help of the commands of `poweron mcp`."""

from pathlib import Path
from typing import Annotated

import typer

from poweron_services.cli.arguments import AsJson
from poweron_services.cli.command_group import CommandGroup

mcp = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Look after servers of tools, which speak MCP, or be one.",
)


@mcp.command("check")
def mcp_check(as_json: AsJson = False) -> None:
    """Ask every server of POWERON_MCP for its tools.

    Shows what each tool may do, whether a person is asked before it runs, and whether it is as it was approved.
    New tools are approved at the first use of a server, and by `poweron mcp approve`.
    Needs neither Kafka nor Postgres. Exit 1 if a server does not answer, or an approved tool has changed or is gone.
    """
    from poweron_services.cli import mcp_command

    mcp_command.check(as_json=as_json)


@mcp.command("approve")
def mcp_approve(
    which: Annotated[
        str | None, typer.Argument(metavar="SERVER[.TOOL]", help="Only this server, or this tool of it.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Approve the tools that the servers offer now.

    Shows what is new or changed. A changed tool is refused until it is approved; running processes use the
    approval after their next start.

    Exit 0 approved, 1 a server does not answer, 2 wrong usage.
    """
    from poweron_services.cli import mcp_command

    mcp_command.approve(which, as_json=as_json)


@mcp.command("serve")
def mcp_serve(
    allow: Annotated[
        list[Path] | None,
        typer.Option(metavar="DIR", help="A folder below which files may be handed over; repeatable."),
    ] = None,
    no_serve: Annotated[
        bool, typer.Option("--no-serve", help="Only request and follow; a `poweron serve` elsewhere does the work.")
    ] = False,
) -> None:
    """Serve PowerOn's tools to an assistant, over MCP.

    The assistant starts this process and talks to it over stdin and stdout: it can ask for work, check on it, read
    its audit trail, and pass on approvals. Files are read only below --allow, or else below the current folder.
    """
    from poweron_services.cli import mcp_serve_command

    mcp_serve_command.serve(allow or [], serving=not no_serve)
