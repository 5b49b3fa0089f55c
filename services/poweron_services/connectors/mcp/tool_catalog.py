"""The approved tools of all servers, each with the name of its action, open for as long as a process uses them."""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import structlog

from poweron_events.errors import Unavailable
from poweron_services.connectors.mcp.server_list import configured_places_of, read_servers, secrets_of
from poweron_services.connectors.mcp.tool_description import KnownTools, ToolDescription, with_own_names
from poweron_services.connectors.mcp.tool_server import ToolServer, tool_servers
from poweron_services.connectors.web.web_rules import WebSettings
from poweron_services.settings.config import Settings

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class ApprovedTool:
    """An approved tool and the server that runs it."""

    action: str
    description: ToolDescription
    server: ToolServer

    @property
    def needs_approval(self) -> bool:
        """Whether a user must approve each call: the tool may change something and the settings do not trust it."""
        return not self.description.only_reads and not self.server.entry.trusts(self.description.name)


async def approved_tools(servers: Sequence[ToolServer], known: KnownTools) -> list[ApprovedTool]:
    """Return the approved tools of all servers.

    A server whose tools are not known yet is asked for them. One that does not answer is skipped with a warning.
    """
    descriptions = await asyncio.gather(*(_descriptions(server, known) for server in servers))
    return [
        tool
        for server, tools in zip(servers, descriptions, strict=True)
        for tool in _with_names(server, {description.name: description for description in tools})
    ]


async def _descriptions(server: ToolServer, known: KnownTools) -> Sequence[ToolDescription]:
    if (descriptions := known.of(server.entry.name)) is not None:
        return descriptions
    try:
        offers = await server.tools()
    except Unavailable as error:
        log.warning("tool_server_unavailable", server=server.entry.name, error=str(error), detail=error.detail)
        return ()
    return known.remember_first(server.entry.name, [*offers.values()])


def _with_names(server: ToolServer, descriptions: Mapping[str, ToolDescription]) -> Iterator[ApprovedTool]:
    names = with_own_names(server.entry.name, descriptions)
    for tool in sorted(descriptions.keys() - {*names.values()}):
        reason = "Another tool of the server has the same name as an action."
        log.warning("action_left_out", action=tool, source=server.entry.name, error=reason)
    yield from (ApprovedTool(action, descriptions[tool], server) for action, tool in names.items())


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
