"""The secrets that the settings name, hidden in what a process tells from its beginning on."""

import os
from collections.abc import Iterator
from contextlib import suppress

from pydantic import SecretStr

from poweron_events.errors import Refused
from poweron_events.object_store import bucket_secrets
from poweron_services import telemetry
from poweron_services.action_connections import ActionConnections, secrets_in
from poweron_services.config import ProviderSettings, Settings
from poweron_services.secret_redaction import SecretRedaction


def hide_configured_secrets(settings: Settings) -> None:
    """Take them out of every log line from here on, long before anything is handed one.

    A file of connections or of tool servers that cannot be used names no secrets here: whoever needs it says what is
    wrong with it.
    """
    telemetry.hide_secrets(SecretRedaction([*own_secrets(settings), *_of_connections(settings), *_of_tools(settings)]))


def own_secrets(settings: Settings) -> Iterator[str]:
    """What this process itself knows that nobody may be told: an action may repeat all of its environment."""
    from poweron_services.search_variables import SearchKeys  # noqa: PLC0415 - takes time to import

    login = (settings.kafka_sasl_password, settings.postgres)
    for held in (settings, ProviderSettings(), SearchKeys()):
        named = {name: getattr(held, name) for name in type(held).model_fields if name.endswith("api_key")}
        yield from (key.get_secret_value() for key in named.values() if isinstance(key, SecretStr))
    yield from (each.get_secret_value() for each in login if each is not None)
    with suppress(Refused):
        yield from bucket_secrets(os.environ).values()


def _of_connections(settings: Settings) -> Iterator[str]:
    with suppress(Refused):
        connections = ActionConnections.read(settings.connections, os.environ)
        yield from secrets_in(connections.resolve_all().values())


def _of_tools(settings: Settings) -> tuple[str, ...]:
    """What stands in `env` and `headers` of tool servers."""
    if settings.mcp is None:
        return ()
    from poweron_services.connectors.mcp.server_list import read_servers, secrets_of  # noqa: PLC0415 - where asked for

    with suppress(Refused):
        return secrets_of(read_servers(settings.mcp, os.environ))
    return ()
