"""`poweron retain`: keep the content of workflows until a date, or on legal hold."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Final

import typer
from pydantic import TypeAdapter, ValidationError
from rich.text import Text

from poweron_events.archive_events import HoldName
from poweron_events.envelope import parse_time_ms, rfc3339_of
from poweron_events.fold.retention import Retention
from poweron_projections import workflow_lifetimes
from poweron_services.cli.arguments import AsJson
from poweron_services.cli.context import FAILED, USAGE
from poweron_services.cli.error_messages import check_reason, load_settings, run_work, sentences, stop
from poweron_services.cli.output import print_beside, print_json, printable, stdout
from poweron_services.cli.query_commands import with_rows
from poweron_services.cli.verb_commands import Reason, Workflows, named, print_results
from poweron_services.client.connect import Connections
from poweron_services.client.erasures import retention_words
from poweron_services.client.verbs import Instruction
from poweron_services.client.workflow_snapshot import read_snapshot, verified_records
from poweron_services.standalone import local_identity
from poweron_services.wiring import now_ms

Hold = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Begin the legal hold of this name: up to 100 letters, digits and . _ / -, such as case-2026-17.",
    ),
]


def retain(  # noqa: PLR0917 - typer reads them
    workflows: Workflows = None,
    until: Annotated[
        str | None,
        typer.Option(
            metavar="DATE", help="Keep the content until this date or time (UTC); it may be erased from then on."
        ),
    ] = None,
    hold: Hold = None,
    release: Annotated[str | None, typer.Option(metavar="NAME", help="End the legal hold of this name.")] = None,
    reason: Reason = "",
    as_json: AsJson = False,
) -> None:
    """Keep the content of workflows until a date, or on legal hold.

    Nothing of it is erased meanwhile. A workflow may be on several holds; the newest date counts. An earlier date, and
    the end of a hold, need a --reason. Without --until, --hold and --release, shows how long content is kept.
    If no process serves, this one records it.

    Exit 0 all are retained, 1 at least one is not, 2 wrong usage, 130 stopped by Ctrl-C, 143 by SIGTERM.
    """
    with sentences():
        check_reason(reason)
        settings = load_settings()
        given = {"until": None if until is None else _time(until), "hold": hold, "released": release}
        change = {name: value for name, value in given.items() if value is not None}
        if len(change) > 1:
            stop("Give only one of --until, --hold and --release.", USAGE)
        if reason and not change:
            stop("--reason says why --until, --hold or --release changes something: give one of them.", USAGE)
        _check_name(hold or release)
        _check_reason(change, reason)
        ids = named(workflows or [], "Name at least one workflow.")
        if not change:
            _show(ids, as_json=as_json)
            raise typer.Exit(0)
        actor = settings.acting_through("cli")
        instruction = Instruction("retain", reason, actor, lambda _: local_identity(), change)
        failed = run_work(print_results(settings, instruction, ids, as_json=as_json), lambda: INTERRUPTED)
    raise typer.Exit(FAILED if failed else 0)


def _check_reason(change: Mapping[str, str], reason: str) -> None:
    if reason.strip():
        return
    if "released" in change:
        stop("Say with --reason why the hold is released; it is recorded in the log.", USAGE)
    if "until" in change and parse_time_ms(change["until"]) <= now_ms():
        stop(
            f"{change['until']} is past, so the content could be erased at once. Choose a later time, or say with "
            "--reason why; it is recorded in the log.",
            USAGE,
        )


def _show(ids: Sequence[str], *, as_json: bool) -> None:
    """Print how long content of workflows is kept."""

    async def look(connections: Connections) -> list[Retention]:
        for id_ in ids:
            await verified_records(connections, id_)
            await read_snapshot(connections, id_)
        return [await workflow_lifetimes.workflow_retention(connections.pool, id_) for id_ in ids]

    for id_, state in zip(ids, with_rows(look), strict=True):
        if as_json:
            print_json({"workflowId": id_, "until": state.until, "holds": [*state.holds], "isErased": state.is_erased})
        else:
            print_beside(stdout, Text(f"{id_}  "), printable(retention_words(state)))


_NAME: Final = TypeAdapter(HoldName | None)
INTERRUPTED: Final = "Stopped waiting. What was sent remains in the log and is carried out."


def _check_name(hold: str | None) -> None:
    try:
        _NAME.validate_python(hold)
    except ValidationError:
        stop("The name of a hold has at most 100 letters, digits and . _ / -, without spaces.", USAGE)


def _time(until: str) -> str:
    """Return a date or time as events write it."""
    try:
        return f"{rfc3339_of(parse_time_ms(until))[:19]}Z"
    except (ValueError, OverflowError):
        stop(f"{until!r} is neither a date such as 2033-12-31 nor a time such as 2033-12-31T12:00:00Z.", USAGE)
