"""A system without Kafka posts a request, follows it and reads the answer."""

import asyncio
import re
import shlex
from json import dumps
from pathlib import Path
from typing import Any

import orjson
import pytest
from door_requests import PERIOD
from opened_door import Door
from remote_door import LIST, RemoteDoor, bearer, remote

from poweron_services.settings.config import Settings

pytestmark = pytest.mark.system

DOCS = Path(__file__).parents[2] / "docs"
LETTER = DOCS / "examples/letter.txt"


async def documented(door: RemoteDoor, command: str, **variables: str) -> Any:
    """Send the request of the `curl` command on the page about the door whose words begin like this."""
    (found,) = re.findall(rf"^{re.escape(command)} (?:.*\\\n)*.*", (DOCS / "door.md").read_text(), re.MULTILINE)
    _, *words = shlex.split(re.sub(r"\$([A-Z0-9]+)", lambda match: variables[match[1]], found.replace("\\\n", "")))
    options = [*zip(words[1::2], words[2::2], strict=True)]
    headers = dict(value.split(": ", 1) for option, value in options if option == "-H")
    data = next((value for option, value in options if option == "-d"), None)
    path = words[0].removeprefix("localhost:8800")
    return await door.http.request("GET" if data is None else "POST", path, headers=headers, content=data)


async def test_a_key_and_the_hash_of_an_action_approve_it_as_the_page_shows(door_settings: Settings) -> None:
    async with remote(door_settings, serving=True) as door:
        key = await door.key("crm", "read", "request", "approve")
        body = {"prompt": "When does it open?", "approve": ["ai.process"]}
        file = {"file": ("letter.txt", LETTER.read_bytes())}
        asked = await door.http.post(LIST, data={"request": dumps(body)}, files=file, headers=bearer(key))
        assert asked.status_code == 202, asked.text
        assert (await documented(door, "curl localhost:8800/api/v1/workflows -H", KEY=key)).status_code == 200
        listing = "curl localhost:8800/api/v1/approvals"
        async with asyncio.timeout(60):
            while not (waiting := (await documented(door, listing, KEY=key)).json()["items"]):  # noqa: ASYNC110 - rows must be polled
                await asyncio.sleep(PERIOD)
        id_, sha256 = waiting[0]["workflowId"], waiting[0]["parametersSha256"]
        assert [waiting[0][name] for name in ("round", "task", "attempt", "step")] == [1, 1, 1, 2]
        approval = "curl localhost:8800/api/v1/workflows/$ID/approvals/r1t1a1s2"
        other = await documented(door, approval, KEY=key, ID=id_, SHA256="0" * 64)
        assert (other.status_code, other.json()["code"]) == (409, "other_parameters")
        answered = await documented(door, approval, KEY=key, ID=id_, SHA256=sha256)
        assert answered.status_code == 200, answered.text


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
