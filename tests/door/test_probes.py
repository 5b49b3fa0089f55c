"""An orchestrator and Prometheus ask a door how it is, on the door's own port."""

import asyncio
import re
import runpy
import socket
from pathlib import Path

import httpx2
import pytest
import yaml
from beside import beside
from metric_labels import LABELS
from opened_door import Door, opened
from prometheus_client.parser import text_string_to_metric_families
from scrapes import values

from poweron_services.door import http_server
from poweron_services.door.http_guard import LOOPBACK_NAMES
from poweron_services.settings.config import Settings
from poweron_services.telemetry.prometheus import METRICS

pytestmark = pytest.mark.system

READY_WITHIN = 60.0  # seconds


async def test_a_door_shows_what_it_did_by_the_templates_of_its_paths(door: Door) -> None:
    outcome = await door.http.post("/api/v1/workflows", json={"prompt": "Hello"}, headers={"Prefer": "wait=60"})
    assert outcome.status_code == 200
    path = f"/api/v1/workflows/{outcome.json()['workflowId']}"
    await door.http.get(path)
    await door.http.get("/nothing/here")
    await door.http.get("/static/none.css")
    await door.http.get("/livez", headers={"Host": "evil.example"})
    async with door.http.stream("GET", "/api/v1/stream"):
        scrape = await door.http.get("/metrics")
    assert scrape.headers["content-type"].startswith("text/plain; version=")
    requests = values(scrape.text, "poweron_http_request_seconds_count")
    assert requests["GET", "/api/v1/workflows/{workflow_id}", "2xx"] == 1
    assert requests["POST", "/api/v1/workflows", "2xx"] == 1
    assert requests["GET", "none", "4xx"] == 2
    assert requests["GET", "/static", "4xx"] == 1
    assert requests["GET", "/api/v1/stream", "2xx"] == 1
    assert values(scrape.text, "poweron_stream_followers") == {(): 1}
    assert values(scrape.text, "poweron_server_up") == {("kafka",): 1, ("postgres",): 1}
    assert outcome.json()["workflowId"] not in scrape.text


async def test_a_follower_who_leaves_disturbs_no_other(door: Door) -> None:
    async with door.http.stream("GET", "/api/v1/stream") as stays:
        async with door.http.stream("GET", "/api/v1/stream"):
            assert values((await door.http.get("/metrics")).text, "poweron_stream_followers") == {(): 2}
        await door.http.post("/api/v1/workflows", json={"prompt": "Hello"}, headers={"Prefer": "wait=60"})
        assert b"event: event" in await anext(stays.aiter_bytes())


async def test_a_door_says_whether_it_is_alive_and_takes_requests(door: Door) -> None:
    alive, ready = await door.http.get("/livez"), await door.http.get("/readyz")
    assert (alive.status_code, alive.text[:6]) == (200, "Alive:")
    assert (ready.status_code, ready.text) == (200, "Ready.\n")


async def test_a_door_of_other_machines_shows_metrics_to_keys_and_probes_to_all(door_settings: Settings) -> None:
    sock = http_server.listening("127.0.0.1", 0)
    host, port = sock.getsockname()
    running = http_server.run(door_settings, sock, frozenset(), is_local=False, serving=False, progress=lambda _: None)
    async with beside(running), httpx2.AsyncClient(base_url=f"http://{host}:{port}") as http:
        metrics = await http.get("/metrics")
        assert (metrics.status_code, metrics.json()["code"]) == (401, "key_missing")
        assert (await http.get("/livez")).status_code == 200
        assert (await http.get("/readyz")).status_code in (200, 503)


async def test_a_door_that_stops_says_so_while_it_finishes_running_requests(door_settings: Settings) -> None:
    async with opened(door_settings):
        pass  # there are rows now; the next door plays no role, so its requests wait
    sock = http_server.listening("127.0.0.1", 0)
    host, port = sock.getsockname()
    own = free_port()
    settings = door_settings.model_copy(update={"metrics": f"127.0.0.1:{own}"})
    running = http_server.run(settings, sock, LOOPBACK_NAMES, is_local=True, serving=False, progress=lambda _: None)
    async with (
        httpx2.AsyncClient(base_url=f"http://{host}:{port}", timeout=READY_WITHIN) as http,
        beside(running) as task,
    ):
        await Door(settings, "", http).until_ready()
        waiting = asyncio.create_task(
            http.post("/api/v1/workflows", json={"prompt": "Hello"}, headers={"Prefer": "wait=1"})
        )
        stream = asyncio.create_task(http.get("/api/v1/stream"))
        await until_running(http, "/api/v1/stream")
        task.cancel()
        await asyncio.sleep(0)
        stopping = await http.get("/readyz")
        assert (stopping.status_code, stopping.text[:9]) == (503, "Stopping:")
        assert not waiting.done()
        async with httpx2.AsyncClient() as new:  # a new connection is still accepted
            assert (await new.get(f"http://{host}:{port}/readyz")).status_code == 503
            assert (await new.get(f"http://127.0.0.1:{own}/readyz")).status_code == 503
            assert (await new.get(f"http://127.0.0.1:{own}/livez")).status_code == 200
        assert (await waiting).status_code == 202
        assert "event: bye" in (await stream).text


async def until_running(http: httpx2.AsyncClient, route: str) -> None:
    async with asyncio.timeout(READY_WITHIN):
        while ("GET", route, "2xx") not in values(
            (await http.get("/metrics")).text, "poweron_http_request_seconds_count"
        ):
            pass


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


HOUSE = Path(__file__).parents[2]
METRIC = re.compile(r"\b(?:poweron|process)_[a-z_]+")
UNUSED = {"poweron_model_errors_total"}
"""Metrics of what has not happened in this test; they have a type, but no value."""


def charted() -> set[str]:
    """The metrics of the board and of the alert rules."""
    board = runpy.run_path(str(HOUSE / "deploy" / "grafana" / "build.py"))["expressions"]()
    rules = yaml.safe_load((HOUSE / "deploy" / "prometheus" / "alerts.yaml").read_text())["groups"][0]["rules"]
    return {name for query in (*board, *(rule["expr"] for rule in rules)) for name in METRIC.findall(query)}


async def test_every_metric_that_is_charted_or_alerted_on_exists_once_a_door_has_worked(door: Door) -> None:
    await door.http.post("/api/v1/workflows", json={"prompt": "Hello"}, headers={"Prefer": "wait=60"})
    async with door.http.stream("GET", "/api/v1/stream"):
        while not values(scrape := (await door.http.get("/metrics")).text, "poweron_ledger_checkpoint_age_seconds"):
            pass  # the ledger signs about a second after its start
    families = list(text_string_to_metric_families(scrape))
    valued = {sample.name for family in families for sample in family.samples}
    assert {name for name in METRICS if name not in valued and f"{name}_count" not in valued} == UNUSED
    assert charted() - valued == UNUSED & charted()
    assert {
        name for name in METRICS if not any(each == name or each.startswith(f"{name}_") for each in charted())
    } == set()
    assert [family.name for family in families if not family.documentation] == []
    assert {label for family in families for sample in family.samples for label in sample.labels} <= LABELS
