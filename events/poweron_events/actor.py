"""Who acts: every request and every event that records one carries an actor."""

from typing import Annotated, Literal

from pydantic import Field

from poweron_events.event import FreeText, Model

ActorKind = Literal["person", "system", "service"]
Door = Literal["kafka", "cli", "mcp", "http"]
"""How a request came in: written to Kafka by a client, by our command line, over MCP or over HTTP."""


class Actor(Model):
    """Who acts, and through which door.

    Unless `verified`, all of it is what the sender claims: any client that may write to the topic can claim anything.
    """

    id: FreeText = Field(min_length=1, max_length=255)
    kind: ActorKind = "person"
    roles: tuple[Annotated[str, Field(min_length=1, max_length=100)], ...] = Field(default=(), max_length=20)
    via: Door = "kafka"
    verified: bool = False

    @property
    def described(self) -> str:
        """The actor in words, such as `(cli, not verified) ada`: the id, chosen by the sender, cannot hide the rest."""
        kind = "" if self.kind == "person" else f"{self.kind}, "
        return f"({kind}{self.via}, {'verified' if self.verified else 'not verified'}) {self.id}"


def actor_of(name: str, source: str) -> Actor:
    """Return the actor of a request that names none: the requester, or else the service that is its source."""
    return Actor(id=name) if name else Actor(id=source, kind="service")
