"""`poweron evaluate` and `poweron export` on the real servers, over the example documents, without a language model."""

import base64
from pathlib import Path
from typing import Any

import orjson
import pytest
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent
from commands import NOBODY, Ended, Shell
from google.protobuf import json_format
from openinference.semconv.trace import SpanAttributes
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from processes import ONE_STEP, script

from poweron_events.log.kafka_settings import KafkaSettings
from poweron_services.client.connect import connect
from poweron_services.client.workflow_snapshot import verified_records
from poweron_services.settings.config import Settings

pytestmark = [pytest.mark.system]

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
TABLE = EXAMPLES / "requests.jsonl"


def table(folder: Path) -> Path:
    """The table of the examples, in a folder that a run can be kept in."""
    for path in EXAMPLES.iterdir():
        if path.is_file():
            (folder / path.name).write_bytes(path.read_bytes())
    return folder / TABLE.name


def report(ended: Ended) -> dict[str, Any]:
    (found,) = ended.lines
    return dict(found)


async def run_of(shell: Shell) -> dict[str, Any]:
    ended = await shell("evaluate", table(shell.folder), "--require", "1", "--json")
    assert ended.code == 0, ended.err
    return report(ended)


async def test_the_examples_are_answered_right_and_judged_again_without_a_call(shell: Shell) -> None:
    found = await run_of(shell)
    lines = len(TABLE.read_text().splitlines())
    (score,) = found["models"]
    assert (score["model"], score["asked"], score["right"], score["share"]) == ("builtin", lines, lines, 1.0)
    assert all(each["models"] == ["builtin/extractive-1"] for each in found["answers"])

    before = (await shell("workflows", "--json")).lines
    again = await shell("evaluate", shell.folder / TABLE.name, "--recorded", found["runId"], "--json")
    assert report(again)["answers"] == found["answers"]
    assert (await shell("workflows", "--json")).lines == before
    assert {each["workflowId"] for each in found["answers"]} == {each["workflowId"] for each in before}


async def test_models_are_told_apart_and_the_exit_code_follows_from_what_is_required(shell: Shell) -> None:
    path = shell.folder / "q.jsonl"
    path.write_text('{"prompt": "Write a sentence.", "expect": {"contains": "written"}}\n')
    scripted = script(shell.folder, ONE_STEP)
    ended = await shell("evaluate", path, "--model", scripted, "--model", "builtin", "--require", "0.9")
    assert ended.code == 1, ended.err
    assert f"| {scripted} | 1 of 1 | 100% | 0 |" in ended.out
    assert "| builtin | 0 of 1 | 0% | 0 |" in ended.out
    assert f"- line 1: {scripted} 1 of 1, builtin 0 of 1" in ended.out
    assert "Fewer answers are right than the 90% that are required: builtin (0%)." in ended.err.replace("\n", " ")


async def test_a_workflow_is_exported_for_other_tools_byte_for_byte_and_as_a_trace(
    shell: Shell, kafka: KafkaSettings, dsn: str
) -> None:
    asked = await shell("ask", "What is the grand total?", "--document", EXAMPLES / "estimate.pdf", "--json")
    workflow = asked.lines[0]["workflowId"]
    async with connect(Settings(home=shell.folder), kafka=kafka, postgres=dsn) as connections:
        written = [record.value for record in await verified_records(connections, workflow)]

    file = shell.folder / "made on the way" / "run.jsonl"
    assert (await shell("export", workflow, "--output", file)).code == 0
    lines = file.read_bytes().splitlines()
    assert lines == written
    assert (await shell("export", workflow, "--format", "events")).out.encode() == file.read_bytes()
    assert (await shell("export", workflow, "--output", file)).code == 0
    refused = await shell("export", workflow, "--format", "otel", "--output", file)
    assert (refused.code, "is another file and is kept." in " ".join(refused.err.split())) == (2, True)
    assert file.read_bytes().splitlines() == written
    events = [JSONFormat().read(CloudEvent, line) for line in lines]
    assert {event.get_subject() for event in events} == {workflow}

    for form in ("otel", "openinference"):
        text = (await shell("export", workflow, "--format", form)).out
        spans = json_format.Parse(text, ExportTraceServiceRequest()).resource_spans[0].scope_spans[0].spans
        assert {base64.b64encode(span.trace_id).decode() for span in spans} == {workflow.replace("-", "")}
        said = [each.value.string_value for span in spans for each in span.attributes]
        assert any("grand total" in each for each in said) == (form == "openinference")
        assert (SpanAttributes.INPUT_VALUE in text) == (form == "openinference")
        assert len(orjson.loads(text)["resourceSpans"]) == 1

    other = (await shell("ask", "What is the grand total?", "--document", EXAMPLES / "estimate.pdf", "--json")).lines[0]
    both, siem = (workflow, other["workflowId"]), shell.folder / "siem.jsonl"
    for _ in "twice":
        assert (await shell("export", *both, "--format", "ocsf", "--output", siem)).code == 0
    events = [*map(orjson.loads, siem.read_bytes().splitlines())]
    assert list(dict.fromkeys(event["metadata"]["correlation_uid"] for event in events)) == [*both]
    document = orjson.loads((await shell("export", *both, "--format", "prov")).out)
    assert {f"poweron:{each}/r1/answer" for each in both} < document["entity"].keys()
    assert b"grand total" not in siem.read_bytes() + orjson.dumps(document)


async def test_what_cannot_be_exported_is_said_in_a_sentence(shell: Shell) -> None:
    unknown = await shell("export", NOBODY)
    assert (unknown.code, "There is no workflow" in unknown.err) == (1, True)
    assert (await shell("export", "x")).code == 2
    folder, nowhere = [await shell("export", NOBODY, "--output", path) for path in (shell.folder, "/proc/run.jsonl")]
    assert (folder.code, "is a folder. Name a file in it with --output." in folder.err) == (2, True)
    assert (nowhere.code, "'/proc/run.jsonl' cannot be written: " in nowhere.err) == (2, True)
    assert (await shell("export", NOBODY, "--format", "zipkin")).code == 2
    several = await shell("export", NOBODY, NOBODY.replace("7", "8"), "--format", "otel")
    assert (several.code, "Name one workflow to export as otel" in several.err) == (2, True)
