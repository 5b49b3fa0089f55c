"""The arguments and help of the commands of `poweron documents`."""

from typing import Annotated

import typer

from poweron_services.cli.arguments import AlsoForeign, AsJson, Output, WorkflowId
from poweron_services.cli.command_group import DocumentsGroup

documents = typer.Typer(
    cls=DocumentsGroup,
    no_args_is_help=False,
    rich_markup_mode=None,
    help="List the documents of a workflow, or clear up.",
)


@documents.command("list")
def documents_list(workflow: WorkflowId, output: Output = None, as_json: AsJson = False) -> None:
    """List a workflow's documents, or write them with --output."""
    from poweron_services.cli import query_commands

    query_commands.documents(workflow, output, as_json=as_json)


@documents.command("gc")
def documents_gc(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")] = False,
    yes: AlsoForeign = False,
    as_json: AsJson = False,
) -> None:
    """Remove stored content that no event refers to.

    Removes only content older than a day, and none that belongs to an open round or a pending request.
    """
    from poweron_services.cli import documents_command

    documents_command.gc(dry_run=dry_run, yes=yes, as_json=as_json)
