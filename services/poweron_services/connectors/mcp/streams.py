"""Limits on a server's incoming messages: how large one may be, and how many unsolicited ones are accepted.

Responses pass, as do a limited number of requests and a few progress notifications a second. All other messages are
counted and dropped.
"""

import time
from dataclasses import dataclass, field
from typing import Final

import anyio
from anyio.abc import ObjectReceiveStream, ObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from poweron_events.codes import Code
from poweron_services.connectors.mcp.tool_description import leave_out_unreadable

MAX_MESSAGE: Final = 8_000_000  # bytes
MAX_PARTS: Final = 10_000  # of one response, such as contents or tools: checking each takes time
MAX_SAID: Final = 2_000  # bytes of a program's diagnostic output
PROGRESS_PAUSE: Final = 0.1  # seconds
MAX_REQUESTS: Final = 100  # from a server to us over one connection

Incoming = SessionMessage | Exception


@dataclass(slots=True)
class Traffic:
    """What was received over one connection, and how it ended."""

    unasked: int = 0
    """The number of dropped messages."""
    code: Code = "tool_server_ended"
    """Why it ended; valid once `ended` is set."""
    ended: anyio.Event = field(default_factory=anyio.Event)
    said: bytes = b""
    """The end of what the program wrote to its standard error, and of its output that is not a message."""
    exit_code: int | None = None
    """The exit code of a program that exited on its own."""
    answer: str = ""
    """The outcome of the last HTTP request, as a sentence for users if the server is unusable."""
    version: str = ""
    """The protocol version, once negotiated."""
    unreadable: dict[str, str] = field(default_factory=dict)
    """Why tools were removed from the last list, by name."""
    _requests: int = 0
    _progress: float = 0.0

    def says(self, output: bytes) -> None:
        """Append diagnostic output and keep its end."""
        self.said = (self.said + output[-MAX_SAID:])[-MAX_SAID:]

    def lets_in(self, message: Incoming) -> bool:
        """Return whether to pass the message on, and count it."""
        match message.message if isinstance(message, SessionMessage) else message:
            case JSONRPCResponse() | JSONRPCError():
                return True
            case JSONRPCNotification(method="notifications/progress") if self._may_progress():
                return True
            case JSONRPCRequest() if self._requests < MAX_REQUESTS:
                self._requests += 1
                return True
        self.unasked += 1
        return False

    def take_out_unreadable(self, message: Incoming) -> None:
        """Remove tools that break the protocol from a list."""
        if self.version and isinstance(message, SessionMessage):
            self.unreadable.update(leave_out_unreadable(message.message, self.version))

    def _may_progress(self) -> bool:
        now = time.monotonic()
        if now - self._progress < PROGRESS_PAUSE:
            return False
        self._progress = now
        return True


async def let_in(source: ObjectReceiveStream[Incoming], to: ObjectSendStream[Incoming], traffic: Traffic) -> None:
    """Pass on accepted messages until the server closes the stream."""
    try:
        async with source, to:
            async for message in source:
                if _has_too_many_parts(message):
                    traffic.code = "tool_result_too_large"
                    return
                if traffic.lets_in(message):
                    traffic.take_out_unreadable(message)
                    await to.send(message)
                elif not traffic.unasked % 100:
                    await anyio.lowlevel.checkpoint()  # a flood of messages must not block other tasks
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass  # the receiver is closed
    finally:
        traffic.ended.set()


def _has_too_many_parts(message: Incoming) -> bool:
    answer = message.message if isinstance(message, SessionMessage) else None
    parts = answer.result.values() if isinstance(answer, JSONRPCResponse) else ()
    return any(isinstance(part, list) and len(part) > MAX_PARTS for part in parts)
