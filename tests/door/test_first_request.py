"""A system without Kafka posts a request, follows it and reads the answer."""

from pathlib import Path

import orjson
import pytest
from opened_door import Door

pytestmark = pytest.mark.system

LETTER = Path(__file__).parents[2] / "docs/examples/letter.txt"


async def test_who_posts_a_request_with_a_file_follows_it_to_its_answer(door: Door) -> None:
    asked = await door.http.post(
        "/api/v1/workflows",
        data={"request": '{"prompt": "When does it open?"}'},
        files={"file": ("letter.txt", LETTER.read_bytes())},
        headers={"Idempotency-Key": "1"},
    )
    assert asked.status_code == 202
    links = asked.json()["links"]
    assert asked.headers["location"] == links["workflow"]
    stream = await door.http.get(links["stream"])
    frames = [dict(line.split(": ", 1) for line in frame.splitlines()) for frame in stream.text.strip().split("\n\n")]
    events = [orjson.loads(frame["data"]) for frame in frames if frame.get("event") == "event"]
    assert [event["seq"] for event in events] == [*range(len(events))]
    assert frames[-1]["event"] == "end"
    workflow = (await door.http.get(links["workflow"])).json()
    assert workflow["status"] == "completed"
    assert "September 12" in workflow["message"]
    assert (await door.http.get(links["events"])).json()["items"] == events


async def test_a_stream_resumes_after_the_last_event_that_came(door: Door) -> None:
    outcome = await door.http.post("/api/v1/workflows", json={"prompt": "Hello"}, headers={"Prefer": "wait=60"})
    assert outcome.status_code == 200
    path = f"/api/v1/workflows/{outcome.json()['workflowId']}/stream"
    rest = (await door.http.get(path, headers={"Last-Event-ID": "4"}, params={"show": "event"})).text
    ids = [line for line in rest.splitlines() if line.startswith("id:")]
    assert ids[0] == "id: 5"


async def test_a_foreign_host_and_a_foreign_page_are_refused(door: Door) -> None:
    foreign = await door.http.get("/api/v1/workflows", headers={"Host": "evil.example"})
    assert (foreign.status_code, foreign.json()["code"]) == (421, "host_unknown")
    forged = await door.http.post(
        "/api/v1/workflows", json={"prompt": "Hi"}, headers={"Origin": "https://evil.example"}
    )
    assert (forged.status_code, forged.json()["code"]) == (403, "foreign_origin")
