"""The secrets of actions: given to the action that needs them, and redacted in the output of every action."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from poweron_services import telemetry
from poweron_services.models.prompts import Prompt
from poweron_services.settings.action_connections import (
    NO_CONNECTIONS,
    ActionConnections,
    Connection,
    UnusableConnection,
    secrets_in,
)
from poweron_services.settings.secret_redaction import NO_SECRETS, SecretRedaction

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class HeldSecrets:
    """The secrets at the start of an action: it receives them, and its result is redacted with the same ones."""

    connections: Mapping[str, Connection | UnusableConnection] = field(default_factory=dict, repr=False)
    redaction: SecretRedaction = NO_SECRETS

    def connection(self, label: str | None) -> Connection | None:
        """The connection that an action uses.

        Raises:
            UnusableConnection: it is not configured here, or its secrets cannot be read.
        """
        if label is None:
            return None
        connection = self.connections.get(label) or UnusableConnection(f"There is no connection {label!r}.")
        if isinstance(connection, UnusableConnection):
            raise connection
        return connection

    async def hidden_in(self, value: Value, *, is_short: bool = False) -> Value:
        """The value with every secret redacted, in a thread unless it is short.

        Raises:
            ValueError: the redacted text is not valid where the secret was.
        """
        if is_short or not self.redaction:
            return self.redaction.redacted_in(value)
        return await asyncio.to_thread(self.redaction.redacted_in, value)

    async def hidden_in_prompt(self, prompt: Prompt) -> Prompt:
        """The prompt with every secret redacted, except in its template, which is PowerOn's own."""
        redacted_prompt = await self.hidden_in(prompt)
        return prompt if redacted_prompt is prompt else replace(redacted_prompt, template=prompt.template)


@dataclass(frozen=True, slots=True)
class ActionSecrets:
    """The sources of secrets: those of connections, and others that this process knows and must not disclose."""

    connections: ActionConnections = NO_CONNECTIONS
    others: tuple[str, ...] = field(default=(), repr=False)
    held: HeldSecrets = field(default=HeldSecrets(), repr=False)
    """The other secrets, prepared once for use without connections, since each action asks for them."""

    @classmethod
    def of(cls, connections: ActionConnections, others: Iterable[str]) -> "ActionSecrets":
        known = tuple(others)
        return cls(connections, known, HeldSecrets(redaction=SecretRedaction(known)))

    async def read(self) -> HeldSecrets:
        """Read the current secrets; log lines redact them from here on."""
        secrets = await asyncio.to_thread(self._read) if self.connections.configured else self.held
        telemetry.hide_secrets(secrets.redaction)
        return secrets

    def _read(self) -> HeldSecrets:
        connections = self.connections.resolve_all()
        return HeldSecrets(connections, SecretRedaction([*secrets_in(connections.values()), *self.others]))


NO_ACTION_SECRETS: Final = ActionSecrets()
