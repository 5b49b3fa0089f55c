"""The format-independent model of a report: a cover, and blocks of text, tables and figures in order.

All text in it is plain text: from here on, nothing untrusted is markup of any format.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from poweron_services.text.provenance import Provenance

ReportFormat = Literal["markdown", "html", "docx", "pdf", "xlsx"]
PartKind = Literal["written", "extracted", "document"]
Align = Literal["start", "end"]

RIGHT_TO_LEFT = frozenset({"ar", "fa", "he", "ur"})


@dataclass(frozen=True, slots=True)
class Part:
    """A source text of a report: written for the user by a model, extracted from a document, or itself a document."""

    name: str
    kind: PartKind
    text: str


@dataclass(frozen=True, slots=True)
class Draft:
    """The input from which a report is composed."""

    title: str
    language: str
    parts: tuple[Part, ...]
    sources: str = ""
    """The numbered list of the sources as markdown, with its heading."""
    source_count: int = 0
    requester: str = ""
    day: str = ""
    """The day on which the round began, such as `2025-03-14`; the clock is not used."""
    formats: tuple[ReportFormat, ...] = ()
    provenance: Provenance | None = None
    """The mark of the first file; each further file has the next number. None: the files have no mark."""


@dataclass(frozen=True, slots=True)
class Run:
    """A piece of text in one style; a line end in it starts a new line."""

    text: str
    bold: bool = False
    italic: bool = False
    monospace: bool = False
    strike: bool = False
    link: str = ""
    literal: bool = False
    """Whether it was escaped with a backslash: its brackets are text, not a citation."""
    picture: str = ""
    """The data URL of an embedded picture; `text` describes it."""


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
    """The first number; None if the list is not numbered."""
    kind: Literal["list"] = "list"


@dataclass(frozen=True, slots=True)
class ReportQuote:
    blocks: "tuple[Block, ...]"
    kind: Literal["quote"] = "quote"


@dataclass(frozen=True, slots=True)
class Code:
    text: str
    kind: Literal["code"] = "code"


@dataclass(frozen=True, slots=True)
class ReportTable:
    header: tuple[Runs, ...]
    """Empty if the columns have no names; the first cell of each row then names the row."""
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


Block: TypeAlias = Heading | Paragraph | Listing | ReportQuote | Code | ReportTable | Figure


@dataclass(frozen=True, slots=True)
class Report:
    title: str
    language: str
    author: str
    day: str
    cover: tuple[str, ...]
    """The lines below the title: when, for whom and by whom, from how many sources."""
    contents: str
    """The heading of the table of contents; empty if the report is too short to have one."""
    blocks: tuple[Block, ...]
    sources: tuple[Block, ...]
    sources_text: str
    """The sources as markdown, unchanged."""
    keywords: tuple[str, ...] = ()
    provenance: Provenance | None = None

    @property
    def right_to_left(self) -> bool:
        return self.language.partition("-")[0].casefold() in RIGHT_TO_LEFT

    @property
    def headings(self) -> list[Heading]:
        """The headings in the table of contents."""
        return [block for block in (*self.blocks, *self.sources) if isinstance(block, Heading) and block.level <= 2]

    @property
    def tables(self) -> list[tuple[str, ReportTable]]:
        """The tables, each with the heading above it."""
        result: list[tuple[str, ReportTable]] = []
        under = self.title
        for block in self.blocks:
            if isinstance(block, Heading):
                under = text_of(block.runs)
            elif isinstance(block, ReportTable):
                result.append((under, block))
        return result


def text_of(runs: Iterable[Run]) -> str:
    """The plain text of some runs."""
    return "".join(run.text for run in runs)
