"""What whoever ends a command needs to know. It imports nothing, since help needs nothing."""

from contextvars import ContextVar
from typing import Final

AS_JSON: Final = ContextVar("poweron_as_json", default=False)
"""Whether the command was asked to print JSON."""
FAILED: Final = 1
USAGE: Final = 2
CANCELLED: Final = 3
INTERRUPTED: Final = 130
"""Exit codes, as the README lists them; the last one is that of shells after Ctrl-C."""
STOPPED: Final = "Stopped."
STOPPED_CODE: Final = "stopped"
NOTHING_YET: Final = "Stopped before anything was asked for."
