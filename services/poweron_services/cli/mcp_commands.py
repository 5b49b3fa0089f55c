"""`poweron mcp`: check and approve the tools of servers, and serve PowerOn's own to an assistant."""

from pathlib import Path
from typing import Annotated

import typer

from poweron_services.cli.arguments import AsJson
from poweron_services.cli.command_group import command_group
from poweron_services.cli.context import FAILED, USAGE
from poweron_services.cli.error_messages import load_settings, run_work, sentences, stop
from poweron_services.cli.output import stdout

mcp = command_group("Check and approve servers of tools that speak MCP, or be one.")


@mcp.command("check")
@sentences()
def mcp_check(as_json: AsJson = False) -> None:
    """Ask every server of POWERON_MCP for its tools.

    Shows what each tool may do, whether it asks a person before it runs, and whether it has changed since its approval.
    New tools are approved at the first use of a server, and by `poweron mcp approve`.
    Needs neither Kafka nor Postgres. Exit 1 if a server does not answer, or an approved tool has changed or is gone.
    """
    from poweron_services.cli.mcp_tools import check_servers  # noqa: PLC0415 - slow to import

    if not run_work(check_servers(load_settings(), as_json=as_json)):
        raise typer.Exit(FAILED)


@mcp.command("approve")
@sentences()
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
    from poweron_services.cli.mcp_tools import approve_tools  # noqa: PLC0415 - slow to import

    changes = run_work(approve_tools(load_settings(), which or "", as_json=as_json))
    if not changes and not as_json:
        stdout.print("Everything is already approved.")


@mcp.command("serve")
@sentences()
def mcp_serve(
    allow: Annotated[
        list[Path] | None,
        typer.Option(metavar="DIR", help="A folder whose files, at any depth, the assistant may attach; repeatable."),
    ] = None,
    no_serve: Annotated[
        bool, typer.Option("--no-serve", help="Only request and follow; a `poweron serve` elsewhere does the work.")
    ] = False,
) -> None:
    """Serve PowerOn's tools to an assistant, over MCP.

    The assistant starts this process and talks to it over stdin and stdout: it can ask for work, check on it, read
    its audit trail, and pass on approvals. Files are read only below --allow, or else below the current folder.
    """
    for folder in allow or []:
        if not folder.is_dir():
            stop(f"There is no folder {str(folder)!r} to allow.", USAGE)
    from poweron_services.cli.mcp_tools import serve  # noqa: PLC0415 - slow to import

    run_work(serve(load_settings(), allow or [], serving=not no_serve))
