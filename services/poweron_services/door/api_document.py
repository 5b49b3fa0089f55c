"""The description of the API as OpenAPI 3.1, and a page that lists its operations."""

import asyncio
from collections.abc import Iterator
from functools import cache
from importlib import resources
from typing import Any, Final, NamedTuple

import orjson
from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.routing import APIRoute
from pydantic.alias_generators import to_camel

from poweron_events.documentation.asyncapi import asyncapi
from poweron_services.door.command_outcomes import OUTCOMES
from poweron_services.door.door_state import API
from poweron_services.door.json_responses import JSON, cacheable_response
from poweron_services.door.page_rendering import rendered
from poweron_services.door.problems import MEDIA_TYPE, STATUS_CODES, explained
from poweron_services.door.request_bodies import body_schemas

router = APIRouter()

ASYNCAPI: Final = f"{API}/asyncapi.json"
OPENAPI: Final = f"{API}/openapi.json"
EXAMPLES: Final = "openapi_examples.json"
DESCRIPTION: Final = """
Ask PowerOn for work, follow it, and read what happened and why.

Lists are pages `{items, next}`: send `next` as `cursor` to get the next page, or follow the header `Link`.
Errors are problems (RFC 9457); their `type` is the address of a page with advice.
The same events and requests are topics in Kafka, which an [AsyncAPI document](/api/v1/asyncapi.json) describes.
""".strip()
TAGS: Final = {
    "commands": "Requests; each is answered with 202 as soon as it is in the log.",
    "workflows": "Workflows: what was asked, what was done, and the result.",
    "audit": "How a workflow came to be as it is: states, decisions, replays, bytes.",
    "content": "Documents, prompts and answers.",
    "operations": "What waits for whom, what cannot be read, what it costs, and what is allowed.",
    "streams": "Events as they happen.",
}
PROBLEM: Final[dict[str, Any]] = {
    "type": "object",
    "description": "What went wrong (RFC 9457), and what to do next.",
    "required": ["type", "title", "status", "detail", "code", "advice"],
    "properties": {
        "type": {"type": "string", "format": "uri-reference", "description": "The address of a page with advice."},
        "title": {"type": "string", "description": "What the code means."},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "What happened."},
        "code": {"type": "string", "description": "The code, for programs."},
        "advice": {"type": "string", "description": "What to do next."},
    },
    "examples": [
        {
            "type": "/problems/unknown_workflow",
            "title": "No round of the workflow was ever opened.",
            "status": 404,
            "detail": "There is no workflow 8f14e45f-ceea-567a-8f14-e45fceea167a.",
            "code": "unknown_workflow",
            "advice": "Copy the id from the list of workflows.",
        }
    ],
}
ALWAYS: Final = (400, 401, 403, 421, 422, 429, 503)
"""The problems of every operation."""
RETRY: Final = frozenset({429, 503})


class _Link(NamedTuple):
    """A value of an answer that is a parameter of further operations."""

    of: str
    status: str
    parameters: dict[str, str]
    to: tuple[str, ...]


_SAME: Final = {"workflow_id": "$request.path.workflow_id"}
_FIRST: Final = {"workflow_id": "$response.body#/items/0/workflowId"}
_STARTED: Final = {"workflow_id": "$response.body#/workflowId"}
_OF_WORKFLOW: Final = (
    "readWorkflow",
    "listRounds",
    "listTasks",
    "listSteps",
    "readHistory",
    "listEvents",
    "listUsage",
    "listDocuments",
    "checkSources",
    "readState",
    "replayWorkflow",
)
LINKS: Final = (
    _Link("startWorkflow", "200", _STARTED, _OF_WORKFLOW),
    _Link("startWorkflow", "202", _STARTED, _OF_WORKFLOW),
    _Link("listWorkflows", "200", _FIRST, _OF_WORKFLOW),
    _Link("listEvents", "200", {**_SAME, "seq": "$response.body#/items/0/seq"}, ("readDecision", "readRecord")),
    _Link("listEvents", "200", {**_SAME, "at": "$response.body#/items/0/seq"}, ("readState",)),
    _Link("listDocuments", "200", {**_SAME, "name": "$response.body#/items/0/content"}, ("downloadContent",)),
    _Link("listUsage", "200", {**_SAME, "name": "$response.body#/items/0/promptRef"}, ("downloadContent",)),
    _Link("readWorkflow", "200", {**_SAME, "with": "$response.body#/forkedFrom"}, ("compareWorkflows",)),
)


class DocumentedApi(FastAPI):
    """An application that describes itself."""

    def __init__(self, version: str) -> None:
        super().__init__(
            title="PowerOn",
            summary="Work that a language model steers, as a log of events that anyone can audit.",
            description=DESCRIPTION,
            version=version,
            openapi_url=None,  # FastAPI would build the document on the event loop
            openapi_tags=[{"name": name, "description": text} for name, text in TAGS.items()],
            generate_unique_id_function=_operation_id,
            docs_url=None,
            redoc_url=None,
        )
        self._describing = asyncio.Lock()

    async def described(self) -> dict[str, Any]:
        """Return the document, which a thread builds at the first call: that takes seconds."""
        async with self._describing:
            return await asyncio.to_thread(self.openapi)

    def openapi(self) -> dict[str, Any]:
        """Return the document: FastAPI's, with our problems instead of its own, examples and links."""
        if self.openapi_schema is None:
            document = super().openapi()
            document["externalDocs"] = {"url": ASYNCAPI, "description": "The topics in Kafka, as AsyncAPI 3.0."}
            schemas = document.setdefault("components", {}).setdefault("schemas", {})
            for name in ("HTTPValidationError", "ValidationError"):
                schemas.pop(name, None)
            schemas |= body_schemas()
            schemas["Problem"] = PROBLEM
            document["components"]["responses"] = {str(status): _problem(status) for status in STATUS_CODES}
            for path, method, operation in operations(document):
                _complete(path, method, operation)
                if self.state.door.is_local:  # the user of the machine acts without a key
                    operation["security"] = [{}, *operation.get("security", [])]
            for link in LINKS:
                _connect(document, link)
            for name, example in {**examples(), **OUTCOMES}.items():
                if name in schemas:
                    schemas[name]["examples"] = [example]
        return self.openapi_schema or {}


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield the path, the method and the description of each operation."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


@cache
def examples() -> dict[str, Any]:
    """Return an example of each schema, recorded from a real workflow by tests/door/recorded_examples.py."""
    found: dict[str, Any] = orjson.loads(resources.files(__package__ or "").joinpath(EXAMPLES).read_bytes())
    return found


def _operation_id(route: APIRoute) -> str:
    return to_camel(route.name)


def _problem(status: int) -> dict[str, Any]:
    code = STATUS_CODES[status]
    meaning = explained(code)
    response: dict[str, Any] = {
        "description": meaning.meaning if meaning else code,
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    if status in RETRY:
        schema = {"type": "integer", "minimum": 1}
        response["headers"] = {"Retry-After": {"description": "Seconds to wait.", "schema": schema}}
    return response


def _complete(path: str, method: str, operation: dict[str, Any]) -> None:
    """Describe the problems of an operation, and the headers of its answer."""
    for parameter in operation.get("parameters", ()):
        parameter["schema"] = _without_null(parameter["schema"])
    responses = operation["responses"]
    statuses = {*ALWAYS, *([404] if "{" in path else []), *([406] if method == "get" else [404, 409, 413, 415])}
    if path.endswith(("/raw", "/decisions/{seq}", "/state", "/events", "/diff", "/replay", "/steps/{place}")):
        statuses.add(409)
    if "/content/" in path:
        statuses.add(410)
    for status in sorted(statuses):
        if status == 422 or str(status) not in responses:
            responses[str(status)] = {"$ref": f"#/components/responses/{status}"}
    is_stream = "text/event-stream" in responses.get("200", {}).get("content", {}) or path.endswith("/stream")
    if method == "get" and not is_stream:
        etag = {"ETag": {"description": "Send it as `If-None-Match` to get 304.", "schema": {"type": "string"}}}
        responses["200"].setdefault("headers", {}).update(etag)
        responses["304"] = {"description": "Unchanged since `If-None-Match`."}


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a parameter that may be left out, but cannot be null."""
    kinds = [kind for kind in schema.get("anyOf", ()) if kind != {"type": "null"}]
    if len(kinds) != 1:
        return {**schema, "anyOf": kinds} if kinds else schema
    return {**{name: value for name, value in schema.items() if name != "anyOf"}, **kinds[0]}


def _connect(document: dict[str, Any], link: _Link) -> None:
    by_id = {operation["operationId"]: operation for _, _, operation in operations(document)}
    response = by_id[link.of]["responses"][link.status]
    for target in link.to:
        if target in by_id:
            response.setdefault("links", {})[target] = {"operationId": target, "parameters": link.parameters}


@router.get(ASYNCAPI)
async def asyncapi_document(request: Request) -> Response:
    """Return the description of the topics in Kafka."""
    return cacheable_response(request, orjson.dumps(await asyncio.to_thread(asyncapi)), JSON)


@router.get(OPENAPI)
async def openapi_document(request: Request) -> Response:
    """Return the description of the API."""
    return cacheable_response(request, orjson.dumps(await request.app.described()), JSON)


@router.get("/api")
async def api_page(request: Request) -> Response:
    """List all operations of the API on a page."""
    document = await request.app.described()
    groups: dict[str, list[tuple[str, str, dict[str, Any]]]] = {name: [] for name in TAGS}
    for path, method, operation in operations(document):
        groups.setdefault(operation.get("tags", ["operations"])[0], []).append((path, method, operation))
    return rendered(request, "api.html", tags=TAGS, groups=groups, openapi=OPENAPI, asyncapi=ASYNCAPI)
