"""Answers to queries: JSON with the fields of `--json`, an ETag, and links to further pages."""

import hashlib
from collections.abc import Sequence
from typing import Any, Final

import orjson
from fastapi import Request, Response
from pydantic import BaseModel

JSON: Final = "application/json"


def dumped(value: Any) -> Any:
    """Return a value as JSON can hold it: models under the names of the wire."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True)
    if isinstance(value, (list, tuple)):
        return [dumped(each) for each in value]
    if isinstance(value, dict):
        return {name: dumped(each) for name, each in value.items()}
    return value


def found(request: Request, value: Any, *, links: Sequence[str] = ()) -> Response:
    """Return the answer to a query; 304 without a body if the client has it already."""
    return matched(request, orjson.dumps(dumped(value)), JSON, links=links)


def page(request: Request, items: Sequence[Any], next_: str | None) -> Response:
    """Return a page of a list; `next_` is the cursor of the next page, which `Link` names as a whole address."""
    links = []
    if next_ is not None:
        links = [f'<{request.url.include_query_params(after=next_)}>; rel="next"']
    return found(request, {"items": items, "next": next_}, links=links)


def matched(request: Request, body: bytes, media_type: str, *, links: Sequence[str] = ()) -> Response:
    """Return the body with its ETag, or 304 if `If-None-Match` names it."""
    etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers = {"ETag": etag, "Cache-Control": "private, no-cache", "Vary": "Accept, Authorization, Cookie"}
    if links:
        headers["Link"] = ", ".join(links)
    if etag in (part.strip().removeprefix("W/") for part in request.headers.get("if-none-match", "").split(",")):
        return Response(status_code=304, headers=headers)
    return Response(body, headers=headers, media_type=media_type)
