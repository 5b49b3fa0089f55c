"""`poweron pause`, `poweron resume` and `poweron restart`, and what they share with `poweron cancel`."""

import sys
import time
from collections.abc import Sequence
from contextlib import aclosing
from functools import partial
from typing import Annotated, Final, NoReturn

import typer
from rich.text import Text

from poweron_projections.workflow_filter import KEYS, Among, Condition, Matches, matching, parse_all
from poweron_services.cli.advice import advice, advice_for
from poweron_services.cli.arguments import AsJson
from poweron_services.cli.context import FAILED, USAGE
from poweron_services.cli.error_messages import (
    check_id,
    check_reason,
    load_settings,
    run_work,
    sentence,
    sentences,
    stop,
)
from poweron_services.cli.event_lines import tell_untaken
from poweron_services.cli.output import counted, print_beside, print_json, printable, stdout, tell
from poweron_services.cli.query_commands import bring_rows_on
from poweron_services.client.client_errors import ClientError
from poweron_services.client.connect import Connections
from poweron_services.client.follow import Callbacks
from poweron_services.client.verbs import AMONG, DONE, MAX_WORKFLOWS, Instruction, Verb, VerbResult, carry_out
from poweron_services.settings.config import Settings
from poweron_services.standalone import local_identity, open_connections, while_recording

SHOWN: Final = 10  # workflows that a question lists
STDIN: Final = "-"
STYLES: Final = {"refused": "bold yellow", "failed": "bold red", "ended": "bold yellow", "pending": "bold yellow"}
WIDTH: Final = max(map(len, (*DONE.values(), *STYLES))) + 2

Workflows = Annotated[
    list[str] | None,
    typer.Argument(metavar="WORKFLOW", help="The ids of workflows; - reads them from standard input, one a line."),
]
Where = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        metavar="CONDITION",
        help=f"All workflows for which this holds, such as status=failed or age>2h. It compares {', '.join(KEYS)}; "
        "several conditions must all hold.",
    ),
]
Reason = Annotated[str, typer.Option(metavar="WHY", help="The reason, which is recorded in the log.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask before acting on what --where matches.")]


def pause(
    workflow: Workflows = None, where: Where = None, reason: Reason = "", yes: Yes = False, as_json: AsJson = False
) -> None:
    """Pause workflows: what runs is finished, and nothing new begins.

    Time limits are suspended meanwhile. Cancelling still works, and so does answering an approval.
    Requires a process that serves: `poweron serve`, or the `poweron ask` that opened the workflow.

    Exit 0 all are paused, 1 at least one is not, 2 wrong usage, 130 stopped by Ctrl-C, 143 by SIGTERM.
    """
    act("pause", workflow, where, reason, yes=yes, as_json=as_json)


def resume(
    workflow: Workflows = None, where: Where = None, reason: Reason = "", yes: Yes = False, as_json: AsJson = False
) -> None:
    """Resume paused workflows.

    Requires a process that serves: `poweron serve`, or the `poweron ask` that opened the workflow.

    Exit 0 all are resumed, 1 at least one is not, 2 wrong usage, 130 stopped by Ctrl-C, 143 by SIGTERM.
    """
    act("resume", workflow, where, reason, yes=yes, as_json=as_json)


def restart(workflow: Workflows = None, where: Where = None, yes: Yes = False, as_json: AsJson = False) -> None:
    """Start new workflows with the same requests.

    Each new workflow has the first request and the documents of the old one, and names it; nothing else is reused.
    The old one stays as it is. The work is done by a process that serves.

    Exit 0 all are requested again, 1 at least one is not, 2 wrong usage, 130 stopped by Ctrl-C, 143 by SIGTERM.
    """
    act("restart", workflow, where, "", yes=yes, as_json=as_json)


def act(
    verb: Verb,
    workflows: Sequence[str] | None,
    where: Sequence[str] | None,
    reason: str,
    *,
    yes: bool,
    as_json: bool,
) -> NoReturn:
    """Carry out a verb, print a result for each workflow, and end with an exit code."""
    with sentences():
        check_reason(reason)
        settings = load_settings()
        if where:
            if workflows:
                stop("Name workflows or use --where, not both.", USAGE)
            ids = _chosen(settings, verb, parse_all(where, lambda: time.time_ns() // 1_000_000), yes=yes)
        else:
            ids = named(workflows or [])
        instruction = Instruction(verb, reason, settings.acting_through("cli"), lambda _: local_identity())
        failed = run_work(print_results(settings, instruction, ids, as_json=as_json), lambda: _interruption(verb))
    raise typer.Exit(FAILED if failed else 0)


def named(workflows: Sequence[str], otherwise: str = "Name at least one workflow, or use --where.") -> list[str]:
    """Return the ids that were named or are on standard input, each once."""
    given = [id_ for name in workflows for id_ in (sys.stdin.read().split() if name == STDIN else [name])]
    ids = list(dict.fromkeys(given))
    if not ids:
        stop(otherwise, USAGE)
    if len(ids) > MAX_WORKFLOWS:
        stop(f"At most {MAX_WORKFLOWS:,} workflows can be named at once, not {len(ids):,}. Nothing was done.", USAGE)
    for id_ in ids:
        check_id(id_)
    return ids


def _chosen(settings: Settings, verb: Verb, conditions: Sequence[Condition], *, yes: bool) -> list[str]:
    """Show how many workflows match, and return them once the user agrees."""
    matches = run_work(_match(settings, conditions, AMONG[verb]))
    if not matches.count:
        tell("No workflow matches.")
        raise typer.Exit(0)
    if matches.count > MAX_WORKFLOWS:
        stop(f"{matches.count:,} workflows match; at most {MAX_WORKFLOWS:,} are allowed. Narrow the condition.", USAGE)
    matching_words = "matches" if matches.count == 1 else "match"
    tell(f"{counted(matches.count, 'workflow')} {matching_words}:")
    for id_ in matches.workflow_ids[:SHOWN]:
        tell(f"  {id_}")
    if matches.count > SHOWN:
        tell(f"  and {matches.count - SHOWN:,} more")
    if not yes:
        _ask(verb, matches.count)
    return list(matches.workflow_ids)


def _ask(verb: Verb, count: int) -> None:
    if not sys.stdin.isatty():
        stop(f"Nothing was done: add --yes to {verb} them without a question.", USAGE)
    if not typer.confirm(f"{verb.capitalize()} {'it' if count == 1 else f'all {count:,}'}?", err=True):
        tell("Nothing was done.")
        raise typer.Exit(FAILED)


async def _match(settings: Settings, conditions: Sequence[Condition], among: Among) -> Matches:
    async with open_connections(settings, tell) as connections:
        await bring_rows_on(connections)
        return await matching(connections.pool, conditions, limit=MAX_WORKFLOWS, among=among)


async def print_results(settings: Settings, instruction: Instruction, ids: Sequence[str], *, as_json: bool) -> bool:
    """Print what becomes of each workflow; return whether any failed."""
    async with open_connections(settings, tell) as connections:
        printing = partial(_print_results, connections, instruction, ids, as_json=as_json)
        if instruction.verb == "retain":  # nothing of the work has to be running for that
            return await while_recording(connections, printing, tell)
        return await printing()


async def _print_results(
    connections: Connections, instruction: Instruction, ids: Sequence[str], *, as_json: bool
) -> bool:
    failed = False
    callbacks = Callbacks(untaken=tell_untaken if len(ids) == 1 else lambda _: None)
    async with aclosing(carry_out(connections, instruction, ids, callbacks)) as results:
        async for result in results:
            _print(result, as_json=as_json)
            failed = failed or result.status != DONE[instruction.verb]
    return failed


def _print(result: VerbResult, *, as_json: bool) -> None:
    if as_json:
        print_json(result.as_object())
        return
    margin = Text(f"{result.workflow_id}  ")
    margin.append(f"{result.status:<{WIDTH}}", style=STYLES.get(result.status, "bold green"))
    print_beside(stdout, margin, printable(result.new_workflow_id or _reason(result)))


def _reason(result: VerbResult) -> str:
    if result.error is None:
        return result.detail
    advised = advice(result.error) if isinstance(result.error, ClientError) else advice_for(result.code)
    return f"{sentence(result.error)} {advised}"


def _interruption(verb: Verb) -> str:
    return f"Stopped waiting. What was sent to {verb} workflows remains in the log and is carried out."
