"""The commands of `poweron mcp`: their arguments and their help."""

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

    Says of each what it may do, whether a person is asked before it runs, and whether it is as it was approved.
    What is new is approved at the first use of a server, and by `poweron mcp approve`.
    Neither Kafka nor Postgres is needed. Exit 1 if a server does not answer, or if a tool is not as it was approved.
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

    Shows what is new or changed. A tool that changed is refused until then; processes that run take it
    up at their next start.

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
    """Be a server of tools for an assistant, over MCP.

    The assistant starts this, and speaks with it over stdin and stdout: it can ask for work, look at it, read its
    audit trail, and pass on approvals. Files are read below --allow only, else below the folder it was started in.
    """
    from poweron_services.cli import mcp_serve_command

    mcp_serve_command.serve(allow or [], serving=not no_serve)
