"""Requests of an assistant in a form that can be answered: without lone surrogates, and with names of bounded length.

The SDK drops a request whose JSON has a lone surrogate, so it would get no answer; and it repeats ids and the names
of methods in its answers, however long they are.
"""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import anyio
import mcp_types as types
from anyio.abc import ObjectReceiveStream, ObjectSendStream
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from poweron_events.codec import writable

LONGEST: Final = 200  # characters of an id or of the name of a method; longer ones are truncated

Received = SessionMessage | Exception


@asynccontextmanager
async def answerable(received: ObjectReceiveStream[Received]) -> AsyncGenerator[ObjectReceiveStream[Received], None]:
    """Pass on what is received, each request in a form that can be answered."""
    into, accepted = anyio.create_memory_object_stream[Received](0)
    async with accepted, anyio.create_task_group() as tasks:
        tasks.start_soon(_pass_on, received, into)
        yield accepted
        tasks.cancel_scope.cancel()


async def _pass_on(received: ObjectReceiveStream[Received], into: ObjectSendStream[Received]) -> None:
    async with into:
        async for message in received:
            await into.send(_answerable(message))


def _answerable(received: Received) -> Received:
    if isinstance(received, ValidationError):
        received = _with_whole_characters(received)
    if isinstance(received, SessionMessage) and isinstance(received.message, types.JSONRPCRequest):
        return SessionMessage(_with_short_names(received.message), received.metadata)
    return received


def _with_whole_characters(error: ValidationError) -> Received:
    """Return the message with `?` for each lone surrogate, or the error if that does not make it readable."""
    line = error.errors()[0]["input"]
    try:
        text = json.dumps(json.loads(line), ensure_ascii=False)
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(writable(text), by_name=False))
    except (ValueError, TypeError, RecursionError):
        return error


def _with_short_names(request: types.JSONRPCRequest) -> types.JSONRPCRequest:
    id_ = request.id[:LONGEST] if isinstance(request.id, str) else request.id
    return request.model_copy(update={"id": id_, "method": request.method[:LONGEST]})
