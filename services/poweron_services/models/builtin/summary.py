"""Compilations of documents: a short report, or their tables and labelled values as JSON or CSV.

A short document is included in full, a longer one with every section and the beginning of its texts.
"""

import csv
import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby
from textwrap import shorten
from typing import Literal

import orjson

from poweron_services.models.builtin.passages import Library
from poweron_services.models.builtin.phrases import say
from poweron_services.models.builtin.sources import APPARATUS, Row, SourceBlock, SourcePlace, SourceSection
from poweron_services.models.builtin.table_cells import SourceTable, headers_of, pairs
from poweron_services.text.source_list import place_in

SHORT_DOCUMENT = 8_000  # characters; a document of up to this length is included in full
SECTIONS, PIECES = 40, 4  # sections of a longer document, and blocks of each section
TEXT, LINES, ROWS = 400, 8, 12  # characters, lines and rows of a block in a longer document

_MARKUP = re.compile(r"([\\`*<\[\]])")
_BEGINS_BLOCK = re.compile(r"^(\d*)(?=[#>+=~-]|(?<=\d)[.)] )")


def summary(held: Library, language: str, topic: frozenset[str] = frozenset()) -> str:
    """Summarise documents, every section with its place; with a topic, only the sections that say most about it."""
    documents = {
        name: list(parts) for name, parts in groupby(held.sections, key=lambda section: section.place.document)
    }
    names = list(documents)
    more = f" (+{len(names) - 3})" if len(names) > 3 else ""
    written = [f"# {say('summary_of', language, names=', '.join(names[:3]) + more)}"] if len(names) > 1 else []
    said = {section.place: len(topic & held.around[section.place].section) for section in held.sections}
    most = max(said.values(), default=0)
    level = "##" if len(names) == 1 else "###"
    for name, sections in documents.items():
        wanted = [one for one in sections if said[one.place] == most] if most else sections
        told = [one for one in wanted if not APPARATUS.search(one.place.locator)][:SECTIONS]
        is_long = sum(len(block.text) for one in told for block in one.blocks) > SHORT_DOCUMENT
        written += [f"## {_escaped(name)}"] if len(names) > 1 else []
        written += [piece for one in told for piece in _section(one, level, language, is_long=is_long)]
    return "\n\n".join(written)


def all_tables(held: Library) -> str:
    """Return every table in full, under the name of its sheet or section, or else of its document."""
    written = []
    for table in held.tables:
        name = table.place.locator.partition(" ")[2] or table.place.document
        rows = [table.headers, *(record.cells for record in table.records)]
        written.append(f"## {_escaped(name)}\n\n{_table(rows, '', len(rows))}")
    return "\n\n".join(written)


def _section(section: SourceSection, level: str, language: str, *, is_long: bool) -> Iterator[str]:
    title = _title(section) or (section.place.document if level == "##" and not section.place.locator else "")
    if title:
        yield f"{level} {_escaped(title)}"
    yield f"*{say('source', language, place=_escaped(_told(section.place, language)))}*"
    for block in section.blocks[: PIECES if is_long else None]:
        if block.text != title:
            yield _written(block, level, language, is_long=is_long)


def _title(section: SourceSection) -> str:
    """Return the document's name for a section; a page or a slide has no name but its first heading."""
    kind, _, name = section.place.locator.partition(" ")
    if kind in ("section", "sheet"):
        return name
    first = next(iter(section.blocks), None)
    return first.text if first is not None and first.kind == "heading" else ""


def _told(place: SourcePlace, language: str) -> str:
    return str(replace(place, locator=place_in(place.locator, language)))


def _written(block: SourceBlock, level: str, language: str, *, is_long: bool) -> str:
    match block.kind:
        case "heading":
            return f"{level}# {_escaped(block.text)}"
        case "lines":
            return "\n".join(f"- {_plain(line)}" for line in block.lines[: LINES if is_long else None])
        case "prose":
            return _plain(shorten(block.text, TEXT, placeholder=" …") if is_long else block.text)
        case "table":
            headers, rows = headers_of(block.rows)
            if any(headers):
                return _table([headers, *rows], language, ROWS if is_long else len(rows))
            return "\n".join(f"- **{_plain(label)}:** {_plain(value)}" for label, value in pairs(rows))


def _table(rows: list[Row], language: str, most: int) -> str:
    shown = [rows[0], ("---",) * len(rows[0]), *rows[1 : most + 1]]
    escaped = ([_escaped(cell).replace("|", "\\|") for cell in row] for row in shown)
    table = "\n".join(f"| {' | '.join(row)} |" for row in escaped)
    left_out = len(rows) - 1 - most
    return f"{table}\n\n{say('more_rows', language, count=left_out)}" if left_out > 0 else table


def _escaped(text: str) -> str:
    return _MARKUP.sub(r"\\\1", text)


def _plain(text: str) -> str:
    """Escape a text, so that it is not read as markup."""
    return _BEGINS_BLOCK.sub(r"\1\\", _escaped(text))


def converted(held: Library, output_format: Literal["json", "csv"]) -> str:
    """Return all tables and values as JSON; as CSV the largest table, or the values if there is none."""
    if output_format == "json":
        return orjson.dumps([*map(_as_object, held.tables), *_values(held)], option=orjson.OPT_INDENT_2).decode()
    if held.tables:
        largest = max(held.tables, key=lambda table: len(table.records))
        return as_csv([largest.headers, *(record.cells for record in largest.records)])
    facts = [(one.label, one.value, one.place.document, one.place.locator) for one in held.passages if one.label]
    return as_csv([("label", "value", "document", "place"), *facts])


def as_csv(rows: Iterable[Row]) -> str:
    """Write rows with the same number of cells as CSV."""
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows(rows)
    return written.getvalue()


def _as_object(table: SourceTable) -> dict[str, object]:
    names = [header or f"column {number}" for number, header in enumerate(table.headers, start=1)]
    rows = [dict(zip(names, record.cells, strict=True)) for record in table.records]
    return table.place.as_object() | {"rows": rows}


def _values(held: Library) -> list[dict[str, object]]:
    found: dict[SourcePlace, dict[str, str]] = {}
    for one in held.passages:
        if one.kind == "fact":
            found.setdefault(one.place, {}).setdefault(one.label, one.value)
    return [place.as_object() | {"values": values} for place, values in found.items()]
