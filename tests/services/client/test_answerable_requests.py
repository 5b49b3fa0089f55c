"""What an assistant sends that the SDK would drop, or repeat at length, is passed on in a form that can be answered."""

import json
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.shared.message import SessionMessage

from poweron_services.mcp_server.answerable_requests import LONGEST, Received, answerable


async def passed_on(line: str) -> Received:
    """What becomes of a line, as the SDK reads it."""
    try:
        received: Received = SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        received = error
    sent, read = anyio.create_memory_object_stream[Received](1)
    async with sent, read, answerable(read) as stream:
        await sent.send(received)
        return await stream.receive()


def request(**changed: Any) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "ask"}} | changed)


@pytest.mark.parametrize(
    ("changed", "field", "expected"),
    [
        ({"method": "\ud800"}, "method", "?"),
        ({"id": "a\udfff"}, "id", "a?"),
        ({"params": {"name": "\ud83d", "of": {"\ud83d": ["\ud83d"]}}}, "params", {"name": "?", "of": {"?": ["?"]}}),
        ({"params": {"name": "\U0001f600"}}, "params", {"name": "\U0001f600"}),
        ({"method": "m" * 5_000_000}, "method", "m" * LONGEST),
        ({"id": "i" * 5_000_000}, "id", "i" * LONGEST),
    ],
)
async def test_a_request_is_passed_on_in_whole_characters_and_with_short_names(
    changed: dict[str, Any], field: str, expected: object
) -> None:
    given = await passed_on(request(**changed))
    assert isinstance(given, SessionMessage)
    assert isinstance(given.message, types.JSONRPCRequest)
    assert getattr(given.message, field) == expected


@pytest.mark.parametrize("line", ["{", "[" * 100_000, "1", '"\\ud800"'])
async def test_what_is_no_request_stays_what_it_is(line: str) -> None:
    assert isinstance(await passed_on(line), Exception)
