"""The OpenAPI document: each entry of an answer has an example, and each example is what its schema says."""

import threading
from typing import Any

import httpx2
import jsonschema
import pytest

from poweron_services.door import api_document
from poweron_services.door.api_document import DocumentedApi, examples, operations
from poweron_services.door.application import build, routed
from poweron_services.door.door_state import DoorState
from poweron_services.settings.config import Settings

Json = dict[str, Any]


@pytest.fixture(scope="module")
def document() -> Json:
    api: DocumentedApi = routed(DoorState(Settings(), frozenset(), is_local=True))
    return api.openapi()


def test_each_example_is_what_its_schema_says(document: Json) -> None:
    schemas = document["components"]["schemas"]
    shown = {name: schema["examples"][0] for name, schema in schemas.items() if "examples" in schema}
    assert shown.keys() >= examples().keys()
    for name, example in shown.items():
        schema = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
        jsonschema.Draft202012Validator(schema).validate(example)


def test_each_answer_has_a_named_schema_with_an_example(document: Json) -> None:
    lacking, elsewhere = [], {"downloadContent", "readCheckpoint", "readRecord", "streamOfAll", "streamOfWorkflow"}
    for path, _, operation in operations(document):
        if operation["operationId"] in elsewhere or "200" not in operation["responses"]:
            continue
        name = operation["responses"]["200"]["content"]["application/json"]["schema"].get("$ref", "").rpartition("/")[2]
        if not name or "examples" not in document["components"]["schemas"][name]:
            lacking.append((path, name))
    assert lacking == []


def test_each_parameter_and_each_body_takes_its_default_and_its_example(document: Json) -> None:
    values = list[tuple[str, Json, Any]]()
    for path, _, operation in operations(document):
        for parameter in operation.get("parameters", ()):
            schema = parameter["schema"]
            defaults = [schema["default"]] if "default" in schema else []
            values += [(path, schema, value) for value in (*defaults, *schema.get("examples", ()))]
        for media in operation.get("requestBody", {}).get("content", {}).values():
            values.append((path, media["schema"], media["example"]))
            body = media["schema"].get("properties", {}).get("request", media["schema"])
            assert body.keys() == {"$ref"}, "generated clients name a body by its schema"
    assert len(values) > 30
    for path, schema, value in values:
        validator = jsonschema.Draft202012Validator(
            {**schema, "components": document["components"]},
            format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER,
        )
        assert [error.message for error in validator.iter_errors(value)] == [], path


def test_each_operation_has_a_sentence_a_tag_and_its_problems(document: Json) -> None:
    names = set()
    for path, _, operation in operations(document):
        assert operation["description"].endswith("."), path
        assert operation["tags"], path
        assert {"401", "403", "421", "422", "429", "503"} <= operation["responses"].keys(), path
        names.add(operation["operationId"])
    assert len(names) == len([*operations(document)])
    assert document["openapi"].startswith("3.1")
    assert document["externalDocs"]["url"] == "/api/v1/asyncapi.json"


async def test_the_document_is_built_once_and_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    builders, complete = [], api_document._complete

    def noted(path: str, method: str, operation: Json) -> None:
        builders.append(threading.current_thread())
        complete(path, method, operation)

    monkeypatch.setattr(api_document, "_complete", noted)
    api = build(DoorState(Settings(), frozenset({"localhost"}), is_local=True))
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=api), base_url="http://localhost") as http:
        answers = [await http.get(path) for path in ("/api", "/api/v1/openapi.json", "/api/v1/openapi.json")]
    assert [answer.status_code for answer in answers] == [200, 200, 200]
    assert answers[1].json()["openapi"].startswith("3.1")
    assert len(builders) == len([*operations(answers[1].json())])
    assert threading.main_thread() not in builders
