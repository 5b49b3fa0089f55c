"""A witness over HTTP: the client of the ledger and the server agree, and what is too large or too slow is not read."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from witness_requests import LOG, PUBLIC, request, witness_at

from poweron_events.errors import Refused, Unavailable
from poweron_events.task_cancellation import cancel_task
from poweron_projections.audit.checkpoint_witness import Witness
from poweron_projections.audit.ledger_witnesses import WitnessEndpoint
from poweron_projections.audit.tlog_policy import TlogPolicy
from poweron_services.client.witness_client import witnesses_of
from poweron_services.settings.config import Settings
from poweron_services.settings.ledger_policy import ledger_policy
from poweron_services.witness import witness_server
from poweron_services.witness.witness_server import listening_at, serve_witness


@asynccontextmanager
async def _served(witness: Witness) -> AsyncGenerator[int, None]:
    """Serve the witness, and give its port."""
    sock = listening_at("127.0.0.1", 0)
    port = sock.getsockname()[1]
    task = asyncio.create_task(serve_witness(witness, sock))
    try:
        yield port
    finally:
        await cancel_task(task)


@asynccontextmanager
async def _asked(port: int) -> AsyncGenerator[WitnessEndpoint, None]:
    """The client of a ledger whose policy names the witness with both keys, and one that cannot be asked."""
    lines = [f"witness {key.algorithm} {key} http://127.0.0.1:{port}/\n" for key in PUBLIC]
    async with witnesses_of(TlogPolicy.parse(f"{''.join(lines)}quorum {PUBLIC[0].algorithm}\n".encode())) as witnesses:
        (endpoint,) = witnesses.endpoints
        yield endpoint


async def _raw(port: int, data: bytes) -> bytes:
    """What the server answers to these bytes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    await writer.drain()
    answer = await reader.read(2_000)
    writer.close()
    return answer


def _head(length: int, path: str = "/add-checkpoint", method: str = "POST") -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: w\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n".encode()


async def test_a_ledger_is_cosigned_over_http(tmp_path: Path) -> None:
    witness = witness_at(tmp_path)
    async with _served(witness) as port, _asked(port) as endpoint:
        assert (endpoint.name, [*endpoint.keys]) == (f"http://127.0.0.1:{port}", PUBLIC)
        answers = [await endpoint.add_checkpoint(bytes(each)) for each in (request(0, 5), request(0, 8), request(5, 8))]
        assert [(answer.status, answer.known_size) for answer in answers] == [(200, None), (409, 5), (200, None)]
        assert answers[0].body.decode().count("— witness.example/w1 ") == 2
        assert (await endpoint.add_checkpoint(bytes(request(8, 9, other=True)))).status == 422
    assert witness.known_size(LOG.name) == 8


async def test_of_requests_at_the_same_time_one_is_cosigned(tmp_path: Path) -> None:
    async with _served(witness_at(tmp_path)) as port, _asked(port) as endpoint:
        asked = [endpoint.add_checkpoint(bytes(request(0, size))) for size in (5, 6, 7, 8)]
        assert sorted(answer.status for answer in await asyncio.gather(*asked)) == [200, 409, 409, 409]


async def test_the_size_has_the_type_that_other_clients_look_for(tmp_path: Path) -> None:
    witness = witness_at(tmp_path)
    witness.cosign(request(0, 5))
    body = bytes(request(3, 5))
    async with _served(witness) as port:
        answer = await _raw(port, _head(len(body)) + body)
    assert answer.startswith(b"HTTP/1.1 409 ")
    assert b"\r\ncontent-type: text/x.tlog.size\r\n" in answer.lower()
    assert answer.endswith(b"\r\n\r\n5\n")


async def test_what_is_too_large_too_slow_or_something_else_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(witness_server, "READ_WITHIN", 0.1)
    async with _served(witness_at(tmp_path)) as port:
        size = witness_server.MAX_BODY + 1
        assert (await _raw(port, _head(size) + bytes(size))).startswith(b"HTTP/1.1 413 ")
        assert (await _raw(port, _head(10) + b"old")).startswith(b"HTTP/1.1 408 ")
        assert (await _raw(port, _head(0, path="/"))).startswith(b"HTTP/1.1 404 ")
        assert (await _raw(port, _head(0, method="GET"))).startswith(b"HTTP/1.1 405 ")


async def test_a_witness_that_cannot_write_cosigns_nothing(tmp_path: Path) -> None:
    broken = tmp_path / "file"
    broken.write_text("no folder")
    async with _served(witness_at(broken)) as port, _asked(port) as endpoint:
        assert (await endpoint.add_checkpoint(bytes(request(0, 5)))).status == 500


async def test_a_witness_that_is_not_there_is_unavailable() -> None:
    sock = listening_at("127.0.0.1", 0)
    port = sock.getsockname()[1]
    with pytest.raises(Refused, match="cannot listen"):
        listening_at("127.0.0.1", port)
    sock.close()
    async with _asked(port) as endpoint:
        with pytest.raises(Unavailable, match="cannot be reached"):
            await endpoint.add_checkpoint(b"")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, "cannot be read"),
        ("quorum w", "Line 1 of the policy"),
        (f"witness w {PUBLIC[0]} ftp://w.example\nquorum w", "is not a URL"),
    ],
)
def test_a_policy_that_cannot_be_used_is_refused_at_the_start(tmp_path: Path, text: str | None, sentence: str) -> None:
    path = tmp_path / "policy"
    if text is not None:
        path.write_text(f"{text}\n")
    with pytest.raises(Refused, match=sentence):
        ledger_policy(Settings(ledger_policy=path))
    assert ledger_policy(Settings(ledger_policy=None)) is None
