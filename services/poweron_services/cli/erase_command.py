"""`poweron erase`: erase content of workflows, and list what remains of their text."""

import re
import sys
import time
from collections import Counter
from collections.abc import Collection, Sequence
from functools import partial
from typing import Annotated, Final

import typer
from pydantic import TypeAdapter, ValidationError

from poweron_events.archive_events import DocumentIds, RequestErasure
from poweron_events.errors import PowerOnError
from poweron_events.event import PREFIX
from poweron_projections import workflow_lifetimes
from poweron_services.cli.arguments import AsJson
from poweron_services.cli.context import FAILED, USAGE
from poweron_services.cli.error_messages import check_id, check_reason, load_settings, run_work, sentences, stop
from poweron_services.cli.event_lines import tell_untaken
from poweron_services.cli.output import counted, print_json, printable, stdout, tell
from poweron_services.cli.query_commands import bring_rows_on
from poweron_services.client.connect import Connections
from poweron_services.client.erase import Erasure, stored_content, with_remains
from poweron_services.client.erase import erase as erase_content
from poweron_services.client.event_words import size
from poweron_services.client.follow import Callbacks
from poweron_services.client.text_remains import RemainingText
from poweron_services.settings.config import Settings
from poweron_services.standalone import local_identity, open_connections, while_recording

PROMISE: Final = (
    "What events contain stays: the request, names, objectives, parameters, snippets, summaries, reasons, the answer. "
    "So do bundles that were exported, and files that were written."
)
OF_DOCUMENTS: Final = (
    "Prompts, answers and documents that were made from the erased ones stay, too: `poweron documents` lists them, and "
    "erasing all content removes them."
)


def erase(  # noqa: PLR0917 - typer reads them
    workflow: Annotated[str | None, typer.Argument(metavar="WORKFLOW", help="The workflow's id.")] = None,
    document: Annotated[
        list[str] | None, typer.Option("--document", metavar="ID", help="Only this document; may be repeated.")
    ] = None,
    expired: Annotated[
        bool, typer.Option("--expired", help="All content of all workflows whose retention is over.")
    ] = False,
    reason: Annotated[str, typer.Option(metavar="WHY", help="The reason, which is recorded in the log.")] = "",
    basis: Annotated[str, typer.Option(metavar="TEXT", help="The legal basis, which is recorded, too.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="With --expired: only show which.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before erasing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Erase content of workflows from the content store.

    Documents, prompts, answers and full results are removed, with the key of the workflow, and the erasure is recorded.
    What events contain stays; the command lists it. Nothing can be restored, except from a backup.
    If no process serves, this one records and erases.

    Exit 0 erased, 1 refused, 2 wrong usage, 130 stopped by Ctrl-C, 143 by SIGTERM.
    """
    with sentences():
        check_reason(reason)
        check_reason(basis)
        _check_usage(workflow, document or (), reason, expired=expired, dry_run=dry_run)
        settings = load_settings()
        ids = [workflow] if workflow is not None else run_work(_expired(settings))
        if dry_run or not ids:
            _list(ids, as_json=as_json)
            raise typer.Exit(0)
        _confirm(settings, ids, document or (), yes=yes)
        requests = [
            RequestErasure(
                workflow_id=id_,
                documents=tuple(dict.fromkeys(document or ())),
                reason=reason,
                legal_basis=basis,
                actor=settings.acting_through("cli"),
            )
            for id_ in ids
        ]
        erasures = run_work(_erase(settings, requests), lambda: INTERRUPTED)
        for erasure in erasures:
            _print(erasure, as_json=as_json)
    raise typer.Exit(FAILED if any(erasure.code is not None for erasure in erasures) else 0)


INTERRUPTED: Final = "Stopped waiting; the request remains in the log and is carried out."
_DOCUMENTS: Final = TypeAdapter(DocumentIds)


def _check_usage(
    workflow: str | None, documents: Collection[str], reason: str, *, expired: bool, dry_run: bool
) -> None:
    if (workflow is None) != expired:
        stop("Name a workflow, or use --expired, not both.", USAGE)
    if workflow is not None:
        check_id(workflow)
    if expired and documents:
        stop("--expired erases all content; it takes no --document.", USAGE)
    if dry_run and not expired:
        stop("--dry-run shows what --expired would erase.", USAGE)
    if not reason.strip() and not dry_run:
        stop("Say with --reason why the content is erased; it is recorded in the log.", USAGE)
    try:
        _DOCUMENTS.validate_python(tuple(documents))
    except ValidationError:
        stop("An id of --document cannot be one; `poweron documents` lists them. At most 100 can be named.", USAGE)


async def _expired(settings: Settings) -> list[str]:
    async with open_connections(settings, tell) as connections:
        await bring_rows_on(connections)
        return await workflow_lifetimes.expired_workflows(connections.pool, time.time_ns() // 1_000_000)


def _list(ids: Sequence[str], *, as_json: bool) -> None:
    if as_json:
        for id_ in ids:
            print_json({"workflowId": id_, "status": "expired"})
        return
    for id_ in ids:
        stdout.print(id_)
    verb = "has content whose retention is over" if len(ids) == 1 else "have content whose retention is over"
    tell(f"{counted(len(ids), 'workflow')} {verb}." if ids else "The retention of no workflow is over.")


def _confirm(settings: Settings, ids: Sequence[str], documents: Collection[str], *, yes: bool) -> None:
    """Ask before erasing, unless the user has agreed already."""
    if yes:
        return
    if not sys.stdin.isatty():
        stop("Nothing was done: add --yes to erase without a question.", USAGE)
    objects, taken = run_work(_amount(settings, ids))
    what = (
        counted(len(documents), "document")
        if documents
        else f"all content ({counted(objects, 'object')}, {size(taken)})"
    )
    whose = f"workflow {ids[0]}" if len(ids) == 1 else counted(len(ids), "workflow")
    if not typer.confirm(f"Erase {what} of {whose}? Nothing can be restored.", err=True):
        tell("Nothing was done.")
        raise typer.Exit(FAILED)


async def _amount(settings: Settings, ids: Sequence[str]) -> tuple[int, int]:
    async with open_connections(settings, tell) as connections:
        sizes = [each for id_ in ids for each in (await stored_content(connections.content, id_)).values()]
    return len(sizes), sum(sizes)


async def _erase(settings: Settings, requests: Sequence[RequestErasure]) -> list[Erasure]:
    async with open_connections(settings, tell) as connections:
        return await while_recording(connections, partial(_erase_all, connections, requests), tell)


async def _erase_all(connections: Connections, requests: Sequence[RequestErasure]) -> list[Erasure]:
    """Erase content of one workflow after the other; of several, none keeps the others from being erased."""
    callbacks, erasures = Callbacks(untaken=tell_untaken), list[Erasure]()
    for request in requests:
        try:
            erasures.append(await erase_content(connections, request, identity=local_identity(), callbacks=callbacks))
        except PowerOnError as error:
            if len(requests) == 1:
                raise
            erasures.append(Erasure(request.workflow_id, code=error.code, detail=str(error)))
    return await with_remains(connections, erasures)


def _print(erasure: Erasure, *, as_json: bool) -> None:
    if as_json:
        print_json(erasure.as_object())
        return
    if erasure.code is not None:
        stdout.print(
            f"Nothing of workflow {erasure.workflow_id} was erased. {printable(erasure.detail)}", soft_wrap=True
        )
        return
    of = f"documents {', '.join(map(printable, erasure.documents))}" if erasure.documents else "all content"
    unnamed = "" if erasure.documents else ", with those that no event names"
    amount = f"{counted(erasure.contents, 'stored content')}{unnamed}; {size(erasure.bytes)}"
    stdout.print(f"Erased {of} of workflow {erasure.workflow_id} ({amount}).", soft_wrap=True)
    stdout.print(f"{PROMISE} {OF_DOCUMENTS if erasure.documents else ''}".strip(), soft_wrap=True)
    _print_remains(erasure.remains)
    if erasure.copies:
        stdout.print(
            f"These workflows were made from it and may have copies: {', '.join(erasure.copies)}", soft_wrap=True
        )


def _print_remains(remains: Sequence[RemainingText]) -> None:
    """Print how much text remains in which fields, one line for each type of event."""
    by_type = dict[str, Counter[str]]()
    for text in remains:
        kind = text.type.removeprefix(PREFIX) or f"unreadable, in {text.topic}"
        by_type.setdefault(kind, Counter())[_INDEX.sub("", text.field)] += text.characters
    for kind, fields in by_type.items():
        listed = ", ".join(f"{field} {characters:,}" for field, characters in fields.items())
        stdout.print(f"  {printable(kind)}: {printable(listed)}", soft_wrap=True)
    if remains:
        stdout.print("The numbers are characters; `--json` lists each field with its event.")


_INDEX: Final = re.compile(r"\[\d+\]")
