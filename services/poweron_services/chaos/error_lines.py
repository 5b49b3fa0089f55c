"""Error lines of role processes that offer an operator no remedy: they have no log event code, or that of a bug."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import orjson

from poweron_services.telemetry.log_events import LOG_EVENTS

LEVELS: Final = frozenset({"error", "critical"})
UNFORESEEN: Final = frozenset(
    {"background_task_error", "action_error", "loading_error", "stage_error", "tidying_error"}
)
"""The codes of bugs in PowerOn itself: no injected fault explains them."""


def error_lines_without_action(logs: Path) -> list[str]:
    """Return sentences about the error lines that have no code, or the code of a bug."""
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
            yield line  # a traceback, or a Python warning
            continue
        event = fields.get("event")
        if fields.get("level") in LEVELS and (event not in LOG_EVENTS or event in UNFORESEEN):
            yield line
