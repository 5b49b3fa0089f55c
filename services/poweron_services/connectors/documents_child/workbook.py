"""The reader of XLSX, ODS and the older XLS: one section per sheet, with its tables and the comments on its cells."""

import datetime as dt
import io
from collections.abc import Iterator
from typing import Any

from python_calamine import CalamineWorkbook, PasswordError, SheetTypeEnum, SheetVisibleEnum

from poweron_services.connectors.documents_child.archive import check
from poweron_services.connectors.documents_child.document import Section, Unreadable
from poweron_services.connectors.documents_child.limits import ReadLimits
from poweron_services.connectors.documents_child.number_format import formatted, formatted_text
from poweron_services.connectors.documents_child.office_facts import office_facts
from poweron_services.connectors.documents_child.readers import Fact, Note, OmittedPart, Part
from poweron_services.connectors.documents_child.sheet_tables import SheetRow, sheet_blocks
from poweron_services.connectors.documents_child.sheet_xml import SheetDetails, Workbook

Value = str | float | bool | dt.date | dt.time | dt.timedelta
HIDDEN = ((SheetVisibleEnum.Hidden, " (hidden)"), (SheetVisibleEnum.VeryHidden, " (very hidden)"))
MOST_MERGED = 1_000  # rows or columns of one cell; a larger one is page layout


def read(data: bytes, limits: ReadLimits) -> Iterator[Part]:
    details = None
    if data.startswith(b"PK"):
        check(data, limits)
        yield from office_facts(data)
        details = Workbook(data)
    workbook = _open(data)
    sheets = [sheet for sheet in workbook.sheets_metadata if sheet.typ == SheetTypeEnum.WorkSheet]
    yield Fact("sheets", str(len(sheets)))
    yield Fact("hidden sheets", ", ".join(sheet.name for sheet in sheets if _visibility(sheet)))
    yield from (
        OmittedPart("charts", f"sheet {sheet.name}")
        for sheet in workbook.sheets_metadata
        if sheet.typ == SheetTypeEnum.ChartSheet
    )
    for sheet in sheets:
        sheet_details = details.sheet(sheet.name) if details else SheetDetails()
        locator = f"sheet {sheet.name}{_visibility(sheet)}"
        rows = _Capped(_rows(workbook.get_sheet_by_name(sheet.name), sheet_details), limits.whole_text)
        yield Section(locator, "\n\n".join([*sheet_blocks(rows), *sheet_details.comments]))
        yield from (OmittedPart(kind, locator) for kind in sheet_details.unread)
        if rows.cut:
            yield Note(f"Of {locator} only the first {rows.read:,} rows were read.", truncated=True)
        if sheet_details.uncalculated:
            formulas = "a formula" if sheet_details.uncalculated == 1 else f"{sheet_details.uncalculated:,} formulas"
            yield Note(
                f"Sheet {sheet.name!r} holds {formulas} without a value, for no program has calculated it yet; "
                f"open it in one, save it and hand it over again.",
                truncated=True,
            )


def _visibility(sheet: Any) -> str:
    return next((words for visible, words in HIDDEN if sheet.visible == visible), "")


def _open(data: bytes) -> Any:
    try:
        return CalamineWorkbook.from_filelike(io.BytesIO(data))
    except PasswordError as error:
        raise Unreadable(
            "is protected with a password, so nothing of it can be read; "
            "save it without a password and hand it over again.",
            "document_protected",
        ) from error


def _rows(sheet: Any, details: SheetDetails) -> Iterator[SheetRow]:
    """Yield the texts of the cells, that of a merged cell in each place that it covers."""
    _, left = sheet.start or (0, 0)
    _, right = sheet.end or (0, 0)
    merged_cells = _Merged(sheet.merged_cell_ranges or [], left, right)
    for line, row in enumerate(sheet.iter_rows()):
        cells = [
            details.texts.get((line, left + column)) or cell_text(cell, details.formats.get((line, left + column), ""))
            for column, cell in enumerate(row)
        ]
        first = next((column for column, cell in enumerate(cells) if cell), 0)
        is_bold = (line, left + first) in details.bold
        yield (
            SheetRow(cells, is_marked=True)
            if merged_cells.is_alone(line, cells)
            else merged_cells.filled(line, cells, is_bold)
        )


class _Merged:
    """The merged cells of a sheet; one that spans the whole width is a title, and appears once."""

    def __init__(self, ranges: Any, left: int, right: int) -> None:
        self._left = left
        self._beginning: dict[int, list[tuple[int, int, int]]] = {}
        self._open: list[tuple[int, int, int, str]] = []
        for (top, first), (bottom, last) in ranges:
            if bottom - top < MOST_MERGED and last - first < MOST_MERGED:
                is_block = bottom > top and (first, last) == (left, right)  # its text appears once in each row
                end = first if is_block else last
                self._beginning.setdefault(top, []).append((first - left, end - left, bottom))

    def is_alone(self, line: int, cells: list[str]) -> bool:
        """Return whether a cell over several columns is all that the row holds, so that it appears once."""
        columns = [column for column, cell in enumerate(cells) if cell]
        return any(
            [first] == columns and last > first and bottom == line
            for first, last, bottom in self._beginning.get(line, [])
        )

    def filled(self, line: int, cells: list[str], is_marked: bool) -> SheetRow:
        """Return the row with the texts of merged cells in each place that they cover."""
        self._open = [entry for entry in self._open if entry[2] >= line]
        for first, last, bottom in self._beginning.get(line, []):
            if 0 <= first < len(cells):
                self._open.append((first, last, bottom, cells[first]))
        for first, last, _, text in self._open:
            for column in range(max(first, 0), min(last + 1, len(cells))):
                cells[column] = cells[column] or text
        return SheetRow(cells, is_marked)


class _Capped:
    """Rows of text, up to the longest text that a sheet may have."""

    def __init__(self, rows: Iterator[SheetRow], most: int) -> None:
        self._rows, self._left = rows, most
        self.read = 0
        self.cut = False

    def __iter__(self) -> Iterator[SheetRow]:
        for row in self._rows:
            if self._left < 0:
                self.cut = True
                return
            self.read += 1
            self._left -= sum(map(len, row.cells)) + len(row.cells)
            yield row


def cell_text(value: Value, code: str = "") -> str:
    """Format a value with a number format code of a workbook; "" is the general format."""
    match value:
        case bool():
            return "TRUE" if value else "FALSE"
        case float() | int():
            return formatted(value, code)
        case dt.datetime():
            return value.date().isoformat() if value.time() == dt.time() else value.isoformat(" ")
        case dt.date() | dt.time():
            return value.isoformat()
        case dt.timedelta():
            minutes, seconds = divmod(round(value.total_seconds()), 60)
            return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"
        case _:
            return formatted_text(str(value).strip(), code)
