"""A server's description of one of its tools, as it is stored, compared and approved.

It comes from an untrusted server, so PowerOn relies on it only as far as this module says.

A file in PowerOn's home folder holds the known and the approved tools. A server's tools are recorded when it is first
used, as SSH records hosts in `known_hosts`. All processes build their actions from this file, so models see only what
was approved, not what a server changed later.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Self

from filelock import FileLock
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from poweron_events.codec import dumps, sha256
from poweron_events.errors import Refused
from poweron_events.step_events import EffectClass

MAX_NAME: Final = 100  # characters of an action's name
MAX_METHOD: Final = 30
_OTHER: Final = re.compile(r"[^A-Za-z0-9_-]")
MAX_TOOLS: Final = 500
"""Tools used of one server, and checked in one list: checking ten thousand takes as long as starting the server."""
PARTS: Final[dict[str, str]] = {
    "description": "its description",
    "inputSchema": "the schema of its parameters",
    "outputSchema": "the schema of its result",
    "annotations": "what it says of its effects",
}
"""The parts that can change, in the words that users see."""


class ToolDescription(BaseModel):
    """Name, description, schemas and annotations; all else is dropped."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True, extra="ignore")

    name: str = Field(min_length=1, max_length=200)
    description: str = Field(default="", max_length=100_000)
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None = None
    annotations: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check_json(self) -> Self:
        try:
            dumps(self.written)
        except TypeError as error:  # a number is too large, or the nesting too deep
            raise ValueError("what is said of it is no JSON that can be kept") from error
        return self

    @property
    def written(self) -> dict[str, Any]:
        """The whole description, as stored in files."""
        return self.model_dump(by_alias=True)

    @property
    def digest(self) -> str:
        """The SHA-256 of the whole description, which identifies it."""
        return sha256(dumps(self.written))

    @property
    def only_reads(self) -> bool:
        return self.annotations.get("readOnlyHint") is True

    @property
    def effect_class(self) -> EffectClass:
        """How often the tool may run: once, unless its annotations say that repeating it is harmless."""
        if self.only_reads:
            return "pure"
        says = self.annotations
        repeatable = says.get("idempotentHint") is True and says.get("destructiveHint") is False
        return "idempotent" if repeatable else "at_most_once"

    def changes(self, since: "ToolDescription") -> Iterator[str]:
        """The parts that changed since an earlier description, as keys of `PARTS`."""
        before, now = since.written, self.written
        return (part for part in PARTS if before[part] != now[part])


def what_changed(now: ToolDescription | None, before: ToolDescription) -> str:
    """Say what changed since an earlier description, as part of a sentence."""
    if now is None:
        return "the server does not offer it any more"
    parts = [PARTS[part] for part in now.changes(before)] or ["its name"]
    return f"{' and '.join([', '.join(parts[:-1]), parts[-1]] if parts[:-1] else parts)} changed"


def method_of(server: str) -> str:
    """The method of a server's actions: its name with a lower-case first letter and `_` for invalid characters."""
    name = _OTHER.sub("_", server)[:MAX_METHOD]
    begins = name[:1].lower()
    return begins + name[1:] if begins.isalpha() else f"s{name}"


def action_of(server: str, tool: str) -> str:
    """The name of the action that a tool becomes. It is deterministic, but two tools may get the same name."""
    fragment = _OTHER.sub("_", tool)
    name = fragment if fragment[:1].isalpha() else f"t{fragment}"
    return f"{method_of(server)}.{name}"[:MAX_NAME]


def with_own_names(server: str, tools: Iterable[str]) -> dict[str, str]:
    """Map action names to tools.

    If several tools get the same name, the one whose name needed no change wins, otherwise the first.
    """
    result: dict[str, str] = {}
    for tool in sorted(tools, key=lambda name: action_of(server, name) != f"{method_of(server)}.{name}"):
        result.setdefault(action_of(server, tool), tool)
    return result


FILE: Final = "known-tools.json"
OWNER_ONLY: Final = 0o600


class _Known(BaseModel):
    """The contents of the file: the approved tools by the name of their server."""

    servers: dict[str, tuple[ToolDescription, ...]] = Field(default_factory=dict)


class KnownTools:
    """The known tools of all servers."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE

    @classmethod
    def of_home(cls, home: Path) -> "KnownTools":
        return cls(home / "mcp")

    def of(self, server: str) -> tuple[ToolDescription, ...] | None:
        """Return the approved tools of a server, or None if it was never asked for them.

        Raises:
            Refused: the file cannot be read, or is not in our format.
        """
        return self._read().servers.get(server)

    def remember_first(self, server: str, tools: Sequence[ToolDescription]) -> tuple[ToolDescription, ...]:
        """Record the tools as approved and return them. If another process was first, return what it recorded."""
        with self._lock():
            known = self._read()
            if server not in known.servers:
                self._write(known, server, tools)
            return self._read().servers[server]

    def approve(self, server: str, tools: Iterable[ToolDescription]) -> None:
        """Replace the approved tools of the server."""
        with self._lock():
            self._write(self._read(), server, tools)

    def _lock(self) -> FileLock:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return FileLock(f"{self._path}.lock", timeout=10)

    def _read(self) -> _Known:
        try:
            return _Known.model_validate_json(self._path.read_bytes())
        except FileNotFoundError:
            return _Known()
        except (OSError, ValidationError) as error:
            path = str(self._path)
            raise Refused(f"{path!r} says which tools are approved, and cannot be read; mend or remove it.") from error

    def _write(self, known: _Known, server: str, tools: Iterable[ToolDescription]) -> None:
        servers = {**known.servers, server: tuple(tools)}
        content = dumps(
            {"servers": {name: [tool.written for tool in server_tools] for name, server_tools in servers.items()}}
        )
        beside = self._path.with_suffix(".new")
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, OWNER_ONLY), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self._path)
