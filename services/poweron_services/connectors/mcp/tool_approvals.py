"""The known and approved tools, in a file in PowerOn's home folder.

A server's tools are recorded when it is first used, as SSH records hosts in `known_hosts`. All processes build their
actions from this file, so models see only what was approved, not what a server changed later.
"""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from filelock import FileLock
from pydantic import BaseModel, Field, ValidationError

from poweron_events.codec import dumps
from poweron_events.errors import Refused
from poweron_services.connectors.mcp.tool_description import ToolDescription

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
