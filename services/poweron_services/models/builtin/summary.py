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


def summary(library: Library, language: str, topic: frozenset[str] = frozenset()) -> str:
    """Summarise documents, every section with its place; with a topic, only the sections that say most about it."""
    documents = {
        name: list(group) for name, group in groupby(library.sections, key=lambda section: section.place.document)
    }
    names = list(documents)
    more = f" (+{len(names) - 3})" if len(names) > 3 else ""
    parts = [f"# {say('summary_of', language, names=', '.join(names[:3]) + more)}"] if len(names) > 1 else []
    counts = {section.place: len(topic & library.around[section.place].section) for section in library.sections}
    most = max(counts.values(), default=0)
    level = "##" if len(names) == 1 else "###"
    for name, sections in documents.items():
        relevant = [section for section in sections if counts[section.place] == most] if most else sections
        selection = [section for section in relevant if not APPARATUS.search(section.place.locator)][:SECTIONS]
        is_long = sum(len(block.text) for section in selection for block in section.blocks) > SHORT_DOCUMENT
        parts += [f"## {_escape(name)}"] if len(names) > 1 else []
        parts += [piece for section in selection for piece in _section(section, level, language, is_long=is_long)]
    return "\n\n".join(parts)


def all_tables(library: Library) -> str:
    """Return every table in full, under the name of its sheet or section, or else of its document."""
    sections = []
    for table in library.tables:
        name = table.place.locator.partition(" ")[2] or table.place.document
        rows = [table.headers, *(record.cells for record in table.records)]
        sections.append(f"## {_escape(name)}\n\n{_table(rows, '', len(rows))}")
    return "\n\n".join(sections)


def _section(section: SourceSection, level: str, language: str, *, is_long: bool) -> Iterator[str]:
    title = _title(section) or (section.place.document if level == "##" and not section.place.locator else "")
    if title:
        yield f"{level} {_escape(title)}"
    yield f"*{say('source', language, place=_escape(_place_text(section.place, language)))}*"
    for block in section.blocks[: PIECES if is_long else None]:
        if block.text != title:
            yield _block_text(block, level, language, is_long=is_long)


def _title(section: SourceSection) -> str:
    """Return the document's name for a section; a page or a slide has no name but its first heading."""
    kind, _, name = section.place.locator.partition(" ")
    if kind in ("section", "sheet"):
        return name
    first = next(iter(section.blocks), None)
    return first.text if first is not None and first.kind == "heading" else ""


def _place_text(place: SourcePlace, language: str) -> str:
    return str(replace(place, locator=place_in(place.locator, language)))


def _block_text(block: SourceBlock, level: str, language: str, *, is_long: bool) -> str:
    match block.kind:
        case "heading":
            return f"{level}# {_escape(block.text)}"
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
    visible_rows = [rows[0], ("---",) * len(rows[0]), *rows[1 : most + 1]]
    cell_rows = ([_escape(cell).replace("|", "\\|") for cell in row] for row in visible_rows)
    table = "\n".join(f"| {' | '.join(row)} |" for row in cell_rows)
    left_out = len(rows) - 1 - most
    return f"{table}\n\n{say('more_rows', language, count=left_out)}" if left_out > 0 else table


def _escape(text: str) -> str:
    return _MARKUP.sub(r"\\\1", text)


def _plain(text: str) -> str:
    """Escape a text, so that it is not read as markup."""
    return _BEGINS_BLOCK.sub(r"\1\\", _escape(text))


def converted(library: Library, output_format: Literal["json", "csv"]) -> str:
    """Return all tables and values as JSON; as CSV the largest table, or the values if there is none."""
    if output_format == "json":
        return orjson.dumps([*map(_as_object, library.tables), *_values(library)], option=orjson.OPT_INDENT_2).decode()
    if library.tables:
        largest = max(library.tables, key=lambda table: len(table.records))
        return as_csv([largest.headers, *(record.cells for record in largest.records)])
    facts = [
        (passage.label, passage.value, passage.place.document, passage.place.locator)
        for passage in library.passages
        if passage.label
    ]
    return as_csv([("label", "value", "document", "place"), *facts])


def as_csv(rows: Iterable[Row]) -> str:
    """Write rows with the same number of cells as CSV."""
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(rows)
    return buffer.getvalue()


def _as_object(table: SourceTable) -> dict[str, object]:
    names = [header or f"column {number}" for number, header in enumerate(table.headers, start=1)]
    rows = [dict(zip(names, record.cells, strict=True)) for record in table.records]
    return table.place.as_object() | {"rows": rows}


def _values(library: Library) -> list[dict[str, object]]:
    values_by_place: dict[SourcePlace, dict[str, str]] = {}
    for passage in library.passages:
        if passage.kind == "fact":
            values_by_place.setdefault(passage.place, {}).setdefault(passage.label, passage.value)
    return [place.as_object() | {"values": values} for place, values in values_by_place.items()]
