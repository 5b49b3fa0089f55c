"""`poweron policy`: show, check and apply the policy that says which actions are allowed and who approves them."""

import json
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from pydantic import ValidationError
from rich.table import Table
from rich.text import Text

from poweron_events.catalog import CATALOG, meaningless
from poweron_events.fold.policy_chain import policy_sha256
from poweron_events.policy import Policy
from poweron_projections import reader
from poweron_projections.entries import PolicyEntry
from poweron_projections.workflow_filter import matching
from poweron_services.cli.arguments import AsJson, Limit
from poweron_services.cli.command_group import command_group
from poweron_services.cli.context import FAILED, USAGE
from poweron_services.cli.error_messages import check_reason, load_settings, run_work, sentences, stop
from poweron_services.cli.event_lines import tell_untaken
from poweron_services.cli.output import one_line, print_json, printable, stdout, tell, utc
from poweron_services.cli.query_commands import bring_rows_on, with_rows
from poweron_services.cli.verb_commands import print_results
from poweron_services.client.connect import Connections
from poweron_services.client.follow import Callbacks
from poweron_services.client.policy_request import APPLIES_ALREADY, PolicyOutcome, apply_policy
from poweron_services.client.policy_words import (
    MARKS,
    groups_in_words,
    limits_in_words,
    quotas_in_words,
    rule_in_words,
)
from poweron_services.client.verbs import MAX_WORKFLOWS, Instruction
from poweron_services.decider.policy_check import approver_notes, form_problems, problems
from poweron_services.settings.config import Settings
from poweron_services.standalone import local_identity, open_connections

policy = command_group("Show, check and apply the policy: what is allowed, and by whom.")

MAX_FILE: Final = 200_000  # bytes
IN_DOLLARS: Final = ("costUsd", "cost_usd", "costUsdPerDay", "cost_usd_per_day")

File = Annotated[Path, typer.Argument(metavar="FILE", help="The policy, as TOML (.toml) or JSON.")]


@policy.command("show")
@sentences()
def policy_show(
    number: Annotated[int | None, typer.Argument(min=1, help="The number of a policy; by default the current.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show the current policy, or an earlier one, in words.

    With --json it is the policy as it was applied, which `policy check` and `policy apply` read.
    """

    async def show(connections: Connections) -> None:
        entries = await reader.policies(connections.pool, limit=1, number=number)
        if not entries:
            stop("No policy was applied yet." if number is None else f"There is no policy {number}.", FAILED)
        if as_json:
            print_json(entries[0].policy.model_dump(mode="json", by_alias=True))
        else:
            stdout.print(shown(entries[0]), soft_wrap=True)

    with_rows(show)


@policy.command("log")
@sentences()
def policy_log(limit: Limit = 50, as_json: AsJson = False) -> None:
    """List the policies that were applied, newest first: when, by whom and why."""

    async def show(connections: Connections) -> None:
        entries = await reader.policies(connections.pool, limit=limit)
        if as_json:
            for entry in entries:
                print_json(entry.model_dump(mode="json", by_alias=True))
        elif entries:
            stdout.print(_log(entries))
        else:
            stdout.print("No policy was applied yet.")

    with_rows(show)


@policy.command("check")
@sentences()
def policy_check(file: File, as_json: AsJson = False) -> None:
    """Check a policy file, and change nothing.

    Exit 0 it can be applied, 1 it cannot, 2 wrong usage.
    """
    written = read_policy(file)
    wrong = list(problems(written))
    notes = [*approver_notes(written), *_notes(written)]
    if as_json:
        print_json({"ok": not wrong, "sha256": policy_sha256(written), "problems": wrong, "notes": notes})
    else:
        for sentence in wrong:
            stdout.print(printable(sentence), soft_wrap=True)
        for sentence in notes:
            tell(f"Note: {sentence}")
        if not wrong:
            stdout.print(f"{file} can be applied. Its SHA-256 is {policy_sha256(written)}.", soft_wrap=True)
    raise typer.Exit(FAILED if wrong else 0)


@policy.command("apply")
@sentences()
def policy_apply(
    file: File,
    reason: Annotated[str, typer.Option(metavar="WHY", help="The reason, which is recorded in the log.")] = "",
    replacing: Annotated[
        int | None,
        typer.Option(min=1, metavar="NUMBER", help="Refuse it unless this is the number of the current policy."),
    ] = None,
    also_open: Annotated[
        bool, typer.Option("--also-open", help="Apply it also to rounds that are open now, an event in each.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Apply a policy to all rounds that are opened from now on.

    The current policy says who may apply the next one; anyone may apply the first. Settings such as POWERON_DENY
    continue to hold in every process: a policy only narrows them.
    Requires a process that serves: `poweron serve`.

    Exit 0 applied, 1 refused or an open round was missed, 2 wrong usage, 130 stopped by Ctrl-C, 143 by SIGTERM.
    """
    check_reason(reason)
    settings = load_settings()
    written = read_policy(file)
    if wrong := list(problems(written)):
        stop(" ".join(wrong), FAILED)
    outcome = run_work(_apply(settings, written, reason, replacing), lambda: INTERRUPTED)
    applies = outcome.number is not None or outcome.code == APPLIES_ALREADY
    if as_json:
        print_json({"number": outcome.number, "code": outcome.code, "detail": outcome.detail})
    elif outcome.number is None:
        stdout.print(f"No new policy was applied. {printable(outcome.detail)}", soft_wrap=True)
    else:
        stdout.print(f"Policy {outcome.number} applies to all rounds that are opened from now on.")
    failed = not (applies if also_open else outcome.number is not None)
    if also_open and applies:
        failed = run_work(_apply_to_open(settings, reason, as_json=as_json), lambda: INTERRUPTED)
    raise typer.Exit(FAILED if failed else 0)


INTERRUPTED: Final = "Stopped waiting; what was sent remains in the log. `poweron policy log` shows the outcome."


async def _apply(settings: Settings, written: Policy, reason: str, replacing: int | None) -> PolicyOutcome:
    async with open_connections(settings, tell) as connections:
        await bring_rows_on(connections)
        previous = None
        if replacing is not None:
            entries = await reader.policies(connections.pool, limit=1, number=replacing)
            if not entries:
                stop(f"There is no policy {replacing}.", FAILED)
            previous = entries[0].sha256
        return await apply_policy(
            connections,
            written,
            reason=reason,
            actor=settings.acting_through("cli"),
            source=local_identity().source,
            callbacks=Callbacks(untaken=tell_untaken),
            previous=previous,
        )


async def _apply_to_open(settings: Settings, reason: str, *, as_json: bool) -> bool:
    """Apply the current policy to the open rounds that have an older one; return whether any was missed."""
    instruction = Instruction("apply policy", reason, settings.acting_through("cli"), lambda _: local_identity())
    async with open_connections(settings, tell) as connections:
        await bring_rows_on(connections)
        found = await matching(connections.pool, [], limit=MAX_WORKFLOWS, among="under an older policy")
    if found.count > MAX_WORKFLOWS:
        tell(f"The first {MAX_WORKFLOWS:,} of {found.count:,} open workflows get it now; repeat the command for more.")
    return await print_results(settings, instruction, found.workflow_ids, as_json=as_json)


def read_policy(file: Path) -> Policy:
    """Read a policy file; ends with a sentence if it cannot be read or has the wrong form."""
    try:
        data = file.read_bytes()
    except OSError as error:
        stop(f"{file} cannot be read: {error.strerror or error}.", USAGE)
    if len(data) > MAX_FILE:
        stop(f"{file} takes {len(data):,} bytes; the file of a policy may take {MAX_FILE:,}.", FAILED)
    try:
        return Policy.model_validate_json(json.dumps(_as_text(_parse(file, data)), default=str), strict=True)
    except (ValidationError, RecursionError) as error:
        stop(f"{file} is not a policy: {form_problems(error)}.", FAILED)


def _parse(file: Path, data: bytes) -> Any:
    """Parse TOML or JSON; ends with a sentence if it is neither, or if a name occurs twice at one place."""
    is_toml = file.suffix.lower() == ".toml"
    try:
        text = data.decode("utf-8-sig")
        return tomllib.loads(text) if is_toml else json.loads(text, object_pairs_hook=_without_repetition)
    except UnicodeDecodeError:
        stop(f"{file} is not UTF-8.", FAILED)
    except ValueError as error:
        hint = "" if is_toml or file.suffix.lower() == ".json" else " The name of a TOML file ends in .toml."
        stop(f"{file} is not valid {'TOML' if is_toml else 'JSON'}: {str(error).removesuffix('.')}.{hint}", FAILED)


def _without_repetition(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object; a name that is given twice would silently replace what was given first."""
    result = dict[str, Any]()
    for name, value in pairs:
        if name in result:
            raise ValueError(f"{name!r} is given twice")
        result[name] = value
    return result


def _as_text(read: Any) -> Any:
    """Return the content with amounts of US dollars that are written as numbers as text."""
    match read:
        case list():
            return [_as_text(item) for item in read]
        case dict():
            return {key: _amount(value) if key in IN_DOLLARS else _as_text(value) for key, value in read.items()}
        case _:
            return read


def _amount(value: Any) -> Any:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return f"{value:.9f}".rstrip("0").rstrip(".") if is_number else value


def _notes(written: Policy) -> Iterator[str]:
    """Yield what may be a mistake: actions that PowerOn does not have, unless a tool server has them."""
    for number, rule in enumerate(written.rules, start=1):
        for pattern in rule.actions:
            if meaningless(pattern, CATALOG) is not None:
                yield f"rule {number}: {pattern!r} matches no action of PowerOn; it may be one of a tool server."


def shown(entry: PolicyEntry) -> Text:
    """Render a policy in words."""
    written = entry.policy
    title = f"Policy {entry.number}" + (f", {one_line(entry.name)}" if entry.name else "")
    because = f": {one_line(entry.reason)}" if entry.reason else ""
    lines = [
        f"  applied:  {utc(entry.time)} (UTC) by {one_line(entry.actor.described)}{because}",
        f"  SHA-256:  {entry.sha256}",
        f"  replaces: {entry.previous or 'nothing: it is the first, which anyone may apply'}",
        f"  the next one may be applied by {printable(groups_in_words(written, written.apply))}",
        "  the first rule that matches an action decides:",
        *(
            f"  {number:>3}  {printable(rule_in_words(written, rule))}"
            for number, rule in enumerate(written.rules, start=1)
        ),
        f"       otherwise: {MARKS[written.otherwise]}",
        *(f"  {printable(line)}" for line in (*limits_in_words(written), *quotas_in_words(written))),
    ]
    return Text(f"{title}\n", style="bold").append("\n".join(lines), "not bold")


def _log(entries: Sequence[PolicyEntry]) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in ("number", "applied (UTC)", "by", "name", "reason", "sha-256"):
        table.add_column(heading, overflow="fold")
    for entry in entries:
        row = (str(entry.number), utc(entry.time), entry.actor.described, entry.name, entry.reason, entry.sha256[:12])
        table.add_row(*map(one_line, row))
    return table
