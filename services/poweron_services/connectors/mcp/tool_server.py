"""A tool server as its actions use it: started at the first call, and restarted after it ends, up to a limit.

One task owns the connection and opens and closes it; any task may make calls.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

import structlog
from pydantic import JsonValue

from poweron_events.errors import PowerOnError, Unavailable
from poweron_events.redaction import redacted
from poweron_services.background_tasks import BackgroundTasks
from poweron_services.connectors.mcp.server_list import HttpServer, ToolServerEntry, secrets_of
from poweron_services.connectors.mcp.tool_description import ToolDescription, what_changed
from poweron_services.connectors.web.web_rules import WebSettings
from poweron_services.settings.secret_redaction import SecretRedaction

if TYPE_CHECKING:
    from mcp_types import CallToolResult

    from poweron_services.connectors.mcp.tool_session import OnProgress, ToolSession
    from poweron_services.connectors.mcp.transports import Traffic

log = structlog.get_logger()

MAX_STARTS: Final = 5
WITHIN: Final = 300.0  # seconds in which a server is started at most `MAX_STARTS` times
FIRST_PAUSE: Final = 0.5  # seconds before the second start; it doubles
CLOSE: Final = 8.0  # seconds for all servers together to end
MAX_SAID: Final = 300  # characters of a program's diagnostic output
NOT_LET: Final = (
    "The settings of the web do not let its address be asked: name a host of a private network in "
    "POWERON_WEB_PRIVATE_HOSTS (`HOST:PORT`), another port in POWERON_WEB_PORTS, and see POWERON_WEB_ALLOW and "
    "POWERON_WEB_DENY."
)


class NotLet(Unavailable):
    """The web settings do not allow the server's address; the message names the settings."""


class NotCalled(Unavailable):
    """The tool was not called: nothing happened."""


class ToolServer:
    """One server of the list."""

    def __init__(
        self, entry: ToolServerEntry, web: WebSettings, tasks: BackgroundTasks, redaction: SecretRedaction
    ) -> None:
        self.entry = entry
        self.redaction = redaction
        """Redacts the secrets of all servers in what this one sends."""
        self._web = web
        self._tasks = tasks
        self._one_start = asyncio.Lock()
        self._session: asyncio.Future[ToolSession] | None = None
        self._left_out: set[str] = set()
        self._starts: deque[float] = deque(maxlen=MAX_STARTS)

    async def tools(self) -> Mapping[str, ToolDescription]:
        """Return the tools that the server offers now, by their own names.

        Raises:
            Unavailable: the server cannot be asked; the message says why.
        """
        return (await self._ask())[1]

    async def call(
        self, tool: ToolDescription, arguments: Mapping[str, JsonValue], on_progress: "OnProgress"
    ) -> "tuple[CallToolResult, int]":
        """Call the tool; return its result and the number of unsolicited messages received meanwhile.

        Raises:
            NotCalled: the tool was not called: the server is unavailable, or the tool is not the one approved.
            Unavailable: it is unknown whether the tool ran.
            MCPError: the server answered with an error.
        """
        session = await self._check(tool)  # call over this session only: another might offer a different tool
        before = session.unasked
        try:
            result = await session.call(tool.name, arguments, on_progress)
        except Unavailable as error:
            raise Unavailable(f"{self._label}: {error}", code=error.code) from error
        return result, session.unasked - before

    async def _check(self, tool: ToolDescription) -> "ToolSession":
        """The connection, after checking that the server still offers exactly this tool."""
        try:
            session, offers = await self._ask()
        except Unavailable as error:
            raise NotCalled(str(error), code=error.code, detail=error.detail) from error
        now = offers.get(tool.name)
        if now is None or now.digest != tool.digest:
            reason = f"{tool.name!r} of {self._label} was not called: {what_changed(now, tool)} since it was approved."
            raise NotCalled(reason, code="tool_changed")
        return session

    @property
    def _label(self) -> str:
        return f"The server {self.entry.name!r}"

    async def _ask(self) -> "tuple[ToolSession, Mapping[str, ToolDescription]]":
        """The connection and the tools offered over it. Reconnects once if an existing connection turns out dead.

        Raises:
            Unavailable: the server cannot be asked.
        """
        before = self._session
        session = await self._connect()
        try:
            return session, await self._list_tools(session)
        except Unavailable:
            session.end()
            if before is None or before is not self._session:
                raise
        session = await self._connect()
        return session, await self._list_tools(session)

    async def _list_tools(self, session: "ToolSession") -> Mapping[str, ToolDescription]:
        try:
            async with asyncio.timeout(self.entry.timeout):
                offers = self.redaction.redacted_in(await session.tools())
        except TimeoutError:
            raise self._unavailable("It did not tell its tools in time.") from None
        except Unavailable as error:
            raise self._unavailable(str(error)) from error
        self._log_left_out(session.left_out)
        return offers

    def _log_left_out(self, problems: Mapping[str, str]) -> None:
        for tool in (name for name in problems if name not in self._left_out):
            action, reason = self.redaction.redacted(tool), self.redaction.redacted(problems[tool])
            log.warning("action_left_out", action=action, source=self.entry.name, error=reason)
        self._left_out.update(problems)

    async def _connect(self) -> "ToolSession":
        """The connection, started if there is none. If a caller stops waiting, the pending start serves the next."""
        async with self._one_start:
            if self._session is None or _is_over(self._session):
                await self._pause()
                self._session = self._start()
            session = self._session
        return await asyncio.shield(session)

    async def _pause(self) -> None:
        """Wait before another start, longer with each recent start.

        Raises:
            Unavailable: there were too many recent starts.
        """
        now = time.monotonic()
        recent = [start for start in self._starts if now - start < WITHIN]
        if len(recent) >= MAX_STARTS:
            often = f"It ended {MAX_STARTS} times within {WITHIN / 60:g} minutes"
            raise self._unavailable(f"{often} and is left alone for now.")
        if recent:
            await asyncio.sleep(max(0.0, recent[-1] + FIRST_PAUSE * 2 ** (len(recent) - 1) - now))

    def _start(self) -> "asyncio.Future[ToolSession]":
        self._starts.append(time.monotonic())
        ready: asyncio.Future[ToolSession] = asyncio.get_running_loop().create_future()
        self._tasks.spawn(self._run(ready))
        return ready

    async def _run(self, ready: "asyncio.Future[ToolSession]") -> None:
        """Own the connection from its start to its end."""
        from poweron_services.connectors.mcp.tool_session import tool_session  # noqa: PLC0415
        from poweron_services.connectors.mcp.transports import Traffic  # noqa: PLC0415 - the SDK takes a second to import

        traffic = Traffic()
        try:
            async with (
                asyncio.timeout(self.entry.timeout) as limit,
                tool_session(self.entry, self._web, traffic) as session,
            ):
                limit.reschedule(None)
                ready.set_result(session)
                await session.ended()
        except asyncio.CancelledError:
            ready.cancel()
            raise
        except BaseException as error:  # noqa: BLE001 - any failure of a server ends its connection and nothing else
            traffic.ended.set()
            if not ready.done():
                ready.set_exception(self._start_error(error, traffic))
                ready.exception()  # mark it as retrieved: the caller may be gone
                return
        log.info("tool_server_ended", server=self.entry.name)

    def _start_error(self, error: BaseException, traffic: "Traffic") -> Unavailable:
        first = _first(error)
        output = redacted(" ".join(traffic.said.decode(errors="replace").split())[-MAX_SAID:])
        detail = first.detail if isinstance(first, PowerOnError) else ""
        if isinstance(first, PowerOnError) and first.code == "address_refused":
            return self._unavailable(NOT_LET, kind=NotLet)
        return self._unavailable(_start_failure(first, self.entry, traffic), detail or output)

    def _unavailable(self, reason: str, detail: str = "", kind: type[Unavailable] = Unavailable) -> Unavailable:
        sentence = self.redaction.redacted(f"{self._label} cannot be used. {reason}")
        return kind(sentence, code="tool_server_unavailable", detail=self.redaction.redacted(detail))


def _start_failure(error: BaseException, entry: ToolServerEntry, traffic: "Traffic") -> str:
    if isinstance(error, TimeoutError):
        verb = "answer" if isinstance(entry.place, HttpServer) else "start"
        return f"It did not {verb} within {entry.timeout:g} s."
    if isinstance(error, PowerOnError):
        return str(error)
    if traffic.answer:
        return traffic.answer
    match traffic.exit_code:
        case None:
            return "It did not answer as a server of MCP does."
        case code if code < 0:
            return f"The program was ended by signal {-code} before it answered."
        case code:
            return f"The program ended with exit code {code} before it answered."


def _is_over(session: "asyncio.Future[ToolSession]") -> bool:
    return session.done() and (session.cancelled() or session.exception() is not None or session.result().has_ended)


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


@asynccontextmanager
async def tool_servers(entries: Sequence[ToolServerEntry], web: WebSettings) -> AsyncGenerator[list[ToolServer], None]:
    """Yield the servers, none of them started yet. Those started later are ended when the context exits."""
    tasks, redaction = BackgroundTasks(), SecretRedaction(secrets_of(entries))
    try:
        yield [ToolServer(entry, web, tasks, redaction) for entry in entries]
    finally:
        with suppress(asyncio.CancelledError):
            await asyncio.shield(tasks.cancel(CLOSE))
