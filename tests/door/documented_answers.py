"""The answers to commands that the OpenAPI document describes, to compare with those of a door."""

import re
from typing import Any

import httpx2
import jsonschema

from poweron_services.door.api_document import operations

Json = dict[str, Any]


class DocumentedAnswers:
    """The statuses, media types and schemas of the answers to commands in an OpenAPI document."""

    def __init__(self, document: Json) -> None:
        self._components = document["components"]
        self._commands = [
            (re.compile(re.sub(r"\{[^}]+\}", "[^/]+", path)), operation["responses"])
            for path, method, operation in operations(document)
            if method == "post"
        ]

    async def check(self, response: httpx2.Response) -> None:
        """Fail if this is an answer to a command that the document does not describe, or one with further fields."""
        if response.request.method != "POST":
            return
        await response.aread()
        schema = self._schema_of(response)
        validator = jsonschema.Draft202012Validator({**schema, "components": self._components})
        answer = response.json()
        assert [error.message for error in validator.iter_errors(answer)] == [], response.text
        if response.is_success:  # a problem may have facts of its own
            fields = self._components["schemas"][schema["$ref"].rpartition("/")[2]]["properties"]
            assert answer.keys() == fields.keys(), response.text

    def _schema_of(self, response: httpx2.Response) -> Json:
        path = response.request.url.path
        (responses,) = [responses for command, responses in self._commands if command.fullmatch(path)]
        described = responses[str(response.status_code)]
        shared = described.get("$ref", "").rpartition("/")[2]
        content = (self._components["responses"][shared] if shared else described)["content"]
        schema: Json = content[response.headers["content-type"]]["schema"]
        return schema
