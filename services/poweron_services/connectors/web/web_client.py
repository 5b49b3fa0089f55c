"""The web client: it checks every address, its IP addresses and every redirect, and limits time and size."""

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, Literal

import httpcore2

from poweron_events.errors import Refused
from poweron_services.connectors.web.body_limits import broken_off, read_body, too_large
from poweron_services.connectors.web.network_guard import (
    BodyTooLarge,
    GuardedNetwork,
    Resolve,
    SystemResolver,
    reading_at_most,
)
from poweron_services.connectors.web.web_address import WebAddress, refused
from poweron_services.connectors.web.web_rules import WebRules
from poweron_services.connectors.web.web_settings import WebSettings

MAX_REDIRECTS: Final = 5
REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
MAX_HEADERS: Final = 500
CONNECTIONS: Final = 100
IDLE_CONNECTIONS: Final = 20
IDLE: Final = 5.0  # seconds after which an idle connection is closed
ACCEPT: Final = "text/html,application/xhtml+xml,application/pdf;q=0.9,*/*;q=0.8"
BESIDE: Final = 500_000  # bytes that may be sent in addition to a body, such as headers and chunk framing
SHORT: Final = 64_000  # bytes
FOR_EVERYBODY: Final = frozenset({"accept", "accept-language"})
"""Headers that are also sent after a redirect to another origin."""

Method = Literal["GET", "POST"]
BeforeHop = Callable[[WebAddress], Awaitable[None]]
"""Awaited before each request, including those after redirects; an exception from it ends the fetch."""


@dataclass(frozen=True, slots=True)
class WebResponse:
    """A server's answer with any status."""

    url: str
    """The address that answered, after all redirects."""
    status: int
    headers: Mapping[str, str]
    """By their names in lower case, without cookies."""
    body: bytes
    """Decompressed."""
    truncated: bool = False
    """Whether the server had more to send than the limit allows."""


class WebClient:
    """Sends requests to web servers that the rules allow."""

    def __init__(self, settings: WebSettings, rules: WebRules, pool: httpcore2.AsyncConnectionPool) -> None:
        self._settings = settings
        self._rules = rules
        self._pool = pool

    @property
    def timeout(self) -> float:
        """Seconds for a page, including all its redirects."""
        return self._settings.timeout

    async def get(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        max_bytes: int | None = None,
        before_hop: BeforeHop | None = None,
    ) -> WebResponse:
        """Request a page and follow its redirects.

        `before_hop` may wait as long as it needs: only the time of the servers counts towards the timeout.

        Raises:
            Refused: the address is not allowed (`address_refused`), or the request failed (`page_unavailable`,
                `page_timeout`, `page_too_large`). An error status is not a failure.
        """
        address, own_headers = WebAddress.of(url), _lower(headers)
        left = self._settings.timeout
        for _ in range(MAX_REDIRECTS + 1):
            self._rules.check(address)
            if before_hop is not None:
                await before_hop(address)
            start = asyncio.get_running_loop().time()
            response = await self._ask("GET", address, own_headers, timeout=left, max_bytes=max_bytes)
            left -= asyncio.get_running_loop().time() - start
            if (target := redirected(response)) is None:
                return response
            before, address = address, target
            if before.origin != address.origin:
                own_headers = {name: value for name, value in own_headers.items() if name in FOR_EVERYBODY}
        raise endless(address)

    async def get_once(
        self, address: WebAddress, *, headers: Mapping[str, str] | None = None, timeout: float
    ) -> WebResponse:
        """Request this address only, with a timeout in seconds. Redirects are returned, not followed.

        Raises:
            Refused: as for `get`.
        """
        self._rules.check(address)
        return await self._ask("GET", address, _lower(headers), timeout=timeout)

    def check(self, address: WebAddress) -> None:
        """Check that the address is allowed, without resolving its host; raises as `get` does."""
        self._rules.check(address)

    async def post(self, url: str, *, content: bytes, headers: Mapping[str, str] | None = None) -> WebResponse:
        """Send content to a server. Redirects are returned, not followed.

        Raises:
            Refused: as for `get`.
        """
        address = WebAddress.of(url)
        self._rules.check(address)
        return await self._ask("POST", address, _lower(headers), content=content, timeout=self._settings.timeout)

    async def _ask(
        self,
        method: Method,
        address: WebAddress,
        headers: dict[str, str],
        *,
        timeout: float,
        content: bytes | None = None,
        max_bytes: int | None = None,
    ) -> WebResponse:
        limit = max_bytes or self._settings.max_bytes
        try:
            async with asyncio.timeout(timeout):
                with reading_at_most(BESIDE + 2 * limit):
                    return await self._exchange(method, address, headers, content, limit)
        except (TimeoutError, httpcore2.TimeoutException) as error:
            raise Refused(f"{address.host} did not answer in time.", code="page_timeout") from error
        except BodyTooLarge as error:
            raise too_large(address.host, str(error)) from error
        except httpcore2.ConnectError as error:
            detail = f"{address.host}: {error}"
            raise Refused(f"{address.host} cannot be reached.", code="page_unavailable", detail=detail) from error
        except (httpcore2.NetworkError, httpcore2.ProtocolError) as error:
            raise broken_off(address.host, str(error)) from error

    async def _exchange(
        self, method: Method, address: WebAddress, headers: dict[str, str], content: bytes | None, limit: int
    ) -> WebResponse:
        url = httpcore2.URL(scheme=address.scheme, host=address.host, port=address.port, target=address.target)
        all_headers = headers | self._own_headers(address, headers)
        async with self._pool.stream(method, url, headers=list(all_headers.items()), content=content) as answer:
            return await _response(address, answer, limit)

    def _own_headers(self, address: WebAddress, headers: dict[str, str]) -> dict[str, str]:
        return {
            "host": address.authority,
            "accept": headers.get("accept", ACCEPT),
            "accept-encoding": "gzip, deflate",
            "user-agent": self._settings.user_agent,
        }


@asynccontextmanager
async def open_web_client(
    settings: WebSettings,
    *,
    engine: str | None = None,
    resolve: Resolve | None = None,
    network: httpcore2.AsyncNetworkBackend | None = None,
    tls: ssl.SSLContext | None = None,
) -> AsyncGenerator[WebClient, None]:
    """Open a client that is closed when the context exits.

    Args:
        settings: the operator's web settings.
        engine: the address of a search engine that the operator configured, which is allowed on any network. Pages are
            fetched by another client, so no page can lead there.
        resolve: resolves hosts to IP addresses; by default, this machine's resolver.
        network: opens connections to IP addresses; by default, this machine's network.
        tls: the certificates to trust; by default, those of this machine.

    Raises:
        Refused: the address of the engine is invalid.
    """
    place = None if engine is None else WebAddress.of(engine)
    rules = WebRules(settings, None if place is None else (place.host, place.port))
    system = SystemResolver()
    try:
        async with httpcore2.AsyncConnectionPool(
            ssl_context=tls or httpcore2.default_ssl_context(),
            max_connections=CONNECTIONS,
            max_keepalive_connections=IDLE_CONNECTIONS,
            keepalive_expiry=IDLE,
            http2=True,
            network_backend=GuardedNetwork(rules, resolve or system, network or httpcore2.AnyIOBackend()),
        ) as pool:
            yield WebClient(settings, rules, pool)
    finally:
        system.close()


async def _response(address: WebAddress, answer: httpcore2.Response, limit: int) -> WebResponse:
    if len(answer.headers) > MAX_HEADERS:
        raise too_large(address.host, f"it has {len(answer.headers)} headers, {MAX_HEADERS} are read")
    headers = _readable(answer.headers)
    response = WebResponse(address.url, answer.status, headers, b"")
    if _redirect(response) is not None:
        await _skip(answer.aiter_stream())
        return response
    body = await read_body(answer.aiter_stream(), headers, host=address.host, limit=limit)
    return WebResponse(address.url, answer.status, headers, body.content, body.truncated)


async def _skip(chunks: AsyncIterable[bytes]) -> None:
    """Read the body of a redirect if it is short, so that the connection can be reused."""
    left = SHORT
    async for chunk in chunks:
        left -= len(chunk)
        if left < 0:
            return


def _readable(headers: list[tuple[bytes, bytes]]) -> dict[str, str]:
    result: dict[str, str] = {}
    for raw_name, raw_value in headers:
        name, value = _text(raw_name).lower(), _text(raw_value)
        if name != "set-cookie":
            result[name] = f"{result[name]}, {value}" if name in result else value
    return result


def _text(raw: bytes) -> str:
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        text = raw.decode("latin-1")
    return "".join(character for character in text if character.isprintable()).strip()


def redirected(response: WebResponse) -> WebAddress | None:
    """Return the target of a redirect, or None if the answer is not one.

    Raises:
        Refused: the target is not the address of a page, or leads from https to http (`address_refused`).
    """
    if (location := _redirect(response)) is None:
        return None
    address = WebAddress.of(response.url)
    following = address.joined(location)
    if (address.scheme, following.scheme) == ("https", "http"):
        raise refused(f"is one to which {address.host} redirects without encryption")
    return following


def endless(address: WebAddress) -> Refused:
    """Return the error for an address with too many redirects."""
    return Refused(f"{address.host} redirects without end.", code="page_unavailable")


def _redirect(response: WebResponse) -> str | None:
    return response.headers.get("location") if response.status in REDIRECTS else None


def _lower(headers: Mapping[str, str] | None) -> dict[str, str]:
    return {name.lower(): value for name, value in (headers or {}).items()}
