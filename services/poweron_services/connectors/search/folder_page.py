"""A page as the folder search sees it: its text and its metadata."""

import re
from dataclasses import dataclass
from typing import Final

LONGEST_TITLE = 300  # characters
MOST_TEXT = 1_000_000  # characters of a page that are searched
MOST_BLOCKS = 5  # blocks in which to look for a title

_HEADING: Final = re.compile(r"^#{1,6} +([^\n]+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class FolderPage:
    """The text of a page in blocks, and its metadata."""

    title: str
    blocks: tuple[str, ...] = ()
    language: str | None = None
    published: str | None = None
    canonical: str | None = None

    @property
    def text(self) -> str:
        return "\n\n".join(self.blocks)


def blocks_of(text: str) -> tuple[str, ...]:
    """Split a text into paragraphs."""
    return tuple(block.strip() for block in text[:MOST_TEXT].split("\n\n") if block.strip())


def title_of(blocks: tuple[str, ...], name: str) -> str:
    """Return the first heading of a text, or its first line, or the name of the file."""
    first = _HEADING.search("\n".join(blocks[:MOST_BLOCKS]))
    title = first[1].rstrip("# ") if first else next(iter(blocks), name).partition("\n")[0]
    return " ".join(title.split())[:LONGEST_TITLE] or name


def decoded(data: bytes) -> str:
    """Decode as UTF-8, or else as the cp1252 of old Windows systems."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("cp1252", errors="replace")
