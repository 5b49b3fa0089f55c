"""The written contracts are what the models say, and hold for every example."""

import json
import re
import subprocess
import sys
import uuid
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from referencing import Registry, Resource
from strategies import models, workflow_events

from poweron_events import topics
from poweron_events.codec import encode, encode_request
from poweron_events.dead_letter import DeadLetter
from poweron_events.documentation import ROOT, files, obsolete
from poweron_events.documentation.asyncapi import json_schemas
from poweron_events.documentation.examples import EXAMPLES
from poweron_events.documentation.glossary import AUTHORS, MEANINGS
from poweron_events.envelope import envelop
from poweron_events.event import Event
from poweron_events.log import Record
from poweron_events.progress import StepProgress
from poweron_events.round_events import AnswerRejected
from poweron_events.step_events import CallReserved
from poweron_events.stream import REQUESTS, WORKFLOW_EVENTS, WorkflowEvent

WORKFLOW = "7d444840-9dc0-11d1-b245-5ffdce74fad2"
TIME = "2026-11-21T00:00:00.000Z"
ALL = {**REQUESTS, **WORKFLOW_EVENTS}
EACH = pytest.mark.parametrize("event_class", ALL.values(), ids=lambda each: each.__name__)
schemas = cache(json_schemas)


@pytest.mark.req("E-13")
def test_the_committed_files_are_what_the_models_say() -> None:
    changed = [path for path, text in files().items() if (ROOT / path).read_text(encoding="utf-8") != text]
    assert changed == [], "run: uv run python -m poweron_events.documentation"


def test_no_schema_is_left_of_an_event_that_is_gone() -> None:
    assert list(obsolete()) == []


def test_the_command_writes_the_files(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "poweron_events.documentation", str(tmp_path)], check=True)
    written = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.*") if path.is_file()}
    assert written == set(files())


@EACH
def test_a_schema_is_one_and_speaks_camel_case(event_class: type[Event]) -> None:
    schema = schemas()[event_class.TYPE]
    jsonschema.Draft202012Validator.check_schema(schema)
    for part in (schema, *schema.get("$defs", {}).values()):
        for name, field in part.get("properties", {}).items():
            assert re.fullmatch(r"[a-z][A-Za-z0-9]*", name)
            assert field["description"].endswith(".")
            assert field["description"] == MEANINGS.get(f"{part['title']}.{name}", MEANINGS.get(name))


@EACH
@settings(max_examples=8)
@given(generated=st.data())
def test_whatever_we_write_fits_its_schema(event_class: type[Event], generated: st.DataObject) -> None:
    event = generated.draw(models(event_class))
    checked = jsonschema.Draft202012Validator(schemas()[event_class.TYPE])  # itself checked above
    checked.validate(event.model_dump(mode="json", by_alias=True))


@pytest.mark.req("E-13")
@EACH
def test_a_writer_that_adds_a_field_does_not_fit_the_schema(event_class: type[Event]) -> None:
    data = next(example for example in EXAMPLES if type(example) is event_class).model_dump(mode="json", by_alias=True)
    with pytest.raises(jsonschema.ValidationError, match="mood"):
        jsonschema.validate(data | {"mood": 1}, schemas()[event_class.TYPE])


FREE = {
    "poweron.workflow.requested.v1": {"prompt"},
    "poweron.cancellation.requested.v1": {"reason"},
    "poweron.request.refused.v1": {"detail"},
    "poweron.document.erased.v1": {"reason", "legalBasis"},
    "poweron.action.selected.v1": {"actionObjective", "parametersContext"},
    "poweron.selection.rejected.v1": {"reason", "detail"},
    "poweron.observation.recorded.v1": {"summary"},
    "poweron.refinement.decided.v1": {"reason"},
    "poweron.task.reviewed.v1": {"reason"},
    "poweron.stage.failed.v1": {"error"},
    "poweron.round.completed.v1": {"message"},
    "poweron.round.failed.v1": {"message", "reason"},
}


@pytest.mark.req("E-10")
@pytest.mark.parametrize("wire_type", FREE)
def test_what_a_person_or_a_model_wrote_is_marked(wire_type: str) -> None:
    marked = {name for name, field in schemas()[wire_type]["properties"].items() if field.get("freeText")}
    assert marked == FREE[wire_type]


def test_every_event_has_an_author_and_every_word_a_use() -> None:
    assert set(AUTHORS) == {event.__name__ for event in WORKFLOW_EVENTS.values()}
    used = {
        (part["title"], name)
        for schema in schemas().values()
        for part in (schema, *schema.get("$defs", {}).values())
        for name in part.get("properties", {})
    }
    names = {name for _, name in used} | {f"{title}.{name}" for title, name in used}
    assert set(MEANINGS) - names == set()


# --- AsyncAPI --------------------------------------------------------------------------------------


def asyncapi() -> dict[str, Any]:
    return json.loads((ROOT / "events" / "asyncapi.json").read_text())


def validator(message: str) -> jsonschema.Draft202012Validator:
    """What a payload of a message has to look like, with all references resolved as files."""
    document = asyncapi()
    base = "file:///asyncapi.json"
    resources = [(base, Resource(contents=document, specification=_dialect()))]
    resources += [
        (f"file:///schemas/{name}.json", Resource(contents=schema, specification=_dialect()))
        for name, schema in _without_ids()
    ]
    schema = {"$ref": f"{base}#/components/messages/{message}/payload"}
    return jsonschema.Draft202012Validator(schema, registry=Registry().with_resources(resources))


def _dialect() -> Any:
    from referencing.jsonschema import DRAFT202012

    return DRAFT202012


def _without_ids() -> list[tuple[str, dict[str, Any]]]:
    return [(name, {key: value for key, value in schema.items() if key != "$id"}) for name, schema in schemas().items()]


def test_the_six_topics_are_described_with_their_keys() -> None:
    document = asyncapi()
    assert document["asyncapi"] == "3.0.0"
    assert {name: channel["address"] for name, channel in document["channels"].items()} == {
        "requests": "poweron.requests",
        "events": "poweron.events",
        "deadletter": "poweron.deadletter",
        "ledger": "poweron.ledger",
        "checkpoints": "poweron.checkpoints",
        "progress": "poweron.progress",
    }
    for topic in (*topics.ALL, topics.PROGRESS):
        (channel,) = (each for each in document["channels"].values() if each["address"] == topic.name)
        assert channel["bindings"]["kafka"]["partitions"] == topic.partitions
        for reference in channel["messages"].values():
            message = document["components"]["messages"][reference["$ref"].rpartition("/")[2]]
            assert message["bindings"]["kafka"]["key"]["type"] == "string"


def test_every_reference_leads_somewhere() -> None:
    document = asyncapi()
    references = re.findall(r'"\$ref": "([^"]+)"', json.dumps(document))
    assert references
    for reference in references:
        if reference.startswith("#/"):
            place = document
            for name in reference[2:].split("/"):
                place = place[name]
        else:
            assert (ROOT / "events" / reference).is_file(), reference


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda each: type(each).__name__)
def test_every_example_is_a_message_of_its_topic(example: Event) -> None:
    name = type(example).__name__
    if example.TYPE in REQUESTS:
        value = encode_request(example, source="/crm", request_id="1", time=TIME)
        validator(f"{name}Binary").validate(orjson.loads(value)["data"])
    else:
        value = encode(envelop(example, workflow_id=WORKFLOW, source="/poweron/test/1", time=TIME))
    validator(name).validate(orjson.loads(value))
    with pytest.raises(jsonschema.ValidationError):
        validator(name).validate(orjson.loads(value) | {"type": "poweron.other.v1"})


def test_a_dead_letter_is_a_message_of_its_topic() -> None:
    letter = DeadLetter.of(Record("poweron.events", 0, 41, 0, b"k", b"\xff\xfe", {}), "not JSON")
    validator("DeadLetter").validate(orjson.loads(letter.message().value))
    assert asyncapi()["components"]["messages"]["DeadLetter"]["name"] == "poweron.deadletter.v1"


def test_progress_is_a_message_of_its_topic() -> None:
    place = {"round": 1, "task": 1, "attempt": 1, "step": 2, "try_": 1}
    told = StepProgress(
        workflow_id=WORKFLOW, action="ai.process", unit="parts_answered", done=3, total=12, time=TIME, **place
    )
    validator("StepProgress").validate(orjson.loads(told.message().value))


def test_a_binary_request_names_its_headers() -> None:
    message = asyncapi()["components"]["messages"]["RequestWorkflowBinary"]
    assert message["contentType"] == "application/json"
    assert message["headers"]["required"] == ["ce_specversion", "ce_type", "ce_source", "ce_id"]


# --- the page --------------------------------------------------------------------------------------


def test_the_page_shows_every_event_with_an_example_that_is_one() -> None:
    page = (ROOT / "docs" / "events.md").read_text()
    examples = [json.loads(block) for block in re.findall(r"```json\n(.*?)\n```", page, re.DOTALL)]
    assert {example["type"] for example in examples} == set(ALL)
    for name in (event.__name__ for event in ALL.values()):
        assert f"\n### {name}\n" in page


def identity_by_the_page(example: Any) -> str:
    """The id of a record's JSON, by nothing but what the page says of it."""
    page = " ".join((ROOT / "docs" / "events.md").read_text().split("\n## ")[0].split())
    said = re.search(r"uuid5 of `(.+?)` and `workflow id\|(.+?)`", page)
    assert said is not None
    assert "Parts that an event does not have are 0." in page
    assert "An event with a `request` has that request's `source|id` instead of the try." in page
    assert f"`{CallReserved.TYPE}` has its `reservation` instead of the try." in page
    assert "An event with a `question` and without a `request` has that question instead of the try." in page
    assert f"`{AnswerRejected.TYPE}` has its `type|stage` instead of the type." in page
    data = example["data"]
    parts = {**data, "type": example["type"]}
    if data.get("request"):
        parts["try"] = "{source}|{id}".format(**data["request"])
    if example["type"] == CallReserved.TYPE:
        parts["try"] = data["reservation"]
    if "question" in data and not data.get("request"):
        parts["try"] = data["question"]
    if example["type"] == AnswerRejected.TYPE:
        parts["type"] = f"{example['type']}|{data['stage']}"
    slot = "|".join(str(parts.get(name, 0)) for name in said[2].split("|"))
    return str(uuid.uuid5(uuid.UUID(said[1]), f"{example['subject']}|{slot}"))


@pytest.mark.req("E-04")
@settings(max_examples=300)
@given(event=workflow_events)
def test_the_id_of_every_event_follows_from_what_the_page_says(event: WorkflowEvent) -> None:
    example = orjson.loads(encode(envelop(event, workflow_id=WORKFLOW, source="/poweron/test/1", time=TIME)))
    assert identity_by_the_page(example) == example["id"]


@pytest.mark.req("E-04")
def test_the_ids_of_the_pages_examples_follow_from_what_the_page_says() -> None:
    page = (ROOT / "docs" / "events.md").read_text()
    examples = [json.loads(block) for block in re.findall(r"```json\n(.*?)\n```", page, re.DOTALL)]
    events = [example for example in examples if example["type"] in WORKFLOW_EVENTS]
    assert [identity_by_the_page(example) for example in events] == [example["id"] for example in events]
