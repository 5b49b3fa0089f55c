"""`poweron keys`: add, list and revoke the keys of the door over HTTP."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final, TypeVar

import typer
from pydantic import ValidationError
from rich.text import Text

from poweron_events.actor import Actor, ActorKind
from poweron_events.validation_messages import explain
from poweron_projections.access_keys import (
    SCOPES,
    AccessKey,
    AccessScope,
    add_key,
    all_keys,
    check_key,
    now_ms,
    revoke_key,
)
from poweron_projections.audit.verifier.answer_rules import milliseconds_of
from poweron_services.cli.arguments import AsJson
from poweron_services.cli.command_group import command_group
from poweron_services.cli.context import USAGE
from poweron_services.cli.error_messages import load_settings, run_work, sentences, stop
from poweron_services.cli.output import and_joined, one_line, print_beside, print_json, printable, stdout, tell, utc
from poweron_services.client.connect import Connections
from poweron_services.settings.config import DURATION
from poweron_services.standalone import open_connections

keys = command_group("Add, list and revoke keys of the door over HTTP.")

ONCE: Final = "It is shown only now. Send it as `Authorization: Bearer KEY`, or enter it at /login."
Result = TypeVar("Result")


@keys.command("add")
@sentences()
def keys_add(
    *,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the key, such as crm or ada-laptop.")],
    actor: Annotated[str, typer.Option("--actor", metavar="ACTOR", help="Who acts with the key, as policies name it.")],
    kind: Annotated[ActorKind, typer.Option("--kind", help="What kind of actor that is.")] = "person",
    role: Annotated[
        list[str] | None, typer.Option("--role", metavar="ROLE", help="A role of the actor; repeatable.")
    ] = None,
    scope: Annotated[str, typer.Option("--scope", metavar="SCOPES", help=f"What the key may do: {', '.join(SCOPES)}.")],
    expires: Annotated[str, typer.Option("--expires", metavar="DURATION", help="How long it is valid.")] = "90d",
    as_json: AsJson = False,
) -> None:
    """Create a key and print it, once.

    Only its SHA-256 is stored. The door records what is done with the key as done by its actor, and as verified.
    """
    scopes, life_ms = _scopes(scope), _life_ms(expires)
    check_key(name, life_ms)
    verified = _actor(actor, kind, role or [])
    created_by = load_settings().actor

    async def add(connections: Connections) -> tuple[AccessKey, str]:
        return await add_key(connections.pool, name, verified, scopes=scopes, life_ms=life_ms, created_by=created_by)

    added, key = _with_postgres(add)
    if as_json:
        print_json({**_json(added), "key": key})
        return
    stdout.print(key)
    tell(f"Key {added.name} ({added.key_id}) of {added.actor}, valid until {utc(added.expires)} (UTC). {ONCE}")


@keys.command("list")
@sentences()
def keys_list(as_json: AsJson = False) -> None:
    """List all keys, newest first, also expired and revoked ones; the keys themselves are not stored."""
    entries = _with_postgres(lambda connections: all_keys(connections.pool))
    for entry in entries:
        if as_json:
            print_json(_json(entry))
        else:
            _print_key(entry)
    if not entries and not as_json:
        stdout.print("There are no keys yet. Create one with `poweron keys add`.")


@keys.command("revoke")
@sentences()
def keys_revoke(
    name_or_id: Annotated[str, typer.Argument(metavar="NAME|ID", help="The name or the id of the key.")],
    as_json: AsJson = False,
) -> None:
    """Revoke a key: within 5 seconds no door accepts it, and its sessions and streams end."""
    revoked_by = load_settings().actor
    revoked = _with_postgres(lambda connections: revoke_key(connections.pool, name_or_id, revoked_by=revoked_by))
    if as_json:
        print_json(_json(revoked))
    else:
        stdout.print(f"The key {revoked.name} ({revoked.key_id}) is revoked.")


def _with_postgres(work: Callable[[Connections], Awaitable[Result]]) -> Result:
    async def opened() -> Result:
        async with open_connections(load_settings(), tell) as connections:
            return await work(connections)

    return run_work(opened())


def _scopes(given: str) -> list[AccessScope]:
    names = [name.strip() for name in given.split(",") if name.strip()]
    unknown = [name for name in names if name not in SCOPES]
    if unknown or not names:
        what = f"{printable(unknown[0])!r} is no scope" if unknown else "it names no scope"
        stop(f"--scope: {what}; there are {and_joined(SCOPES)}, separated by commas.", USAGE)
    return [scope for scope in SCOPES if scope in names]


def _life_ms(expires: str) -> int:
    if not DURATION.fullmatch(expires):
        stop(f"--expires: {printable(expires)!r} is no duration; write it like 12h or 90d.", USAGE)
    return milliseconds_of(expires)


def _actor(actor: str, kind: ActorKind, roles: list[str]) -> Actor:
    if not actor.strip() or not actor.isprintable() or not all(role.strip() and role.isprintable() for role in roles):
        stop("--actor and --role: write each as text on one line, without control characters.", USAGE)
    try:
        return Actor(id=actor, kind=kind, roles=tuple(roles), via="http", verified=True)
    except ValidationError as error:
        stop(f"--actor or --role cannot be used: {explain(error)}.", USAGE)


def _json(entry: AccessKey) -> dict[str, Any]:
    return {**entry.model_dump(mode="json", by_alias=True), "state": entry.state(now_ms())}


def _print_key(entry: AccessKey) -> None:
    """Print who acts with a key, what it allows, and until when."""
    state = entry.state(now_ms())
    margin = Text(f"{entry.key_id}  {state:<8}  ", style="dim")
    margin.append(f"{one_line(entry.name, 20):<20}  ", style="bold")
    who = entry.actor if entry.kind == "person" else f"{entry.actor} ({entry.kind})"
    roles = f", {' and '.join(entry.roles)}" if entry.roles else ""
    until = f"until {utc(entry.expires)} (UTC), created by {entry.created_by}"
    print_beside(stdout, margin, f"{who}{roles}: {', '.join(entry.scopes)}; {until}")
