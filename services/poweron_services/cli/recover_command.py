"""`poweron recover`: after events were lost, list them and rebuild the rows from what the log still holds."""

import sys
from collections.abc import Sequence

import typer

from poweron_events.errors import LogLost
from poweron_projections.log_loss import LogLoss, LostWorkflow, find_loss
from poweron_projections.rebuild import rebuild
from poweron_services.cli.context import FAILED
from poweron_services.cli.error_messages import load_settings, run_work, sentence, sentences
from poweron_services.cli.output import counted, one_line, print_json, stdout, tell, utc
from poweron_services.client.connect import Connections
from poweron_services.settings.config import Settings
from poweron_services.standalone import open_connections

SHOWN = 20  # workflows; `--json` lists all

_MEANS = (
    "To recover is to make the rows again from what the log holds. It cannot be undone:\n"
    "- What is lost is forgotten, and its requests count as never answered: whoever sends one again gets an answer.\n"
    "- A workflow of which some events are lost goes on from those that are left, and may do again what it had done; "
    "one that lost its opening counts as never opened.\n"
    "- Documents stay in the content store.\n"
    "Where there is a copy of the topic, restore it instead: with all records back, everything goes on by itself."
)


@sentences()
def recover(*, yes: bool, as_json: bool) -> None:
    """Print what is lost, ask, and recover."""
    settings = load_settings()
    loss = run_work(_loss(settings))
    if loss is not None and not as_json:
        _print_loss(loss)
    goes_on = loss is not None and (yes or (not as_json and _confirmed()))
    if goes_on:
        goes_on = run_work(_recover(settings))
    if as_json:
        print_json({"loss": loss and loss.model_dump(mode="json", by_alias=True), "recovered": goes_on})
    elif loss is None:
        stdout.print("The log holds everything that the rows were made of: there is nothing to recover.")
    elif goes_on:
        stdout.print("Recovered: the rows are what the log says. Services that wait go on by themselves.")
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
        await rebuild(connections.log.unguarded, connections.pool)
    return True


def _confirmed() -> bool:
    if not sys.stdin.isatty():
        tell("To recover, run it again with --yes.")
        return False
    try:
        return typer.confirm("Recover?")
    except typer.Abort:
        return False


def _print_loss(loss: LogLoss) -> None:
    stdout.print(
        f"The rows were made of {counted(loss.known, 'record')}. {loss.missing} of them are not in the log, "
        f"which holds {counted(loss.held, 'record')}."
    )
    _print_workflows([each for each in loss.workflows if each.lost == each.events], "lost")
    _print_workflows([each for each in loss.workflows if each.lost < each.events], "incomplete")
    stdout.print(_MEANS)


def _print_workflows(workflows: Sequence[LostWorkflow], how: str) -> None:
    for each in workflows[:SHOWN]:
        what = f"{each.lost} of {counted(each.events, 'event')}"
        stdout.print(f"{each.workflow_id}  {utc(each.opened)}  {how} ({what})  {one_line(each.prompt or '', 60)}")
    if len(workflows) > SHOWN:
        stdout.print(f"… and {counted(len(workflows) - SHOWN, 'other workflow')} {how}; `--json` names all.")
