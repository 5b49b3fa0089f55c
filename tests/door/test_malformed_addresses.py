"""Ids and queries that name nothing: on every page and in every query the door says so in its own words."""

import re
from collections.abc import AsyncGenerator
from typing import Any, Final
from urllib.parse import quote

import pytest
import pytest_asyncio
from door_requests import UNKNOWN, expect, sentence
from opened_door import Door, door_of_module
from routes import ROUTES, Route
from servers import Pair

pytestmark = [pytest.mark.system, pytest.mark.asyncio(loop_scope="module")]

MALFORMED: Final = ("nope", "-1", "9" * 40, "2026-13-99")
VALID: Final = {"workflow_id": UNKNOWN, "place": "r1t1a1s1", "name": "0" * 64, "a": UNKNOWN, "b": UNKNOWN}
FOREIGN: Final = re.compile(
    r"Postgres|Input should|String should|Value error|valid (?:integer|string|number)|unable to parse|\^\[|\$\d|Not Found"
    r"|query argument|invalid literal|isoformat",
    re.IGNORECASE,
)
"""Words of the libraries below the door."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def door(pair: Pair, tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Door, None]:
    async with door_of_module(pair, tmp_path_factory.mktemp("door")) as door:
        yield door


def address(route: Route, values: dict[str, str]) -> str:
    path = route.path
    for name in route.path_parameters:
        path = path.replace(f"{{{name}}}", quote(values.get(name, VALID.get(name, "1")), safe=""))
    return path


def is_ours(answer: Any) -> bool:
    """Whether it is a problem of the sender's in a sentence of this door, or a page with one."""
    if answer.status_code >= 500 or answer.headers["content-type"] != "application/problem+json":
        return answer.status_code < 500 and answer.headers["content-type"].startswith("text/html")
    return answer.json()["code"] != "refused" and not FOREIGN.search(sentence(answer))


QUERIES: Final = [route for route in ROUTES if "GET" in route.methods]


@pytest.mark.req("X-06")
@pytest.mark.parametrize("value", MALFORMED)
async def test_a_malformed_part_of_any_address_is_refused_in_our_words(door: Door, value: str) -> None:
    assert len(QUERIES) > 40
    wrong = []
    for route in QUERIES:
        for name in (*route.path_parameters, *route.query_parameters):
            query: dict[str, Any] = {key: UNKNOWN for key in ("a", "b") if key in route.query_parameters}
            query |= {"follow": "false"} if route.path.endswith("stream") else {}
            query |= {name: value} if name in route.query_parameters else {}
            answer = await door.http.get(address(route, {name: value}), params=query)
            if answer.status_code >= 400 and not is_ours(answer):
                wrong.append((route.path, name, answer.status_code, answer.text))
    assert wrong == []


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/w/nope", 404, "not_a_workflow_id"),
        ("/api/v1/workflows/nope", 404, "not_a_workflow_id"),
        (f"/compare?a=nope&b={UNKNOWN}", 404, "not_a_workflow_id"),
        ("/compare?a=8f14e45f&b=8f14e45f", 404, "not_a_workflow_id"),
        (f"/w/{UNKNOWN}", 404, "unknown_workflow"),
        ("/nothing/here", 404, "not_found"),
        ("/api/v1/nothing", 404, "not_found"),
        ("/api/v1/workflows?limit=many", 422, "invalid_request"),
    ],
)
async def test_an_address_that_names_nothing_has_a_code_and_advice(
    door: Door, path: str, status: int, code: str
) -> None:
    answer = await door.http.get(path)
    expect(answer, status, code)
    assert not FOREIGN.search(sentence(answer))
    assert sentence(answer) != answer.json()["title"]
    assert answer.json()["advice"]
