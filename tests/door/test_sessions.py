"""Sessions of pages: a key becomes a cookie, forms prove that they belong to it, and both end with the key."""

import asyncio
import re
import stat
import time
from collections.abc import AsyncGenerator
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any

import httpx2
import pytest
from lxml import html as lxml_html
from remote_door import LIST, RemoteDoor, code, remote

from poweron_projections.access_keys import revoke_key
from poweron_services.door.door_secret import FILE, DoorSecret
from poweron_services.door.session_cookies import COOKIE, TOKEN_HEADER
from poweron_services.settings.config import Settings

pytestmark = pytest.mark.system

HTML = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


@pytest.fixture
async def far(door_settings: Settings) -> AsyncGenerator[RemoteDoor, None]:
    async with remote(door_settings) as door:
        yield door


class Browser:
    """Sends the cookie that it was given, as a browser does over TLS or on loopback."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self._http = http
        self.cookie = ""

    async def get(self, path: str) -> httpx2.Response:
        return self._kept(await self._http.get(path, headers=self._headers))

    async def post(self, path: str, **fields: str) -> httpx2.Response:
        return self._kept(await self._http.post(path, data=fields, headers=self._headers))

    async def token(self, path: str = "/login") -> str:
        found = re.search(r'name="token" value="([0-9a-f]{64})"', (await self.get(path)).text)
        assert found
        return found[1]

    async def log_in(self, key: str, following: str = "/") -> httpx2.Response:
        return await self.post("/login", token=await self.token(), key=key, next=following)

    @property
    def _headers(self) -> dict[str, str]:
        return {**HTML, **({"Cookie": f"{COOKIE}={self.cookie}"} if self.cookie else {})}

    def _kept(self, response: httpx2.Response) -> httpx2.Response:
        for line in response.headers.get_list("set-cookie"):
            self.cookie = SimpleCookie(line)[COOKIE].value
        return response


async def test_a_person_is_sent_to_the_form_enters_a_key_and_comes_back_to_the_page(far: RemoteDoor) -> None:
    browser = Browser(far.http)
    sent = await browser.get("/w/8f14e45f-ceea-567a-8f14-e45fceea167a?tab=log")
    assert sent.status_code == 303
    assert sent.headers["location"] == "/login?next=/w/8f14e45f-ceea-567a-8f14-e45fceea167a%3Ftab%3Dlog"
    shown = (await browser.get(sent.headers["location"])).text
    assert 'value="/w/8f14e45f-ceea-567a-8f14-e45fceea167a?tab=log"' in shown
    entered = await browser.log_in(await far.key("ada", "read"), "/w/8f14e45f-ceea-567a-8f14-e45fceea167a")
    assert (entered.status_code, entered.headers["location"]) == (303, "/w/8f14e45f-ceea-567a-8f14-e45fceea167a")
    attributes = {part.strip().lower() for part in entered.headers["set-cookie"].split(";")[1:]}
    assert attributes == {"httponly", "max-age=43200", "path=/", "samesite=strict", "secure"}
    assert (await browser.get("/")).status_code == 200
    assert (await browser.get(LIST)).status_code == 200


async def test_a_wrong_key_is_explained_in_the_form_and_not_repeated(far: RemoteDoor) -> None:
    browser = Browser(far.http)
    refused = await browser.log_in("poweron_wrong")
    assert refused.status_code == 401
    assert "This door does not know the key. Check the key;" in refused.text
    assert "poweron_wrong" not in refused.text
    assert browser.cookie == ""


ELSEWHERE = [
    "https://evil.example",
    "//evil.example",
    "/\\evil.example",
    "/a\nb",
    "javascript:alert(1)",
    "",
    "/login",
    "a",
]


async def test_the_form_leads_to_no_other_site(far: RemoteDoor) -> None:
    key = await far.key()
    for following in ELSEWHERE:
        assert (await Browser(far.http).log_in(key, following)).headers["location"] == "/"


async def test_a_session_outlives_a_restart_and_ends_with_its_key(door_settings: Settings) -> None:
    async with remote(door_settings) as door:
        before = Browser(door.http)
        await before.log_in(await door.key("ada", "read"))
        token = await before.token()
    async with remote(door_settings) as door:
        browser = Browser(door.http)
        browser.cookie = before.cookie
        assert (await browser.get("/")).status_code == 200
        assert await browser.token() == token
        await revoke_key(door.pool, "ada", revoked_by="root")
        revoked = time.monotonic()
        while (await browser.get("/")).status_code == 200:  # noqa: ASYNC110 - the door looks at the keys now and then
            await asyncio.sleep(0.05)  # faster requests than these are refused as too many
        assert time.monotonic() - revoked < 5
        assert (await browser.get("/")).headers["location"] == "/login?next=/"


async def test_another_door_does_not_take_the_session(door_settings: Settings, tmp_path: Path) -> None:
    async with remote(door_settings) as door:
        browser = Browser(door.http)
        await browser.log_in(await door.key("ada", "read"))
    async with remote(door_settings.model_copy(update={"home": tmp_path / "other"})) as door:
        elsewhere = Browser(door.http)
        elsewhere.cookie = browser.cookie
        assert (await elsewhere.get("/")).status_code == 303


async def test_a_form_counts_only_with_the_token_of_its_session(far: RemoteDoor) -> None:
    ada, eve = Browser(far.http), Browser(far.http)
    await ada.log_in(await far.key("ada", "read"))
    await eve.log_in(await far.key("eve", "read"))
    for token in ("", "x", "é", await eve.token(), await Browser(far.http).token()):
        refused = await ada.post("/logout", token=token)
        assert refused.status_code == 403
        assert "Load the page again and send the form once more." in refused.text
    assert (await ada.get("/")).status_code == 200
    out = await ada.post("/logout", token=await ada.token())
    assert (out.status_code, out.headers["location"], ada.cookie) == (303, "/login", "")
    assert (await ada.get("/")).status_code == 303


async def test_the_button_on_each_page_of_a_session_logs_out(far: RemoteDoor) -> None:
    browser = Browser(far.http)
    assert log_out_form(await browser.get("/login")) is None
    key = await far.key("ada")
    for path in ("/", "/approvals", "/operations", "/problems/key_missing", "/nothing/here"):
        await browser.log_in(key)
        page = await browser.get(path)
        is_known = path not in {"/problems/key_missing", "/nothing/here"}  # pages that need no key
        assert ('<span>You act as <strong dir="auto">ada</strong></span>' in page.text) == is_known, path
        form = log_out_form(page)
        assert form is not None, path
        assert [button.text_content() for button in form.iter("button")] == ["Log out"]
        out = await browser.post(form.action, **dict(form.fields))
        assert (out.status_code, out.headers["location"], browser.cookie) == (303, "/login", ""), path
        assert (await browser.get("/")).headers["location"] == "/login?next=/"


def log_out_form(page: httpx2.Response) -> Any:
    """Return the form that ends the session; None if the page has none."""
    forms = lxml_html.document_fromstring(page.text).forms
    return next((form for form in forms if form.action == "/logout"), None)


async def test_a_session_may_send_to_the_api_only_with_its_token(far: RemoteDoor) -> None:
    browser = Browser(far.http)
    await browser.log_in(await far.key("ada", "request"))
    cookie, token = {"Cookie": f"{COOKIE}={browser.cookie}"}, await browser.token()
    asked = {"json": {"prompt": "When?"}}
    assert code(await far.http.post(LIST, headers=cookie, **asked)) == (403, "form_outdated")
    assert (await far.http.post(LIST, headers={**cookie, TOKEN_HEADER: token}, **asked)).status_code == 202


async def test_a_changed_cookie_and_the_cookie_of_another_key_are_no_session(far: RemoteDoor) -> None:
    browser = Browser(far.http)
    other, _ = await far.added("other")
    await browser.log_in(await far.key("ada", "read"))
    key_id, moment, signature = browser.cookie.split(".")
    for changed in (
        f"{other.key_id}.{moment}.{signature}",
        f"{key_id}.{moment[:-1]}{'Q' if moment[-1] == 'A' else 'A'}.{signature}",
        f"{key_id}.{moment}.{'B' if signature[0] == 'A' else 'A'}{signature[1:]}",
        f"{key_id}.{moment}",
        key_id,
    ):
        browser.cookie = changed
        assert (await browser.get("/")).status_code == 303, changed


async def test_entering_keys_is_limited(far: RemoteDoor) -> None:
    browser = Browser(far.http)
    answers = [await browser.log_in(f"poweron_{number:043}") for number in range(25)]
    assert [answer.status_code for answer in answers][:: len(answers) - 1] == [401, 429]
    assert int(answers[-1].headers["retry-after"]) >= 1
    assert "Wait as long as" in answers[-1].text


async def test_over_plain_http_a_page_says_that_a_browser_would_forget_the_session(
    door_settings: Settings,
) -> None:
    async with remote(door_settings, hosts=frozenset({"door.example.com"})) as door:
        key, browser = await door.key("ada", "read"), Browser(door.http)
        fields = {"token": await browser.token(), "key": key, "next": "/"}
        host = {"Host": "door.example.com", **HTML}
        plain = await door.http.post("/login", data=fields, headers=host)
        assert plain.status_code == 403
        asked = await door.http.get("/login?next=/log", headers=host)
        for page in (plain, asked):
            assert "Browsers keep a session only over HTTPS" in page.text
            assert 'type="password"' not in page.text
        from_browser = await door.http.post("/login", data=fields, headers={**host, "Origin": "null"})
        foreign_host = await door.http.get("/login", headers={**HTML, "Host": "evil.example"})
        for status, page in ((403, from_browser), (421, foreign_host)):
            assert (page.status_code, page.headers["content-type"]) == (status, "text/html; charset=utf-8")
            assert fields["token"] not in page.text
        assert "never does over HTTP without TLS" in from_browser.text
        fetched = await door.http.post("/login", data=fields, headers={**host, "Sec-Fetch-Site": "same-origin"})
        assert (fetched.status_code, fetched.headers["location"]) == (303, "/")
        behind_tls = await door.http.post("/login", data=fields, headers={**host, "X-Forwarded-Proto": "https"})
        assert (behind_tls.status_code, behind_tls.headers["location"]) == (303, "/")


def test_the_secret_is_for_its_owner_only_and_survives(tmp_path: Path) -> None:
    home = tmp_path / "home"
    first = DoorSecret(home).derived("form")
    assert stat.S_IMODE((home / FILE).stat().st_mode) == 0o600
    assert [path.name for path in home.iterdir()] == [FILE]
    (home / FILE).chmod(0o644)
    assert DoorSecret(home).derived("form") == first
    assert stat.S_IMODE((home / FILE).stat().st_mode) == 0o600
    assert len({first, DoorSecret(home).derived("session"), DoorSecret(home).derived("form", b"x")}) == 3


@pytest.mark.parametrize("content", [b"", b"short", b"x" * 33])
def test_a_file_that_is_no_secret_is_left_alone_and_a_warning_says_so(
    tmp_path: Path, content: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / FILE).write_bytes(content)
    secret = DoorSecret(tmp_path)
    assert secret.derived("form") == secret.derived("form") != DoorSecret(tmp_path).derived("form")
    assert (tmp_path / FILE).read_bytes() == content
    assert "door_secret_in_memory" in capsys.readouterr().out


def test_a_secret_behind_a_link_and_a_home_that_is_a_file_are_not_used(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(b"x" * 32)
    (tmp_path / FILE).symlink_to(tmp_path / "elsewhere")
    known, other = DoorSecret(tmp_path), DoorSecret(tmp_path)
    assert known.derived("form") != other.derived("form")
    inside_a_file = DoorSecret(tmp_path / "elsewhere")
    assert inside_a_file.derived("form") == inside_a_file.derived("form")
