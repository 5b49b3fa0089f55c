"""The messages of a server on their way in: how large one may be, and how many may come that nobody asked for.

Answers pass, and progress a few times a second; all else that a server sends by itself is counted and dropped.
"""

import time
from dataclasses import dataclass, field
from typing import Final

import anyio
from anyio.abc import ObjectReceiveStream, ObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from poweron_events.codes import Code
from poweron_services.connectors.mcp.listed_tools import leave_out_unreadable

MAX_MESSAGE: Final = 8_000_000  # bytes
MAX_PARTS: Final = 10_000  # of one answer, such as contents or tools: to check each takes time
MAX_SAID: Final = 2_000  # bytes of what a program says of itself
PROGRESS_PAUSE: Final = 0.1  # seconds
MAX_REQUESTS: Final = 100  # of a server to us, as long as it runs

Incoming = SessionMessage | Exception


@dataclass(slots=True)
class Traffic:
    """What came over one connection, and how it ended."""

    unasked: int = 0
    """Messages that were dropped."""
    code: Code = "tool_server_ended"
    """Why it ended; of use once `ended` is set."""
    ended: anyio.Event = field(default_factory=anyio.Event)
    said: bytes = b""
    """The end of what the program wrote to its standard error, and of what it wrote that is no message."""
    exit_code: int | None = None
    """Of a program that ended by itself."""
    answer: str = ""
    """What came of the last request by HTTP, as a sentence for whoever cannot speak with the server."""
    version: str = ""
    """Of the protocol, once it is agreed upon."""
    unreadable: dict[str, str] = field(default_factory=dict)
    """Why tools of the last list were taken out of it, by name."""
    _requests: int = 0
    _progress: float = 0.0

    def says(self, said: bytes) -> None:
        """Keep the end of what it says."""
        self.said = (self.said + said[-MAX_SAID:])[-MAX_SAID:]

    def lets_in(self, message: Incoming) -> bool:
        """Whether whoever waits for answers is given the message."""
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
        """Leave the tools out of a list that the protocol does not know."""
        if self.version and isinstance(message, SessionMessage):
            self.unreadable.update(leave_out_unreadable(message.message, self.version))

    def _may_progress(self) -> bool:
        now = time.monotonic()
        if now - self._progress < PROGRESS_PAUSE:
            return False
        self._progress = now
        return True


async def let_in(source: ObjectReceiveStream[Incoming], to: ObjectSendStream[Incoming], traffic: Traffic) -> None:
    """Pass on what may come in until the server has no more to say."""
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
                    await anyio.lowlevel.checkpoint()  # a flood is no reason to keep others waiting
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass  # nobody waits for answers any more
    finally:
        traffic.ended.set()


def _has_too_many_parts(message: Incoming) -> bool:
    answer = message.message if isinstance(message, SessionMessage) else None
    parts = answer.result.values() if isinstance(answer, JSONRPCResponse) else ()
    return any(isinstance(part, list) and len(part) > MAX_PARTS for part in parts)
