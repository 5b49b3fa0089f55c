"""Hides the secrets in the settings from everything that a process logs, from its start, and in its own record."""

import os
from collections.abc import Iterator
from contextlib import suppress

from pydantic import SecretStr

from poweron_events.errors import Refused
from poweron_events.object_store import bucket_secrets
from poweron_services import telemetry
from poweron_services.settings.action_connections import ActionConnections, secrets_in
from poweron_services.settings.config import ProviderSettings, Settings
from poweron_services.settings.secret_redaction import SecretRedaction


def hide_configured_secrets(settings: Settings) -> None:
    """Remove the secrets from every log line from now on, long before any code receives one.

    An unusable file of connections or tool servers adds no secrets here; the code that needs it reports what is wrong.
    """
    telemetry.hide_secrets(configured_secrets(settings))


def configured_secrets(settings: Settings) -> SecretRedaction:
    """Return what replaces all secrets of the settings, of connections and of tool servers."""
    return SecretRedaction([*own_secrets(settings), *_of_connections(settings), *_of_tools(settings)])


def own_secrets(settings: Settings) -> Iterator[str]:
    """Yield the secrets of this process itself, because an action may repeat all of its environment."""
    from poweron_services.settings.action_variables import SearchKeys  # noqa: PLC0415 - takes time to import

    login = (settings.kafka_sasl_password, settings.postgres)
    for variables in (settings, ProviderSettings(), SearchKeys()):
        keys = {name: getattr(variables, name) for name in type(variables).model_fields if name.endswith("api_key")}
        yield from (key.get_secret_value() for key in keys.values() if isinstance(key, SecretStr))
    yield from (secret.get_secret_value() for secret in login if secret is not None)
    with suppress(Refused):
        yield from bucket_secrets(os.environ).values()


def _of_connections(settings: Settings) -> Iterator[str]:
    with suppress(Refused):
        connections = ActionConnections.read(settings.connections, os.environ)
        yield from secrets_in(connections.resolve_all().values())


def _of_tools(settings: Settings) -> tuple[str, ...]:
    """Return the secrets in `env` and `headers` of tool servers."""
    if settings.mcp is None:
        return ()
    from poweron_services.connectors.mcp.server_list import read_servers, secrets_of  # noqa: PLC0415 - where asked for

    with suppress(Refused):
        return secrets_of(read_servers(settings.mcp, os.environ))
    return ()
