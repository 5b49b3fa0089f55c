"""Keys, headers and hosts that an attacker would send, as bytes, to a door whose servers are unavailable.

Each gets one problem, or the end of the connection; nothing that is secret reaches a log.
"""

import logging
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from raw_requests import exchange
from remote_door import opening

from poweron_services.settings.config import Settings

pytestmark = pytest.mark.system

NAMED = "door.example.com"
PATH = b"/api/v1/workflows"
SECRET = "poweron_" + "Geheimnis" * 4 + "1234567"


@pytest.fixture
def unserved(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home", kafka="127.0.0.1:1", postgres="postgresql://nobody@127.0.0.1:1/nothing")


@pytest.fixture
async def port(unserved: Settings) -> AsyncGenerator[int, None]:
    async with opening(unserved, hosts=frozenset({NAMED})) as port:
        yield port


@pytest.fixture
async def near(unserved: Settings) -> AsyncGenerator[int, None]:
    """A door on loopback, where the user of the machine acts."""
    async with opening(unserved, is_local=True) as port:
        yield port


def get(*headers: str | bytes, target: bytes = PATH, method: bytes = b"GET", version: bytes = b"1.1") -> bytes:
    lines = [line.encode("latin-1") if isinstance(line, str) else line for line in headers]
    return b"\r\n".join([method + b" " + target + b" HTTP/" + version, *lines, b"", b""])


FOREIGN_HOSTS = [
    "Host: evil.example",
    "Host: evil.example:80",
    "Host: ",
    "Host: 127.0.0.1.evil.example",
    "Host: localhost.evil.example",
    "Host: localhost.",
    "Host: 127.0.0.1@evil.example",
    "Host: evil.example@127.0.0.1",
    "Host: 127.0.0.1:80@evil.example",
    "Host: 127.0.0.1/evil.example",
    "Host: 127.0.0.1?evil.example",
    "Host: 127.0.0.1#evil.example",
    "Host: 127.0.0.1 evil.example",
    "Host: 127.0.0.1,evil.example",
    "Host: 127.0.0.1:port",
    "Host: 127.0.0.1:999999",
    "Host: 127.1",
    "Host: 2130706433",
    "Host: 0x7f000001",
    "Host: 0177.0.0.1",
    "Host: 0.0.0.0",
    "Host: [::1",
    "Host: ::1",
    "Host: [::1]evil.example",
    "Host: [::1%25eth0]",
    "Host: [fe80::1]",
    "Host: [::ffff:10.0.0.1]",
    "Host: lоcalhost".encode(),  # noqa: RUF001 - a Cyrillic letter
    "Host: xn--lcalhost-2of",
    "Host: " + "a" * 300,
    "Host: door.example.com.evil.example",
    "Host: door.example.com\\@evil.example",
    "X-Forwarded-Host: localhost",
    "Host: evil.example\r\nX-Forwarded-Host: localhost",
    "Host: localhost\r\nHost: evil.example",
    "Host: evil.example\r\nHost: localhost",
]


@pytest.mark.parametrize("host", FOREIGN_HOSTS, ids=repr)
@pytest.mark.parametrize("version", [b"1.1", b"1.0"], ids=["1.1", "1.0"])
async def test_a_host_that_is_not_served_gets_one_problem(near: int, host: str | bytes, version: bytes) -> None:
    answer = await exchange(near, get(host, version=version))
    assert answer is not None
    if answer.status != 400:  # what the parser of HTTP itself refuses
        assert (answer.status, answer.code) == (421, "host_unknown")
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")


SERVED_HOSTS = ["127.0.0.1", "localhost", "LOCALHOST:8800", "[::1]", "[0:0:0:0:0:0:0:1]:8800", "[::ffff:127.0.0.1]"]


@pytest.mark.parametrize("host", SERVED_HOSTS)
async def test_every_spelling_of_this_machine_is_served(near: int, host: str) -> None:
    answer = await exchange(near, get(f"Host: {host}"))
    assert answer is not None
    assert (answer.status, answer.code) == (503, "unavailable")  # its servers are


async def test_a_further_name_is_served_but_needs_a_key_even_on_loopback(unserved: Settings) -> None:
    async with opening(unserved, is_local=True, hosts=frozenset({NAMED})) as port:
        answer = await exchange(port, get(f"Host: {NAMED.upper()}:443"))
    assert answer is not None
    assert (answer.status, answer.code) == (401, "key_missing")


@pytest.mark.parametrize("target", [b"http://evil.example/api/v1/workflows", b"//evil.example/api/v1/workflows"])
async def test_a_target_with_a_host_counts_by_the_header_alone(near: int, target: bytes) -> None:
    foreign = await exchange(near, get("Host: evil.example", target=target))
    assert foreign is not None
    assert (foreign.status, foreign.code) == (421, "host_unknown")


FOREIGN_PAGES = [
    "Origin: null",
    "Origin: ",
    "Origin: https://evil.example",
    "Origin: http://127.0.0.1.evil.example",
    "Origin: http://127.0.0.1:1",
    "Origin: http://127.0.0.1@evil.example",
    "Origin: http://evil.example#127.0.0.1",
    "Origin: file://",
    "Origin: ftp://127.0.0.1",
    "Origin: 127.0.0.1",
    "Origin: //127.0.0.1",
    "Origin: http://127.0.0.1/",
    "Origin: http://localhost",
    "Origin: http://127.0.0.1\r\nOrigin: https://evil.example",
    "Sec-Fetch-Site: cross-site",
    "Sec-Fetch-Site: same-site",
    "Sec-Fetch-Site: cross-site\r\nOrigin: http://127.0.0.1",
    "Sec-Fetch-Site: nonsense",
]


@pytest.mark.parametrize("page", FOREIGN_PAGES, ids=repr)
@pytest.mark.parametrize("method", [b"POST", b"PUT", b"DELETE", b"PATCH", b"TRACE"], ids=bytes.decode)
async def test_a_page_of_another_site_cannot_send_anything(near: int, page: str, method: bytes) -> None:
    answer = await exchange(near, get("Host: 127.0.0.1", page, "Content-Length: 0", method=method))
    assert answer is not None
    assert (answer.status, answer.code) == (403, "foreign_origin")


OWN_PAGES = [
    "Origin: http://127.0.0.1",
    "Origin: https://127.0.0.1",
    "Sec-Fetch-Site: same-origin",
    "Sec-Fetch-Site: none",
    "Accept: */*",
]


@pytest.mark.parametrize("page", OWN_PAGES)
async def test_a_page_of_the_door_and_a_program_can(near: int, page: str) -> None:
    answer = await exchange(near, get("Host: 127.0.0.1", page, "Content-Length: 0", method=b"POST"))
    assert answer is not None
    assert (answer.status, answer.code) == (503, "unavailable")


async def test_a_page_over_http_cannot_send_to_the_door_over_tls(near: int) -> None:
    forwarded = "X-Forwarded-Proto: https"
    plain = await exchange(near, get("Host: 127.0.0.1", forwarded, "Origin: http://127.0.0.1", method=b"POST"))
    secure = await exchange(near, get("Host: 127.0.0.1", forwarded, "Origin: https://127.0.0.1", method=b"POST"))
    assert plain is not None
    assert secure is not None
    assert (plain.code, secure.code) == ("foreign_origin", "key_missing")


async def test_a_foreign_page_may_link_to_a_page_but_embed_nothing(near: int) -> None:
    def fetched(mode: str, destination: str) -> bytes:
        site = "Sec-Fetch-Site: cross-site"
        return get("Host: 127.0.0.1", site, f"Sec-Fetch-Mode: {mode}", f"Sec-Fetch-Dest: {destination}")

    link = await exchange(near, fetched("navigate", "document"))
    assert link is not None
    assert link.code == "unavailable"
    for mode, destination in (("no-cors", "image"), ("cors", "empty"), ("navigate", "iframe"), ("no-cors", "script")):
        embedded = await exchange(near, fetched(mode, destination))
        assert embedded is not None
        assert (embedded.status, embedded.code) == (403, "foreign_origin")


async def test_only_behind_tls_are_browsers_told_to_insist_on_it(near: int) -> None:
    plain = await exchange(near, get("Host: 127.0.0.1"))
    secure = await exchange(near, get("Host: 127.0.0.1", "X-Forwarded-Proto: https"))
    assert plain is not None
    assert secure is not None
    assert "strict-transport-security" not in plain.headers
    assert secure.headers["strict-transport-security"] == "max-age=31536000"


BAD_KEYS = [
    ("", "key_missing"),
    ("Bearer", "key_missing"),
    ("Bearer ", "key_missing"),
    (SECRET, "key_missing"),
    (f"Basic {SECRET}", "key_missing"),
    (f"Token {SECRET}", "key_missing"),
    (f"Bearer {SECRET} x", "key_missing"),
    (f"Bearer {SECRET},{SECRET}", "key_unknown"),
    (f'Bearer "{SECRET}"', "key_unknown"),
    (f"Bearer {SECRET}x", "key_unknown"),
    (f"Bearer {SECRET[:-1]}", "key_unknown"),
    (f"Bearer {SECRET.upper()}", "key_unknown"),
    (f"Bearer {SECRET[:-1]}\xe9", "key_unknown"),
    (f"Bearer {SECRET[:-1]}'", "key_unknown"),
    (f"Bearer {SECRET[:-1]}%00", "key_unknown"),
    ("Bearer ' OR 1=1 --", "key_missing"),
    ("Bearer " + "x" * 10_000, "key_unknown"),
    (f"Bearer\t{SECRET}", "key_missing"),
    (f"Bearer {SECRET}\r\nAuthorization: Bearer {SECRET}", "key_missing"),
    (f"Bearer {SECRET}", "unavailable"),
    (f"bearer   {SECRET}", "unavailable"),
]


@pytest.mark.parametrize(("key", "code"), BAD_KEYS)
async def test_a_key_in_any_other_form_gets_one_problem_and_is_not_logged(
    port: int, key: str, code: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    answer = await exchange(port, get("Host: 127.0.0.1", f"Authorization: {key}"))
    assert answer is not None
    assert (answer.status, answer.code) == (503 if code == "unavailable" else 401, code)
    assert answer.headers.get("www-authenticate") == (None if code == "unavailable" else "Bearer")
    written = capfd.readouterr()
    for text in (answer.body.decode(), caplog.text, written.out, written.err):
        assert "geheimnis" not in text.lower()


async def test_neither_a_form_with_a_key_nor_a_cookie_is_logged_or_repeated(
    port: int, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    body = f"token=x&key={SECRET}&next=/".encode()
    head = get(
        "Host: 127.0.0.1",
        "Content-Type: application/x-www-form-urlencoded",
        f"Content-Length: {len(body)}",
        f"Cookie: __Host-poweron={SECRET}",
        method=b"POST",
        target=b"/login",
    )
    answer = await exchange(port, head + body)
    assert answer is not None
    assert (answer.status, answer.code) == (403, "form_outdated")
    written = capfd.readouterr()
    for text in (answer.body.decode(), caplog.text, written.out, written.err):
        assert "geheimnis" not in text.lower()


@pytest.mark.parametrize(
    "cookie", ["", "x", "0123456789abcdef", "0123456789abcdef.x.y", "=" * 4_000, "\xff", '"a.b.c"']
)
async def test_a_cookie_that_is_no_session_is_none(port: int, cookie: str) -> None:
    answer = await exchange(port, get("Host: 127.0.0.1", f"Cookie: __Host-poweron={cookie}"))
    assert answer is not None
    assert answer.code in ("key_missing", "unavailable")


async def test_a_form_of_a_stranger_is_not_read_beyond_a_few_bytes(port: int) -> None:
    head = get("Host: 127.0.0.1", "Content-Length: 100000000", method=b"POST", target=b"/login")
    answer = await exchange(port, head + b"x" * 20_000)
    assert answer is not None
    assert (answer.status, answer.code) == (413, "request_too_large")


@pytest.mark.parametrize("target", [b"*", b"", b"http://", b"/%", b"/%ff", b"/%00", b"/\xff", b"/..%2f..%2fetc/passwd"])
async def test_an_odd_target_does_not_hurt_the_door(near: int, target: bytes) -> None:
    odd = await exchange(near, get("Host: 127.0.0.1", target=target))
    assert odd is None or odd.status in (400, 404, 503)
    assert await exchange(near, get("Host: 127.0.0.1")) is not None
