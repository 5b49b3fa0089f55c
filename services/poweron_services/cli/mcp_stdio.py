"""Serve PowerOn's tools to an assistant over MCP; stdout belongs to the protocol, so progress goes elsewhere."""

import asyncio
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from mcp.server.stdio import stdio_server

from poweron_events.client import Heard
from poweron_services import wiring
from poweron_services.cli.error_messages import explained
from poweron_services.cli.event_lines import told_lines
from poweron_services.cli.output import tell
from poweron_services.client.connect import Connections
from poweron_services.mcp_server.answerable_requests import answerable
from poweron_services.mcp_server.file_access import AllowedFolders
from poweron_services.mcp_server.tool_calls import ToolCalls
from poweron_services.mcp_server.tool_protocol import tool_server
from poweron_services.mcp_server.workplace import workplace
from poweron_services.settings.config import Settings
from poweron_services.standalone import open_connections


async def serve(settings: Settings, folders: Sequence[Path], *, serving: bool) -> None:
    """Serve until stdin ends; play the roles too, unless another process does the work."""
    roles = partial(_play, settings) if serving else _leave_to_others
    async with (
        workplace(partial(open_connections, settings, tell), roles) as place,
        stdio_server() as (received, write),
        answerable(received) as read,
    ):
        server = tool_server(ToolCalls(place, AllowedFolders.of(folders), _narrate), explained)
        await server.run(read, write, server.create_initialization_options())


async def _play(settings: Settings, connections: Connections) -> None:
    async with wiring.open_model(settings) as model:
        await wiring.keep_serving(connections, wiring.ROLES, model)


async def _leave_to_others(_: Connections) -> None:
    await asyncio.get_running_loop().create_future()


def _narrate(record: Heard) -> Iterator[str]:
    for place, word, sentence in told_lines(record):
        yield " ".join(filter(None, (f"{place}:" if place else "", f"{word}:", sentence)))
