"""The OpenAPI document: each entry of an answer has an example, and each example is what its schema says."""

from typing import Any

import jsonschema
import pytest

from poweron_services.door.api_document import DocumentedApi, examples, operations
from poweron_services.door.application import routed
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


def test_each_answer_of_a_query_has_an_example(document: Json) -> None:
    lacking = []
    for path, method, operation in operations(document):
        content = operation["responses"].get("200", {}).get("content", {}).get("application/json", {})
        name = content.get("schema", {}).get("$ref", "").rpartition("/")[2]
        if method == "get" and name and "examples" not in document["components"]["schemas"][name]:
            lacking.append((path, name))
    assert lacking == []


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
