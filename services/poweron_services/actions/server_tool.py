"""A tool of a third-party server as an action: called as it was approved, with its results as documents."""

import asyncio
import math
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from poweron_events.catalog import ActionSpec
from poweron_events.errors import Unavailable
from poweron_services.actions.action import Done, Failed, Order, TellProgress
from poweron_services.connectors.mcp.tool_catalog import ApprovedTool
from poweron_services.connectors.mcp.tool_server import NotCalled

if TYPE_CHECKING:
    from mcp_types import CallToolResult

MAX_UNASKED: Final = 1_000  # unsolicited messages during a call from which on a note reports them
MAX_STEPS: Final = 10**9
CALLS: Final = 2  # calls of a tool that may run again, if its server ends meanwhile


@dataclass(frozen=True, slots=True)
class ServerTool:
    """An approved tool, as an action."""

    tool: ApprovedTool
    spec: ActionSpec

    @classmethod
    def of(cls, tool: ApprovedTool) -> "ServerTool":
        """Create the action.

        Raises:
            UnusableSchema: the parameters of the tool have no usable schema.
        """
        description = tool.description
        spec = ActionSpec(
            tool.action,
            description.input_schema,
            description.effect_class,
            int(tool.server.entry.timeout * 1000),
            needs_approval=tool.needs_approval,
            digest=description.digest,
        )
        return cls(tool, spec)

    async def __call__(self, order: Order) -> Done:
        from mcp import MCPError  # noqa: PLC0415 - the SDK takes a second to import

        from poweron_services.actions.tool_results import said_no  # noqa: PLC0415 - as above

        try:
            result, unasked = await self._call(order)
        except NotCalled as error:
            raise Failed(str(error), code=error.code) from error
        except MCPError as error:
            return self.tool.server.redaction.redacted_in(said_no(self.spec.name, error.error.message))
        outcome = await asyncio.to_thread(self._finish, result)
        flood = f"The server sent {unasked} messages that nobody asked for; they were left out."
        return replace(outcome, notes=(flood, *outcome.notes)) if unasked >= MAX_UNASKED else outcome

    def _finish(self, result: "CallToolResult") -> Done:
        """Return the result as documents, without secrets; this takes time for megabytes."""
        from poweron_services.actions.tool_results import done  # noqa: PLC0415 - the SDK takes a second to import

        return self.tool.server.redaction.redacted_in(done(self.spec, result, self.tool.description.output_schema))

    async def _call(self, order: Order) -> "tuple[CallToolResult, int]":
        """Call the tool, and return its result; a tool that may run again is called again if its server ended."""
        on_progress = partial(_progress, order.tell_progress)
        calls = 1 if self.spec.effect_class == "at_most_once" else CALLS
        while True:
            calls -= 1
            try:
                return await self.tool.server.call(self.tool.description, order.parameters, on_progress)
            except NotCalled:
                raise
            except Unavailable as error:
                if not calls or error.code != "tool_server_ended":
                    raise


def _progress(tell: TellProgress, done: float, total: float | None) -> None:
    """Report progress in whole steps, and ignore numbers of a server that are not finite or out of bounds."""
    if math.isfinite(done) and 0 <= done <= MAX_STEPS:
        known = total is not None and math.isfinite(total) and done <= total <= MAX_STEPS
        tell("tool_steps", int(done), int(total) if known and total is not None else None)
