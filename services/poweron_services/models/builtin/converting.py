"""Documents as data: their tables and labelled values as JSON or CSV, nothing left out and nothing added."""

import csv
import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

import orjson

from poweron_services.models.builtin.passages import Library, Passage
from poweron_services.models.builtin.sources import Row, Section
from poweron_services.models.builtin.tables import headers_of


@dataclass(frozen=True, slots=True)
class _Table:
    section: Section
    headers: Row
    rows: tuple[Row, ...]


def converted(held: Library, output_format: Literal["json", "csv"]) -> str:
    """All tables and values as JSON; as CSV the largest table, or the values where there is none."""
    tables = [table for section in held.sections for table in _tables(section)]
    if output_format == "json":
        entries = [*map(_as_object, tables), *_values(held)]
        return orjson.dumps(entries, option=orjson.OPT_INDENT_2).decode()
    if tables:
        largest = max(tables, key=lambda table: len(table.rows))
        return as_csv([largest.headers, *largest.rows])
    facts = [(one.label, one.value, one.place.document, one.place.locator) for one in _facts(held)]
    return as_csv([("label", "value", "document", "place"), *facts])


def as_csv(rows: Iterable[Row]) -> str:
    """Rows of the same number of cells."""
    every = list(rows)
    width = max(map(len, every), default=0)
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows((*row, *("",) * (width - len(row))) for row in every)
    return written.getvalue()


def _tables(section: Section) -> Iterator[_Table]:
    for block in section.blocks:
        if block.kind == "table":
            headers, rows = headers_of(block.rows)
            if any(headers):
                yield _Table(section, headers, rows)


def _as_object(table: _Table) -> dict[str, object]:
    names = [header or f"column {number}" for number, header in enumerate(table.headers, start=1)]
    return {
        "document": table.section.document,
        "place": table.section.locator,
        "rows": [dict(zip(names, row, strict=False)) for row in table.rows],
    }


def _values(held: Library) -> list[dict[str, object]]:
    by_place: dict[tuple[str, str], dict[str, str]] = {}
    for one in _facts(held):
        by_place.setdefault((one.place.document, one.place.locator), {}).setdefault(one.label, one.value)
    return [{"document": document, "place": place, "values": found} for (document, place), found in by_place.items()]


def _facts(held: Library) -> list[Passage]:
    return [passage for passage in held.passages if passage.kind == "fact"]
