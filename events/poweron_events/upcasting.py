"""Upcasting of old events: each step converts the payload of one version to that of the next.

A released version is never edited; a new meaning gets a new version and a step here. Steps are
applied until the type is one that this release writes.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

Data = dict[str, Any]
Step = tuple[str, Callable[[Data], Data]]
"""The type that a step converts to, and the function that converts the payload."""

STEPS: Final[Mapping[str, Step]] = {}
"""Older wire type -> step. Empty in this release: every event is at its first version."""


def upcast(wire_type: str, data: Data, steps: Mapping[str, Step] = STEPS) -> tuple[str, Data]:
    """Return an event in the newest version that `steps` can reach."""
    while wire_type in steps:
        wire_type, lift = steps[wire_type]
        data = lift(data)
    return wire_type, data
