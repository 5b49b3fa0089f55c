"""`poweron documents`: list the documents of a workflow, and remove stored content that no event refers to."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.text import Text

from poweron_projections import workflow_excerpts, workflow_lifetimes
from poweron_services.cli import files
from poweron_services.cli.arguments import AsJson, Output, WorkflowId
from poweron_services.cli.command_group import CommandGroup
from poweron_services.cli.context import FAILED
from poweron_services.cli.error_messages import check_id, load_settings, run_work, sentence, sentences, stop
from poweron_services.cli.output import (
    counted,
    one_line,
    print_beside,
    print_json,
    printable,
    stdout,
    tell,
)
from poweron_services.cli.query_commands import with_rows
from poweron_services.client.connect import Connections
from poweron_services.client.content_cleanup import Cleanup, NotItsLog, clearing_up
from poweron_services.client.content_inventory import InventoryEntry
from poweron_services.client.erasures import lifetime, newest_erasure
from poweron_services.client.event_words import size
from poweron_services.client.workflow_snapshot import verified_records
from poweron_services.settings.config import Settings
from poweron_services.standalone import open_connections

SHOWN = 20  # workflows; `--json` lists all
FOREIGN = (
    "Check POWERON_KAFKA, POWERON_KAFKA_PREFIX and POWERON_CONTENT. "
    "If the store does belong to this log, confirm it with --yes."
)


class _DocumentsGroup(CommandGroup):
    """Takes an argument that is not a command for the workflow whose documents to list."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or args[0] not in {*self.commands, "--help"}:
            args = ["list", *args]
        return super().parse_args(ctx, args)


AlsoForeign = Annotated[bool, typer.Option("--yes", help="Remove even if the log knows none of the stored workflows.")]

documents = typer.Typer(
    cls=_DocumentsGroup,
    no_args_is_help=False,
    rich_markup_mode=None,
    help="List a workflow's documents, or remove unused content.",
)


@documents.command("list")
@sentences()
def documents_list(workflow: WorkflowId, output: Output = None, as_json: AsJson = False) -> None:
    """List a workflow's documents, or write them with --output."""
    check_id(workflow)

    async def collect(connections: Connections) -> list[dict[str, Any]]:
        if output is not None:
            files.check_writable(output)
        await verified_records(connections, workflow)
        entries = await workflow_excerpts.documents(connections.pool, workflow)
        if words := await lifetime(connections.pool, workflow):
            tell(printable(words))
        if output is not None:
            return await files.write(connections, workflow, entries, output)
        events = await workflow_lifetimes.lifetime_events(connections.pool, workflow)
        erasures = [newest_erasure(events, entry.content, entry.document_id) for entry in entries]
        return [
            files.shown_document(entry) | {"label": entry.label} | ({"erased": erasure.time} if erasure else {})
            for entry, erasure in zip(entries, erasures, strict=True)
        ]

    listing = with_rows(collect)
    for document in listing:
        if as_json:
            print_json(document)
        else:
            place = document["path"] if output is not None else document["label"]
            if document.get("erased"):
                place = f"{place}, erased"
            name = one_line(document["documentName"])
            margin = Text(f"{one_line(document['documentId']):<12}{size(document['size']):>9}  ", style="dim")
            print_beside(stdout, margin, f"{name} ({printable(place or 'not written')})")
    if output is not None and any(document["path"] is None for document in listing):
        raise typer.Exit(FAILED)


@documents.command("gc")
@sentences()
def documents_gc(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be removed.")] = False,
    yes: AlsoForeign = False,
    as_json: AsJson = False,
) -> None:
    """Remove stored content that no event refers to.

    Removes only content older than a day, and none that belongs to an open round or a pending request.
    """
    try:
        cleanup = run_work(_clean_up(load_settings(), dry_run=dry_run, yes=yes))
    except NotItsLog as error:
        stop(f"{sentence(error)} {FOREIGN}", code=error.code)
    if as_json:
        print_json(_json(cleanup, dry_run=dry_run))
    else:
        _print(cleanup, dry_run=dry_run)


async def _clean_up(settings: Settings, *, dry_run: bool, yes: bool) -> Cleanup:
    async with open_connections(settings, tell) as connections:
        with clearing_up(connections, time.time()) as cleaning:
            cleanup = await cleaning.find(foreign=yes)
            return cleanup if dry_run else await cleaning.remove(cleanup)


def _json(cleanup: Cleanup, *, dry_run: bool) -> dict[str, Any]:
    workflows = sorted(cleanup.found.items())
    return {
        "dryRun": dry_run,
        **_sum(cleanup.all),
        "workflows": [{"workflowId": workflow, **_sum(entries)} for workflow, entries in workflows],
        "skipped": cleanup.skipped,
    }


def _sum(entries: Sequence[InventoryEntry]) -> dict[str, Any]:
    oldest = min((entry.modified for entry in entries), default=None)
    return {
        "objects": len(entries),
        "bytes": sum(entry.size for entry in entries),
        "oldest": None if oldest is None else datetime.fromtimestamp(oldest, UTC).isoformat(timespec="seconds"),
    }


def _print(cleanup: Cleanup, *, dry_run: bool) -> None:
    largest = sorted(cleanup.found.items(), key=lambda item: -sum(entry.size for entry in item[1]))
    for workflow, stored in largest[:SHOWN]:
        totals = _sum(stored)
        amounts = f"{counted(totals['objects'], 'object'):>12}{size(totals['bytes']):>10}"
        stdout.print(f"{one_line(workflow):<36}{amounts}  oldest {totals['oldest'][:16].replace('T', ' ')}")
    if len(largest) > SHOWN:
        stdout.print(f"… and {counted(len(largest) - SHOWN, 'other workflow')}; `--json` lists all.")
    for workflow in cleanup.skipped:
        tell(
            f"Workflow {one_line(workflow)} was skipped: the check took too long, or another process is working on it."
        )
    total, verb = _sum(cleanup.all), "would be removed" if dry_run else "removed"
    if total["objects"]:
        stdout.print(f"{counted(total['objects'], 'object')} of {size(total['bytes'])} {verb}.")
    else:
        stdout.print(f"Nothing {verb}: an event refers to everything older than a day.")
