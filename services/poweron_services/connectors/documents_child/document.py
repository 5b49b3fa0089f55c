"""What was read from a document: its sections in reading order, and what a person should know about the reading.

`markdown()` is what later steps read. So that no line of a section can pass for a heading of the document, lines
that begin with `# ` or `## ` carry a backslash there. Metadata and notes stand below all that the document says.
"""

import re
from dataclasses import dataclass, replace
from typing import Literal

MOST_PLACES = 10  # of one kind, that a note names
NOTES, METADATA = "notes", "metadata"  # the headings of what is told last; a locator is never one of these words alone

_HEADING_LIKE = re.compile(r"^(\\*#{1,2}(?: |$))", re.MULTILINE)


Right = Literal["root", "capabilities", "new_rights", "system_calls"]
"""What the process that reads a document gives up before."""


class Unreadable(Exception):
    """The document holds nothing that can be read; the message says why and what to do, after the document's name.

    `code` is one of the codes of documents in `poweron_events.codes`, which is not imported here.
    """

    def __init__(self, why: str, code: str) -> None:
        super().__init__(why)
        self.code = code


@dataclass(frozen=True, slots=True)
class Section:
    """A page of a PDF, a sheet of a workbook, a slide, or a headed section of a text."""

    locator: str  # "page 2", "sheet Budget", "slide 3", "section Returns"; "" where the document has no parts
    text: str  # paragraphs and pipe tables, where they stand in reading order


@dataclass(frozen=True, slots=True)
class ExtractedDocument:
    name: str
    mime_type: str
    sections: tuple[Section, ...]
    truncated: bool
    notes: tuple[str, ...]
    links: tuple[str, ...] = ()
    """Addresses of the web that the document leads to, whether or not they stand in its text."""

    metadata: tuple[tuple[str, str], ...] = ()
    """What the document tells about itself, a name and a value each: its title, author, dates, how many pages."""
    pictures: tuple[str, ...] = ()
    """The locators of its parts that are only a picture, as of a scanned page; "" where the document is a picture."""
    omitted: tuple[tuple[str, str], ...] = ()
    """Kinds of things that it holds and that are not read, each with the locator of a part that holds some."""

    def with_omissions_told(self) -> "ExtractedDocument":
        """With a note of what was not read, by kind and place."""
        kinds: dict[str, list[str]] = {}
        for kind, place in self.omitted:
            kinds.setdefault(kind, []).append(place)
        told = "; ".join(f"{kind}{_places(places)}" for kind, places in kinds.items())
        return replace(self, omitted=(), notes=(*self.notes, f"Not read: {told}.")) if told else self

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
    named = [place for place in places if place]
    more = [f"and {len(named) - MOST_PLACES} more"] if len(named) > MOST_PLACES else []
    return f" ({', '.join([*named[:MOST_PLACES], *more])})" if named else ""
