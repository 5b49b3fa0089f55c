"""The commands of `poweron mcp`: their arguments and their help."""

from typing import Annotated

import typer

from poweron_services.cli.arguments import AsJson
from poweron_services.cli.command_group import CommandGroup

mcp = typer.Typer(
    cls=CommandGroup, no_args_is_help=True, rich_markup_mode=None, help="Look after servers of tools, which speak MCP."
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
) -> None:
    """Approve the tools that the servers offer now.

    Shows what is new or changed. A tool that changed is refused until then; processes that run take it
    up at their next start.

    Exit 0 approved, 1 a server does not answer, 2 wrong usage.
    """
    from poweron_services.cli import mcp_command

    mcp_command.approve(which)
