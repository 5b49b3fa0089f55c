"""The list of tool servers: the file that `POWERON_MCP` names, in the format of other MCP clients.

Values in `env` and `headers`, and values that come from a variable, are secret and never shown.
"""

import json
import re
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator
from pydantic.alias_generators import to_camel

from poweron_events.catalog import CATALOG
from poweron_events.errors import Refused
from poweron_events.validation_messages import explain
from poweron_services.connectors.mcp.tool_description import method_of
from poweron_services.connectors.web.web_address import WebAddress

SETTING: Final = "POWERON_MCP"
MAX_BYTES: Final = 1_000_000  # of the file
MAX_SERVERS: Final = 20
TIMEOUT: Final = 60.0  # seconds for a start including downloads, for the list of tools, and for each call
OURS: Final = frozenset(name.partition(".")[0] for name in CATALOG)
INHERITED: Final = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TMPDIR", "USER")
"""Environment variables that a program needs; it gets no others unless the file names them."""

HARMLESS: Final = frozenset({*INHERITED, "PWD"})
"""Variables that are not treated as secrets: redacting their values would make paths in results unreadable."""

FORM: Final = '{"mcpServers": {…}}'

_HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


@dataclass(frozen=True, slots=True)
class StdioServer:
    """A program that runs on this machine and communicates over its standard input and output."""

    command: str
    args: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, SecretStr] = field(default_factory=dict, repr=False)
    """Its complete environment."""
    folder: str | None = None


@dataclass(frozen=True, slots=True)
class HttpServer:
    """A server that speaks streamable HTTP."""

    url: str = field(repr=False)
    headers: Mapping[str, SecretStr] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class ToolServerEntry:
    """A server as the file describes it."""

    name: str
    place: StdioServer | HttpServer
    trusted: tuple[str, ...] = ()
    """Tools that need no approval, by their own names; `*` for all."""
    timeout: float = TIMEOUT
    secrets: tuple[SecretStr, ...] = field(default=(), repr=False)

    @property
    def method(self) -> str:
        """The first part of the names of its actions."""
        return method_of(self.name)

    def trusts(self, tool: str) -> bool:
        return not {tool, "*"}.isdisjoint(self.trusted)


class _Ours(BaseModel):
    """The part of an entry that is specific to PowerOn."""

    model_config = ConfigDict(extra="forbid")

    trust: tuple[str, ...] = ()
    timeout: float = Field(default=TIMEOUT, ge=0.1, le=3_600)


class _Entry(BaseModel):
    """A server in the file; fields that only other clients know are ignored."""

    model_config = ConfigDict(alias_generator=to_camel, extra="ignore")

    type: Literal["stdio", "http", "streamable-http", "streamableHttp"] | None = None
    command: str | None = Field(default=None, min_length=1)
    args: tuple[str, ...] = ()
    env: dict[str, str] = Field(default_factory=dict)
    cwd: str | None = None
    url: str | None = Field(default=None, min_length=1)
    headers: dict[str, str] = Field(default_factory=dict)
    disabled: bool = False
    poweron: _Ours = Field(default_factory=_Ours)

    @field_validator("type", mode="before")
    @classmethod
    def _is_spoken(cls, transport: Any) -> Any:
        if transport == "sse":
            raise ValueError("the transport `sse` is not spoken; name the server's address of streamable HTTP")
        return transport

    @field_validator("args", "command", "cwd", "url")
    @classmethod
    def _has_no_zero_byte(cls, value: Any) -> Any:
        if "\0" in "".join(value or ""):
            raise ValueError("it must not contain a zero byte")
        return value


def read_servers(path: Path, environment: Mapping[str, str]) -> tuple[ToolServerEntry, ...]:
    """Read the servers from the file, except those marked as disabled.

    Raises:
        Refused: the file is unusable; the message names the entry but none of its values.
    """
    entries = [
        _read_entry(name, entry_value, environment)
        for name, entry_value in _servers(path).items()
        if not _is_disabled(entry_value)
    ]
    by_method: dict[str, str] = {}
    for entry in entries:
        if entry.method in OURS:
            raise _wrong(entry.name, f"`{entry.method}` is a method of PowerOn's own actions; give it another name")
        if (other := by_method.setdefault(entry.method, entry.name)) != entry.name:
            raise _wrong(entry.name, f"its actions would have the names of those of {other!r}; give it another name")
    return tuple(entries)


def secrets_of(servers: Iterable[ToolServerEntry]) -> tuple[str, ...]:
    """The secret values of all servers, which must not be shown to anyone."""
    return tuple(secret.get_secret_value() for server in servers for secret in server.secrets)


def configured_places_of(servers: Iterable[ToolServerEntry]) -> dict[str, frozenset[str]]:
    """The command-line arguments of each server, such as folders, by the method of its actions."""
    return {server.method: frozenset(_arguments(server.place)) for server in servers}


def _arguments(place: StdioServer | HttpServer) -> Iterator[str]:
    if isinstance(place, StdioServer):
        for argument in place.args:
            yield from (argument, argument.partition("=")[2] or argument)


def _servers(path: Path) -> dict[str, Any]:
    content = _parse(path, _file_content(path))
    servers = content.get("mcpServers") if isinstance(content, dict) else None
    if not isinstance(servers, dict):
        raise _no_list(path)
    if len(servers) > MAX_SERVERS:
        raise Refused(f"{SETTING}: {str(path)!r} names {len(servers)} servers; there may be {MAX_SERVERS}.")
    return servers


def _file_content(path: Path) -> bytes:
    try:
        if (path := path.expanduser()).exists() and not (path.is_file() or path.is_dir()):
            raise _no_list(path, "It is no file.")
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except (OSError, ValueError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise Refused(f"{SETTING}: {str(path)!r} cannot be read: {reason}.") from error
    if len(content) > MAX_BYTES:
        raise _no_list(path, f"It has more than {MAX_BYTES:,} bytes.")
    return content.removeprefix(BOM_UTF8)


def _parse(path: Path, content: bytes) -> Any:
    try:
        orjson.loads(content)  # it reports the position of an error well, and limits the nesting depth
        return json.loads(content, object_pairs_hook=_without_repetition)
    except orjson.JSONDecodeError as error:
        raise _no_list(path, f"It is no JSON: {error.msg}, line {error.lineno}, column {error.colno}.") from None
    except _DuplicateName as error:
        raise Refused(f"{SETTING}: {str(path)!r} says {error.name[:100]!r} twice in one object; say it once.") from None
    except (ValueError, RecursionError):
        raise _no_list(path) from None


class _DuplicateName(Exception):
    """Two values of one object have the same name, so it is unclear which one is meant."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, value in pairs:
        if name in result:
            raise _DuplicateName(name)
        result[name] = value
    return result


def _no_list(path: Path, detail: str = "") -> Refused:
    return Refused(f"{SETTING}: {str(path)!r} is no list of servers; write it like {FORM}. {detail}".strip())


def _is_disabled(value: Any) -> bool:
    return isinstance(value, dict) and value.get("disabled") is True


def _read_entry(name: str, value: Any, environment: Mapping[str, str]) -> ToolServerEntry:
    if not name.strip():
        raise _wrong(name, "it has no name; give it one")
    if not isinstance(value, dict):
        raise _wrong(name, "what its name stands for must be an object")
    try:
        entry = _Entry.model_validate(value)
    except ValidationError as error:
        raise _wrong(name, explain(error)) from None  # the error holds the input, which may be secret
    if (entry.command is None) == (entry.url is None):
        raise _wrong(name, "it must have either a `command` or a `url`")
    substitution = _Substitution(name, environment)
    place = _stdio(entry, substitution) if entry.command is not None else _http(entry, substitution)
    secrets = tuple(map(SecretStr, substitution.secrets))
    return ToolServerEntry(name, place, entry.poweron.trust, entry.poweron.timeout, secrets)


def _stdio(entry: _Entry, substitution: "_Substitution") -> StdioServer:
    if any(not variable or {*variable} & {"=", "\0"} for variable in entry.env):
        raise _wrong(
            substitution.name, "the name of a variable in `env` is empty, or has a character that none can have"
        )
    if any("\0" in value for value in entry.env.values()):
        raise _wrong(substitution.name, "`env` must not contain a zero byte")
    variables = {
        name: SecretStr(substitution.environment[name]) for name in INHERITED if name in substitution.environment
    }
    return StdioServer(
        command=substitution.text(entry.command or ""),
        args=tuple(map(substitution.text, entry.args)),
        env={**variables, **substitution.secret(entry.env)},
        folder=entry.cwd and substitution.text(entry.cwd),
    )


def _http(entry: _Entry, substitution: "_Substitution") -> HttpServer:
    headers = substitution.secret(entry.headers)
    if not all(map(_HEADER.fullmatch, headers)):
        raise _wrong(substitution.name, "the name of a header is empty, or has a character that none can have")
    for value in headers.values():
        if not value.get_secret_value().isprintable() or not value.get_secret_value().isascii():
            raise _wrong(substitution.name, "a header must be printable ASCII")
    url = substitution.text(entry.url or "")
    if "?" in url:
        substitution.secrets.append(url)  # its query usually holds a key
    try:
        WebAddress.of(url)
    except Refused:
        problem = "its `url` must be an address that begins with http:// or https://, and names no user"
        raise _wrong(substitution.name, f"{problem}; a key belongs in `headers`") from None
    return HttpServer(url, headers)


class _Substitution:
    """Expands environment variables in the texts of one entry and collects the secrets among them."""

    def __init__(self, name: str, environment: Mapping[str, str]) -> None:
        self.name = name
        self.environment = environment
        self.secrets: list[str] = []

    def text(self, template: str) -> str:
        return _VARIABLE.sub(self._value, template)

    def secret(self, templates: Mapping[str, str]) -> dict[str, SecretStr]:
        values = {name: self.text(value) for name, value in templates.items()}
        self.secrets.extend(values.values())
        return {name: SecretStr(value) for name, value in values.items()}

    def _value(self, match: re.Match[str]) -> str:
        variable, default = match[1], match[2]
        if variable in self.environment:
            if variable not in HARMLESS:
                self.secrets.append(self.environment[variable])
            return self.environment[variable]
        if default is None:
            raise _wrong(self.name, f"it names the variable {variable}, which is not set; set it")
        return default


def _wrong(name: str, problem: str) -> Refused:
    return Refused(f"{SETTING}: the server {name[:100]!r} cannot be used: {problem}.")
