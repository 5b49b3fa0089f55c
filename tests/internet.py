"""A small internet on this machine: names, IP addresses that look public, and servers that send what they are told."""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpcore2

PUBLIC = "93.184.215.14"
OTHER = "2606:2800:21f:cb07:6820:80da:af6b:8b2c"

Answering = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Internet(httpcore2.AsyncNetworkBackend):
    """Leads from names to IP addresses, and from these to servers of this machine; remembers who asked for what."""

    names: dict[str, list[list[str]]] = field(default_factory=dict)
    """What a name leads to at its first lookup, at its second, and so on; the last one stays."""
    places: dict[str, int] = field(default_factory=dict)
    """The port of this machine that stands for an IP address; any other one is this machine's own."""
    lookups: list[str] = field(default_factory=list)
    connections: list[tuple[str, int]] = field(default_factory=list)

    async def resolve(self, host: str, port: int) -> list[str]:
        self.lookups.append(host)
        if host not in self.names:
            raise OSError(f"no {host}")
        answers = self.names[host]
        return answers.pop(0) if len(answers) > 1 else answers[0]

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        self.connections.append((host, port))
        to = ("127.0.0.1", self.places[host]) if host in self.places else (host, port)
        return await httpcore2.AnyIOBackend().connect_tcp(*to, timeout=timeout)


@dataclass
class RawServer:
    """A server that sends bytes as they are, and counts who came."""

    port: int
    requests: list[bytes] = field(default_factory=list)
    connections: int = 0
    names: list[str | None] = field(default_factory=list)
    """Those that clients gave as they began to encrypt."""


@asynccontextmanager
async def serving(
    *answers: bytes | Answering, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1", port: int = 0
) -> AsyncGenerator[RawServer, None]:
    """A server that gives one answer after the other, to whichever connection; the last one stays."""
    left = list(answers)
    server = RawServer(port)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server.connections += 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                server.requests.append(head)
                answer = left.pop(0) if len(left) > 1 else left[0]
                if isinstance(answer, bytes):
                    writer.write(answer)
                    await writer.drain()
                else:
                    await answer(reader, writer)
                if not isinstance(answer, bytes) or b"Content-Length" not in answer:
                    break
        except (asyncio.IncompleteReadError, OSError):
            pass  # the client has gone
        finally:
            writer.close()

    if tls is not None:
        tls.sni_callback = lambda _, name, __: server.names.append(name)
    async with await asyncio.start_server(serve, host, port, ssl=tls) as listening:
        server.port = listening.sockets[0].getsockname()[1]
        yield server


def answer(body: bytes = b"", status: str = "200 OK", **headers: Any) -> bytes:
    """A whole answer of HTTP/1.1; header names with `_` in place of `-`."""
    given = {"Content-Type": "text/html", "Content-Length": len(body)}
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = "".join(f"{name}: {value}\r\n" for name, value in given.items())
    return f"HTTP/1.1 {status}\r\n{lines}\r\n".encode() + body


def redirect(to: str, status: str = "302 Found") -> bytes:
    return answer(status=status, Location=to)
