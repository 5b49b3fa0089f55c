"""Requests as bytes, which no client library would send."""

import asyncio
import re
from typing import Any, NamedTuple

import orjson

ANSWERED_WITHIN = 20.0  # seconds


class RawAnswer(NamedTuple):
    """An answer as it came."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def code(self) -> str:
        problem: dict[str, Any] = orjson.loads(self.body)
        return str(problem["code"])


async def exchange(port: int, request: bytes) -> RawAnswer | None:
    """Send bytes and return the answer; None if the server closes the connection without one."""
    async with asyncio.timeout(ANSWERED_WITHIN):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(request)
            return await _answer(reader)
        finally:
            writer.close()
            await writer.wait_closed()


async def _answer(reader: asyncio.StreamReader) -> RawAnswer | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionResetError):
        return None
    first, *lines = head.decode("latin-1").strip().split("\r\n")
    headers = {name.lower(): value for name, _, value in (re.split(r"(:) ?", line, maxsplit=1) for line in lines)}
    return RawAnswer(int(first.split()[1]), headers, await reader.read(int(headers.get("content-length", "0"))))
