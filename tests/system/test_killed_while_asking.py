"""`kill -9` during calls of a model whose provider charges for them: the budget holds for them, too."""

import asyncio
import json
import threading
from pathlib import Path
from typing import Any, Final

import pytest
from followed_workflows import Followed, send_request
from processes import serving
from providers import KEY, Playing, answer, as_json
from pytest_httpserver import HTTPServer
from surviving import until
from werkzeug import Response

from poweron_events import RequestWorkflow
from poweron_events.request import Budgets
from poweron_projections.verify import verify
from poweron_services.client.connect import Connections

pytestmark = [pytest.mark.system, pytest.mark.soak, pytest.mark.timeout(600)]

KILLS: Final = 3
BUDGET: Final = 50_000  # tokens; three calls of 10,000 and their prompts leave little of it


class Charging:
    """A slow provider that charges each request with all it can take, and does not answer the first ones."""

    def __init__(self) -> None:
        self.tokens = 0
        self.requests = 0
        self.given_up = threading.Semaphore(0)
        """Once for each process that was killed: the server takes one request at a time."""

    def reply(self, asked: dict[str, Any]) -> Response:
        body = json.dumps(asked, ensure_ascii=False, separators=(",", ":")).encode()
        usage = {"prompt_tokens": len(body), "completion_tokens": asked["max_completion_tokens"]}
        self.tokens += sum(usage.values())
        self.requests += 1
        if self.requests <= KILLS:
            self.given_up.acquire(timeout=60)
        return as_json(answer("openai", "This is no plan.", asked, usage=usage))


@pytest.mark.req("B-02")
@pytest.mark.req("S41")
async def test_three_kills_during_calls_do_not_raise_the_budget(
    connections: Connections, environment: dict[str, str], tmp_path: Path, httpserver: HTTPServer
) -> None:
    provider = Charging()
    Playing(httpserver, "openai", [provider.reply])
    environment |= {
        "POWERON_MODEL": "openai:test",
        "POWERON_MODEL_MAX_TOKENS": "10000",
        "OPENAI_BASE_URL": httpserver.url_for("/v1"),
        "OPENAI_API_KEY": KEY,
    }
    request = RequestWorkflow(prompt="List all decisions.", budgets=Budgets(round_tokens=BUDGET))
    with serving(environment, tmp_path, ["all"]) as processes:
        async with asyncio.TaskGroup() as group:
            found = Followed(connections.log, await send_request(connections, request))
            following = group.create_task(found.follow())
            for number in range(1, KILLS + 1):
                await until(lambda number=number: provider.requests == number, f"call {number} is being made")
                processes.kill("all")
                provider.given_up.release()
                processes.start("all")
            await found.ended()
            following.cancel()
    ending, reserved = found.accepted[-1], found.of("CallReserved")
    assert [each.reservation for each in reserved] == [*range(1, provider.requests + 1)]
    assert (type(ending).__name__, ending.code) == ("RoundFailed", "token_budget")
    interrupted = sum(each.input_tokens + each.output_tokens for each in reserved[:KILLS])
    assert f"It counts {interrupted:,} tokens for interrupted calls" in ending.reason
    assert provider.tokens <= ending.totals.input_tokens + ending.totals.output_tokens <= BUDGET
    assert (await verify(connections.log, connections.pool)).differences == []
