"""The door starts while Kafka or Postgres is really stopped: it does what can be done without it, and later everything."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
from opened_door import stopped
from own import OwnServers, frozen
from remote_door import opening

from poweron_services.settings.config import Settings

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

API = "/api/v1"
TIMEOUT = 100.0  # seconds


@pytest.fixture
def settings(own: OwnServers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    for name, value in own.environment(tmp_path / "home").items():
        monkeypatch.setenv(name, value)
    return Settings(home=tmp_path / "home", postgres=own.pair.postgres)


@asynccontextmanager
async def listening(settings: Settings) -> AsyncGenerator[httpx2.AsyncClient, None]:
    """A client of a door that listens, and has opened what it can."""
    async with (
        opening(settings, is_local=True, serving=True) as port,
        httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=TIMEOUT) as http,
    ):
        while (await http.get("/readyz")).status_code == 503:
            pass
        yield http


async def completed(http: httpx2.AsyncClient, prompt: str) -> str:
    asked = await http.post(f"{API}/workflows", json={"prompt": prompt}, headers={"Prefer": "wait=100"})
    while asked.status_code == 503:
        asked = await http.post(f"{API}/workflows", json={"prompt": prompt}, headers={"Prefer": "wait=100"})
    assert (asked.status_code, asked.json()["status"]) == (200, "completed"), asked.text
    return str(asked.json()["workflowId"])


async def test_a_door_that_starts_without_kafka_answers_queries_and_works_once_kafka_is_back(
    settings: Settings, own: OwnServers
) -> None:
    async with listening(settings) as http:
        workflow = await completed(http, "Hello")
    await stopped(own.kafka())
    async with listening(settings) as http:
        for path in (f"{API}/workflows", f"{API}/workflows/{workflow}/events", "/", f"/w/{workflow}", "/log"):
            answer = await http.get(path, headers={"Accept": "text/html, application/json"})
            assert answer.status_code == 200, (path, answer.text)
        for path in (f"{API}/workflows", f"{API}/workflows/{workflow}/rounds"):
            refused = await http.post(path, json={"prompt": "Hello"})
            assert (refused.status_code, int(refused.headers["retry-after"]) >= 1) == (503, True), refused.text
            assert "Kafka" in refused.json()["detail"]
        assert (await http.get(f"{API}/lag")).status_code == 503
        assert (await http.get("/readyz")).text == "Ready, but work waits for Kafka, which does not answer.\n"
        await own.mend()
        await completed(http, "Hello again")


@pytest.mark.parametrize("outage", ["stopped", pytest.param("frozen", marks=pytest.mark.soak)])
async def test_a_door_that_starts_without_postgres_takes_new_workflows_and_does_them_once_it_is_back(
    settings: Settings, own: OwnServers, outage: str
) -> None:
    async with listening(settings) as http:
        await completed(http, "Hello")
    thaw = frozen(own.postgres()) if outage == "frozen" else None
    if outage == "stopped":
        await stopped(own.postgres())
    async with listening(settings) as http:
        asked = await http.post(f"{API}/workflows", json={"prompt": "Hello"}, headers={"Idempotency-Key": "1"})
        while asked.status_code == 503 and "Kafka" in asked.json()["detail"]:
            asked = await http.post(f"{API}/workflows", json={"prompt": "Hello"}, headers={"Idempotency-Key": "1"})
        assert asked.status_code == 202, asked.text
        refused = await http.get(f"{API}/workflows")
        assert (refused.status_code, refused.json()["detail"][:9]) == (503, "Postgres "), refused.text
        if thaw is not None:
            thaw()
        await own.mend()
        workflow = await http.get(asked.json()["links"]["workflow"])
        while workflow.json().get("status") != "completed":
            workflow = await http.get(asked.json()["links"]["workflow"])
