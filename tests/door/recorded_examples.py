"""Record the examples of the OpenAPI document from real workflows: `uv run python tests/door/recorded_examples.py URL`.

`URL` is a door whose workflows may be shown: at least one with a document, better also one that waits for approval.
"""

import getpass
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx2
import orjson

from poweron_services.door.query_parameters import EXAMPLE_ID

FILE: Final = Path(__file__).parents[2] / "services/poweron_services/door/openapi_examples.json"
LONG: Final = 600  # characters of a text, beyond which it is cut
MOST: Final = 1  # entries of a list
BY_HAND: Final[dict[str, Any]] = {
    "HaltedWorkflow": {
        "workflowId": EXAMPLE_ID,
        "prompt": "When does it open?",
        "round": 1,
        "phase": "select",
        "stuck": True,
        "frozen": False,
        "since": "2026-11-21T09:30:00.000Z",
    },
    "RequestJson": {
        "requestId": "7",
        "source": "/poweron/http/ada",
        "workflowId": EXAMPLE_ID,
        "status": "accepted",
        "code": None,
        "detail": "",
        "round": 1,
        "seq": 0,
        "links": {"workflow": f"/api/v1/workflows/{EXAMPLE_ID}", "request": "/api/v1/requests/7"},
    },
    "DeadLetterEntry": {
        "topic": "poweron.requests",
        "partition": 3,
        "offset": 17,
        "reason": "it is not JSON",
        "size": 5,
        "raw": "aGVsbG8=",
        "time": "2026-11-21T09:30:00.000Z",
    },
}
"""What should not happen to the workflows of an example."""


def values(schema: dict[str, Any], value: Any, schemas: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the parts of a value that have a schema of their own."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        yield name, value
        schema = schemas[name]
    for kind in schema.get("anyOf", ()):
        if fits(kind, value, schemas):
            yield from values(kind, value, schemas)
    if isinstance(value, list):
        for item in value:
            yield from values(schema.get("items", {}), item, schemas)
    if isinstance(value, dict):
        for name, part in value.items():
            yield from values(schema.get("properties", {}).get(name, {}), part, schemas)


def fits(kind: dict[str, Any], value: Any, schemas: dict[str, Any]) -> bool:
    """Return whether an object has what one of several schemas requires."""
    if "$ref" in kind:
        kind = schemas[kind["$ref"].rpartition("/")[2]]
    if not isinstance(value, dict):
        return kind.get("type") == "array" and isinstance(value, list)
    return kind.get("type") == "object" and value.keys() >= {*kind.get("required", ())}


def short(value: Any) -> Any:
    """Return a value that fits into a document."""
    if isinstance(value, str):
        value = value.replace(socket.gethostname(), "host").replace(getpass.getuser(), "ada")
        return value if len(value) <= LONG else value[:LONG] + "…"
    if isinstance(value, list):
        return [short(item) for item in value[:MOST]]
    return {name: short(part) for name, part in value.items()} if isinstance(value, dict) else value


def record(url: str) -> dict[str, Any]:
    """Return an example of each schema that some answer has."""
    with httpx2.Client(base_url=url, timeout=60) as http:
        document = http.get("/api/v1/openapi.json").json()
        workflows = [entry["workflowId"] for entry in http.get("/api/v1/workflows").json()["items"]]
        found = dict[str, Any]()
        for path, methods in document["paths"].items():
            if "get" not in methods or path.endswith(("/stream", "/raw")):
                continue
            content = methods["get"]["responses"]["200"].get("content", {})
            schema = content.get("application/json", {}).get("schema", {})
            for workflow in workflows if "{workflow_id}" in path else [""]:
                address = path.format_map(
                    {"workflow_id": workflow, "seq": 4, "place": "r1t1a1s1", **dict.fromkeys(NAMES)}
                )
                answer = http.get(address, params={"with": workflow} if path.endswith("/diff") else {})
                if answer.status_code == 200:
                    for name, value in values(schema, answer.json(), document["components"]["schemas"]):
                        found.setdefault(name, short(value))
    return dict(sorted({**BY_HAND, **found}.items()))


NAMES: Final = ("name", "request_id", "topic", "partition", "offset")


if __name__ == "__main__":
    FILE.write_bytes(orjson.dumps(record(sys.argv[1]), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
