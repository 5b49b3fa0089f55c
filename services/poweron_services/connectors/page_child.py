"""The text of a web page, and the parent's side of the child process that reads pages, one at a time.

The child may fail in any way.
"""

import asyncio
import json
import os
import signal
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import asdict, dataclass, replace
from typing import Literal, Protocol

from pydantic import BaseModel, ValidationError

from poweron_events.catalog import ExtractDepth
from poweron_events.codes import UnreadCode
from poweron_events.errors import Unavailable
from poweron_services.connectors.document_child import log_kept_rights
from poweron_services.connectors.documents_child.document import Right
from poweron_services.connectors.documents_child.limits import DEFAULT_LIMITS, MEGABYTE
from poweron_services.connectors.pages_child.page_answers import PageQuestion
from poweron_services.connectors.web.page_cache import FetchedPage

Obstacle = Literal["javascript", "login", "consent"]
"""What keeps a reader without a browser from the text of a page."""


@dataclass(frozen=True, slots=True)
class PageLink:
    """An absolute address that the page links to, and the link text."""

    url: str
    text: str


@dataclass(frozen=True, slots=True)
class PageText:
    """The main text of a page, without menus and footers, and its metadata."""

    text: str
    """Markdown, or plain text if that was requested."""
    title: str = ""
    author: str = ""
    published: str | None = None
    """A date such as `2026-11-23`."""
    language: str | None = None
    canonical_url: str | None = None
    """The address that the page declares as its own."""
    links: tuple[PageLink, ...] = ()
    truncated: bool = False
    notes: tuple[str, ...] = ()
    """Whole sentences for users about how the page was read."""
    obstacle: Obstacle | None = None


class ReadPage(Protocol):
    """Reads the text of a fetched page; PDF and office files are read by the document readers.

    If something hides the text, `obstacle` names it, and `text` is the little text there is, or empty.
    Raises `UnreadablePage`, a `Refused`, with a code if nothing of the page can be read, and `Unavailable` only if
    this machine cannot start a process now.
    """

    async def __call__(
        self, page: FetchedPage, *, depth: ExtractDepth, text_format: Literal["markdown", "text"]
    ) -> PageText: ...


class OpenPages(Protocol):
    """Opens a `ReadPage` for the duration of a context; its child processes read one page after another."""

    def __call__(self) -> AbstractAsyncContextManager[ReadPage]: ...


CHILD = "poweron_services.connectors.pages_child"
LIMITS = replace(DEFAULT_LIMITS, characters=1 * MEGABYTE, input_bytes=20 * MEGABYTE, wall_seconds=20.0)
LENGTH = 4  # bytes of the length prefix of each part
SENT = 1 << 16  # bytes sent at a time
BYTES_PER_CHARACTER = 6  # of the child's answer, at most: UTF-8, or an escape such as \u001f
MOST_ANSWERED = LIMITS.characters * BYTES_PER_CHARACTER + 4 * MEGABYTE  # the text, and the links
START_SECONDS = 30.0
ENOUGH_BYTES = 40 * MEGABYTE  # of pages read by one child before it is replaced, since it may not release memory


class PageUnread(Exception):
    """Raised if the child could not read the page; `code` says why."""

    def __init__(self, code: UnreadCode) -> None:
        super().__init__(code)
        self.code = code


class _Ready(BaseModel):
    rights_kept: tuple[Right, ...]


class _Answer(BaseModel):
    """A child's answer: the text of the page, or the code of the failure."""

    page: PageText | None = None
    unreadable: UnreadCode = "document_damaged"


class PageChild:
    """One child process, which loads its modules as soon as it starts; the caller that starts it must end it."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._ready = False
        self._worked = 0.0  # seconds
        self._read = 0  # bytes

    @classmethod
    async def started(cls) -> "PageChild":
        """Start a child; raises `Unavailable` if this machine cannot start a process now."""
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
        """Whether the child is alive and has enough CPU time and memory left for any page."""
        has_time = self._worked + LIMITS.wall_seconds < LIMITS.cpu_seconds
        return self._process.returncode is None and has_time and self._read < ENOUGH_BYTES

    async def read(self, question: PageQuestion, data: bytes) -> PageText:
        """Return the text of a page; if this raises `PageUnread` or is cancelled, the child is unusable afterwards."""
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
        return await asyncio.to_thread(_parse_answer, answer)

    async def end(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.communicate()

    async def _get_ready(self) -> None:
        if self._ready:
            return
        try:
            async with asyncio.timeout(START_SECONDS):
                rights = _Ready.model_validate_json(await self._part(MEGABYTE)).rights_kept
        except (TimeoutError, ValidationError):
            raise Unavailable("The process that reads pages could not be started; is the machine overloaded?") from None
        if rights:
            log_kept_rights(rights)
        self._ready = True

    async def _send(self, *parts: bytes) -> None:
        stdin = self._process.stdin
        assert stdin is not None
        with suppress(BrokenPipeError, ConnectionResetError):  # if the child died, its missing answer shows that
            for part in parts:
                stdin.write(len(part).to_bytes(LENGTH))
                for start in range(0, len(part), SENT):  # in pieces, because asyncio copies what it buffers
                    stdin.write(memoryview(part)[start : start + SENT])
                    await stdin.drain()

    async def _part(self, limit: int) -> bytes:
        """Receive one part; empty if the child died or the part is too long."""
        stdout = self._process.stdout
        assert stdout is not None
        try:
            size = int.from_bytes(await stdout.readexactly(LENGTH))
            return await stdout.readexactly(size) if size <= limit else b""
        except asyncio.IncompleteReadError:
            return b""


def _parse_answer(answer: bytes) -> PageText:
    """Parse the child's answer; the child has read an untrusted page, so it may send anything."""
    try:
        parsed = _Answer.model_validate_json(answer)
    except ValidationError:
        raise PageUnread("document_damaged") from None
    if parsed.page is None:
        raise PageUnread(parsed.unreadable)
    return parsed.page
