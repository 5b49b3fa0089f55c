"""Who may do what over HTTP: keys, their scopes and limits, on the real servers; and no route without a scope."""

import asyncio
import base64
import re
import time
from collections.abc import AsyncGenerator
from typing import Any

import asyncpg
import httpx2
import pytest
from door_requests import PERIOD
from remote_door import LIST, RemoteDoor, bearer, code, remote
from routes import ROUTES

from poweron_events import topics
from poweron_events.log import Message
from poweron_projections import reader
from poweron_projections.access_keys import SCOPES, AccessScope, revoke_key
from poweron_services.door import access
from poweron_services.settings.config import Settings
from poweron_services.standalone import open_connections

pytestmark = pytest.mark.system

HOLDS_WITHIN = 5.0  # seconds in which a revocation holds
ASKED = {"prompt": "When does it open?"}


@pytest.fixture
async def far(door_settings: Settings) -> AsyncGenerator[RemoteDoor, None]:
    """A door that other machines can reach."""
    async with remote(door_settings) as door:
        yield door


async def test_without_a_key_nothing_is_shown_or_done(far: RemoteDoor) -> None:
    for response in (await far.http.get(LIST), await far.http.post(LIST, json=ASKED)):
        assert code(response) == (401, "key_missing")
        assert response.headers["www-authenticate"] == "Bearer"
        assert "`uv run poweron keys add`" in response.json()["advice"]  # as on pages


async def test_a_key_may_do_what_its_scopes_say_and_nothing_else(far: RemoteDoor) -> None:
    reading, asking = await far.key("reading", "read"), await far.key("asking", "request")
    assert (await far.http.get(LIST, headers=bearer(reading))).status_code == 200
    refused = await far.http.post(LIST, json=ASKED, headers=bearer(reading))
    assert (*code(refused), refused.json()["scope"]) == (403, "scope_missing", "request")
    assert (await far.http.post(LIST, json=ASKED, headers=bearer(asking))).status_code == 202
    assert await far.answer(asking) == (403, "scope_missing")


async def test_a_key_that_is_unknown_expired_or_revoked_is_named_as_such(far: RemoteDoor) -> None:
    assert await far.answer(f"poweron_{'x' * 43}") == (401, "key_unknown")
    assert await far.answer(await far.key("short", life_ms=1)) == (401, "key_expired")
    revoked = await far.key("gone")
    await revoke_key(far.pool, "gone", revoked_by="root")
    assert await far.answer(revoked) == (401, "key_revoked")


async def test_a_revocation_holds_within_five_seconds_for_a_key_that_is_in_use(far: RemoteDoor) -> None:
    key = await far.key()
    assert await far.answer(key) == (200, "")
    await revoke_key(far.pool, "crm", revoked_by="root")
    revoked = time.monotonic()
    while await far.answer(key) == (200, ""):  # noqa: ASYNC110 - the door can only be asked
        await asyncio.sleep(0.1)
    assert time.monotonic() - revoked < HOLDS_WITHIN
    assert await far.answer(key) == (401, "key_revoked")


async def test_a_stream_ends_once_its_key_is_revoked(far: RemoteDoor) -> None:
    key = await far.key("follower", "read")
    async with far.http.stream("GET", "/api/v1/stream", headers=bearer(key)) as stream:
        assert stream.status_code == 200
        await revoke_key(far.pool, "follower", revoked_by="root")
        revoked = time.monotonic()
        async with asyncio.timeout(HOLDS_WITHIN):
            async for _ in stream.aiter_bytes():
                pass
        assert time.monotonic() - revoked < HOLDS_WITHIN


async def test_while_postgres_is_unavailable_a_known_key_holds_and_others_wait(
    far: RemoteDoor, dsn: str, pair: Any
) -> None:
    known, other = await far.key("known", "read"), await far.key("other", "read")
    assert await far.answer(known) == (200, "")
    database = dsn.partition("?")[0].rpartition("/")[2]
    connection = await asyncpg.connect(pair.postgres)
    await connection.execute(f"ALTER DATABASE {database} ALLOW_CONNECTIONS false")
    try:
        await connection.fetch("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", database)
        until = time.monotonic() + 4  # longer than a key is read from memory only
        while time.monotonic() < until:
            refused = await far.http.post(LIST, json=ASKED, headers=bearer(known))
            assert code(refused) == (403, "scope_missing")
            await asyncio.sleep(0.1)
        waits = await far.http.post(LIST, json=ASKED, headers=bearer(other))
        assert waits.status_code == 503
        assert int(waits.headers["retry-after"]) >= 1
    finally:
        await connection.execute(f"ALTER DATABASE {database} ALLOW_CONNECTIONS true")
        await connection.close()
    async with asyncio.timeout(30):
        while await far.answer(other) != (200, ""):  # noqa: ASYNC110 - the door can only be asked
            await asyncio.sleep(0.1)


async def test_each_key_has_limits_of_its_own(door_settings: Settings) -> None:
    settings = door_settings.model_copy(update={"door_requests": 5, "door_uploads": 1})
    async with remote(settings) as door:
        busy, other = await door.key("busy"), await door.key("other")
        files = {"file": ("a.txt", b"Open at nine.")}
        form: dict[str, Any] = {"data": {"request": '{"prompt": "When?"}'}, "files": files, "headers": bearer(busy)}
        assert (await door.http.post(LIST, **form)).status_code == 202
        _is_over(await door.http.post(LIST, **form), "At most 1 uploads a minute are allowed.")
        assert [await door.answer(busy) for _ in range(3)] == [(200, "")] * 3
        _is_over(await door.http.get(LIST, headers=bearer(busy)), "At most 5 requests a minute are allowed.")
        assert await door.answer(other) == (200, "")


async def test_each_call_of_a_model_that_decides_again_counts_as_a_request(door_settings: Settings) -> None:
    async with remote(door_settings.model_copy(update={"door_requests": 14}), serving=True) as door:
        headers = bearer(await door.key("busy"))
        asked = await door.http.post(LIST, json=ASKED, headers={**headers, "Prefer": "wait=60"})
        (token,) = re.findall(r'name="token" value="([^"]+)"', (await door.http.get("/login")).text)
        again = f"/w/{asked.json()['workflowId']}/at/1/again"
        form = {"token": token, "models": "builtin", "times": "10"}
        decided = await door.http.post(again, data=form, headers=headers)
        assert (decided.status_code, decided.text.count("same decision")) == (200, 10)
        _is_over(await door.http.post(again, data=form, headers=headers), "At most 14 requests and calls of models")
        assert (await door.http.post(again, data={**form, "times": "1"}, headers=headers)).status_code == 429


async def test_a_key_may_have_another_stream_once_one_has_ended(door_settings: Settings) -> None:
    async with remote(door_settings.model_copy(update={"door_streams": 1})) as door:
        key = await door.key()
        async with door.http.stream("GET", "/api/v1/stream", headers=bearer(key)) as stream:
            assert stream.status_code == 200
            _is_over(await door.http.get("/api/v1/stream", headers=bearer(key)), "may have 1 streams at a time")
        ended: dict[str, Any] = {"headers": bearer(key), "params": {"follow": "false"}}
        async with asyncio.timeout(10):
            while (await door.http.get("/api/v1/stream", **ended)).status_code == 429:
                pass


def _is_over(response: httpx2.Response, sentence: str) -> None:
    assert code(response) == (429, "too_many_requests")
    assert sentence in response.json()["detail"]
    assert 1 <= int(response.headers["retry-after"]) <= 60


async def test_guessing_keys_is_limited_and_does_not_stop_known_keys(far: RemoteDoor) -> None:
    known = await far.key()
    assert await far.answer(known) == (200, "")
    answers = [await far.answer(f"poweron_{number:043}") for number in range(25)]
    assert answers[0] == (401, "key_unknown")
    assert answers[-1] == (429, "too_many_requests")
    assert await far.answer(known) == (200, "")


async def test_bytes_of_records_need_the_scope_audit_in_the_api_and_on_pages(door_settings: Settings) -> None:
    async with remote(door_settings, serving=True) as door:
        everything = bearer(await door.key("all"))
        asked = await door.http.post(LIST, json=ASKED, headers={**everything, "Prefer": "wait=60"})
        workflow = asked.json()["workflowId"]
        async with open_connections(door_settings, lambda _: None) as connections:
            await connections.log.append(topics.REQUESTS.name, [Message(b"crm", b"no request")])
        letters: list[dict[str, Any]] = []
        async with asyncio.timeout(60):
            while not letters:
                letters = (await door.http.get("/api/v1/deadletters", headers=everything)).json()["items"]
                await asyncio.sleep(PERIOD)
        (letter,) = letters
        assert base64.b64decode(letter["raw"]) == b"no request"
        raw = f"{LIST}/{workflow}/events/1/raw"
        step = f"/w/{workflow}/at/1"
        assert raw in (await door.http.get(step, headers=everything)).text
        reading = bearer(await door.key("reading", "read", "content", "operate"))
        assert (await door.http.get("/api/v1/deadletters", headers=reading)).json()["items"] == [letter | {"raw": None}]
        shown = (await door.http.get(step, headers=reading)).text
        assert raw not in shown
        assert "specversion" not in shown
        assert "needs the scope <code>audit</code> to see its bytes" in shown
        form = f"/operations/deadletters/{letter['topic']}/{letter['partition']}/{letter['offset']}"
        for path, answer in (
            (raw, await door.http.get(raw, headers=reading)),
            (form, await door.http.post(form, data={"how": "original"}, headers=reading)),
        ):
            assert (*code(answer), answer.json()["scope"]) == (403, "scope_missing", "audit"), path


async def test_on_loopback_a_key_is_honoured_and_what_a_proxy_passes_on_needs_one(door_settings: Settings) -> None:
    async with remote(door_settings, is_local=True, serving=True) as door:
        assert (await door.http.get(LIST)).status_code == 200
        for header in ("Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-IP"):
            assert code(await door.http.get(LIST, headers={header: "1"})) == (401, "key_missing")
        assert await door.answer("wrong") == (401, "key_unknown")
        key = await door.key("crm", "request", actor="crm system", roles=["sales"])
        by_key = await door.http.post(LIST, json=ASKED, headers={**bearer(key), "Prefer": "wait=60"})
        by_user = await door.http.post(LIST, json=ASKED, headers={"Prefer": "wait=60"})
        forged = await door.http.post(LIST, json={**ASKED, "actor": {"id": "root"}}, headers=bearer(key))
        assert code(forged) == (422, "invalid_request")
        actors = [await _opening_actor(door, answer.json()["workflowId"]) for answer in (by_key, by_user)]
    assert actors[0] == {"id": "crm system", "kind": "person", "roles": ["sales"], "via": "http", "verified": True}
    assert (actors[1]["id"], actors[1]["via"], actors[1]["verified"]) == (door_settings.actor, "http", False)


async def _opening_actor(door: RemoteDoor, workflow: str) -> dict[str, Any]:
    first = (await reader.events(door.pool, workflow))[0]
    actor: dict[str, Any] = first.data["actor"]  # type: ignore[assignment] # a JSON object
    return actor


PROBES = {"/livez", "/readyz"}
DOCUMENTS = {"/api", "/api/v1/openapi.json", "/api/v1/asyncapi.json", "/problems", "/problems/{code}"}
PUBLIC = {*PROBES, *DOCUMENTS, "/static", "/login"}
"""The paths that show nothing of workflows, so that anyone may read them."""
OF_ANYONE_KNOWN = {"/logout"}


def test_every_route_needs_a_scope_or_is_public() -> None:
    open_ = {path for path, _, calls, *_ in ROUTES if not any(isinstance(call, access.Needs) for call in calls)}
    assert open_ == PUBLIC | OF_ANYONE_KNOWN
    assert len(ROUTES) > len(open_) + 10


def test_the_sender_is_known_before_anything_else_happens() -> None:
    late = {path for path, _, calls, *_ in ROUTES if path not in PUBLIC and calls[0] is not access.caller_of}
    assert late == {"/logout", "/metrics"}  # of the latter nothing but the state of the door, which is no secret


def test_asking_a_model_again_needs_the_scopes_of_all_that_the_page_shows() -> None:
    needed = [
        {call.scope for call in calls if isinstance(call, access.Needs)}
        for path, _, calls, *_ in ROUTES
        if path.endswith("/again")
    ]
    assert needed == [{"request", "read", "content"}]


def test_every_form_of_a_page_is_checked_for_its_token_and_read_after_all_scopes() -> None:
    forms = {
        path: [type(call) for call in calls if isinstance(call, access.Needs | access.FormCheck)]
        for path, methods, calls, *_ in ROUTES
        if methods - {"GET", "HEAD"} and not path.startswith("/api/") and path != "/login"
    }
    assert len(forms) > 5
    for path, calls in forms.items():
        *before, last = calls
        assert last is access.FormCheck, path
        assert access.FormCheck not in before, path


def test_only_forms_that_ask_for_work_take_files() -> None:
    paths = {path for path, _, calls, *_ in ROUTES if access.FormCheck(takes_files=True) in calls}
    assert paths == {"/ask", "/w/{workflow_id}/rounds"}


@pytest.mark.parametrize("scope", SCOPES)
async def test_a_key_gets_403_from_every_route_whose_scope_it_lacks(far: RemoteDoor, scope: AccessScope) -> None:
    headers = bearer(await far.key(f"only-{scope}", scope))
    for path, methods, calls, *_ in ROUTES:
        needed = {call.scope for call in calls if isinstance(call, access.Needs)}
        for method in methods - {"HEAD"}:
            if needed:
                concrete = path.replace("{workflow_id}", "8f14e45f-ceea-567a-8f14-e45fceea167a")
                params = {"follow": "false"} if concrete.endswith("stream") else {}
                answer = await far.http.request(method, concrete, headers=headers, params=params)
                lacks = answer.status_code == 403 and answer.json()["code"] == "scope_missing"
                assert lacks == (not needed <= {scope}), (method, path, answer.text)
