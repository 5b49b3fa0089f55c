"""Checkpoints (C2SP `tlog-checkpoint`): the size and the root of a log, as the text of a note."""

import base64
import re
from typing import Final, NamedTuple

ROOT_SIZE: Final = 32  # bytes
MAX_SIZE: Final = 2**63 - 1  # entries
_SIZE: Final = re.compile(r"0|[1-9][0-9]{0,18}")


class InvalidCheckpoint(ValueError):
    """The text is no checkpoint."""


class Checkpoint(NamedTuple):
    """The state of a log: whose it is, how many entries it has, and the root of their tree."""

    origin: str
    size: int
    root: bytes

    @classmethod
    def parse(cls, text: str) -> "Checkpoint":
        """Read the text of a note, whose further lines have no meaning here; raise InvalidCheckpoint if it is none."""
        origin, size, root, *_ = (*text.split("\n"), "", "", "")
        try:
            decoded = base64.b64decode(root, validate=True)
        except ValueError:
            decoded = b""
        is_size = _SIZE.fullmatch(size) is not None and int(size) <= MAX_SIZE
        if not (origin and is_size and len(decoded) == ROOT_SIZE and text.endswith("\n")):
            raise InvalidCheckpoint("This is no checkpoint: it has no origin, size and root.")
        return cls(origin, int(size), decoded)

    def __str__(self) -> str:
        """The text that is signed."""
        return f"{self.origin}\n{self.size}\n{base64.b64encode(self.root).decode()}\n"
