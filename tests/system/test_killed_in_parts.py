"""`kill -9` of the executor while it asks for the parts of a long document: no part that was answered is asked again."""

import asyncio
import json
import re
import threading
from collections import Counter
from pathlib import Path
from typing import Any, Final

import orjson
import pytest
from followed_workflows import Followed, send_request
from processes import serving
from providers import KEY, Playing, answer, as_json
from pytest_httpserver import HTTPServer
from surviving import until
from werkzeug import Response

from poweron_events import InlineDocument, RequestWorkflow
from poweron_projections import reader
from poweron_projections.verify import verify
from poweron_services.client.connect import Connections
from poweron_services.wiring import ROLES

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]

ANSWERED: Final = 12
"""How many parts are answered before the kill."""
PARTS: Final = re.compile(r"This is part (\d+) of (\d+)\.")
OTHERS: Final = ",".join(role for role in ROLES if role != "executor")
SENTENCE: Final = "The committee looked at the plans once more and put the matter off until the spring. "
TOKENS_OF_A_CALL: Final = 1_020


class Parts:
    """A provider that answers each part, but holds back what is asked after so many answers until it is let go."""

    def __init__(self) -> None:
        self.asked = Counter[int]()
        self.answered = Counter[int]()
        self.count = 0
        self.together = 0
        self.held = threading.Event()
        self.let_go = threading.Event()

    def reply(self, asked: dict[str, Any]) -> Response:
        found = PARTS.search(json.dumps(asked))
        if found is None:
            self.together += 1
            return as_json(answer("openai", "All parts are put together.", asked))
        part, self.count = int(found[1]), int(found[2])
        self.asked[part] += 1
        if len(self.answered) == ANSWERED and not self.let_go.is_set():
            self.held.set()
            self.let_go.wait()
        self.answered[part] += 1
        return as_json(answer("openai", f"What part {part} says.", asked))


def kept(home: Path) -> int:
    """How many answers are kept for steps; what is being written is not counted."""
    return len([path for path in home.glob("**/answers/*") if "." not in path.name])


@pytest.mark.soak
@pytest.mark.req("C-04")
@pytest.mark.req("E-08")
@pytest.mark.req("B-01")
async def test_an_executor_killed_among_the_parts_asks_for_no_answered_part_again_and_each_counts_once(
    connections: Connections, environment: dict[str, str], tmp_path: Path, httpserver: HTTPServer
) -> None:
    parts = Parts()
    Playing(httpserver, "openai", [parts.reply])
    environment |= {
        "POWERON_MODEL_PROCESS": "openai:test",
        "POWERON_MODEL_WINDOW": "8000",
        "OPENAI_BASE_URL": httpserver.url_for("/v1"),
        "OPENAI_API_KEY": KEY,
    }
    text = "\n\n".join(f"Paragraph {number}. {SENTENCE * 5}" for number in range(600))
    document = InlineDocument.of("minutes.txt", text.encode())
    request = RequestWorkflow(prompt="List all decisions.", documents=(document,))
    with serving(environment, tmp_path, ["executor", OTHERS]) as processes:
        async with asyncio.TaskGroup() as group:
            found = Followed(connections.log, await send_request(connections, request))
            following = group.create_task(found.follow())
            await until(lambda: parts.held.is_set() and kept(tmp_path) == ANSWERED, "answers are kept")
            before = {*parts.answered}
            processes.kill("executor")
            parts.let_go.set()
            processes.start("executor")
            await found.ended()
            following.cancel()
    assert type(found.accepted[-1]).__name__ == "RoundCompleted"
    assert {part: parts.asked[part] for part in before} == dict.fromkeys(before, 1)
    assert {*parts.asked} == {*range(1, parts.count + 1)}
    assert parts.together == 1

    event = found.of("ActionCompleted")[-1]
    assert [start.try_ for start in found.of("ActionStarted")][-1] == 2
    content = connections.content
    calls = orjson.loads(await content.get(found.workflow.id, event.all_calls))
    assert len(calls) == parts.count + 1
    answers = [(await content.get(found.workflow.id, call["answerRef"])).decode() for call in calls]
    assert {*answers} == {*(f"What part {part} says." for part in parts.asked), "All parts are put together."}
    assert sum(call.input_tokens + call.output_tokens for call in event.model_calls) == len(calls) * TOKENS_OF_A_CALL
    row = await reader.workflow(connections.pool, found.workflow.id)
    assert row is not None
    assert row.tokens > len(calls) * TOKENS_OF_A_CALL
    assert [(one.document_name, one.characters == one.characters_shown) for one in event.coverage] == [
        ("minutes.txt", True)
    ]
    assert (await verify(connections.log, connections.pool)).differences == []
