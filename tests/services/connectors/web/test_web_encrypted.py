"""Pages over TLS: the name is what is checked, whichever IP address was connected to."""

import asyncio
from pathlib import Path

import pytest
from internet import PUBLIC, Internet, answer, client, http2, identity, leading, redirect, refusal, serving, web

PAGE = answer(b"<p>Good morning.</p>")


def at(server: asyncio.Server) -> Internet:
    return Internet(names={"a.example": [[PUBLIC]]}, places={PUBLIC: server.sockets[0].getsockname()[1]})


@pytest.mark.req("S11")
async def test_the_server_is_asked_for_the_name_and_has_to_prove_it(tmp_path: Path) -> None:
    known = identity(tmp_path, "a.example")
    async with serving(PAGE, tls=known.server) as server:
        async with client(leading(server, "a.example", "b.example"), tls=known.trusting) as asking:
            assert (await asking.get("https://a.example/")).status == 200
            other = await refusal(asking, "https://b.example/")
        async with client(leading(server, "a.example")) as asking:
            unknown = await refusal(asking, "https://a.example/")

    assert server.names == ["a.example", "b.example", "a.example"]
    assert b"host: a.example\r\n" in server.requests[0].lower()
    assert len(server.requests) == 1
    assert (other.code, unknown.code) == ("page_unavailable", "page_unavailable")
    assert str(other) == "b.example cannot be reached."
    assert "certificate" in other.detail


@pytest.mark.req("S13")
async def test_a_redirect_never_leads_to_where_nothing_is_encrypted(tmp_path: Path) -> None:
    known = identity(tmp_path, "a.example")
    async with (
        serving(redirect("http://a.example/"), tls=known.server) as server,
        client(internet := leading(server, "a.example"), tls=known.trusting) as asking,
    ):
        refused = await refusal(asking, "https://a.example/")
    assert (refused.code, internet.connections) == ("address_refused", [(PUBLIC, 443)])


async def test_pages_come_over_http_2_side_by_side(tmp_path: Path) -> None:
    known = identity(tmp_path, "a.example", protocols=["h2", "http/1.1"])
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await http2(reader, writer)

    async with (
        await asyncio.start_server(serve, "127.0.0.1", 0, ssl=known.server) as listening,
        client(at(listening), tls=known.trusting) as asking,
    ):
        pages = [await asking.get("https://a.example/0")]
        pages += await asyncio.gather(*(asking.get(f"https://a.example/{page}") for page in range(1, 20)))
    assert [page.body.decode() for page in pages] == [f"a.example/{page}" for page in range(20)]
    assert connections == 1


@pytest.mark.req("S16")
async def test_what_has_no_end_over_http_2_is_read_to_the_limit_and_others_go_on(tmp_path: Path) -> None:
    known = identity(tmp_path, "a.example", protocols=["h2"])

    async with (
        await asyncio.start_server(http2, "127.0.0.1", 0, ssl=known.server) as listening,
        client(at(listening), web(max_bytes=100_000), tls=known.trusting) as asking,
    ):
        pages = await asyncio.gather(*(asking.get(f"https://a.example/{page}") for page in ("long", 1, "long")))
        again = await asking.get("https://a.example/2")
        headers = await refusal(asking, "https://a.example/headers")
    assert [(len(page.body), page.truncated) for page in pages] == [(100_000, True), (11, False), (100_000, True)]
    assert again.body == b"a.example/2"
    assert headers.code in {"page_too_large", "page_unavailable"}


async def test_a_frame_of_http_2_that_holds_nothing_is_no_end_of_what_is_packed(tmp_path: Path) -> None:
    known = identity(tmp_path, "a.example", protocols=["h2"])
    async with (
        await asyncio.start_server(http2, "127.0.0.1", 0, ssl=known.server) as listening,
        client(at(listening), tls=known.trusting) as asking,
    ):
        assert (await asking.get("https://a.example/packed")).body == b"a.example/packed"


async def test_garbage_in_place_of_http_2_is_a_page_that_is_not_there(tmp_path: Path) -> None:
    known = identity(tmp_path, "a.example", protocols=["h2"])

    async def garbage(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"\x00\x00\x04\x08\xff" * 5_000)
        await writer.drain()
        await reader.read(1_000)
        writer.close()

    async with (
        await asyncio.start_server(garbage, "127.0.0.1", 0, ssl=known.server) as listening,
        client(at(listening), tls=known.trusting) as asking,
    ):
        assert (await refusal(asking, "https://a.example/")).code == "page_unavailable"


async def test_plain_text_in_place_of_tls_is_a_page_that_is_not_there() -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        writer.close()

    async with (
        await asyncio.start_server(plain, "127.0.0.1", 0) as listening,
        client(at(listening)) as asking,
    ):
        assert (await refusal(asking, "https://a.example/")).code == "page_unavailable"
