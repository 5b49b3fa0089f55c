"""The tools of all configured servers, open for as long as a process uses them."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from poweron_services.connectors.mcp.server_list import configured_places_of, read_servers, secrets_of
from poweron_services.connectors.mcp.tool_approvals import KnownTools
from poweron_services.connectors.mcp.tool_catalog import ApprovedTool, approved_tools
from poweron_services.connectors.mcp.tool_server import tool_servers
from poweron_services.connectors.web.web_settings import WebSettings
from poweron_services.settings.config import Settings


class OpenedTools(NamedTuple):
    """The approved tools, and what is known of every configured server even if it did not answer."""

    methods: tuple[str, ...]
    """The methods of all servers' actions."""
    approved: Sequence[ApprovedTool]
    secrets: tuple[str, ...]
    """The secret values of all servers, such as those in `env` and `headers`."""
    configured_places: Mapping[str, frozenset[str]]
    """The command-line arguments that each server is configured with, by the method of its actions."""


@asynccontextmanager
async def open_tools(
    file: Path, settings: Settings, environment: Mapping[str, str]
) -> AsyncGenerator[OpenedTools, None]:
    """Open the approved tools. Servers started for them are stopped when the context exits.

    Raises:
        Refused: the file or an entry in it is unusable; the message says which and why.
    """
    entries = read_servers(file, environment)
    async with tool_servers(entries, WebSettings.of(settings)) as servers:
        tools = await approved_tools(servers, KnownTools.of_home(settings.home))
        yield OpenedTools(
            tuple(entry.method for entry in entries), tools, secrets_of(entries), configured_places_of(entries)
        )
