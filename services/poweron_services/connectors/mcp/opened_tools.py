"""The tools of all servers that the settings name, for as long as a process works with them."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from poweron_services.config import Settings
from poweron_services.connectors.mcp.known_servers import ApprovedTool, approved_tools
from poweron_services.connectors.mcp.known_tools import KnownTools
from poweron_services.connectors.mcp.server_list import configured_places_of, read_servers, secrets_of
from poweron_services.connectors.mcp.tool_server import tool_servers
from poweron_services.connectors.web.web_settings import WebSettings


class OpenedTools(NamedTuple):
    """What there is, and what would be there if every server had told its tools."""

    methods: tuple[str, ...]
    """Of the actions of all servers."""
    approved: Sequence[ApprovedTool]
    secrets: tuple[str, ...]
    """What stands in `env` and `headers`."""
    configured_places: Mapping[str, frozenset[str]]
    """What the file hands to each server in plain sight, by the method of its actions."""


@asynccontextmanager
async def open_tools(
    file: Path, settings: Settings, environment: Mapping[str, str]
) -> AsyncGenerator[OpenedTools, None]:
    """The tools that are approved; whatever is started for them ends with the context.

    Raises:
        Refused: what the file names cannot be used; the sentence says what and why.
    """
    entries = read_servers(file, environment)
    async with tool_servers(entries, WebSettings.of(settings)) as servers:
        approved = await approved_tools(servers, KnownTools.of_home(settings.home))
        yield OpenedTools(
            tuple(entry.method for entry in entries), approved, secrets_of(entries), configured_places_of(entries)
        )
