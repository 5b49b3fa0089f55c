"""What a report is, whatever it is written as: a cover, and blocks of texts, tables and figures in their order.

All text in it is text: nothing that a stranger wrote is markup of any format from here on.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

ReportFormat = Literal["markdown", "html", "docx", "pdf", "xlsx"]
PartKind = Literal["written", "extracted", "document"]
Align = Literal["start", "end"]

RIGHT_TO_LEFT = frozenset({"ar", "fa", "he", "ur"})


@dataclass(frozen=True, slots=True)
class Part:
    """A text that the report is made of: what a model wrote for the user, what was read of a document, a document."""

    name: str
    kind: PartKind
    text: str


@dataclass(frozen=True, slots=True)
class Draft:
    """What a report is to be made of."""

    title: str
    language: str
    parts: tuple[Part, ...]
    sources: str = ""
    """The numbered list of the sources as markdown, below its heading."""
    source_count: int = 0
    requester: str = ""
    day: str = ""
    """When the round began, such as `2025-03-14`; no clock is asked for it."""
    formats: tuple[ReportFormat, ...] = ()


@dataclass(frozen=True, slots=True)
class Run:
    """A stretch of text that looks the same, a line end in it begins a new line."""

    text: str
    bold: bool = False
    italic: bool = False
    monospace: bool = False
    strike: bool = False
    link: str = ""
    literal: bool = False
    """Whether it stood behind a backslash: its brackets are text and no citation."""
    picture: str = ""
    """A picture inside the report, whose description the text is."""


Runs: TypeAlias = tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class Heading:
    level: int
    """1 for a chapter of the report."""
    runs: Runs
    anchor: str = ""
    kind: Literal["heading"] = "heading"


@dataclass(frozen=True, slots=True)
class Paragraph:
    runs: Runs
    kind: Literal["paragraph"] = "paragraph"


@dataclass(frozen=True, slots=True)
class Listing:
    items: "tuple[tuple[Block, ...], ...]"
    start: int | None = None
    """The first number; None without numbers."""
    kind: Literal["list"] = "list"


@dataclass(frozen=True, slots=True)
class Quote:
    blocks: "tuple[Block, ...]"
    kind: Literal["quote"] = "quote"


@dataclass(frozen=True, slots=True)
class Code:
    text: str
    kind: Literal["code"] = "code"


@dataclass(frozen=True, slots=True)
class Table:
    header: tuple[Runs, ...]
    """Empty where the columns have no names: then the first cell of a row names it."""
    rows: tuple[tuple[Runs, ...], ...]
    aligned: tuple[Align, ...]
    kind: Literal["table"] = "table"

    @property
    def columns(self) -> int:
        return len(self.aligned)


@dataclass(frozen=True, slots=True)
class Figure:
    svg: str
    alt: str
    caption: str
    kind: Literal["figure"] = "figure"


Block: TypeAlias = Heading | Paragraph | Listing | Quote | Code | Table | Figure


@dataclass(frozen=True, slots=True)
class Report:
    title: str
    language: str
    author: str
    day: str
    cover: tuple[str, ...]
    """The lines below the title: when, for whom and by whom, from how many sources."""
    contents: str
    """What the contents are headed with; empty where a report is too short to have any."""
    blocks: tuple[Block, ...]
    sources: tuple[Block, ...]
    sources_text: str
    """The same as markdown, as it was given."""
    keywords: tuple[str, ...] = ()

    @property
    def right_to_left(self) -> bool:
        return self.language.partition("-")[0].casefold() in RIGHT_TO_LEFT

    @property
    def headings(self) -> list[Heading]:
        """Those that the contents show."""
        return [block for block in (*self.blocks, *self.sources) if isinstance(block, Heading) and block.level <= 2]

    @property
    def tables(self) -> list[tuple[str, Table]]:
        """The tables, each with the heading it stands under."""
        found: list[tuple[str, Table]] = []
        under = self.title
        for block in self.blocks:
            if isinstance(block, Heading):
                under = text_of(block.runs)
            elif isinstance(block, Table):
                found.append((under, block))
        return found


def text_of(runs: Iterable[Run]) -> str:
    """The bare text."""
    return "".join(run.text for run in runs)
