"""Many workflows of one sender, then one of another: it takes hardly longer than alone, from its request to its end."""

import asyncio
import time
from typing import Any

import pytest
from test_floods import GREEDY, MODEST, flood, opening

from poweron_events import topics, workflow_id
from poweron_services.client.connect import Connections
from poweron_services.models.chat_model import ChatModel, Completion
from poweron_services.models.prompts import Prompt

pytestmark = [pytest.mark.system, pytest.mark.soak]

MANY = 300
THINKING = 1.0  # seconds of each call of a model
ENDED = "SELECT count(*) FROM workflows WHERE NOT is_open AND workflow_id = ANY($1::text[]::uuid[])"


class Slow:
    """A model that takes its time, as those of providers do."""

    def __init__(self, model: ChatModel) -> None:
        self._model = model

    async def complete(self, prompt: Prompt) -> Completion:
        await asyncio.sleep(THINKING)
        return await self._model.complete(prompt)


async def ended(connections: Connections, sender: str, ids: list[str]) -> int:
    found: int = await connections.pool.fetchval(ENDED, [workflow_id(sender, each) for each in ids])
    return found


async def seconds_to_end(connections: Connections, request_id: str) -> float:
    began = time.monotonic()
    await connections.log.append(topics.REQUESTS.name, [opening(request_id, MODEST)])
    while not await ended(connections, MODEST, [request_id]):  # noqa: ASYNC110 - another process' table says so
        await asyncio.sleep(0.01)
    return time.monotonic() - began


async def test_beside_a_flood_a_workflow_of_another_takes_at_most_three_times_as_long(
    service: Connections, model: Any
) -> None:
    model._model = Slow(model._model)
    async with asyncio.timeout(300):
        while await service.pool.fetchval("SELECT to_regclass('workflows')") is None:  # noqa: ASYNC110 - the same
            await asyncio.sleep(0.1)
        await seconds_to_end(service, "warm")
        alone = await seconds_to_end(service, "alone")
        await flood(service, [opening(f"{number}") for number in range(MANY)])
        beside = await seconds_to_end(service, "beside")
    assert await ended(service, GREEDY, [f"{number}" for number in range(MANY)]) < MANY * 3 / 4
    assert beside < 3 * alone
