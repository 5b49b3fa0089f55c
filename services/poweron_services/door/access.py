"""Who sends a request, and what they may do: the user of this machine, or the actor of a key."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Final, Literal, get_args

from fastapi import Depends, Request

from poweron_events.actor import Actor
from poweron_services.door.door_state import state_of
from poweron_services.door.problems import Problem

Scope = Literal["read", "content", "request", "approve", "operate", "audit"]
SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request."""

    actor: Actor
    scopes: frozenset[Scope]
    source: str
    """The CloudEvent source of what they request."""


def caller_of(request: Request) -> Caller:
    """Return who sends the request.

    Raises:
        Problem: a key is needed.
    """
    door = state_of(request)
    if door.is_local:
        actor = door.settings.acting_through("http")
        return Caller(actor, frozenset(SCOPES), f"/poweron/http/{actor.id[:200].replace('|', '_')}")
    raise Problem("key_missing", "This door is open to other machines, so a request needs a key.")


def _with(scope: Scope) -> Callable[[Request], Caller]:
    def check(request: Request) -> Caller:
        caller = caller_of(request)
        if scope not in caller.scopes:
            raise Problem("scope_missing", f"This needs the scope {scope!r}.", scope=scope)
        return caller

    return check


Reader = Annotated[Caller, Depends(_with("read"))]
ContentReader = Annotated[Caller, Depends(_with("content"))]
Sender = Annotated[Caller, Depends(_with("request"))]
Approver = Annotated[Caller, Depends(_with("approve"))]
Operator = Annotated[Caller, Depends(_with("operate"))]
Auditor = Annotated[Caller, Depends(_with("audit"))]
