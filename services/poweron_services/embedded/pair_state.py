"""What one process records about the running pair for the next.

These are only hints: a reader checks the processes themselves before relying on them.
"""

import json
import os
from dataclasses import asdict, dataclass, fields
from pathlib import Path


@dataclass(frozen=True, slots=True)
class State:
    """The recorded state.

    `kept` means that `up` was run: the pair keeps running when its last user leaves. `down` means that `down` was run:
    the remaining users do not restart the pair, but the next user does.
    """

    socket_folder: str | None = None
    kept: bool = False
    down: bool = False


def load(path: Path) -> State:
    """Return the last saved state, or an empty one if it is missing or unreadable."""
    try:
        values = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return State()
    known = {field.name for field in fields(State)}
    return State(**{name: value for name, value in values.items() if name in known})


def save(path: Path, state: State) -> None:
    """Replace the file atomically, so that no process reads half of it."""
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(asdict(state)))
    os.replace(fresh, path)  # noqa: PTH105 - said like this it is the one atomic rename
