"""A document within a mail or an archive, which is loaded only when it is read."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePosixPath


@dataclass(frozen=True, slots=True)
class Member:
    kind: str  # "attachment", "file" or "mail"
    path: str
    size: int  # bytes, at most; 0 if unknown
    load: Callable[[], bytes]
    extension: str = ""
    """The extension of a member that has a number instead of a name."""

    @property
    def name(self) -> str:
        return (PurePosixPath(self.path).name or self.path) + self.extension

    @property
    def place(self) -> str:
        """The locator of the member, without the commas that separate locators."""
        return f"{self.kind} {' '.join(self.path.replace(',', ' ').split())}"
