"""XLSX (and the older XLS): one section per sheet, one table for each block of rows without a gap."""

import datetime as dt
import io
from collections.abc import Iterator
from itertools import groupby

from python_calamine import CalamineWorkbook, PasswordError

from poweron_services.connectors.documents_child.archive import check
from poweron_services.connectors.documents_child.document import Section, Unreadable
from poweron_services.connectors.documents_child.limits import Limits
from poweron_services.connectors.documents_child.pipe_tables import first_row_is_header, pipe_table
from poweron_services.connectors.documents_child.readers import Part

Cell = str | float | bool | dt.date | dt.time | dt.timedelta


def read(data: bytes, limits: Limits) -> Iterator[Part]:
    if data.startswith(b"PK"):
        check(data, limits)
    for name, rows in _sheets(data):
        yield Section(f"sheet {name}", "\n\n".join(_blocks(_capped(rows, limits))))


def _sheets(data: bytes) -> Iterator[tuple[str, Iterator[list[Cell]]]]:
    try:
        workbook = CalamineWorkbook.from_filelike(io.BytesIO(data))
    except PasswordError as error:
        raise Unreadable(
            "is protected with a password, so nothing of it can be read; "
            "save it without a password and hand it over again.",
            "document_protected",
        ) from error
    for name in workbook.sheet_names:
        yield name, workbook.get_sheet_by_name(name).iter_rows()


def _capped(rows: Iterator[list[Cell]], limits: Limits) -> Iterator[list[str]]:
    """Rows of text until they are longer than any document may be."""
    length = 0
    for row in rows:
        cells = [_text(cell) for cell in row]
        yield cells
        length += sum(map(len, cells)) + len(cells)
        if length > limits.characters:
            return


def _blocks(rows: Iterator[list[str]]) -> Iterator[str]:
    for filled, block in groupby(rows, key=any):
        if filled:
            yield from _block(list(block))


def _block(rows: list[list[str]]) -> Iterator[str]:
    """A line with one cell above a table is its title."""
    while rows and sum(map(bool, rows[0])) == 1:
        yield next(cell for cell in rows.pop(0) if cell)
    if rows:
        yield pipe_table(rows, header=first_row_is_header(rows))


def _text(cell: Cell) -> str:
    match cell:
        case bool():
            return "TRUE" if cell else "FALSE"
        case float() | int():
            return format(cell, ".15g") if abs(cell) < 1e15 else str(cell)
        case dt.datetime():
            return cell.date().isoformat() if cell.time() == dt.time() else cell.isoformat(" ")
        case dt.date() | dt.time():
            return cell.isoformat()
        case _:
            return str(cell).strip()
