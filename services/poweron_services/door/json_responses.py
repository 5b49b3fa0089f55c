"""Answers to queries: JSON with the fields of `--json`, an ETag, and links to further pages."""

import hashlib
from collections.abc import Sequence
from typing import Any, Final, Generic, TypeVar

import orjson
from fastapi import Request, Response
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

JSON: Final = "application/json"

Item = TypeVar("Item")


class CamelModel(BaseModel):
    """A model of an answer, with the names of the wire."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


class ListPage(BaseModel, Generic[Item]):
    """A page of a list."""

    items: list[Item]
    next: str | None = Field(description="The `cursor` of the next page; null if this is the last one.")


def dumped(value: Any) -> Any:
    """Return a value as JSON can hold it: models under the names of the wire."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True)
    if isinstance(value, (list, tuple)):
        return [dumped(item) for item in value]
    if isinstance(value, dict):
        return {name: dumped(item) for name, item in value.items()}
    return value


def json_response(request: Request, value: Any, *, links: Sequence[str] = ()) -> Response:
    """Return the answer to a query; 304 without a body if the client has it already."""
    return cacheable_response(request, orjson.dumps(dumped(value)), JSON, links=links)


def page(request: Request, items: Sequence[Any], next_: str | None = None) -> Response:
    """Return a page of a list; `next_` is the cursor of the next page, which `Link` names as a whole address."""
    links = []
    if next_ is not None:
        links = [f'<{request.url.include_query_params(cursor=next_)}>; rel="next"']
    return json_response(request, {"items": items, "next": next_}, links=links)


def cacheable_response(
    request: Request, body: bytes, media_type: str, *, links: Sequence[str] = (), more: dict[str, str] | None = None
) -> Response:
    """Return the body with its ETag and `more` headers, or 304 if `If-None-Match` names it."""
    headers = cache_headers(hashlib.sha256(body).hexdigest()) | (more or {})
    if links:
        headers["Link"] = ", ".join(links)
    if is_held(request, headers):
        return Response(status_code=304, headers=headers)
    return Response(body, headers=headers, media_type=media_type)


def cache_headers(sha256: str) -> dict[str, str]:
    """Return the headers of an answer that a client may hold; `sha256` names its body."""
    return {
        "ETag": f'"{sha256[:32]}"',
        "Cache-Control": "private, no-cache",
        "Vary": "Accept, Authorization, Cookie",
    }


def is_held(request: Request, headers: dict[str, str]) -> bool:
    """Return whether `If-None-Match` says that the client holds the body with these headers."""
    known = [part.strip().removeprefix("W/") for part in request.headers.get("if-none-match", "").split(",")]
    return headers["ETag"] in known or known == ["*"]
