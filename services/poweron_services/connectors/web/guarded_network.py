"""Connections that go where was checked: a name is looked up once, and what was found is what is connected to."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

import httpcore2

from poweron_events.errors import Refused
from poweron_services.connectors.web.web_rules import IPAddress, WebRules

CONNECT_TIMEOUT = 5.0  # seconds, for each IP address
MAX_ADDRESSES = 4  # that are tried
LOOKUPS = 16  # at a time; one that nobody answers holds its thread for half a minute

Resolve = Callable[[str, int], Awaitable[list[str]]]
"""The IP addresses of a host; raises `OSError` where there are none."""


class SystemResolver:
    """Asks the resolver of this machine, in threads of its own."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(LOOKUPS, thread_name_prefix="lookup")

    async def __call__(self, host: str, port: int) -> list[str]:
        found = await asyncio.get_running_loop().run_in_executor(self._threads, _look_up, host, port)
        return list(dict.fromkeys(str(address[0]) for *_, address in found))

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def _look_up(host: str, port: int) -> list[tuple[int, int, int, str, tuple[str | int, ...]]]:
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)  # type: ignore[return-value] # enums are ints


class GuardedNetwork(httpcore2.AsyncNetworkBackend):
    """The network as an HTTP client sees it: every connection that it opens goes through `connect_tcp`."""

    def __init__(self, rules: WebRules, resolve: Resolve) -> None:
        self._rules = rules
        self._resolve = resolve
        self._network = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ARG002 - each IP address has its own
        local_address: str | None = None,  # noqa: ARG002 - nobody sets one
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        failure: Exception = httpcore2.ConnectError("no IP address")
        for address in (await self._addresses(host, port))[:MAX_ADDRESSES]:
            try:
                return await self._network.connect_tcp(str(address), port, CONNECT_TIMEOUT, None, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
        raise failure

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def _addresses(self, host: str, port: int) -> list[IPAddress]:
        try:
            found = await self._resolve(host, port)
        except (OSError, UnicodeError) as error:
            raise Refused(f"There is no {host}.", code="page_unavailable", detail=f"Looked up: {error}") from error
        return self._rules.check_ip(host, port, found)
