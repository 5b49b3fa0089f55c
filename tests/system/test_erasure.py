"""Canaries on the real servers: after an erasure none is left in the content store, and each that remains is listed."""

import base64
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from commands import Shell
from processes import CRITERION, MET, script, serving
from stored_files import everything_in

from poweron_events import RequestWorkflow, topics
from poweron_events.client import ask
from poweron_events.log import Message, Record
from poweron_events.log.kafka_settings import KafkaSettings
from poweron_events.request import InlineDocument, Requester
from poweron_services.client.connect import Connections, connect
from poweron_services.settings.config import Settings

pytestmark = [pytest.mark.system]

IN_EVENTS = {
    name: f"canary-{name}"
    for name in ("prompt", "person", "objective", "context", "parameter", "decision", "review", "message", "reason")
}
FILE = "canary-file.txt"
IN_CONTENT = ("canary-document", "canary-answer")
LINES: dict[str, list[Any]] = {
    "PlanningPrompt": [
        {"tasks": [{"objective": IN_EVENTS["objective"], "successCriteria": [CRITERION], "taskType": "transform"}]}
    ],
    "SelectionPrompt": [
        {"action": "ai.process", "actionObjective": "Write it.", "parametersContext": IN_EVENTS["context"]}
    ],
    "ParametersPrompt": [{"schema": "parameters_v1", "parameters": {"aiPrompt": IN_EVENTS["parameter"]}}],
    "ProcessPrompt": [f"{IN_CONTENT[1]} {'is written. ' * 200}"],
    "RefinementPrompt": [
        {"decision": "stop", "reason": IN_EVENTS["decision"], "classification": "success", "criteriaProgress": MET}
    ],
    "ReviewPrompt": [{"status": "success", "reason": IN_EVENTS["review"], "criteriaProgress": MET}],
    "MessagePrompt": [IN_EVENTS["message"]],
}


@pytest.fixture(params=["beside", pytest.param("elsewhere", marks=pytest.mark.soak)])
async def connections(
    request: pytest.FixtureRequest,
    kafka: KafkaSettings,
    dsn: str,
    tmp_path: Path,
    *,
    shell: Shell,
    environment: dict[str, str],
) -> AsyncGenerator[Connections, None]:
    """A process that serves and whose keys are beside the content, or elsewhere, and connections to its servers."""
    keys = str(tmp_path / "keys") if request.param == "elsewhere" else None
    for variables in (shell.environment, environment):
        variables.update({"POWERON_CONTENT_KEYS": keys} if keys else {})
    environment["POWERON_MODEL"] = script(tmp_path, LINES)
    settings = Settings(home=tmp_path / "home", content_keys=keys)
    async with connect(settings, kafka=kafka, postgres=dsn) as connections:
        with serving(environment, tmp_path, ["all"]):
            yield connections


async def keep_until_a_past_date(shell: Shell, workflow: str) -> None:
    """Put the content on hold and keep it for long; then end both, which needs a reason."""
    held = await shell("retain", workflow, "--hold", "case-1", "--json")
    assert (held.code, held.lines[0]["status"]) == (0, "retained")
    refused = await shell("erase", workflow, "--reason", "No.", "--yes", "--json")
    assert (refused.code, refused.lines[0]["code"]) == (1, "on_hold")
    shown = await shell("retain", workflow, "--json")
    assert shown.lines == [{"workflowId": workflow, "until": None, "holds": ["case-1"], "isErased": False}]
    released = await shell("retain", workflow, "--release", "case-1", "--reason", "It is closed.", "--json")
    assert released.code == 0, released.err
    shortened = await shell("retain", workflow, "--until", "2020-01-01", "--reason", "The law has changed.")
    assert (shortened.code, "until 2020-01-01" in shortened.out) == (0, True)


async def test_no_canary_is_left_in_the_store_and_each_that_remains_is_listed(
    shell: Shell, connections: Connections, tmp_path: Path
) -> None:
    asked = RequestWorkflow(
        prompt=IN_EVENTS["prompt"],
        requester=Requester(name=IN_EVENTS["person"]),
        documents=(InlineDocument.of(FILE, IN_CONTENT[0].encode(), "text/plain"),),
    )
    *_, answered = [heard async for heard in ask(connections.log, asked, source="/tests", request_id="1")]
    workflow = answered.workflow.id
    await connections.content.put(workflow, b"canary-unreferenced")
    assert answered.workflow.current.ending == "completed"
    unreadable = f'{{"workflowId": "{workflow}", "prompt": "canary-unreadable"'.encode()
    await connections.log.append(topics.REQUESTS.name, [Message(workflow.encode(), unreadable)])

    await keep_until_a_past_date(shell, workflow)
    expired = await shell("erase", "--expired", "--dry-run", "--json")
    assert [each["workflowId"] for each in expired.lines] == [workflow]
    erased = await shell("erase", "--expired", "--reason", IN_EVENTS["reason"], "--yes", "--json")
    assert erased.code == 0, erased.err
    (found,) = erased.lines
    assert (found["status"], found["contents"] > 5, found["bytes"] > 500) == ("erased", True, True)

    left = everything_in(Path(shell.environment["POWERON_HOME"]) / "content")
    assert [each for each in (*IN_EVENTS.values(), *IN_CONTENT, FILE, "canary") if each.encode() in left] == []
    listed = [(each["topic"], each["partition"], each["offset"], each["field"]) for each in found["remains"]]
    remaining = set()
    for topic in (*topics.ALL, topics.PROGRESS):
        for record in await _records(connections, topic.name):
            for path, canary in _canaries(record):
                remaining.add(canary)
                place = (topic.name, record.partition, record.offset)
                assert any(place == each[:3] and path.startswith(each[3]) for each in listed), (place, path, canary)
            if b"canary-unreadable" in (record.value or b""):
                assert (topic.name, record.partition, record.offset, "raw") in listed
    assert {*IN_EVENTS.values(), FILE, IN_CONTENT[0]} <= remaining
    assert (topics.DEAD_LETTERS.name, "raw") in {(each[0], each[3]) for each in listed}

    assert (await shell("erase", "--expired", "--dry-run", "--json")).lines == []
    verified = await shell("verify", "--content", "--json")
    assert (verified.code, verified.lines[0]["content"]["faults"]) == (0, [])
    shown = await shell("show", workflow)
    assert (shown.code, "All content was erased at " in shown.err, "was erased." in shown.err) == (0, True, True)
    assert "round1_request, erased" in (await shell("documents", workflow)).out
    cited = await shell("sources", workflow)
    assert (cited.code, cited.out, "All content was erased at " in cited.err) == (0, "", True)
    bundle = await shell("export", workflow, "--format", "bundle", "--output", "bundle.zip", "--json")
    key = (await shell("audit", "key")).out.splitlines()[0]
    everything = await shell("audit", "verify", "--key", key, "--content")
    assert (everything.code, "V10  ok " in everything.out) == (0, True), everything.out
    assert (bundle.code, (await shell("audit", "verify", "--key", key, "bundle.zip")).code) == (0, 0)


async def _records(connections: Connections, topic: str) -> list[Record]:
    log = connections.log
    try:
        return [record async for batch in log.read(topic, {}, await log.ends(topic)) for record in batch]
    except KeyError:
        return []


def _canaries(record: Record) -> Iterator[tuple[str, str]]:
    """Yield each place in the data of a record that holds a canary, and which."""
    try:
        event = orjson.loads(record.value or b"")
    except ValueError:
        return
    for path, text in _texts(event.get("data", event)):
        for canary in (*IN_EVENTS.values(), *IN_CONTENT, FILE):
            if canary in text or base64.b64encode(canary.encode()).decode() in text:
                yield path, canary


def _texts(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for name, part in value.items():
            yield path, name
            yield from _texts(part, f"{path}.{name}".removeprefix("."))
    elif isinstance(value, list):
        for number, part in enumerate(value):
            yield from _texts(part, f"{path}[{number}]")
