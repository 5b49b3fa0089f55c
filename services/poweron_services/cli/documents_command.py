"""`poweron documents gc`: remove stored content that no event refers to."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from poweron_services.cli.error_messages import load_settings, run_work, sentence, sentences, stop
from poweron_services.cli.event_lines import size
from poweron_services.cli.output import counted, one_line, print_json, stdout, tell
from poweron_services.client.content_cleanup import Cleanup, NotItsLog, clearing_up
from poweron_services.client.content_inventory import InventoryEntry
from poweron_services.settings.config import Settings
from poweron_services.standalone import open_connections

SHOWN = 20  # workflows; `--json` lists all
FOREIGN = (
    "Check POWERON_KAFKA, POWERON_KAFKA_PREFIX and POWERON_CONTENT. "
    "If the store is this log's own all the same, say so with --yes."
)


@sentences()
def gc(*, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Remove content that no event refers to, or only print what would be removed."""
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
            found = await cleaning.find(foreign=yes)
            return found if dry_run else await cleaning.remove(found)


def _json(cleanup: Cleanup, *, dry_run: bool) -> dict[str, Any]:
    found = sorted(cleanup.found.items())
    return {
        "dryRun": dry_run,
        **_sum(cleanup.all),
        "workflows": [{"workflowId": workflow, **_sum(stored)} for workflow, stored in found],
        "skipped": cleanup.skipped,
    }


def _sum(stored: Sequence[InventoryEntry]) -> dict[str, Any]:
    oldest = min((each.modified for each in stored), default=None)
    return {
        "objects": len(stored),
        "bytes": sum(each.size for each in stored),
        "oldest": None if oldest is None else datetime.fromtimestamp(oldest, UTC).isoformat(timespec="seconds"),
    }


def _print(cleanup: Cleanup, *, dry_run: bool) -> None:
    largest = sorted(cleanup.found.items(), key=lambda found: -sum(each.size for each in found[1]))
    for workflow, stored in largest[:SHOWN]:
        shown = _sum(stored)
        what = f"{counted(shown['objects'], 'object'):>12}{size(shown['bytes']):>10}"
        stdout.print(f"{one_line(workflow):<36}{what}  oldest {shown['oldest'][:16].replace('T', ' ')}")
    if len(largest) > SHOWN:
        stdout.print(f"… and {counted(len(largest) - SHOWN, 'other workflow')}; `--json` names all.")
    for workflow in cleanup.skipped:
        tell(f"Workflow {one_line(workflow)} was left alone: looking took too long, or somebody else is at it.")
    total, verb = _sum(cleanup.all), "would be removed" if dry_run else "removed"
    if total["objects"]:
        stdout.print(f"{counted(total['objects'], 'object')} of {size(total['bytes'])} {verb}.")
    else:
        stdout.print(f"Nothing {verb}: all that is older than a day is named by an event.")
