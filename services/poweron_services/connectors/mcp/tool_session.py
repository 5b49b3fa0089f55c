"""One connection to a server, from its start to its end: its tools, and their calls.

Nothing that a server asks for is done: it is offered no model, no person and no files.
"""

import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib.metadata import version
from typing import Any, Final

import anyio
from mcp import Client, ClientSession, MCPError
from mcp_types import (
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    Implementation,
    ListToolsResult,
    PaginatedRequestParams,
    Tool,
)
from pydantic import JsonValue, ValidationError

from poweron_events.errors import Unavailable
from poweron_events.validation_messages import explain
from poweron_services.connectors.mcp.http_transport import http_streams
from poweron_services.connectors.mcp.listed_tools import MAX_TOOLS
from poweron_services.connectors.mcp.server_list import StdioServer, ToolServerEntry
from poweron_services.connectors.mcp.stdio_transport import stdio_streams
from poweron_services.connectors.mcp.streams import Incoming, Traffic, let_in
from poweron_services.connectors.mcp.tool_description import ToolDescription
from poweron_services.connectors.web.web_settings import WebSettings

MAX_PAGES: Final = 50  # of the list of tools
ENDED: Final = -32_000  # the SDK's code of a connection that is closed

OnProgress = Callable[[float, float | None], None]


class ConnectionEnded(Unavailable):
    """The server, or the connection to it, ended before it answered."""

    code = "tool_server_ended"


class ToolSession:
    """A server that listens."""

    def __init__(self, session: ClientSession, traffic: Traffic) -> None:
        self._session = session
        self._traffic = traffic
        self.left_out: dict[str, str] = {}
        """Why tools of the last list are not among those that it offers, by name."""

    @property
    def unasked(self) -> int:
        """How many messages it has sent that nobody asked for."""
        return self._traffic.unasked

    @property
    def has_ended(self) -> bool:
        return self._traffic.ended.is_set()

    async def ended(self) -> None:
        await self._traffic.ended.wait()

    def end(self) -> None:
        """Use it no more: whoever holds the connection closes it."""
        self._traffic.ended.set()

    async def tools(self) -> dict[str, ToolDescription]:
        """What it offers now, by name; of two tools of one name the first, and none that cannot be described.

        Raises:
            ConnectionEnded: it does not answer any more.
            Unavailable: its answer cannot be read.
        """
        found: dict[str, ToolDescription] = {}
        self.left_out = self._traffic.unreadable = {}
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            page = await self._listed(cursor)
            for tool in page.tools[: MAX_TOOLS - len(found)]:
                self._take(tool, found)
            cursor = page.next_cursor
            if len(found) >= MAX_TOOLS and (cursor is not None or page.tools[-1].name not in found):
                self.left_out[f"all after the first {MAX_TOOLS}"] = "No more tools are used of one server."
            if cursor is None or len(found) >= MAX_TOOLS:
                break
        return found

    def _take(self, tool: Tool, found: dict[str, ToolDescription]) -> None:
        if tool.name in found:
            self.left_out[tool.name] = "The server has two tools of this name; the first one is taken."
            return
        described = tool.model_dump(by_alias=True, mode="json", exclude_none=True)
        try:
            found[tool.name] = ToolDescription.model_validate(described)
        except ValidationError as error:
            self.left_out[tool.name] = explain(error)

    async def _listed(self, cursor: str | None) -> ListToolsResult:
        try:
            return await self._session.list_tools(params=PaginatedRequestParams(cursor=cursor))
        except MCPError as error:
            raise self._trouble(error) from error
        except ValidationError as error:
            raise Unavailable("Its list of tools cannot be read.", code="tool_server_unavailable") from error

    async def call(self, tool: str, arguments: Mapping[str, JsonValue], on_progress: OnProgress) -> CallToolResult:
        """What it answers; cancelling tells it so.

        Raises:
            MCPError: it answers with an error.
            ConnectionEnded: it does not answer any more; whether it did what it was asked is unknown.
            Unavailable: its answer cannot be read.
        """

        async def told(progress: float, total: float | None, message: str | None) -> None:  # noqa: ARG001 - by name
            on_progress(progress, total)

        request = CallToolRequest(params=CallToolRequestParams(name=tool, arguments=dict(arguments)))
        try:  # without the SDK's own check of the result, which would run the patterns of a stranger
            return await self._session.send_request(request, CallToolResult, progress_callback=told)
        except MCPError as error:
            if error.code == ENDED or self.has_ended:
                raise self._trouble(error) from error
            raise
        except ValidationError as error:
            raise Unavailable("What it answered cannot be read.", code="tool_failed") from error

    def _trouble(self, error: MCPError) -> Unavailable:
        if self._traffic.code == "tool_result_too_large":
            return ConnectionEnded("It sent more at once than is read.", code="tool_result_too_large")
        if error.code == ENDED or self.has_ended:
            return ConnectionEnded("It ended before it answered.")
        return Unavailable("It does not tell its tools.", code="tool_server_unavailable")


@asynccontextmanager
async def tool_session(entry: ToolServerEntry, web: WebSettings, traffic: Traffic) -> AsyncGenerator[ToolSession, None]:
    """Start the server, or connect to it, and agree on how to speak."""
    logging.getLogger("mcp").setLevel(logging.CRITICAL)  # its lines hold what strangers wrote
    us = Implementation(name="poweron", version=version("poweron-services"))
    async with Client(_let_in(_opened(entry, web, traffic), traffic), cache=None, client_info=us) as client:
        traffic.version = client.protocol_version
        yield ToolSession(client.session, traffic)


def _opened(entry: ToolServerEntry, web: WebSettings, traffic: Traffic) -> AbstractAsyncContextManager[Any]:
    if isinstance(entry.place, StdioServer):
        return stdio_streams(entry.place, traffic)
    return http_streams(entry.place, web, traffic)


@asynccontextmanager
async def _let_in(transport: AbstractAsyncContextManager[Any], traffic: Traffic) -> AsyncGenerator[Any, None]:
    """The transport's streams, of which the one that comes in is watched."""
    async with transport as (source, outgoing):
        passed_on, incoming = anyio.create_memory_object_stream[Incoming](0)
        async with passed_on, incoming, anyio.create_task_group() as tasks:
            tasks.start_soon(let_in, source, passed_on, traffic)
            try:
                yield incoming, outgoing
            finally:
                tasks.cancel_scope.cancel()
