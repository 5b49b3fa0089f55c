"""A small internet on this machine: names, IP addresses that look public, and servers that send what they are told."""

import asyncio
import datetime as dt
import ssl
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpcore2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import RequestReceived

from poweron_events.errors import Refused
from poweron_services.connectors.web.web_client import WebClient, open_web_client
from poweron_services.connectors.web.web_rules import WebSettings
from poweron_services.settings.config import Settings

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
async def serving(*answers: bytes | Answering, tls: ssl.SSLContext | None = None) -> AsyncGenerator[RawServer, None]:
    """A server that gives one answer after the other, to whichever connection; the last one stays."""
    left = list(answers)
    server = RawServer(0)

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
        except (asyncio.IncompleteReadError, asyncio.CancelledError, OSError):
            pass  # the client has gone, or the test is over
        finally:
            writer.close()

    if tls is not None:
        tls.sni_callback = lambda _, name, __: server.names.append(name)
    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls) as listening:
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


# --- asking


def web(**settings: Any) -> WebSettings:
    return WebSettings.of(Settings(**{f"web_{name}": value for name, value in settings.items()}))


@asynccontextmanager
async def client(internet: Internet, settings: WebSettings | None = None, **more: Any) -> AsyncGenerator[WebClient]:
    async with open_web_client(settings or web(), resolve=internet.resolve, network=internet, **more) as opened:
        yield opened


async def refusal(client: WebClient, url: str, **more: Any) -> Refused:
    with pytest.raises(Refused) as refused:
        await client.get(url, **more)
    return refused.value


def leading(server: RawServer, *names: str) -> Internet:
    """An internet in which these names lead to a public address, at which the server is."""
    return Internet(names={name: [[PUBLIC]] for name in names}, places={PUBLIC: server.port})


# --- encrypted


@dataclass(frozen=True)
class Identity:
    """A certificate for names, as the server and whoever trusts it have it."""

    server: ssl.SSLContext
    trusting: ssl.SSLContext


def identity(folder: Path, *names: str, protocols: Sequence[str] = ("http/1.1",)) -> Identity:
    """A server that is who it says it is, of these names and of no other."""
    key, today = ec.generate_private_key(ec.SECP256R1()), dt.datetime.now(dt.UTC)
    named = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "PowerOn tests")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(named)
        .issuer_name(named)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(today - dt.timedelta(days=1))
        .not_valid_after(today + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical=False)
        .sign(key, hashes.SHA256())
        .public_bytes(Encoding.PEM)
    )
    (folder / "certificate.pem").write_bytes(certificate)
    (folder / "key.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
    server.set_alpn_protocols(list(protocols))
    return Identity(server, ssl.create_default_context(cadata=certificate.decode()))


async def http2(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Speaks HTTP/2, and answers a request with its host and path: of `/long` often, and without an end, of
    `/headers` with ten thousand headers, of `/packed` deflated, behind a frame that holds nothing.
    """
    connection = H2Connection(H2Configuration(client_side=False))
    connection.initiate_connection()
    while True:
        writer.write(connection.data_to_send())
        await writer.drain()
        if not (data := await reader.read(65_536)):
            break
        for event in connection.receive_data(data):
            if isinstance(event, RequestReceived):
                asked = {name.decode(): value.decode() for name, value in event.headers}
                path, said = asked[":path"], (asked[":authority"] + asked[":path"]).encode()
                more = [(f"x-{number}", "y" * 20) for number in range(10_000 if path == "/headers" else 0)]
                if path == "/packed":
                    more, said = [("content-encoding", "deflate")], zlib.compress(said)
                connection.send_headers(event.stream_id, [(":status", "200"), ("content-type", "text/html"), *more])
                if path == "/packed":
                    connection.send_data(event.stream_id, b"")
                for _ in range(20 if path == "/long" else 0):
                    connection.send_data(event.stream_id, said * 1_000)
                if path != "/long":
                    connection.send_data(event.stream_id, said, end_stream=True)
    writer.close()
