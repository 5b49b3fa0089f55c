"""A document within a mail or an archive."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePosixPath


@dataclass(frozen=True, slots=True)
class Member:
    kind: str  # "attachment", "file" or "mail"
    path: str
    size: int  # bytes, at most
    load: Callable[[], bytes]
    extension: str = ""
    """Of a member that has a number in place of a name."""

    @property
    def name(self) -> str:
        return (PurePosixPath(self.path).name or self.path) + self.extension

    @property
    def place(self) -> str:
        """As a locator names it: the characters that part locators are left out of it."""
        return f"{self.kind} {' '.join(self.path.replace(',', ' ').split())}"
