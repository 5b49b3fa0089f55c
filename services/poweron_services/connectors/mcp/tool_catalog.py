"""The approved tools of all servers, each with the name of its action."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import structlog

from poweron_events.errors import Unavailable
from poweron_services.connectors.mcp.tool_approvals import KnownTools
from poweron_services.connectors.mcp.tool_description import ToolDescription, with_own_names
from poweron_services.connectors.mcp.tool_server import ToolServer

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
