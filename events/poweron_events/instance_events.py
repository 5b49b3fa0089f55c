"""The events of a process: its release, settings and actions when it starts to play its roles, and its end.

They belong to no workflow: their key in the log follows from the name of the instance, with which the `source` of
everything ends that the process writes. A process that is killed writes no end.
"""

import uuid
from typing import Annotated, Final, Literal

from pydantic import Field

from poweron_events.event import ActionName, Count, Event, Model, Sha256, TaskType, is_empty, is_none
from poweron_events.request import NAMESPACE
from poweron_events.step_events import EffectClass

MAX_SETTING: Final = 1_000  # characters

InstanceName = Annotated[str, Field(min_length=1, max_length=255)]
"""Names one start of a process: `host-pid-random`."""
Patterns = tuple[Annotated[str, Field(max_length=100)], ...]


def instance_id(instance: InstanceName) -> str:
    """Return the key of an instance's events in the log, where other events have the id of their workflow."""
    return str(uuid.uuid5(NAMESPACE, f"instance|{instance}"))


def instance_of(source: str) -> InstanceName:
    """Return the instance that wrote events with this `source`, `/poweron/<role>/<instance>`."""
    return source.rpartition("/")[2]


class OfferedAction(Model):
    """An action that the process offers."""

    action: ActionName
    effect_class: EffectClass
    tool_sha256: Sha256 | None = Field(default=None, exclude_if=is_none)
    """SHA-256 of the server's description of its tool; None if it is no tool of a server."""
    approve: bool = Field(default=False, exclude_if=is_empty)
    """Whether a person has to approve it because of the settings or its tool server, even without a policy."""


class TokenPrice(Model):
    """The price of a model, in US dollars per million tokens, as text so that no digit is lost."""

    model: Annotated[str, Field(max_length=1_100)]
    prompt: Annotated[str, Field(max_length=30)]
    answer: Annotated[str, Field(max_length=30)]
    listed: bool = Field(default=False, exclude_if=is_empty)
    """Whether it is from the list of prices in the release, not from the settings."""


class InstanceStarted(Event):
    """A process began to play its roles; this is what it may do."""

    instance: InstanceName
    release: Annotated[str, Field(max_length=100)]
    roles: tuple[Annotated[str, Field(max_length=50)], ...] = Field(max_length=20)
    settings: dict[str, Annotated[str, Field(max_length=MAX_SETTING)]] = {}
    """The settings that were set, by variable, without secrets; all others have the default of the release."""
    settings_left_out: Count = Field(default=0, exclude_if=is_empty)
    models: dict[str, tuple[str, ...]] = {}
    """By stage, in the order in which they are asked."""
    prices: tuple[TokenPrice, ...] = ()
    actions: tuple[OfferedAction, ...] = ()
    actions_left_out: Count = Field(default=0, exclude_if=is_empty)
    allowed: dict[TaskType, Patterns] = {}
    """By type of task; a type that is not listed may use everything."""
    denied: Patterns = ()
    approve: Patterns = ()

    @property
    def executes(self) -> bool:
        """Whether the process runs actions."""
        return "executor" in self.roles


class InstanceEnded(Event):
    """The process stopped cleanly."""

    instance: InstanceName
    reason: Literal["stopped"] = "stopped"
