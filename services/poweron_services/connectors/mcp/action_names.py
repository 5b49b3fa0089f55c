"""The names of actions that tools become: `<server>.<tool>`, made to fit where a name does not."""

import re
from collections.abc import Iterable
from typing import Final

MAX_NAME: Final = 100  # characters of an action's name
MAX_METHOD: Final = 30

_OTHER: Final = re.compile(r"[^A-Za-z0-9_-]")


def method_of(server: str) -> str:
    """The method of a server's actions: its name, beginning with a small letter, with `_` for what does not fit."""
    fitting = _OTHER.sub("_", server)[:MAX_METHOD]
    begins = fitting[:1].lower()
    return begins + fitting[1:] if begins.isalpha() else f"s{fitting}"


def action_of(server: str, tool: str) -> str:
    """The action that a tool becomes; the same one always, and perhaps that of another tool too."""
    fitting = _OTHER.sub("_", tool)
    name = fitting if fitting[:1].isalpha() else f"t{fitting}"
    return f"{method_of(server)}.{name}"[:MAX_NAME]


def with_own_names(server: str, tools: Iterable[str]) -> dict[str, str]:
    """The tools by their actions' names: of two that would have one, the first stays, and any that is written so."""
    named: dict[str, str] = {}
    for tool in sorted(tools, key=lambda name: action_of(server, name) != f"{method_of(server)}.{name}"):
        named.setdefault(action_of(server, tool), tool)
    return named
