"""What the search in a folder of pages knows of a page: its words, and what it tells of itself."""

import re
from dataclasses import dataclass
from typing import Final

LONGEST_TITLE = 300  # characters
MOST_TEXT = 1_000_000  # characters of a page that are searched
MOST_BLOCKS = 5  # among which a title is looked for

_HEADING: Final = re.compile(r"^#{1,6} +([^\n]+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class FolderPage:
    """The words of a page in blocks, and what it says of itself."""

    title: str
    blocks: tuple[str, ...] = ()
    language: str | None = None
    published: str | None = None
    canonical: str | None = None

    @property
    def text(self) -> str:
        return "\n\n".join(self.blocks)


def blocks_of(text: str) -> tuple[str, ...]:
    """The paragraphs of a text."""
    return tuple(block.strip() for block in text[:MOST_TEXT].split("\n\n") if block.strip())


def title_of(blocks: tuple[str, ...], name: str) -> str:
    """The first heading of a text, or its first line, or the name of the file."""
    first = _HEADING.search("\n".join(blocks[:MOST_BLOCKS]))
    title = first[1].rstrip("# ") if first else next(iter(blocks), name).partition("\n")[0]
    return " ".join(title.split())[:LONGEST_TITLE] or name


def decoded(data: bytes) -> str:
    """The characters: UTF-8, or those of old Windows systems."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("cp1252", errors="replace")
