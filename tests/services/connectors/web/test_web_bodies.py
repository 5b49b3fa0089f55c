"""What servers send, however they send it, costs bounded memory and time, and ends in a page or in a sentence."""

import asyncio
import gzip
import time
import tracemalloc
import zlib
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from internet import PUBLIC, Answering, Internet, answer, client, leading, redirect, refusal, serving, web
from processor_time import slowness

from poweron_services.connectors.web.web_client import WebResponse

URL = "http://a.example/"
SMALL = {"max_bytes": 100_000, "timeout": 20}
SPARSE = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n"
GREETING = b"Good morning"
TYPED = b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\n\r\n"


async def fetched(*answers: bytes | Answering, **settings: float) -> WebResponse:
    async with serving(*answers) as server, client(leading(server, "a.example"), web(**SMALL | settings)) as asking:
        return await asking.get(URL)


async def refused(*answers: bytes | Answering, **settings: float) -> str:
    """The code, where a server answers so."""
    async with serving(*answers) as server, client(leading(server, "a.example"), web(**SMALL | settings)) as asking:
        error = await refusal(asking, URL)
        assert str(error).startswith("a.example ")
        assert str(error).endswith(".")
        return error.code


def endless(head: bytes, piece: bytes, pause: float = 0) -> Answering:
    """Sends the head, and then the same piece until the client is tired of it."""

    async def send(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        while True:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(pause)

    return send


def packed(body: bytes, coding: str = "gzip", media_type: str = "text/html") -> bytes:
    return answer(body, Content_Encoding=coding, Content_Type=media_type)


# --- too much


@pytest.mark.req("S16", "X-02")
@pytest.mark.parametrize("head", [SPARSE, TYPED % b"text/html", TYPED % b"text/plain", b"HTTP/1.0 200 OK\r\n\r\n"])
async def test_a_text_without_end_is_read_to_the_limit(head: bytes) -> None:
    piece = b"2000\r\n" + b"x" * 0x2000 + b"\r\n" if head == SPARSE else b"x" * 8_192
    page = await fetched(endless(head, piece))
    assert (page.body, page.truncated) == (b"x" * 100_000, True)


@pytest.mark.req("S16")
@pytest.mark.parametrize("media_type", [b"application/pdf", b"application/json", b"image/png"])
async def test_of_what_is_no_text_a_part_is_of_no_use(media_type: bytes) -> None:
    assert await refused(endless(TYPED % media_type, b"x" * 8_192)) == "page_too_large"


async def test_what_announces_too_much_is_not_read_at_all() -> None:
    head = TYPED.replace(b"\r\n\r\n", b"\r\nContent-Length: 100001\r\n\r\n") % b"application/pdf"
    assert await refused(endless(head, b"", pause=0.01)) == "page_too_large"


@pytest.mark.req("S16")
@pytest.mark.parametrize(
    "answering",
    [
        endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 500),
        endless(SPARSE, b"1;" + b"e" * 10_000 + b"\r\nx\r\n"),
        answer(b"x", **{f"X-{number}": "y" for number in range(10_000)}),
        answer(b"x", X="y" * 1_000_000),
        answer(b"x", **{f"X-{number}": "y" for number in range(501)}),
        endless(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n" * 100),
    ],
    ids=["informational", "between chunks", "10,000 headers", "a long header", "501 headers", "endless headers"],
)
async def test_what_is_sent_beside_a_body_is_bounded_too(answering: bytes | Answering) -> None:
    assert await refused(answering) in {"page_too_large", "page_unavailable"}


# --- packed


@pytest.mark.parametrize(
    ("body", "coding"),
    [
        (gzip.compress(b"Good morning", mtime=0), "gzip"),
        (gzip.compress(b"Good morning", mtime=0), "X-GZIP, identity"),
        (gzip.compress(b"Good ", mtime=0) + gzip.compress(b"morning", mtime=0), "gzip"),
        (gzip.compress(b"Good morning", mtime=0) + b"\0" * 100, "gzip"),
        (zlib.compress(b"Good morning"), "deflate"),
        (zlib.compress(b"Good morning", wbits=-15), "deflate"),
        (b"Good morning", "identity"),
    ],
    ids=["gzip", "two codings", "two members", "zeros behind it", "zlib", "bare deflate", "nothing"],
)
async def test_what_is_packed_is_unpacked(body: bytes, coding: str) -> None:
    assert (await fetched(packed(body, coding))).body == b"Good morning"
    bit_by_bit = [bytes([byte]) for byte in body]

    async def drop_by_drop(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer(Content_Encoding=coding, Content_Length=len(body)))
        for byte in bit_by_bit:
            writer.write(byte)
            await writer.drain()
            await asyncio.sleep(0)

    assert (await fetched(drop_by_drop)).body == b"Good morning"


@pytest.mark.req("S16", "X-02")
@pytest.mark.parametrize("coding", ["gzip", "deflate"])
@pytest.mark.parametrize("media_type", ["text/html", "application/pdf"])
async def test_a_bomb_is_dropped_before_it_fills_the_memory(coding: str, media_type: str) -> None:
    stream = zlib.compressobj(9, wbits=31 if coding == "gzip" else 15)
    bomb = b"".join(stream.compress(bytes(1_000_000)) for _ in range(60)) + stream.flush()
    async with (
        serving(packed(bomb, coding, media_type)) as server,
        client(leading(server, "a.example"), web(max_bytes=50_000_000)) as asking,
    ):
        tracemalloc.start()
        error = await refusal(asking, URL)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert error.code == "page_too_large"
    assert peak < 20_000_000  # of 60 MB


@pytest.mark.parametrize(
    ("body", "coding"),
    [
        (b"Good morning", "gzip, gzip, gzip, gzip"),
        (b"Good morning", "br"),
        (b"Good morning", "gzip"),
        (b"Good morning", "deflate"),
        (gzip.compress(b"Good morning" * 1_000, mtime=0)[:-9], "gzip"),
        (zlib.compress(b"Good morning" * 1_000)[:-1], "deflate"),
        (gzip.compress(b"Good morning", mtime=0)[:-8] + b"checksum", "gzip"),
    ],
    ids=["four times", "unknown", "no gzip", "no zlib", "half a gzip", "half a zlib", "a wrong checksum"],
)
async def test_what_cannot_be_unpacked_is_damaged(body: bytes, coding: str) -> None:
    assert await refused(packed(body, coding)) == "page_unavailable"


@pytest.mark.parametrize(
    ("body", "coding"),
    [
        (GREETING, "none"),
        (GREETING, "UTF-8"),
        (gzip.compress(gzip.compress(GREETING, mtime=0), mtime=0), "gzip, gzip"),
        (gzip.compress(zlib.compress(GREETING), mtime=0), "deflate, identity, gzip"),
    ],
)
async def test_what_servers_say_of_a_packing_is_undone_in_its_order(body: bytes, coding: str) -> None:
    assert (await fetched(packed(body, coding))).body == GREETING


async def test_a_bomb_within_another_is_not_unpacked() -> None:
    bomb = gzip.compress(gzip.compress(bytes(80_000_000)))
    assert await refused(packed(bomb, "gzip, gzip", "image/png"), max_bytes=90_000_000) == "page_too_large"


async def test_a_file_that_is_packed_itself_stays_packed() -> None:
    inner = gzip.compress(bytes(10_000_000))
    page = await fetched(packed(gzip.compress(inner, mtime=0), media_type="application/gzip"))
    assert page.body == inner


async def test_what_unpacks_to_nothing_without_end_is_bounded() -> None:
    stream = zlib.compressobj(wbits=31)
    start, nothing = stream.compress(b"x") + stream.flush(zlib.Z_FULL_FLUSH), stream.flush(zlib.Z_FULL_FLUSH)
    nothing = nothing or b"\x00\x00\x00\xff\xff"
    head = (TYPED % b"text/html").replace(b"\r\n\r\n", b"\r\nContent-Encoding: gzip\r\n\r\n")
    page = await fetched(endless(head + start, nothing * 2_000))
    assert (page.body, page.truncated) == (b"x", True)


# --- slow, and broken


async def late_redirect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Redirects to itself, each time after less than a page may take."""
    await asyncio.sleep(0.2)
    writer.write(redirect("/"))
    await writer.drain()


@pytest.mark.req("S16", "X-02")
@pytest.mark.parametrize(
    "answering",
    [
        endless(b"", b"", pause=0.01),
        endless(b"HTTP/1.1 200 OK\r\nX: ", b"y", pause=0.01),
        endless(TYPED % b"text/html", b"x", pause=0.01),
        endless(b"HTTP/1.1 302 Found\r\nLocation: /\r\n\r\n", b"x", pause=0.01),
        late_redirect,
    ],
    ids=["silent", "slow headers", "slow body", "slow redirect", "late redirects"],
)
async def test_a_slow_server_has_one_deadline_for_everything(answering: bytes | Answering) -> None:
    began = time.monotonic()
    assert await refused(answering, timeout=0.5) == "page_timeout"
    assert time.monotonic() - began < 2


async def test_waiting_before_a_hop_takes_none_of_the_servers_time() -> None:
    async def wait(_: object) -> None:
        await asyncio.sleep(0.2)

    async with (
        serving(answer(status="302 Found", Location="/2"), answer(b"x")) as server,
        client(leading(server, "a.example"), web(timeout=0.3)) as asking,
    ):
        assert (await asking.get(URL, before_hop=wait)).status == 200


@pytest.mark.parametrize("media_type", [b"text/html", b"application/pdf"])
async def test_a_body_shorter_than_announced_is_no_whole_page(media_type: bytes) -> None:
    head = (TYPED % media_type).replace(b"\r\n\r\n", b"\r\nContent-Length: 100\r\n\r\n")

    async def broken_off(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(head + b"Good morning")
        await writer.drain()

    assert await refused(broken_off) == "page_unavailable"


async def test_a_body_longer_than_announced_ends_where_it_was_announced() -> None:
    async with (
        serving(answer(b"Good morning", Content_Length=4), answer(b"the next one")) as server,
        client(leading(server, "a.example")) as asking,
    ):
        first = await asking.get(URL)
        try:
            second = (await asking.get(URL)).body
        except Exception as error:  # noqa: BLE001 - whichever it is, it must be ours
            second = getattr(error, "code", repr(error)).encode()
    assert first.body == b"Good"
    assert second in {b"the next one", b"page_unavailable"}


@pytest.mark.parametrize("charset", ["utf-8", "no-such-charset", "\xfc", "utf-16; charset=latin1", "x" * 5_000])
async def test_a_charset_that_is_wrong_changes_no_byte(charset: str) -> None:
    body = "Füße\udcff".encode("utf-8", "surrogateescape")
    page = await fetched(answer(body, Content_Type=f"text/html; charset={charset}"))
    assert page.body == body


async def test_100_000_divs_are_a_page() -> None:
    body = b"<div>" * 100_000
    assert (await fetched(packed(gzip.compress(body, mtime=0)), max_bytes=1_000_000)).body == body


def test_whatever_bytes_a_server_sends_a_page_or_a_sentence_comes_of_it() -> None:
    pieces = st.sampled_from(
        [
            *(b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 ", b"HTTP/9.9 999 \r\n", b"\r\n", b"\r\n\r\n", b"\n", b": ", b"\x00"),
            *(b"Content-Length: 5\r\n", b"Content-Length: -1\r\n", b"Content-Length: 5, 6\r\n", b"Location: /\r\n"),
            *(b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: gzip, chunked\r\n", b"5\r\nhello\r\n0\r\n\r\n"),
            *(b"Content-Encoding: gzip\r\n", b"Content-Encoding: deflate\r\n", b"ffffffffffffffff\r\n", b"\xff\xfe"),
            *(
                b"HTTP/1.1 302 Found\r\nLocation: //\r\n",
                b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
                b"HTTP/1.1 204 x",
            ),
        ]
    )
    with asyncio.Runner() as runner:
        sent = [b""]

        async def send(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(sent[0])
            await writer.drain()
            writer.close()

        server = runner.run(asyncio.start_server(send, "127.0.0.1", 0))
        internet = Internet(names={"a.example": [[PUBLIC]]}, places={PUBLIC: server.sockets[0].getsockname()[1]})
        opening = client(internet, web(timeout=5))
        asking = runner.run(opening.__aenter__())

        @settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
        @given(st.lists(st.one_of(pieces, st.binary(max_size=20)), max_size=12).map(b"".join))
        def ends(answered: bytes) -> None:
            sent[0] = answered
            try:
                runner.run(asking.get(URL))
            except Exception as error:  # noqa: BLE001 - whichever it is, it must be ours
                assert getattr(error, "code", repr(error)) in {  # noqa: PT017 - an answer is fine, too
                    "address_refused",
                    "page_timeout",
                    "page_too_large",
                    "page_unavailable",
                }

        ends()
        runner.run(opening.__aexit__(None, None, None))
        server.close()


# --- the event loop goes on


@pytest.mark.req("S16")
@pytest.mark.parametrize(
    "answering",
    [
        endless(SPARSE, b"1\r\nx\r\n" * 5_000),
        endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 5_000),
    ],
    ids=["tiny chunks", "informational"],
)
async def test_others_have_their_turn_while_a_server_sends_what_is_much_work(answering: bytes | Answering) -> None:
    ticks: list[float] = []

    async def tick() -> None:
        while True:
            ticks.append(time.process_time())
            await asyncio.sleep(0.001)

    async with asyncio.TaskGroup() as group:
        ticking = group.create_task(tick())
        async with (
            serving(answering) as server,
            client(leading(server, "a.example"), web(max_bytes=20_000_000, timeout=2)) as asking,
        ):
            try:
                await asking.get(URL)
            except Exception as error:  # noqa: BLE001 - whichever it is, it must be ours
                assert getattr(error, "code", repr(error)) in {"page_timeout", "page_too_large"}  # noqa: PT017
        ticking.cancel()
    waited = sorted(after - before for before, after in pairwise(ticks))
    assert waited[len(waited) // 2] < 0.03 * slowness()  # it was 0.07 and 0.17
