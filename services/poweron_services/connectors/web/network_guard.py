"""Connections to checked IP addresses only: the guard resolves a name once and connects to the checked result."""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from ipaddress import ip_address
from typing import Any, Final

import httpcore2

from poweron_events.errors import Refused
from poweron_services.connectors.web.web_rules import IPAddress, WebRules

CONNECT_TIMEOUT: Final = 5.0  # seconds, for each IP address
MAX_ADDRESSES: Final = 4  # IP addresses of one host that are tried
LOOKUPS: Final = 16  # at a time; an unanswered one blocks its thread for half a minute
READ_AT_ONCE: Final = 4_096  # bytes, after which other tasks can run

Resolve = Callable[[str, int], Awaitable[list[str]]]
"""Returns the IP addresses of a host; raises `OSError` if there are none."""

_BYTES_LEFT: ContextVar[list[int] | None] = ContextVar("left", default=None)


class BodyTooLarge(Exception):
    """A server sent more than may be read."""


@contextmanager
def reading_at_most(size: int) -> Generator[None, None, None]:
    """Limit the bytes read from a connection within the context, including headers and chunk framing.

    The limit does not apply to HTTP/2: its requests share a connection, so their bytes cannot be distinguished.
    """
    token = _BYTES_LEFT.set([size])
    try:
        yield
    finally:
        _BYTES_LEFT.reset(token)


class SystemResolver:
    """Asks the resolver of this machine, in its own threads."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(LOOKUPS, thread_name_prefix="lookup")

    async def __call__(self, host: str, port: int) -> list[str]:
        return await asyncio.get_running_loop().run_in_executor(self._threads, _look_up, host, port)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def _look_up(host: str, port: int) -> list[str]:
    results = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in results))


class GuardedNetwork(httpcore2.AsyncNetworkBackend):
    """The network backend of an HTTP client, which opens every connection through `connect_tcp`."""

    def __init__(self, rules: WebRules, resolve: Resolve, network: httpcore2.AsyncNetworkBackend) -> None:
        self._rules = rules
        self._resolve = resolve
        self._network = network

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ARG002 - each IP address has its own
        local_address: str | None = None,  # noqa: ARG002 - no caller sets one
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        failure: Exception = httpcore2.ConnectError("no IP address")
        for address in (await self._addresses(host, port))[:MAX_ADDRESSES]:
            try:
                stream = await self._network.connect_tcp(str(address), port, CONNECT_TIMEOUT, None, socket_options)
                return _BoundedStream(stream)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
        raise failure

    async def sleep(self, seconds: float) -> None:
        await self._network.sleep(seconds)

    async def _addresses(self, host: str, port: int) -> list[IPAddress]:
        if _is_ip(host):
            return self._rules.check_ip(host, port, [host])
        try:
            addresses = await self._resolve(host, port)
        except (OSError, UnicodeError) as error:
            detail = f"Looking up {host} failed: {error}."
            raise Refused(f"There is no host named {host}.", code="page_unavailable", detail=detail) from error
        return self._rules.check_ip(host, port, addresses)


def _is_ip(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


class _BoundedStream(httpcore2.AsyncNetworkStream):
    """A connection that reads little at once and enforces `reading_at_most`."""

    def __init__(self, stream: httpcore2.AsyncNetworkStream) -> None:
        self._stream = stream
        tls: ssl.SSLObject | None = stream.get_extra_info("ssl_object")
        self._shared = tls is not None and tls.selected_alpn_protocol() == "h2"

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        data = await self._stream.read(min(max_bytes, READ_AT_ONCE), timeout)
        if (left := _BYTES_LEFT.get()) is not None and not self._shared:
            left[0] -= len(data)
            if left[0] < 0:
                raise BodyTooLarge("more bytes were sent than are allowed besides a body")
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.AsyncNetworkStream:
        return _BoundedStream(await self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)
