"""The error lines of role processes that tell an operator nothing to do: each without a code of the log events."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import orjson

from poweron_services.telemetry.log_events import LOG_EVENTS

LEVELS: Final = frozenset({"error", "critical"})
UNFORESEEN: Final = frozenset(
    {"background_task_error", "action_error", "loading_error", "stage_error", "tidying_error"}
)
"""The codes of mistakes in PowerOn itself: no fault of the run explains them."""


def error_lines_without_action(logs: Path) -> list[str]:
    """Return what the processes wrote as errors without a code, or with that of a mistake, in sentences."""
    return [
        f"The log {path.name} has the error line {line!r}."
        for path in sorted(logs.glob("*.log"))
        for line in _without_action(path.read_text(encoding="utf-8", errors="replace"))
    ]


def _without_action(log: str) -> Iterator[str]:
    for line in log.splitlines():
        try:
            fields = orjson.loads(line)
        except orjson.JSONDecodeError:
            yield line  # a traceback, or a warning of Python
            continue
        event = fields.get("event")
        if fields.get("level") in LEVELS and (event not in LOG_EVENTS or event in UNFORESEEN):
            yield line
