"""The HTTP client for the providers: how much of an answer is read at most, and what of an address nobody is told.

The client libraries log the address of each request: what it says beside the place, they never learn.
"""

import base64
from collections.abc import AsyncIterator, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx2

from poweron_events.errors import Refused
from poweron_services.models.providers import outgoing

CONNECT_TIMEOUT = 10.0  # seconds
MAX_BODY = 4_000_000  # bytes

_HEARD: ContextVar[bytearray | None] = ContextVar("heard", default=None)


@contextmanager
def listening() -> Generator[bytearray, None, None]:
    """The body of what is answered to a request, as far as it was read: also where the client library cannot use it."""
    token = _HEARD.set(heard := bytearray())
    try:
        yield heard
    finally:
        _HEARD.reset(token)


@dataclass(frozen=True, slots=True)
class Access:
    """Where a provider is, who we are there, and the version of its interface where it wants one named."""

    place: str
    key: str = field(repr=False)
    version: str | None = None
    login: str | None = field(default=None, repr=False)
    """`user:password` of its address, which comes in place of the key; None where it has none."""
    query: str = field(default="", repr=False)
    """That of its address."""


class TooMuch(httpx2.TransportError):
    """The answer is longer than what is read, or was compressed so that nobody knows how long it is."""


def http_client(timeout: float, way: Access) -> httpx2.AsyncClient:
    """A client that never reads more of an answer than `MAX_BODY`; the proxies of the environment are used.

    Raises:
        Refused: the proxy cannot be used; the sentence names its variable.
    """
    return httpx2.AsyncClient(
        timeout=httpx2.Timeout(timeout, connect=min(timeout, CONNECT_TIMEOUT)),
        headers={"Accept-Encoding": "identity"},
        event_hooks={"request": [outgoing.look], "response": [_bound]},
        transport=_Completing(way, _transport(way.place)),
    )


def proxies() -> Mapping[str, str]:
    """The URLs of the environment's proxies, by the scheme of what is asked through them."""
    found = {scheme: url for scheme, url in getproxies().items() if scheme in ("http", "https", "all")}
    return {scheme: url if "://" in url else f"http://{url}" for scheme, url in found.items()}


def _transport(place: str) -> httpx2.AsyncHTTPTransport:
    asked, known = urlsplit(place), proxies()
    scheme = asked.scheme if asked.scheme in known else "all"
    if scheme not in known or proxy_bypass(asked.netloc):
        return httpx2.AsyncHTTPTransport()
    try:
        return httpx2.AsyncHTTPTransport(proxy=known[scheme])
    except (ValueError, ImportError, httpx2.InvalidURL):  # untold: the URL may hold a password
        variable = f"{scheme.upper()}_PROXY"
        raise Refused(
            f"{variable} names no proxy that can be used: set it to a URL such as `http://proxy:3128`, or unset it."
        ) from None


class _Completing(httpx2.AsyncBaseTransport):
    """Completes each request to the provider's place with the login and the query of its address, unseen by logs."""

    def __init__(self, way: Access, transport: httpx2.AsyncBaseTransport) -> None:
        self._way = way
        self._origin = _origin(httpx2.URL(way.place))
        self._transport = transport

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if _origin(request.url) == self._origin:
            request = self._completed(request)
        return await self._transport.handle_async_request(request)

    def _completed(self, request: httpx2.Request) -> httpx2.Request:
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


async def _bound(response: httpx2.Response) -> None:
    outgoing.answered(response.status_code)
    if response.headers.get("Content-Encoding", "identity").strip().lower() not in ("", "identity"):
        raise TooMuch("compressed, though that was not asked for")
    response.stream = _Bounded(cast("httpx2.AsyncByteStream", response.stream))


class _Bounded(httpx2.AsyncByteStream):
    """A body that is given up once it is too long."""

    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left, heard = MAX_BODY, _HEARD.get()
        async for chunk in self._stream:
            left -= len(chunk)
            if left < 0:
                raise TooMuch(f"longer than {MAX_BODY} bytes")
            if heard is not None:
                heard += chunk
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()
