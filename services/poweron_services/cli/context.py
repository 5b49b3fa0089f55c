"""The output mode, exit codes and messages with which commands end. Imports nothing slow, since help needs nothing."""

from contextvars import ContextVar
from typing import Final

AS_JSON: Final = ContextVar("poweron_as_json", default=False)
"""Whether the command was asked to print JSON."""
FAILED: Final = 1
USAGE: Final = 2
CANCELLED: Final = 3
INTERRUPTED: Final = 130
"""Exit codes, as docs/exit-codes.md lists them; shells use the last one after Ctrl-C."""
STOPPED: Final = "Stopped."
STOPPED_CODE: Final = "stopped"
NOTHING_YET: Final = "Stopped before anything was asked for."
