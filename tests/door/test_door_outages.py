"""Kafka or Postgres is really stopped: the door says so at once, or does what can be done without it."""

import time

import pytest
from opened_door import Door, stopped
from own import OwnServers, frozen

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

API = "/api/v1"
AT_ONCE = 10.0  # seconds, on a busy machine


@pytest.fixture
def door(own_door: Door) -> Door:
    return own_door


async def test_a_workflow_is_accepted_while_postgres_is_stopped_and_done_once_it_is_back(
    door: Door, own: OwnServers
) -> None:
    await stopped(own.postgres())
    began = time.monotonic()
    asked = await door.http.post(
        f"{API}/workflows",
        data={"request": '{"prompt": "When does it open?"}'},
        files={"file": ("letter.txt", b"It opens at nine.")},
        headers={"Idempotency-Key": "1"},
    )
    assert (asked.status_code, time.monotonic() - began < AT_ONCE) == (202, True), asked.text
    again = await door.http.post(
        f"{API}/workflows",
        data={"request": '{"prompt": "When does it open?"}'},
        files={"file": ("letter.txt", b"It opens at nine.")},
        headers={"Idempotency-Key": "1"},
    )
    assert (again.status_code, again.text) == (202, asked.text)
    pause = await door.http.post(f"{API}/workflows/{asked.json()['workflowId']}/pause", json={})
    assert (pause.status_code, pause.headers["content-type"]) == (503, "application/problem+json")
    assert "retry-after" in pause.headers
    await own.mend()
    workflow = await door.http.get(asked.json()["links"]["workflow"])
    while workflow.json().get("status") != "completed":
        workflow = await door.http.get(asked.json()["links"]["workflow"])
    shown = await door.http.get(asked.json()["links"]["request"])
    assert shown.json()["status"] == "accepted"


@pytest.mark.parametrize("outage", ["stopped", pytest.param("frozen", marks=pytest.mark.soak)])
async def test_a_request_is_refused_at_once_while_kafka_is_unavailable(
    door: Door, own: OwnServers, outage: str
) -> None:
    kafka = own.kafka()
    thaw = None
    if outage == "stopped":
        await stopped(kafka)
    else:
        thaw = frozen(kafka)
    for path, body in (("/workflows", {"prompt": "Hello"}), ("/batch", {"verb": "pause", "where": ["status=failed"]})):
        began = time.monotonic()
        refused = await door.http.post(f"{API}{path}", json=body)
        assert (refused.status_code, time.monotonic() - began < AT_ONCE) == (503, True), refused.text
        assert int(refused.headers["retry-after"]) >= 1
        assert "Kafka does not answer" in refused.json()["detail"]
    assert (await door.http.get(f"{API}/workflows")).status_code == 200
    if thaw is not None:
        thaw()
    await own.mend()
    asked = await door.http.post(f"{API}/workflows", json={"prompt": "Hello"}, headers={"Prefer": "wait=100"})
    while asked.status_code == 503:
        asked = await door.http.post(f"{API}/workflows", json={"prompt": "Hello"}, headers={"Prefer": "wait=100"})
    assert (asked.status_code, asked.json()["status"]) == (200, "completed"), asked.text
