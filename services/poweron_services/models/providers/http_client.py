"""The HTTP client for the providers: it limits the size of answers and hides credentials in addresses from logs.

Client libraries log the address of each request, so they are never given its login and its query.
"""

import base64
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx2

from poweron_events.errors import Refused
from poweron_services.models.providers import request_meter
from poweron_services.models.providers.response_body import corrected, error_status, read_body

CONNECT_TIMEOUT = 10.0  # seconds


@dataclass(slots=True)
class Response:
    """A provider's response, kept in case the client library cannot use it."""

    status: int | None = None
    content_type: str = ""
    body: bytes = b""
    redirected_to: str = ""
    """The host that it redirects to instead of answering."""


_RESPONSE: ContextVar[Response | None] = ContextVar("response", default=None)


@contextmanager
def receiving() -> Generator[Response, None, None]:
    """Keep the last response to a request of this task while the context is open."""
    token = _RESPONSE.set(response := Response())
    try:
        yield response
    finally:
        _RESPONSE.reset(token)


@dataclass(frozen=True, slots=True)
class Access:
    """A provider's address, our credentials there, and the version of its interface if it needs one."""

    place: str
    key: str = field(repr=False)
    version: str | None = None
    login: str | None = field(default=None, repr=False)
    """`user:password` of the address, sent instead of the key; None if it has none."""
    query: str = field(default="", repr=False)
    """The query of the address."""


def http_client(timeout: float, way: Access) -> httpx2.AsyncClient:
    """Return a client that limits the size of answers, follows no redirects and uses the environment's proxies.

    Raises:
        Refused: the proxy is unusable; the message names its variable.
    """
    return httpx2.AsyncClient(
        timeout=httpx2.Timeout(timeout, connect=min(timeout, CONNECT_TIMEOUT)),
        headers={"Accept-Encoding": "identity"},
        follow_redirects=False,  # the key would go to another host
        event_hooks={"request": [request_meter.look], "response": [_receive]},
        transport=_Completing(way, _transport(way.place)),
    )


def proxies() -> Mapping[str, str]:
    """Return the URLs of the environment's proxies, by the scheme of the requests that go through them."""
    urls = {scheme: url for scheme, url in getproxies().items() if scheme in ("http", "https", "all")}
    return {scheme: url if "://" in url else f"http://{url}" for scheme, url in urls.items()}


def _transport(place: str) -> httpx2.AsyncHTTPTransport:
    parts, known = urlsplit(place), proxies()
    scheme = parts.scheme if parts.scheme in known else "all"
    if scheme not in known or proxy_bypass(parts.netloc):
        return httpx2.AsyncHTTPTransport()
    try:
        return httpx2.AsyncHTTPTransport(proxy=known[scheme])
    except (ValueError, ImportError, httpx2.InvalidURL):  # not chained: the URL may hold a password
        variable = f"{scheme.upper()}_PROXY"
        raise Refused(
            f"{variable} names no proxy that can be used: set it to a URL such as `http://proxy:3128`, or unset it."
        ) from None


class _Completing(httpx2.AsyncBaseTransport):
    """A transport that adds the login and query of a provider's address to its requests, so that no log shows them."""

    def __init__(self, way: Access, transport: httpx2.AsyncBaseTransport) -> None:
        self._way = way
        self._origin = _origin(httpx2.URL(way.place))
        self._transport = transport

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if _origin(request.url) == self._origin:
            request = self._complete(request)
        return await self._transport.handle_async_request(request)

    def _complete(self, request: httpx2.Request) -> httpx2.Request:
        query = b"&".join(filter(None, (request.url.query, self._way.query.encode())))
        headers = request.headers.copy()
        if self._way.login is not None:
            headers["Authorization"] = f"Basic {base64.b64encode(self._way.login.encode()).decode()}"
        return httpx2.Request(
            request.method,
            request.url.copy_with(query=query) if query else request.url,
            headers=headers,
            stream=request.stream,
            extensions=request.extensions,
        )

    async def aclose(self) -> None:
        await self._transport.aclose()


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _host(location: str) -> str:
    """Return the host of a redirect, as far as it is readable."""
    try:
        return urlsplit(location).hostname or "a place on the same server"
    except ValueError:
        return "a place that is no address"


async def _receive(response: httpx2.Response) -> None:
    """Read and correct the body before the client library does; an error sent as a success gets its own status."""
    status = response.status_code
    request_meter.answered(status)
    record = _RESPONSE.get() or Response()
    record.status, record.content_type = status, response.headers.get("Content-Type", "").lower()
    if response.is_redirect:
        record.redirected_to = _host(response.headers.get("Location", ""))
    record.body = await read_body(response)
    if response.is_success and (as_error := error_status(record.body)) is not None:
        response.status_code = as_error
    elif response.is_success:
        record.body = corrected(record.body, await response.request.aread())
    response.headers.pop("Content-Encoding", None)
    response.stream = httpx2.ByteStream(record.body)
