"""What whoever ends a command needs to know. It imports nothing, since help needs nothing."""

from contextvars import ContextVar
from typing import Final

AS_JSON: Final = ContextVar("poweron_as_json", default=False)
"""Whether the command was asked to print JSON."""
FAILED: Final = 1
INTERRUPTED: Final = 130
"""The exit code after Ctrl-C, as shells have it."""
NOTHING_YET: Final = "Stopped before anything was asked for."
