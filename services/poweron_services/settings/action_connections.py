"""Connections for actions: a file has their labels and settings, and says where their secrets are.

The file is TOML and contains no secret itself:

    [crm]
    kind = "crm"
    description = "The customers"
    url = "https://crm.example.org"
    token = { env = "CRM_TOKEN" }
    certificate = { file = "/run/secrets/crm.pem" }

A request can name a label. The process that runs an action reads the secrets at the moment of the call.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pydantic import SecretStr

from poweron_events.errors import Refused
from poweron_events.secret_files import read_secret
from poweron_services.settings.secret_redaction import MIN_SECRET

MAX_CONNECTIONS: Final = 1_000
SETTING: Final = "POWERON_CONNECTIONS"
_LABEL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._@-]{0,99}")
_SECRET_NAME: Final = re.compile(
    r"pass(word|wd|phrase)?$|secret|token$|credential|(api|access|private|^)[-_]?key$", re.IGNORECASE
)
_PLACES: Final = ({"env"}, {"file"})
_EXAMPLE: Final = '{ env = "CRM_TOKEN" } or { file = "/run/secrets/crm" }'

Plain = str | int | float | bool


class UnusableConnection(Refused):
    """A connection cannot be used; the message says why, and where to look."""

    code = "connection_unusable"


@dataclass(frozen=True, slots=True)
class Connection:
    """A connection at the moment of a call. Its secrets are masked unless code asks for their values."""

    label: str
    kind: str = ""
    description: str = ""
    settings: Mapping[str, Plain] = field(default_factory=dict)
    secrets: Mapping[str, SecretStr] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SecretPlace:
    """The location of a secret: an environment variable or a file."""

    env: str | None = None
    file: str | None = None

    def read(self, environment: Mapping[str, str]) -> str:
        """Return the current value of the secret.

        Raises:
            ValueError: there is no usable value.
        """
        if self.env is not None:
            value, place = environment.get(self.env, ""), f"the variable {self.env}"
        else:
            value, place = read_secret(str(self.file)), f"the file {self.file}"
        if len(value) < MIN_SECRET:
            short = f"holds fewer than {MIN_SECRET} characters: nothing so short can be kept out of texts"
            raise ValueError(f"{place} {short if value else 'has no value; give it one'}")
        return value


@dataclass(frozen=True, slots=True)
class ConfiguredConnection:
    """A connection as configured in the file."""

    label: str
    kind: str
    description: str
    settings: Mapping[str, Plain]
    places: Mapping[str, SecretPlace]


@dataclass(frozen=True, slots=True)
class ActionConnections:
    """The connections of one process, with the environment in which their secrets are looked up."""

    configured: Mapping[str, ConfiguredConnection] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, path: Path | None, environment: Mapping[str, str]) -> "ActionConnections":
        """Read the connections of a file; without a file, there are none.

        Raises:
            UnusableConnection: the file is unusable; secrets are not looked up yet.
        """
        if path is None:
            return cls({}, environment)
        try:
            return cls(dict(_connections(path.read_text(encoding="utf-8"))), environment)
        except OSError as error:
            raise UnusableConnection(f"{SETTING}: {str(path)!r} cannot be read: {error.strerror}.") from error
        except ValueError as error:
            raise UnusableConnection(f"{SETTING}: {str(path)!r} cannot be used: {error}.") from error

    def labels(self, kind: str | None = None) -> tuple[str, ...]:
        """Return the labels of all connections, or of those of one kind."""
        return tuple(label for label, connection in self.configured.items() if kind in (None, connection.kind))

    def check(self) -> None:
        """Refuse a connection whose secrets cannot be read here.

        Raises:
            UnusableConnection: the message says what is missing.
        """
        for connection in self.resolve_all().values():
            if isinstance(connection, UnusableConnection):
                raise UnusableConnection(connection.detail)

    def resolve_all(self) -> Mapping[str, "Connection | UnusableConnection"]:
        """Return every connection with its current secrets, or why it is unusable."""
        return {label: self._resolve(label, connection) for label, connection in self.configured.items()}

    def _resolve(self, label: str, connection: ConfiguredConnection) -> "Connection | UnusableConnection":
        try:
            secrets = {name: SecretStr(self._secret(label, name, place)) for name, place in connection.places.items()}
        except UnusableConnection as error:
            return error
        return Connection(label, connection.kind, connection.description, connection.settings, secrets)

    def _secret(self, label: str, name: str, place: SecretPlace) -> str:
        try:
            return place.read(self.environment)
        except (OSError, ValueError) as error:
            reason = f"the file {place.file}: {error.strerror}" if isinstance(error, OSError) else str(error)
            detail = f"{SETTING}: {name} of {label!r} cannot be read: {reason}."
            raise UnusableConnection(f"The connection {label!r} cannot be used now.", detail=detail) from error


NO_CONNECTIONS: Final = ActionConnections()


def secrets_in(connections: Iterable[Connection | UnusableConnection]) -> Iterator[str]:
    """Yield the values of all secrets of these connections."""
    for connection in connections:
        if isinstance(connection, Connection):
            yield from (secret.get_secret_value() for secret in connection.secrets.values())


def _connections(text: str) -> Iterator[tuple[str, ConfiguredConnection]]:
    tables = tomllib.loads(text)
    if len(tables) > MAX_CONNECTIONS:
        raise ValueError(f"it names {len(tables)} connections; there may be {MAX_CONNECTIONS}")
    for label, table in tables.items():
        yield label, _connection(label, table)


def _connection(label: str, table: Any) -> ConfiguredConnection:
    _expect(_LABEL.fullmatch(label), f"{label[:100]!r} is no label: it has up to 100 letters, digits or ` ._@-`")
    _expect(isinstance(table, dict), f"{label!r} is no table; write `[{label}]` above what belongs to it")
    kind, description = table.pop("kind", ""), table.pop("description", "")
    texts = isinstance(kind, str) and isinstance(description, str)
    _expect(texts, f"kind and description of {label!r} must be texts")
    places = {name: _place(label, name, value) for name, value in table.items() if isinstance(value, dict)}
    settings = {name: _plain(label, name, value) for name, value in table.items() if name not in places}
    return ConfiguredConnection(label, kind, description, settings, places)


def _place(label: str, name: str, table: dict[str, Any]) -> SecretPlace:
    is_place = set(table) in _PLACES and all(isinstance(text, str) and text for text in table.values())
    _expect(is_place, f"{name} of {label!r} does not say where the secret is; write {_EXAMPLE}")
    return SecretPlace(**table)


def _plain(label: str, name: str, value: Any) -> Plain:
    open_ = not _SECRET_NAME.search(name)
    _expect(open_, f"{name} of {label!r} looks like a secret, which must not be there; write {_EXAMPLE}")
    _expect(isinstance(value, Plain), f"{name} of {label!r} is no text, number or truth value")
    plain: Plain = value
    return plain


def _expect(holds: object, otherwise: str) -> None:
    if not holds:
        raise ValueError(otherwise)
