"""A child process that reads pages, seen from outside: it is asked one page at a time and may fail in every way."""

import asyncio
import json
import os
import signal
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from contextlib import suppress
from dataclasses import asdict, replace

from pydantic import BaseModel, ValidationError

from poweron_events.codes import UnreadCode
from poweron_events.errors import Unavailable
from poweron_services.connectors.document_child import tell_kept
from poweron_services.connectors.documents_child.document import Right
from poweron_services.connectors.documents_child.limits import DEFAULT_LIMITS, MEGABYTE
from poweron_services.connectors.page_text import PageText
from poweron_services.connectors.pages_child.page_answers import Question

CHILD = "poweron_services.connectors.pages_child"
LIMITS = replace(DEFAULT_LIMITS, characters=1 * MEGABYTE, input_bytes=20 * MEGABYTE, wall_seconds=20.0)
LENGTH = 4  # bytes of the number before each part
SENT = 1 << 16  # bytes that are sent at a time
BYTES_PER_CHARACTER = 6  # of the child's answer, at most: UTF-8, or an escape such as \u001f
MOST_ANSWERED = LIMITS.characters * BYTES_PER_CHARACTER + 4 * MEGABYTE  # the links beside the text
START_SECONDS = 30.0
ENOUGH_BYTES = 40 * MEGABYTE  # of pages, for one child: what it once needed, it may keep


class PageUnread(Exception):
    """The child read nothing of the page: why, as a code."""

    def __init__(self, code: UnreadCode) -> None:
        super().__init__(code)
        self.code = code


class _Ready(BaseModel):
    rights_kept: tuple[Right, ...]


class _Answer(BaseModel):
    """What a child may say of a page: what it says, or why there is nothing."""

    page: PageText | None = None
    unreadable: UnreadCode = "document_damaged"


class PageChild:
    """One process; it begins to load what it needs at once. Whoever has started it ends it."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._ready = False
        self._worked = 0.0  # seconds
        self._read = 0  # bytes

    @classmethod
    async def started(cls) -> "PageChild":
        """Raises `Unavailable` where this machine can start no process now."""
        command = (sys.executable, "-I", "-m", CHILD, json.dumps(asdict(LIMITS)))
        try:
            process = await asyncio.create_subprocess_exec(
                *command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env={}, start_new_session=True
            )
        except OSError as error:
            raise Unavailable(f"No process could be started to read pages in: {error}.") from error
        return cls(process)

    @property
    def can_go_on(self) -> bool:
        """Whether it lives, and there is time and memory enough in it for any page."""
        has_time = self._worked + LIMITS.wall_seconds < LIMITS.cpu_seconds
        return self._process.returncode is None and has_time and self._read < ENOUGH_BYTES

    async def read(self, question: Question, data: bytes) -> PageText:
        """Raises `PageUnread`; a child that has, or from which this was cancelled, is good for nothing any more."""
        await self._get_ready()
        began = time.monotonic()
        try:
            async with asyncio.timeout(LIMITS.wall_seconds), asyncio.TaskGroup() as group:
                group.create_task(self._send(json.dumps(asdict(question)).encode(), data))
                answer = await self._part(MOST_ANSWERED)
        except TimeoutError:
            raise PageUnread("document_timeout") from None
        self._worked += time.monotonic() - began
        self._read += len(data)
        return await asyncio.to_thread(_understood, answer)

    async def end(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.communicate()

    async def _get_ready(self) -> None:
        if self._ready:
            return
        try:
            async with asyncio.timeout(START_SECONDS):
                kept = _Ready.model_validate_json(await self._part(MEGABYTE)).rights_kept
        except (TimeoutError, ValidationError):
            raise Unavailable("The process that reads pages could not be started; is the machine overloaded?") from None
        if kept:
            tell_kept(kept)
        self._ready = True

    async def _send(self, *parts: bytes) -> None:
        stdin = self._process.stdin
        assert stdin is not None
        with suppress(BrokenPipeError, ConnectionResetError):  # a child that died says why by its silence
            for part in parts:
                stdin.write(len(part).to_bytes(LENGTH))
                for start in range(0, len(part), SENT):  # what is written at once is copied
                    stdin.write(memoryview(part)[start : start + SENT])
                    await stdin.drain()

    async def _part(self, at_most: int) -> bytes:
        """What the child says; nothing if it died or says more."""
        stdout = self._process.stdout
        assert stdout is not None
        try:
            size = int.from_bytes(await stdout.readexactly(LENGTH))
            return await stdout.readexactly(size) if size <= at_most else b""
        except asyncio.IncompleteReadError:
            return b""


def _understood(answer: bytes) -> PageText:
    """What the child says; it has read a stranger's page, so it may say anything."""
    try:
        said = _Answer.model_validate_json(answer)
    except ValidationError:
        raise PageUnread("document_damaged") from None
    if said.page is None:
        raise PageUnread(said.unreadable)
    return said.page
