"""Requests to a door under test, and what it says to them."""

import asyncio
import os
from collections.abc import Callable
from typing import Any

from opened_door import Door

from poweron_events import topics
from poweron_events.log.kafka import connect as connect_kafka
from poweron_events.log.kafka_settings import KafkaSettings

API = "/api/v1"
UNKNOWN = "8f14e45f-ceea-567a-8f14-e45fceea167a"  # no workflow has this id
WAIT = {"Prefer": "wait=100"}
PERIOD = 0.05  # seconds


async def post(door: Door, path: str, body: Any = None, **headers: str) -> Any:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await door.http.post(f"{API}{path}", json={} if body is None else body, headers=named)


async def get(door: Door, path: str) -> Any:
    return (await door.http.get(f"{API}{path}")).json()


async def until(door: Door, path: str, is_so: Callable[[Any], object]) -> Any:
    """What is at the address once it is so; the test's time limit is that of the wait."""
    while not is_so(found := await get(door, path)):  # noqa: ASYNC110 - rows must be polled
        await asyncio.sleep(PERIOD)
    return found


async def answered(door: Door, sent: Any) -> dict[str, Any]:
    """What became of a request that was sent."""
    path = sent.json()["links"]["request"].removeprefix(API)
    found: dict[str, Any] = await until(door, path, lambda request: request["status"] != "pending")
    return found


def sentence(response: Any) -> str:
    """The one sentence of a problem."""
    problem = response.json()
    assert response.headers["content-type"] == "application/problem+json"
    assert problem["detail"].endswith("."), problem
    assert not problem["detail"].endswith(".."), problem
    assert "\n" not in problem["detail"]
    return str(problem["detail"])


def expect(response: Any, status: int, code: str) -> None:
    assert (response.status_code, response.json().get("code")) == (status, code), response.text


async def requests_in_log(door: Door) -> int:
    async with connect_kafka(KafkaSettings.of(os.environ)) as log:
        return sum((await log.ends(topics.REQUESTS.name)).values())
