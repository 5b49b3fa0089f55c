"""The web client: it checks every address, its IP addresses and every redirect, and limits time and size.

It reads and decompresses each body within limits.
"""

import asyncio
import ssl
import time
import zlib
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, Literal, Protocol

import httpcore2

from poweron_events.errors import Refused
from poweron_services.connectors.web.network_guard import (
    BodyTooLarge,
    GuardedNetwork,
    Resolve,
    SystemResolver,
    reading_at_most,
)
from poweron_services.connectors.web.web_address import WebAddress, refused
from poweron_services.connectors.web.web_rules import WebRules, WebSettings

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


PIECE: Final = 65_536  # bytes that are decompressed at once


MAX_RATIO: Final = 200  # decompressed bytes per byte sent


TURN: Final = 0.005  # seconds after which other tasks run


ANY_RATIO: Final = 1_000_000  # bytes that may be decompressed at any ratio


GZIP: Final = zlib.MAX_WBITS | 16


GZIP_START: Final = b"\x1f\x8b"


ZLIB_METHOD: Final = 8


MAX_DIGITS: Final = 18


TEXTS: Final = frozenset({"", "application/xhtml+xml", "application/xml"})
"""Media types besides `text/*` that may be truncated; empty if the server names none."""


@dataclass(frozen=True, slots=True)
class Body:
    """A decompressed body."""

    content: bytes
    truncated: bool = False


async def read_body(chunks: AsyncIterable[bytes], headers: Mapping[str, str], *, host: str, limit: int) -> Body:
    """Read and decompress a body of at most `limit` bytes, both as sent and decompressed.

    A longer text is truncated. Other types are refused, because a part of them is unusable.

    Raises:
        Refused: the body is too large (`page_too_large`) or cannot be decompressed (`page_unavailable`).
    """
    partly = _is_text(headers)
    if not partly and _content_length(headers) > limit:
        raise too_large(host, f"it announced {_content_length(headers)} bytes, {limit} are read")
    decompression = _decompression(headers.get("content-encoding", ""), host)
    content, size = bytearray(), 0
    async for chunk in _in_turns(chunks):
        size += len(chunk)
        for piece in _unpack(decompression, chunk, host):
            content += piece
            if len(content) > max(ANY_RATIO, MAX_RATIO * size):
                raise too_large(host, f"it unpacks to more than {MAX_RATIO} times of what is sent")
            if len(content) > limit:
                break
        if max(size, len(content)) > limit:
            if not partly:
                raise too_large(host, f"more than {limit} bytes were sent")
            return Body(bytes(content[:limit]), truncated=True)
    if not decompression.complete:
        raise broken_off(host, "the compressed body has no end")
    return Body(bytes(content))


async def _in_turns(chunks: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """Yield the same chunks and let other tasks run in between, since a thousand may arrive at once."""
    began = time.monotonic()
    async for chunk in chunks:
        yield chunk
        if time.monotonic() - began > TURN:
            await asyncio.sleep(0)
            began = time.monotonic()


def broken_off(host: str, detail: str) -> Refused:
    return Refused(
        f"{host} sent a page that is damaged or incomplete.", code="page_unavailable", detail=f"{host}: {detail}."
    )


def too_large(host: str, detail: str) -> Refused:
    return Refused(f"{host} sends more than can be read of a page.", code="page_too_large", detail=f"{host}: {detail}.")


class _Unpacking(Protocol):
    @property
    def complete(self) -> bool:
        """Whether the data so far may be the whole body."""

    def pieces(self, chunk: bytes) -> Iterator[bytes]:
        """Decompress a chunk, which must not be empty."""


class _Deflated:
    """Decompresses deflate, with the zlib header or, as some servers send it, without one."""

    def __init__(self) -> None:
        self._stream: zlib._Decompress | None = None

    @property
    def complete(self) -> bool:
        return self._stream is None or self._stream.eof

    def pieces(self, chunk: bytes) -> Iterator[bytes]:
        if self._stream is None:
            self._stream = zlib.decompressobj(zlib.MAX_WBITS if chunk[0] & 0xF == ZLIB_METHOD else -zlib.MAX_WBITS)
        while chunk and not self._stream.eof:
            yield self._stream.decompress(chunk, PIECE)
            chunk = self._stream.unconsumed_tail


class _Gzipped:
    """Decompresses one gzip member after the other; data after the last one is ignored."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(GZIP)
        self._begun = False
        self._held = b""
        """The first byte after a member, which may be the start of the next one."""

    @property
    def complete(self) -> bool:
        return self._stream.eof or not self._begun

    def pieces(self, chunk: bytes) -> Iterator[bytes]:
        chunk, self._held, self._begun = self._held + chunk, b"", True
        while chunk:
            if self._stream.eof:
                if chunk == GZIP_START[:1]:
                    self._held = chunk
                if not chunk.startswith(GZIP_START):
                    return
                self._stream = zlib.decompressobj(GZIP)
            yield self._stream.decompress(chunk, PIECE)
            chunk = self._stream.unused_data if self._stream.eof else self._stream.unconsumed_tail


class _Layers:
    """Decompresses a body with several codings, or none."""

    def __init__(self, layers: Sequence[_Unpacking]) -> None:
        self._layers = layers

    @property
    def complete(self) -> bool:
        return all(layer.complete for layer in self._layers)

    def pieces(self, chunk: bytes) -> Iterator[bytes]:
        yield from self._unpack(chunk, self._layers)

    def _unpack(self, chunk: bytes, layers: Sequence[_Unpacking]) -> Iterator[bytes]:
        if not layers:
            yield chunk
            return
        for piece in filter(None, layers[0].pieces(chunk)):
            yield from self._unpack(piece, layers[1:])


CODINGS: Final[Mapping[str, Callable[[], _Unpacking]]] = {"gzip": _Gzipped, "x-gzip": _Gzipped, "deflate": _Deflated}


NO_CODING: Final = frozenset({"", "identity", "none", "binary", "8bit", "utf-8"})


MOST_CODINGS: Final = 3


def _decompression(header: str, host: str) -> _Unpacking:
    """The decompression for a Content-Encoding header, which lists codings in the order of their application.

    Values that are not codings are ignored, because some servers send them.
    """
    codings = [coding for part in header.split(",") if (coding := part.strip().lower()) not in NO_CODING]
    if len(codings) > MOST_CODINGS or not set(codings) <= CODINGS.keys():
        raise broken_off(host, "the body is compressed in a way that was not asked for")
    layers = [CODINGS[coding]() for coding in reversed(codings)]
    return layers[0] if len(layers) == 1 else _Layers(layers)


def _unpack(decompression: _Unpacking, chunk: bytes, host: str) -> Iterator[bytes]:
    if not chunk:  # an HTTP/2 frame may be empty
        return
    try:
        yield from decompression.pieces(chunk)
    except zlib.error as error:
        raise broken_off(host, f"the body cannot be unpacked: {error}") from error


def _is_text(headers: Mapping[str, str]) -> bool:
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    return media_type.startswith("text/") or media_type in TEXTS


def _content_length(headers: Mapping[str, str]) -> int:
    length = headers.get("content-length", "")
    return int(length) if length.isdecimal() and len(length) <= MAX_DIGITS else 0
