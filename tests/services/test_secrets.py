"""A key stands in the settings of the process that needs it, and nowhere else."""

import base64
import json
import logging
import re
import traceback
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args
from urllib.parse import quote, urlsplit, urlunsplit

import pytest
from doubles import CRITERION, EVENTS, Counting, World
from providers import KEY, MODELS, PLACES, Playing, as_json, error_body, opened, playing_stages
from pytest_httpserver import HTTPServer
from stored_files import stored_files
from test_providers import planning
from werkzeug import Request, Response

from poweron_events.content import ContentStore
from poweron_events.errors import Refused
from poweron_projections.folder import LocalFolder
from poweron_projections.projection import View
from poweron_services import telemetry
from poweron_services.cli.server_commands import masked
from poweron_services.models import call
from poweron_services.models.providers import ProviderModel
from poweron_services.settings.config import KEY_VARIABLES, PLACE_VARIABLES, Provider, ProviderSettings, Settings
from poweron_services.telemetry.spans import Span

SELECTED = {"action": "test.pure", "actionObjective": "Do it", "requiredConnection": "crm"}


async def worked(server: HTTPServer, folder: Path) -> World:
    """A world in which a round has ended that a provider's model was asked for, with a log of everything."""
    world = World([Counting()])
    world.content = ContentStore.at(str(folder / "content"))
    telemetry.configure("debug", telemetry.LogFile(folder / "log"))
    async with aclosing(opened(server, "openai", model_output="tool")) as model:
        world.model = model  # type: ignore[assignment] # another model than a scripted one
        id_ = await world.ask(connections=("crm",))
        async with world.process():
            await world.ended(id_)
    return world


def written(world: World, folder: Path) -> list[bytes]:
    """All events, all prompts and answers, and the log."""
    events = [record.value or b"" for records in world.log._topics[EVENTS] for record in records]
    return [*events, *stored_files(folder).values()]


@pytest.mark.req("R-03")
@pytest.mark.req("S25")
async def test_a_connection_is_known_by_its_label_and_a_key_to_the_provider_only(
    httpserver: HTTPServer, tmp_path: Path
) -> None:
    playing = Playing(httpserver, "openai", [playing_stages(CRITERION, "Done.", answer_select=SELECTED)])
    everything = written(await worked(httpserver, tmp_path), tmp_path)
    assert {sent["Authorization"] for sent in playing.headers} == {f"Bearer {KEY}"}
    assert any(b'"requiredConnection":"crm"' in one for one in everything)
    assert any(rb"\nConnections:\n<<<" in one and rb"\n- crm\n>>>" in one for one in everything)
    assert any(b"model_answered" in one for one in everything)
    assert not any(KEY.encode() in one for one in everything)


# --- planted everywhere -------------------------------------------------------------------------------------

LOGIN, QUERY = "canary-user:canary-password", "code=canary-query&tenant=canary-tenant"
PROXY = "canary-proxy:canary-proxy-password"
ENCODED = [base64.b64encode(said.encode()).decode() for said in (LOGIN, PROXY)]
PLANTED = ("canary", *ENCODED)
CLIENTS = ("httpx2", "httpcore2", "openai", "anthropic", "mistralai")
EVERY: list[Provider] = list(get_args(Provider))


class Echoing:
    """A server of a provider that repeats all that it was sent: in every header, error and answer."""

    def __init__(self, server: HTTPServer, provider: Provider) -> None:
        self._provider = provider
        self.seen = list[str]()
        self.next = list[int]()
        """The statuses of the next replies; then good answers follow. 0 stands for an answer that cannot be read."""
        server.expect_request(re.compile(".*")).respond_with_handler(self._reply)

    def _reply(self, request: Request) -> Response:
        sent = " ".join([request.url, *(f"{name}: {value}" for name, value in request.headers)])
        self.seen.append(sent)
        response = self._answer(self.next.pop(0) if self.next else 200, sent, json.loads(request.get_data()))
        response.headers.update({"X-You-Sent": sent, "Set-Cookie": f"sent={quote(sent)}", "Location": f"/?{QUERY}"})
        return response

    def _answer(self, status: int, sent: str, asked: dict[str, Any]) -> Response:
        if status == 0:
            return Response(sent, 200, {"Content-Type": "application/json"})
        if status != 200:
            return as_json(error_body(self._provider, f"What? {sent}"), status)
        said = playing_stages(CRITERION, f"Done. {sent}", self._provider, answer_select=SELECTED)(asked)
        return as_json({**json.loads(said.get_data()), "id": sent, "model": f"model {sent}"})


def planted(provider: Provider, at: str, login: str = "") -> ProviderSettings:
    """The provider's variables, with a secret wherever one can stand; a login is sent in place of the key."""
    place = urlsplit(at)._replace(path=urlsplit(PLACES[provider]).path)
    url = urlunsplit(place._replace(netloc=f"{login}{place.netloc}", query=QUERY))
    return ProviderSettings(**{PLACE_VARIABLES[provider].lower(): url, KEY_VARIABLES[provider].lower(): KEY})


@dataclass
class Watched:
    """Rounds in a world whose log lines, spans, events, rows and contents are all looked through."""

    folder: Path
    world: World = field(default_factory=lambda: World([Counting()]))
    spans: list[Span] = field(default_factory=list)

    async def round(
        self, model: ProviderModel, statuses: list[int], server: Echoing, stage_timeout_ms: int = 60_000
    ) -> str:
        """Ask for a round with this model, which gets such replies; how it ended."""
        server.next = statuses
        async with aclosing(model):
            self.world.model = model
            id_ = await self.world.ask(
                f"{len(self.world.processes)}", connections=("crm",), stage_timeout_ms=stage_timeout_ms
            )
            async with self.world.process(spans=self.spans.append):
                ended = await self.world.ended(id_)
        return str(ended.current.ending)

    async def everything(self, out: str, err: str) -> dict[str, str]:
        records = [record for records in self.world.log._topics[EVENTS] for record in records]
        rows = await LocalFolder().fold(records, _nothing_before)
        files = {path: content.decode(errors="replace") for path, content in stored_files(self.folder).items()}
        told = {"events": records, "rows": rows, "spans": self.spans, "stdout": out, "stderr": err}
        return files | {name: repr(each) for name, each in told.items()}


async def _nothing_before(_: object) -> dict[str, View]:
    return {}


def leaks(shown: Mapping[str, str]) -> dict[str, str]:
    """Where a secret stands, with what stands around it."""
    found = {name: re.search("|".join(map(re.escape, PLANTED)), said) for name, said in shown.items()}
    return {name: shown[name][max(0, at.start() - 200) : at.end() + 50] for name, at in found.items() if at}


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Watched:
    for name in (*CLIENTS, "httpcore2.connection", "httpcore2.http11", "httpcore2.proxy"):
        monkeypatch.setattr(logging.getLogger(name), "level", logging.DEBUG)
    monkeypatch.setattr(logging.getLogger("werkzeug"), "disabled", True)  # the server's own lines
    telemetry.configure("debug", telemetry.LogFile(tmp_path / "log"))
    monkeypatch.setattr(call, "FIRST_PAUSE", 0.001)
    watched = Watched(tmp_path)
    watched.world.content = ContentStore.at(str(tmp_path / "content"))
    return watched


@pytest.mark.req("R-03")
@pytest.mark.req("S27")
@pytest.mark.parametrize("provider", EVERY)
async def test_secrets_of_an_address_are_told_to_the_server_only_whatever_that_repeats(
    provider: Provider, httpserver: HTTPServer, watched: Watched, capfd: pytest.CaptureFixture[str]
) -> None:
    server, known = Echoing(httpserver, provider), planted(provider, httpserver.url_for(""), f"{LOGIN}@")

    assert await watched.round(asking(provider, known), [429, 500, 503, 0], server) == "completed"
    for status in (301, 400, 401, 404, 422, 500):
        assert await watched.round(asking(provider, known), [status] * 99, server, 1_000) == "failed"

    assert all(f"Basic {ENCODED[0]}" in sent and f"?{QUERY}" in sent for sent in server.seen)
    assert "model_answered" in (watched.folder / "log").read_text()
    assert leaks(await watched.everything(*capfd.readouterr())) == {}


@pytest.mark.req("R-03")
@pytest.mark.req("S27")
@pytest.mark.parametrize("provider", EVERY)
async def test_a_key_and_the_login_of_a_proxy_are_told_to_the_proxy_only_whatever_that_repeats(
    provider: Provider,
    httpserver: HTTPServer,
    watched: Watched,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    server, known = Echoing(httpserver, provider), planted(provider, "http://provider.invalid")

    monkeypatch.setenv("HTTP_PROXY", httpserver.url_for("").replace("://", f"://{PROXY}@"))
    assert await watched.round(asking(provider, known), [502, 504], server) == "completed"
    assert await watched.round(asking(provider, known), [407], server) == "failed"
    monkeypatch.setenv("HTTP_PROXY", f"http://{PROXY}@127.0.0.1:1")  # nobody
    assert await watched.round(asking(provider, known), [], server, 1_000) == "failed"

    assert all(f"Basic {ENCODED[1]}" in sent and "://provider.invalid/" in sent for sent in server.seen)
    assert all(KEY in sent and f"?{QUERY}" in sent for sent in server.seen)
    assert leaks(await watched.everything(*capfd.readouterr())) == {}


@pytest.mark.parametrize("proxy", ["canary://u:p@h:1", f"socks9://{PROXY}@h", f"http://{PROXY}@h:x"])
def test_a_proxy_that_cannot_be_used_is_named_by_its_variable(proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", proxy)
    with pytest.raises(Refused, match=r"^ALL_PROXY names no proxy that can be used: set it to a URL such as") as raised:
        asking("openai", planted("openai", "http://provider.invalid"))
    assert leaks({"error": "".join(traceback.format_exception(raised.value))}) == {}


def asking(provider: Provider, known: ProviderSettings) -> ProviderModel:
    return ProviderModel(provider, MODELS[provider], Settings(model_output="tool", model_window=128_000), known)


@pytest.mark.req("S27")
@pytest.mark.parametrize("provider", EVERY)
async def test_who_logs_by_himself_sees_no_secret_in_the_address_of_a_request(
    provider: Provider, httpserver: HTTPServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    Echoing(httpserver, provider)
    async with aclosing(asking(provider, planted(provider, httpserver.url_for(""), f"{LOGIN}@"))) as model:
        await model.complete(planning())
    lines = [record.getMessage() for record in caplog.records if not record.name.startswith("werkzeug")]
    assert any(line.startswith("HTTP Request: POST http://localhost:") for line in lines)
    assert leaks({"log": "\n".join(lines)}) == {}


@pytest.mark.parametrize(
    ("dsn", "shown"),
    [
        ("postgresql://ada@db/poweron", "postgresql://ada@db/poweron"),
        ("postgresql://ada:s3cret@db/poweron", "postgresql://ada:***@db/poweron"),
        ("postgresql://db/x?user=u&password=s3cret&ssl=1", "postgresql://db/x?user=u&password=***&ssl=1"),
        ("postgresql://db/x?sslpassword=s3cret", "postgresql://db/x?sslpassword=***"),
    ],
)
def test_no_password_is_shown(dsn: str, shown: str) -> None:
    assert masked(dsn) == shown
