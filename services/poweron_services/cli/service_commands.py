"""`poweron serve`, `rebuild`, `verify` and `recover`: run the service, and keep its rows and contents correct."""

import os
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from enum import StrEnum
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any, Final

import structlog
import typer

from poweron_events.errors import LogLost
from poweron_projections.log_guard import LogLoss, LostWorkflow, find_loss
from poweron_projections.rebuild import Rebuilt
from poweron_projections.rebuild import rebuild as rebuild_rows
from poweron_projections.shadow import Difference
from poweron_projections.verify import Verified
from poweron_projections.verify import verify as verify_rows
from poweron_services import shutdown, telemetry, wiring
from poweron_services.cli.arguments import AsJson
from poweron_services.cli.context import FAILED
from poweron_services.cli.error_messages import load_settings, run_work, sentence, sentences
from poweron_services.cli.output import counted, one_line, print_json, stdout, tell, utc
from poweron_services.cli.progress_bar import bar
from poweron_services.client.connect import Connections
from poweron_services.client.content_check import CheckedContent, ContentFault, check_content
from poweron_services.log_redaction import hide_configured_secrets
from poweron_services.models.chat_model import ChatModel
from poweron_services.process_memory import tune_memory
from poweron_services.settings.config import Settings, misspelled
from poweron_services.standalone import open_connections

if TYPE_CHECKING:
    from poweron_services.probes.process_probes import ProcessProbes

log = structlog.get_logger()

SHOWN: Final = 20  # workflows, and contents of each workflow; `--json` lists all
_FIELDS: Final = {
    "prompt_ref": "the prompt of a model",
    "answer_ref": "the answer of a model",
    "history_ref": "the history of earlier rounds",
    "all_calls": "the list of all model calls",
    "text": "the text of a web page",
    "key": "the key of the workflow, without which its contents cannot be verified",
}
_MEANS = (
    "Recovery rebuilds the rows from what the log holds. It cannot be undone:\n"
    "- Lost events are forgotten, and lost requests count as never answered: a sender who repeats one gets an answer.\n"
    "- A workflow that lost some of its events continues from those that are left, and may repeat what it had done; "
    "one that lost its opening counts as never opened.\n"
    "- Documents stay in the content store.\n"
    "If you have a copy of the topic, restore it instead: with all records back, everything continues by itself."
)


class PlayedRole(StrEnum):
    """The roles that a process can play."""

    intake = "intake"
    planner = "planner"
    selector = "selector"
    parameterizer = "parameterizer"
    executor = "executor"
    observer = "observer"
    refiner = "refiner"
    reviewer = "reviewer"
    projector = "projector"
    ledger = "ledger"


@sentences()
def serve(
    role: Annotated[list[PlayedRole] | None, typer.Option(metavar="ROLE", help="Only this role; repeatable.")] = None,
) -> None:
    """Do the work: play the roles until stopped.

    Plays all roles unless --role names some. Any number of these processes share the work.
    """
    settings = Settings()
    telemetry.configure(settings.log_level, lasting=True)
    hide_configured_secrets(settings)
    if settings.deprecated is not None:
        log.warning("setting_deprecated", advice=settings.deprecated)
    for warning in misspelled(os.environ):
        log.warning("setting_unknown", advice=warning)
    with suppress(KeyboardInterrupt), shutdown.at_deadline(_log_given_up):
        shutdown.run(_serve(settings, [each.value for each in role or []] or wiring.ROLES))


async def _serve(settings: Settings, roles: Sequence[str]) -> None:
    if settings.metrics is None:
        async with _connected(settings) as (connections, model):
            await wiring.keep_serving(connections, roles, model)
        return
    from poweron_services.probes.probe_server import probes_served  # noqa: PLC0415 - only where it is asked for
    from poweron_services.probes.process_probes import ProcessProbes  # noqa: PLC0415 - as above

    probes = ProcessProbes(roles)
    async with probes_served(settings.metrics, probes):
        await probes.until_stopped(_serve_with_probes(settings, roles, probes))


async def _serve_with_probes(settings: Settings, roles: Sequence[str], probes: "ProcessProbes") -> None:
    async with _connected(settings) as (connections, model), probes.watching(connections):
        await wiring.keep_serving(connections, roles, model, started=probes.ready, meter=probes.meter)


@asynccontextmanager
async def _connected(settings: Settings) -> AsyncGenerator[tuple[Connections, ChatModel], None]:
    async with open_connections(settings, _tell_log, wait=True) as connections, wiring.open_model(settings) as model:
        tune_memory()
        yield connections, model


def _log_given_up() -> None:
    log.warning("shutdown_incomplete", seconds=shutdown.CLOSE_DEADLINE)


def _tell_log(message: str) -> None:
    log.info("embedded_servers", said=message)


@sentences()
def rebuild(as_json: AsJson = False) -> None:
    """Rebuild the rows in Postgres from the log.

    Builds the new rows beside the old ones, compares them, and swaps them in at once.
    """
    rebuilt = run_work(_rebuild(load_settings()))
    differences = (
        None if rebuilt.differences is None else [_difference(difference) for difference in rebuilt.differences]
    )
    if as_json:
        print_json({"events": rebuilt.events, "deadLetters": rebuilt.dead_letters, "differences": differences})
        return
    stdout.print(f"Rebuilt from {rebuilt.events} records and {rebuilt.dead_letters} dead letters.")
    if differences is None:
        stdout.print("There were no rows to compare with.")
    else:
        _print_differences(differences)
    if differences:
        stdout.print("The rows that differed are replaced, and match the log now.")


async def _rebuild(settings: Settings) -> Rebuilt:
    async with open_connections(settings, tell) as connections:
        tune_memory()
        with bar("Rebuilding the rows", "records") as on_progress:
            return await rebuild_rows(connections.log, connections.pool, on_progress)


@sentences()
def verify(
    content: Annotated[bool, typer.Option("--content", help="Read every content, and check its digest.")] = False,
    as_json: AsJson = False,
) -> None:
    """Compare rows and content store with the log.

    Lists every cell and row in Postgres that differs, and every missing or damaged content that events refer to.
    Exit 0 if there is none, else 1.
    """
    verified, content_check = run_work(_verify(load_settings(), reading=content))
    differences = [_difference(difference) for difference in verified.differences]
    if as_json:
        print_json({"events": verified.events, "differences": differences, "content": _content_json(content_check)})
    else:
        stdout.print(f"{verified.events} records folded.")
        _print_differences(differences)
        _print_content(content_check)
    raise typer.Exit(FAILED if differences or content_check.faults else 0)


async def _verify(settings: Settings, *, reading: bool) -> tuple[Verified, CheckedContent]:
    async with open_connections(settings, tell) as connections:
        tune_memory()
        with bar("Folding the log", "records") as on_progress:
            verified = await verify_rows(connections.log, connections.pool, on_progress)
        with bar("Reading contents" if reading else "Listing contents", "contents") as on_progress:
            return verified, await check_content(
                connections.pool, connections.content, reading=reading, on_progress=on_progress
            )


def _difference(difference: Difference) -> dict[str, Any]:
    """Return a difference as `--json` prints it."""
    return {
        "table": difference.table,
        "key": {name: str(value) for name, value in difference.key.items()},
        "column": difference.column,
        "expected": _value(difference.expected),
        "found": _value(difference.found),
    }


def _value(value: Any) -> Any:
    return value if isinstance(value, int | str | bool | None) else repr(value)


def _print_differences(differences: list[dict[str, Any]]) -> None:
    for difference in differences:
        key = ", ".join(f"{name} {value}" for name, value in difference["key"].items())
        problem = f"column {difference['column']}: expected {difference['expected']!r}, found {difference['found']!r}"
        if difference["column"] is None:
            problem = "the row is missing" if difference["found"] is None else "the row should not be there"
        stdout.print(one_line(f"{difference['table']} ({key}): {problem}", 400))
    total = "1 difference." if len(differences) == 1 else f"{len(differences)} differences."
    stdout.print(total if differences else "The rows match the log.")


def _content_json(result: CheckedContent) -> dict[str, Any]:
    """Return the result as `--json` prints it."""
    return {
        "referenced": result.referenced,
        "stored": result.stored,
        "unreferenced": result.unreferenced,
        "erased": result.erased,
        "read": result.read,
        "faults": [
            {
                "workflowId": fault.workflow_id,
                "seq": fault.seq,
                "content": fault.name,
                "fault": fault.fault,
                "field": fault.field,
                "documentId": fault.document_id,
                "documentName": fault.document_name,
            }
            for fault in result.faults
        ],
    }


def _print_content(result: CheckedContent) -> None:
    """Print the faults by workflow, and how many contents were checked."""
    workflows = [(id_, [*faults]) for id_, faults in groupby(result.faults, key=lambda fault: fault.workflow_id)]
    for workflow_id, faults in workflows[:SHOWN]:
        stdout.print(f"Workflow {workflow_id}: {counted(len(faults), 'content')} are missing or damaged.")
        for fault in faults[:SHOWN]:
            stdout.print(f"  {_content_name(fault)}: {fault.fault}", soft_wrap=True)
        if len(faults) > SHOWN:
            stdout.print(f"  … and {len(faults) - SHOWN:,} more; `--json` lists all.")
    if len(workflows) > SHOWN:
        stdout.print(f"… and {counted(len(workflows) - SHOWN, 'other workflow')}; `--json` lists all.")
    stdout.print(_sum(result, len(workflows)), soft_wrap=True)


def _content_name(fault: ContentFault) -> str:
    """Name the content for a user."""
    if fault.document_name is not None:
        return f"{one_line(fault.document_id or '')} {one_line(fault.document_name, 100)}"
    return f"event {fault.seq}, {_FIELDS.get(fault.field, 'a web page or a document that could not be read')}"


def _sum(result: CheckedContent, workflows: int) -> str:
    reading = f" {result.read:,} were read and compared with their names." if result.read else ""
    surplus = f" The store holds {result.unreferenced:,} more that no event refers to." if result.unreferenced else ""
    if not result.faults:
        return f"The content store holds all contents that events refer to ({result.referenced:,}).{reading}{surplus}"
    return (
        f"{len(result.faults):,} of {result.referenced:,} contents that events refer to are missing or damaged, in "
        f"{counted(workflows, 'workflow')}.{reading}{surplus} Restore them from a copy of the content store; "
        "POWERON_CONTENT says where it is."
    )


# --- after events were lost ----------------------------------------------------------------------------


@sentences()
def recover(
    yes: Annotated[bool, typer.Option("--yes", help="Recover without asking.")] = False,
    as_json: AsJson = False,
) -> None:
    """Recover after events were lost from the log.

    If the topic poweron.events was deleted, or holds less than the rows, PowerOn appends nothing. This command lists
    the lost workflows, asks, and rebuilds the rows from what the log holds. A restored topic does not need it.

    With --json, or without a terminal to ask on, it changes nothing without --yes.
    Exit 0 recovered or nothing to recover, 1 nothing was changed.
    """
    settings = load_settings()
    loss = run_work(_loss(settings))
    if loss is not None and not as_json:
        _print_loss(loss)
    goes_on = loss is not None and (yes or (not as_json and _confirm()))
    if goes_on:
        goes_on = run_work(_recover(settings))
    if as_json:
        print_json({"loss": loss and loss.model_dump(mode="json", by_alias=True), "recovered": goes_on})
    elif loss is None:
        stdout.print("The log holds everything that the rows were built from: there is nothing to recover.")
    elif goes_on:
        stdout.print("Recovered: the rows match the log. Waiting services continue by themselves.")
    else:
        stdout.print("Nothing was changed.")
    raise typer.Exit(FAILED if loss is not None and not goes_on else 0)


async def _loss(settings: Settings) -> LogLoss | None:
    """Return what is lost; None if nothing is."""
    async with open_connections(settings, tell) as connections:
        return await find_loss(connections.log.unguarded, connections.pool) if await _is_lost(connections) else None


async def _is_lost(connections: Connections) -> bool:
    """Return whether events are missing, after reporting it."""
    try:
        await connections.log.check()
    except LogLost as error:
        tell(sentence(error), style="bold red")
        return True
    return False


async def _recover(settings: Settings) -> bool:
    """Rebuild the rows, unless the topic was restored while the user was reading what would be lost."""
    async with open_connections(settings, tell) as connections:
        if not await _is_lost(connections):
            tell("Meanwhile the log holds everything again.")
            return False
    async with open_connections(settings, tell, recreate_events=True) as connections:
        await rebuild_rows(connections.log.unguarded, connections.pool)
    return True


def _confirm() -> bool:
    if not sys.stdin.isatty():
        tell("To recover, run it again with --yes.")
        return False
    try:
        return typer.confirm("Recover?")
    except typer.Abort:
        return False


def _print_loss(loss: LogLoss) -> None:
    stdout.print(
        f"The rows were built from {counted(loss.known, 'record')}. {loss.missing} of them are not in the log, "
        f"which holds {counted(loss.held, 'record')}."
    )
    _print_workflows([workflow for workflow in loss.workflows if workflow.lost == workflow.events], "lost")
    _print_workflows([workflow for workflow in loss.workflows if workflow.lost < workflow.events], "incomplete")
    stdout.print(_MEANS)


def _print_workflows(workflows: Sequence[LostWorkflow], state: str) -> None:
    for workflow in workflows[:SHOWN]:
        share = f"{workflow.lost} of {counted(workflow.events, 'event')}"
        stdout.print(
            f"{workflow.workflow_id}  {utc(workflow.opened)}  {state} ({share})  {one_line(workflow.prompt or '', 60)}"
        )
    if len(workflows) > SHOWN:
        stdout.print(f"… and {counted(len(workflows) - SHOWN, 'other workflow')} {state}; `--json` lists all.")
