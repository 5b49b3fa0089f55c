"""One connection to a server, from its start to its end: listing its tools and calling them.

Requests from a server are not served: it gets no access to a model, a user or files.
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
from poweron_services.connectors.mcp.server_list import StdioServer, ToolServerEntry
from poweron_services.connectors.mcp.tool_description import MAX_TOOLS, ToolDescription
from poweron_services.connectors.mcp.transports import Incoming, Traffic, http_streams, let_in, stdio_streams
from poweron_services.connectors.web.web_rules import WebSettings

MAX_PAGES: Final = 50  # of the list of tools
ENDED: Final = -32_000  # the SDK's code for a closed connection

OnProgress = Callable[[float, float | None], None]


class ConnectionEnded(Unavailable):
    """The server, or the connection to it, ended before it answered."""

    code = "tool_server_ended"


class ToolSession:
    """A connected server."""

    def __init__(self, session: ClientSession, traffic: Traffic) -> None:
        self._session = session
        self._traffic = traffic
        self.left_out: dict[str, str] = {}
        """Why tools of the last list were left out, by name."""

    @property
    def unasked(self) -> int:
        """The number of unsolicited messages that the server has sent."""
        return self._traffic.unasked

    @property
    def has_ended(self) -> bool:
        return self._traffic.ended.is_set()

    async def ended(self) -> None:
        await self._traffic.ended.wait()

    def end(self) -> None:
        """Mark the connection as ended; the task that owns it closes it."""
        self._traffic.ended.set()

    async def tools(self) -> dict[str, ToolDescription]:
        """Return the tools that the server offers now, by name.

        If two tools have the same name, the first is taken. Tools without a valid description are left out.

        Raises:
            ConnectionEnded: the server no longer answers.
            Unavailable: its answer cannot be read.
        """
        tools: dict[str, ToolDescription] = {}
        self.left_out = self._traffic.unreadable = {}
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            page = await self._list(cursor)
            for tool in page.tools[: MAX_TOOLS - len(tools)]:
                self._take(tool, tools)
            cursor = page.next_cursor
            if len(tools) >= MAX_TOOLS and (cursor is not None or page.tools[-1].name not in tools):
                self.left_out[f"all after the first {MAX_TOOLS}"] = "No more tools are used of one server."
            if cursor is None or len(tools) >= MAX_TOOLS:
                break
        return tools

    def _take(self, tool: Tool, tools: dict[str, ToolDescription]) -> None:
        if tool.name in tools:
            self.left_out[tool.name] = "The server has two tools of this name; the first one is taken."
            return
        fields = tool.model_dump(by_alias=True, mode="json", exclude_none=True)
        try:
            tools[tool.name] = ToolDescription.model_validate(fields)
        except ValidationError as error:
            self.left_out[tool.name] = explain(error)

    async def _list(self, cursor: str | None) -> ListToolsResult:
        try:
            return await self._session.list_tools(params=PaginatedRequestParams(cursor=cursor))
        except MCPError as error:
            raise self._trouble(error) from error
        except ValidationError as error:
            raise Unavailable("Its list of tools cannot be read.", code="tool_server_unavailable") from error

    async def call(self, tool: str, arguments: Mapping[str, JsonValue], on_progress: OnProgress) -> CallToolResult:
        """Call a tool and return its result. Cancelling the call notifies the server.

        Raises:
            MCPError: the server answered with an error.
            ConnectionEnded: the server no longer answers; it is unknown whether the tool ran.
            Unavailable: its answer cannot be read.
        """

        async def told(progress: float, total: float | None, message: str | None) -> None:  # noqa: ARG001 - by name
            on_progress(progress, total)

        request = CallToolRequest(params=CallToolRequestParams(name=tool, arguments=dict(arguments)))
        try:  # without the SDK's own validation of the result, which would run patterns from an untrusted schema
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
    """Start the server, or connect to it, and negotiate the protocol."""
    logging.getLogger("mcp").setLevel(logging.CRITICAL)  # its log lines contain untrusted text
    us = Implementation(name="poweron", version=version("poweron-services"))
    async with Client(_filter(_open(entry, web, traffic), traffic), cache=None, client_info=us) as client:
        traffic.version = client.protocol_version
        yield ToolSession(client.session, traffic)


def _open(entry: ToolServerEntry, web: WebSettings, traffic: Traffic) -> AbstractAsyncContextManager[Any]:
    if isinstance(entry.place, StdioServer):
        return stdio_streams(entry.place, traffic)
    return http_streams(entry.place, web, traffic)


@asynccontextmanager
async def _filter(transport: AbstractAsyncContextManager[Any], traffic: Traffic) -> AsyncGenerator[Any, None]:
    """The transport's streams, with the incoming one filtered by `let_in`."""
    async with transport as (source, outgoing):
        accepted, incoming = anyio.create_memory_object_stream[Incoming](0)
        async with accepted, incoming, anyio.create_task_group() as tasks:
            tasks.start_soon(let_in, source, accepted, traffic)
            try:
                yield incoming, outgoing
            finally:
                tasks.cancel_scope.cancel()
