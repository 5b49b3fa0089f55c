"""The speed of reading PDFs: pages per CPU second, counted over all processes involved."""

import asyncio
from typing import Final

import psutil
import typst

from poweron_events.errors import Unavailable
from poweron_services.connectors.document_reader import DocumentReader, affordable_readers
from poweron_services.experiments.bench.processes import CpuMeter

READER: Final = "reader"  # this process and those that it starts
PROSE: Final = "#lorem(700)"
COLUMNS: Final = "#columns(2, lorem(640))"
TABLE: Final = "#grid(columns: 6, ..range(240).map(place => rect(width: 28mm, height: 6mm)[#lorem(1) #place]))"
KINDS: Final = {"prose": (PROSE,), "columns": (COLUMNS,), "tables": (TABLE,), "mixed": (PROSE, COLUMNS, TABLE)}
"""The contents of each document's pages, repeated in turn; table cells are framed one by one, as many programs do."""
_HEAD: Final = '#set page(paper: "a4", margin: 18mm)\n#set text(size: 10pt)\n#set par(justify: true)\n'


async def pages_per_second(kind: str, pages: int) -> float:
    """Read a document of this many pages and return the pages per CPU second of all processes.

    Raises:
        Unavailable: a page was left out, so the figure would be meaningless.
    """
    data = await asyncio.to_thread(_written, kind, pages)
    meter = CpuMeter({READER: psutil.Process()})

    async def load() -> bytes:
        return data

    before = meter.read()[READER]
    document = await DocumentReader(affordable_readers())(load, len(data), f"{kind}.pdf")
    used = meter.read()[READER] - before
    if document.truncated or len(document.sections) != pages:
        raise Unavailable(f"Of {pages:,} pages that were to be read, {len(document.sections):,} were.")
    return pages / used


def _written(kind: str, pages: int) -> bytes:
    """Return a PDF of this many pages."""
    contents = KINDS[kind]
    shown = "\n#pagebreak()\n".join(contents[page % len(contents)] for page in range(pages))
    made = typst.compile(f"{_HEAD}{shown}".encode())
    assert isinstance(made, bytes)
    return made
