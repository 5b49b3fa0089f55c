"""The content of a document: its sections in reading order, its metadata, and notes for users about how it was read.

Later steps read `markdown()`. It escapes lines of a section that begin with `# ` or `## ` with a backslash, so that
none of them can pass for a heading of the document. Metadata and notes follow the text.

A `Member`, which is a document within a mail or an archive, is loaded only when it is read.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Literal

MOST_PLACES = 10  # of one kind, that a note lists
NOTES, METADATA = "notes", "metadata"  # headings at the end of the markdown; no locator is one of these words alone

_HEADING_LIKE = re.compile(r"^(\\*#{1,2}(?: |$))", re.MULTILINE)


Right = Literal["root", "capabilities", "new_rights", "system_calls"]
"""A privilege that the process drops before it reads a document."""


class Unreadable(Exception):
    """Raised if nothing of a document can be read; the message follows its name, and says why and what to do.

    `code` is one of the document codes of `poweron_events.codes`, which is not imported here.
    """

    def __init__(self, reason: str, code: str) -> None:
        super().__init__(reason)
        self.code = code


@dataclass(frozen=True, slots=True)
class Section:
    """A page of a PDF, a sheet of a workbook, a slide, or a section of a text below its heading."""

    locator: str  # "page 2", "sheet Budget", "slide 3", "section Returns"; "" if the document has no parts
    text: str  # paragraphs and pipe tables, in reading order


@dataclass(frozen=True, slots=True)
class ExtractedDocument:
    name: str
    mime_type: str
    sections: tuple[Section, ...]
    truncated: bool
    notes: tuple[str, ...]
    links: tuple[str, ...] = ()
    """Web addresses that the document links to, whether or not its text shows them."""

    metadata: tuple[tuple[str, str], ...] = ()
    """Metadata of the document as pairs of name and value: its title, author, dates, page count."""
    pictures: tuple[str, ...] = ()
    """Locators of the parts that are only a picture, such as a scanned page; "" if the whole document is a picture."""
    omitted: tuple[tuple[str, str], ...] = ()
    """Kinds of content that were not read, each with the locator of a part that holds some."""

    def with_omission_note(self) -> "ExtractedDocument":
        """Move the omissions into a note that lists them by kind and place."""
        kinds: dict[str, list[str]] = {}
        for kind, place in self.omitted:
            kinds.setdefault(kind, []).append(place)
        omissions = "; ".join(f"{kind}{_places(places)}" for kind, places in kinds.items())
        return replace(self, omitted=(), notes=(*self.notes, f"Not read: {omissions}.")) if omissions else self

    def markdown(self) -> str:
        mark = " truncated" if self.truncated else ""
        parts = [f"# {self.name}", f"<!-- {self.mime_type}{mark} -->"]
        for index, section in enumerate(self.sections):
            if section.locator or index:
                parts.append(f"## {section.locator}".rstrip())
            parts.append(_HEADING_LIKE.sub(r"\\\1", section.text))
        if self.metadata:
            parts += [f"## {METADATA}", "\n".join(f"- {name}: {value}" for name, value in self.metadata)]
        if self.notes:
            parts += [f"## {NOTES}", "\n".join(f"- {note}" for note in self.notes)]
        return "\n\n".join(parts) + "\n"


def _places(places: list[str]) -> str:
    names = [place for place in places if place]
    more = [f"and {len(names) - MOST_PLACES} more"] if len(names) > MOST_PLACES else []
    return f" ({', '.join([*names[:MOST_PLACES], *more])})" if names else ""


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
