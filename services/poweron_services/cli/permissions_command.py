"""`poweron permissions`: what was allowed at a time, by which policy and settings, and which processes could do it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Final

import typer
from rich.text import Text

from poweron_events.actor import Actor
from poweron_events.envelope import parse_time_ms
from poweron_events.instance_events import instance_of
from poweron_projections import reader
from poweron_projections.entries import InstanceEntry, PolicyEntry
from poweron_services.cli.arguments import AsJson
from poweron_services.cli.context import FAILED, USAGE
from poweron_services.cli.error_messages import sentences, stop
from poweron_services.cli.output import and_joined, one_line, print_json, printable, stdout, utc
from poweron_services.cli.query_commands import with_rows
from poweron_services.client.connect import Connections
from poweron_services.client.permissions import FUTURE, LATEST, MayApprove, Permission, as_object, is_future
from poweron_services.client.permissions import permissions as permissions_of
from poweron_services.client.policy_words import decision_of_rule
from poweron_services.settings.setting_types import action_patterns

SHOWN: Final = 5  # processes in a line; `--json` lists all


@sentences()
def permissions(
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="TIME", help="As of this time, as RFC 3339 or a date (0:00 UTC); default now."),
    ] = None,
    actor: Annotated[
        str | None, typer.Option("--actor", metavar="A", help="Also say whether this actor could approve.")
    ] = None,
    action: Annotated[
        str, typer.Option("--action", metavar="PATTERN", help="Only these actions: `web.*`, `ai.process`.")
    ] = "*",
    instance: Annotated[
        str | None,
        typer.Option(
            "--instance", metavar="NAME", help="Show what this process recorded, by its name or an event's `source`."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what was allowed when, and which processes could do it.

    For each action: allowed, denied, or who has to approve it; by which policy and who applied that, or by the
    settings of the processes; and which processes could have executed it. It holds for rounds that were opened then.
    """
    if instance is not None:
        _show_instance(instance_of(instance), as_json=as_json)
        return
    time_ms, patterns = _time_ms(at), _patterns(action)
    asked = None if actor is None else _actor(actor)

    async def read(connections: Connections) -> tuple[PolicyEntry | None, list[InstanceEntry]]:
        return await reader.policy_at(connections.pool, time_ms), await reader.instances_at(connections.pool, time_ms)

    policy, processes = with_rows(read)
    found = permissions_of(policy, processes, patterns, asked)
    if as_json:
        print_json(as_object(time_ms, policy, processes, found))
    else:
        stdout.print(_shown(time_ms, policy, found, actor), soft_wrap=True)


def _time_ms(at: str | None) -> int:
    """Read a time; ends with a sentence if it is none, or has not come yet."""
    if at is None:
        return LATEST
    try:
        time_ms = parse_time_ms(at.strip())
    except (ValueError, OverflowError):
        stop(f"--at: {at!r} is not a time; write it like 2026-11-21T09:30:00Z or 2026-11-21.", USAGE)
    if is_future(time_ms):
        stop(f"--at: {FUTURE}.", USAGE)
    return time_ms


def _patterns(pattern: str) -> tuple[str, ...]:
    try:
        return action_patterns(pattern)
    except ValueError as error:
        stop(f"--action: {error}.", USAGE)


def _actor(name: str) -> Actor:
    try:
        return Actor(id=name, via="cli")
    except ValueError:
        stop("--actor: the name of an actor has 1 to 255 characters.", USAGE)


def _shown(time_ms: int, policy: PolicyEntry | None, found: Sequence[Permission], actor: str | None) -> Text:
    title = "Permissions now, for rounds that are opened now"
    if time_ms != LATEST:
        title = f"Permissions at {utc(reader.time(time_ms))} (UTC), for rounds that were opened then"
    lines = [_of_policy(policy), *(line for each in found for line in _lines(policy, each, actor))]
    if not found:
        lines.append("No process of that time offered such an action; name one in full to see what the policy says.")
    return Text(f"{title}\n", style="bold").append("\n".join(lines), "not bold")


def _of_policy(policy: PolicyEntry | None) -> str:
    if policy is None:
        return "No policy was applied yet: the settings of the processes decide."
    name = f", {one_line(policy.name)}" if policy.name else ""
    by = one_line(policy.actor.described) + (f": {one_line(policy.reason)}" if policy.reason else "")
    return f"Policy {policy.number}{name} ({policy.sha256[:12]}), applied {utc(policy.time)} (UTC) by {by}"


def _lines(policy: PolicyEntry | None, permission: Permission, actor: str | None) -> Iterator[str]:
    kinds = f" in tasks of type {' or '.join(permission.task_types)}" if permission.task_types else ""
    yield f"{permission.action}{kinds}: {_decision(policy, permission)}"
    if permission.actor is not None and actor is not None:
        yield f"    {_may(permission.actor, actor)}"
    if permission.decision != "denied":
        names = permission.processes[:SHOWN]
        more = f" and {len(permission.processes) - SHOWN} more" if len(permission.processes) > SHOWN else ""
        listed = ", ".join(map(one_line, names)) + more if more else and_joined([*map(one_line, names)])
        yield f"    can be executed by {listed}" if names else "    no process can execute it"


def _decision(policy: PolicyEntry | None, permission: Permission) -> str:
    if permission.by == "settings":
        return "denied by settings" if permission.decision == "denied" else "1 approval by anyone (settings)"
    if policy is None:
        return "allowed"
    return decision_of_rule(policy.policy, permission.rule)


def _may(answer: MayApprove, actor: str) -> str:
    if not answer.may:
        return printable(answer.reason or "")
    but = ", but not in rounds that they requested" if answer.not_own_requests else ""
    return f"{one_line(actor)} may approve it{but}."


def _show_instance(name: str, *, as_json: bool) -> None:
    """Print what a process recorded at its start, and when it ended."""
    entry = with_rows(lambda connections: reader.instance(connections.pool, name))
    if entry is None:
        stop(f"No process {name!r} was recorded; releases before 0.4 recorded none.", FAILED)
    if as_json:
        print_json(entry.model_dump(mode="json", by_alias=True))
    else:
        stdout.print(_process(entry), soft_wrap=True)


def _process(entry: InstanceEntry) -> Text:
    record = entry.record
    lines = [
        f"  release:   {record.release}",
        f"  roles:     {', '.join(record.roles)}",
        f"  started:   {utc(entry.started)} (UTC)",
        f"  ended:     {f'{utc(entry.ended)} (UTC)' if entry.ended else 'no end is recorded: it runs, or was killed'}",
        *_block("settings", _settings(entry)),
        *_block("models", _models(record.models)),
        *_block("prices", (f"{price.model}: {price.prompt}, {price.answer}" for price in record.prices)),
        *_block("allowed", (f"{kind}: {', '.join(names) or 'nothing'}" for kind, names in record.allowed.items())),
        *_block("denied", record.denied),
        *_block("approve", record.approve),
        *_block("actions", _actions(entry)),
    ]
    return Text(f"Process {one_line(entry.instance)}\n", style="bold").append("\n".join(lines), "not bold")


def _block(name: str, values: Iterator[str] | Sequence[str]) -> Iterator[str]:
    shown = [one_line(value) for value in values]
    yield from (f"  {f'{name}:' if number == 0 else '':<10} {value}" for number, value in enumerate(shown))


def _settings(entry: InstanceEntry) -> Iterator[str]:
    yield from (f"{name}={value}" for name, value in entry.record.settings.items())
    if entry.record.settings_left_out:
        yield f"{entry.record.settings_left_out:,} for which the record had no room"


def _models(models: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield the models with the stages that ask them."""
    stages = dict[str, list[str]]()
    for stage, names in sorted(models.items()):
        stages.setdefault(", ".join(names), []).append(stage)
    yield from (f"{names} for {', '.join(asking)}" for names, asking in stages.items())


def _actions(entry: InstanceEntry) -> Iterator[str]:
    for offer in entry.record.actions:
        tool = f", tool {offer.tool_sha256[:12]}" if offer.tool_sha256 else ""
        yield f"{offer.action}: {offer.effect_class}{tool}{', needs an approval' if offer.approve else ''}"
    if entry.record.actions_left_out:
        yield f"and {entry.record.actions_left_out:,} more, for which the record had no room"
