"""Names of the actions that tools become: `<server>.<tool>`, adapted where a name is not valid."""

import re
from collections.abc import Iterable
from typing import Final

MAX_NAME: Final = 100  # characters of an action's name
MAX_METHOD: Final = 30

_OTHER: Final = re.compile(r"[^A-Za-z0-9_-]")


def method_of(server: str) -> str:
    """The method of a server's actions: its name with a lower-case first letter and `_` for invalid characters."""
    fitting = _OTHER.sub("_", server)[:MAX_METHOD]
    begins = fitting[:1].lower()
    return begins + fitting[1:] if begins.isalpha() else f"s{fitting}"


def action_of(server: str, tool: str) -> str:
    """The name of the action that a tool becomes. It is deterministic, but two tools may get the same name."""
    fitting = _OTHER.sub("_", tool)
    name = fitting if fitting[:1].isalpha() else f"t{fitting}"
    return f"{method_of(server)}.{name}"[:MAX_NAME]


def with_own_names(server: str, tools: Iterable[str]) -> dict[str, str]:
    """Map action names to tools.

    If several tools get the same name, the one whose name needed no change wins, otherwise the first.
    """
    named: dict[str, str] = {}
    for tool in sorted(tools, key=lambda name: action_of(server, name) != f"{method_of(server)}.{name}"):
        named.setdefault(action_of(server, tool), tool)
    return named
