"""The transport for servers that speak streamable HTTP. It uses the guarded network, so the web rules apply."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, Final, cast

import httpcore2
import httpx2
from mcp.client.streamable_http import streamable_http_client

from poweron_services.connectors.mcp.server_list import HttpServer
from poweron_services.connectors.mcp.streams import MAX_MESSAGE, Traffic
from poweron_services.connectors.web.network_guard import GuardedNetwork, SystemResolver
from poweron_services.connectors.web.web_address import WebAddress
from poweron_services.connectors.web.web_rules import WebRules
from poweron_services.connectors.web.web_settings import WebSettings

CONNECT: Final = 10.0  # seconds
SENT: Final = 30.0  # seconds to write a message, and to wait for a free connection
CONNECTIONS: Final = 20
MAX_TOLD: Final = 200  # characters of an answer that are reported
EVENTS: Final = "text/event-stream"
SESSION: Final = "Mcp-Session-Id"


@asynccontextmanager
async def http_streams(server: HttpServer, settings: WebSettings, traffic: Traffic) -> AsyncGenerator[Any, None]:
    """Connect to the server.

    Raises:
        Refused: the web settings do not allow its address (`address_refused`).
    """
    rules = WebRules(settings)
    rules.check(WebAddress.of(server.url))
    resolver = SystemResolver()
    pool = httpcore2.AsyncConnectionPool(
        ssl_context=httpcore2.default_ssl_context(),
        max_connections=CONNECTIONS,
        network_backend=GuardedNetwork(rules, resolver, httpcore2.AnyIOBackend()),
    )
    headers = {name: value.get_secret_value() for name, value in server.headers.items()}
    try:
        async with (
            httpx2.AsyncClient(
                transport=_Guarded(pool, rules, traffic),
                headers={"User-Agent": settings.user_agent, **headers, "Accept-Encoding": "identity"},
                timeout=httpx2.Timeout(SENT, connect=CONNECT, read=None),  # each call has its own time limit
                trust_env=False,
            ) as client,
            streamable_http_client(server.url, http_client=client, max_sse_event_size=MAX_MESSAGE) as streams,
        ):
            yield streams
    finally:
        resolver.close()


class _TooMuch(httpx2.TransportError):
    """The response is too long, or is compressed, so its length is unknown."""


class _NoAnswer(httpx2.TransportError):
    """The response does not answer the request: the session is no longer known, or a gateway failed."""


class _Guarded(httpx2.AsyncHTTPTransport):
    """HTTP over connections that reach only checked addresses, with responses limited to the size of a message."""

    def __init__(self, pool: httpcore2.AsyncConnectionPool, rules: WebRules, traffic: Traffic) -> None:
        self._pool = pool
        self._rules = rules
        self._traffic = traffic

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self._rules.check(WebAddress.of(str(request.url)))
        try:
            response = await super().handle_async_request(request)
        except httpx2.ConnectError as error:
            self._traffic.answer = f"No connection to it could be made: {str(error)[:MAX_TOLD]}."
            raise
        if request.method == "POST":
            self._traffic.answer = _answer_text(response)
        if request.method == "POST" and _is_no_answer(request, response):
            await response.aclose()
            raise _NoAnswer(f"status {response.status_code}")
        if response.headers.get("Content-Encoding", "identity").strip().lower() not in ("", "identity"):
            raise _TooMuch("compressed, though that was not asked for")
        if not response.headers.get("Content-Type", "").lower().startswith(EVENTS):  # each event has its own limit
            response.stream = _Bounded(cast("httpx2.AsyncByteStream", response.stream), self._traffic)
        return response


def _answer_text(response: httpx2.Response) -> str:
    kind = "".join(filter(str.isprintable, response.headers.get("Content-Type", "").partition(";")[0]))[:MAX_TOLD]
    answer = f"status {response.status_code}" + (f" ({kind})" if kind else "")
    return f"It answered with {answer}, but not as a server of MCP does."


def _is_no_answer(request: httpx2.Request, response: httpx2.Response) -> bool:
    """Return whether the SDK would take the response for an error of the tool, although the tool may have run."""
    if response.status_code == HTTPStatus.NOT_FOUND:
        return SESSION in request.headers
    speaks = response.headers.get("Content-Type", "").lower().startswith("application/json")
    return response.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR and not speaks


class _Bounded(httpx2.AsyncByteStream):
    """A body that raises `_TooMuch` once it is longer than `MAX_MESSAGE`."""

    def __init__(self, stream: httpx2.AsyncByteStream, traffic: Traffic) -> None:
        self._stream = stream
        self._traffic = traffic

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = MAX_MESSAGE
        async for chunk in self._stream:
            left -= len(chunk)
            if left < 0:
                self._traffic.code = "tool_result_too_large"
                raise _TooMuch(f"longer than {MAX_MESSAGE} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()
