"""What one process tells the next about the running pair.

Only hints: whoever reads them asks the processes themselves before believing anything.
"""

import json
import os
from dataclasses import asdict, dataclass, fields
from pathlib import Path


@dataclass(frozen=True, slots=True)
class State:
    """Kept means that somebody said `up`: the pair stays when its last user leaves.

    Down means that somebody said so: users who are left do not start it again, the next one does.
    """

    socket_folder: str | None = None
    kept: bool = False
    down: bool = False


def load(path: Path) -> State:
    """The last saved state; the empty one where there is none, or none that can be read."""
    try:
        found = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return State()
    known = {field.name for field in fields(State)}
    return State(**{name: value for name, value in found.items() if name in known})


def save(path: Path, state: State) -> None:
    """Replace the file in one step, so that nobody reads half of it."""
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(asdict(state)))
    os.replace(fresh, path)  # noqa: PTH105 - said like this it is the one atomic rename
