"""The tables of a report as a workbook: numbers become numbers, everything else is text and never a formula.

A number whose separators are ambiguous stays text. Quantities get thousands separators; years, codes and other
identifiers in digits stay as they were written.
"""

import io
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

import xlsxwriter
from xlsxwriter.format import Format
from xlsxwriter.worksheet import Worksheet

from poweron_services.connectors.reports_child.report import Report, ReportTable, text_of
from poweron_services.text.numbers import Number, column_numbers, decimal_mark
from poweron_services.text.spreadsheet_text import begins_formula

MOST_NAME: Final = 31  # characters of a sheet's name
MOST_TEXT: Final = 32_000  # characters of a cell
WIDEST: Final = 60
A4: Final = 9  # the number of this paper size in workbooks
MOST_DIGITS: Final = 8  # of a number that is taken for a quantity without other evidence; a phone number has more
_FIRST_YEAR, _LAST_YEAR = 1_500, 2_199
_IS_NAME: Final = re.compile(
    r"\b(?:ids?|no|nr|nos|number|nummer|numéro|número|numero|code|codes|key|zip|plz|postal|postleitzahl|phone|telephone"
    r"|telefon|téléphone|teléfono|tel|mobile|fax|year|years|jahr|année|año|anno|account|konto|iban|isbn|ref|reference"
    r"|referenz|kostenstelle|cost cent(?:er|re)|sku|article|artikel|port|version)\b|nummer\b|#",
    re.IGNORECASE,
)
"""Headers of columns in which digits are identifiers, not quantities."""
_FORBIDDEN: Final = re.compile(r"[\[\]:*?/\\']")


def workbook(report: Report) -> bytes:
    """Write a workbook with a sheet for each table; it is empty if the report has none."""
    buffer = io.BytesIO()
    options = {"in_memory": True, "strings_to_formulas": False, "strings_to_urls": False, "strings_to_numbers": False}
    book = xlsxwriter.Workbook(buffer, options)
    moment = datetime.fromisoformat(report.day or "1980-01-01").replace(tzinfo=UTC)
    book.set_properties(
        {
            "title": report.title,
            "author": report.author,
            "keywords": ", ".join(report.keywords),
            "created": moment.replace(tzinfo=None),
        }
    )
    for name, value in report.provenance.unique_properties() if report.provenance else ():
        book.set_custom_property(name, value, "text")
    formats = _Formats(book)
    names: set[str] = set()
    for number, (name, table) in enumerate(report.tables, start=1):
        sheet = book.add_worksheet(_name(name, number, names))
        if report.right_to_left:
            sheet.right_to_left()
        _fill(sheet, table, formats)
        _lay_out(sheet, table)
    book.close()
    return buffer.getvalue()


class _Formats:
    """Creates each format once."""

    def __init__(self, book: Any) -> None:
        self._book = book
        self._made: dict[str, Format] = {}

    def __call__(self, **properties: Any) -> Format:
        key = repr(properties)
        if key not in self._made:
            self._made[key] = self._book.add_format({"valign": "top", **properties})
        return self._made[key]


def _fill(sheet: Worksheet, table: ReportTable, formats: _Formats) -> None:
    rows = [[text_of(cell)[:MOST_TEXT] for cell in row] for row in table.rows]
    if table.header:
        for column, runs in enumerate(table.header):
            bold = formats(bold=True, bg_color="#1d5b79", font_color="#ffffff", text_wrap=True, quote_prefix=True)
            sheet.write_string(0, column, text_of(runs)[:MOST_TEXT], bold)
        sheet.freeze_panes(1, 0)
        sheet.autofilter(0, 0, len(rows), table.columns - 1)
    first = 1 if table.header else 0
    hint = decimal_mark([cell for row in rows for cell in row])
    for column in range(table.columns):
        cells = [row[column] for row in rows]
        numbers = column_numbers(cells, hint)
        counts = column > 0 and _counts(text_of(table.header[column]) if table.header else "", numbers)
        for row, (cell, value) in enumerate(zip(cells, numbers, strict=True), start=first):
            if value is None:
                _write_text(sheet, (row, column), cell, formats)
            else:
                _write_number(sheet, (row, column), value, formats(num_format=_shape(value, grouped=counts)))
        longest = max((len(cell) for cell in (*cells, *map(text_of, table.header[column : column + 1]))), default=8)
        sheet.set_column(column, column, min(WIDEST, max(8, longest + 2)))


def _lay_out(sheet: Worksheet, table: ReportTable) -> None:
    """Print all columns of a table side by side, and repeat their names on each page."""
    sheet.set_paper(A4)
    sheet.set_landscape()
    sheet.fit_to_pages(1, 0)
    if table.header:
        sheet.repeat_rows(0)


def _counts(header: str, numbers: Sequence[Number | None]) -> bool:
    """Return whether a column holds quantities, not years, codes or other identifiers in digits.

    It does if one of its numbers has a unit, decimals or thousands separators; otherwise if the numbers have different
    lengths or are all round.
    """
    known = [number for number in numbers if number is not None]
    if _IS_NAME.search(header) or all(_FIRST_YEAR <= number.value <= _LAST_YEAR for number in known):
        return False
    if any(number.unit or number.decimals or number.group for number in known):
        return True
    lengths = {len(str(abs(int(number.value)))) for number in known}
    return max(lengths) <= MOST_DIGITS and (len(lengths) > 1 or all(number.value % 100 == 0 for number in known))


def _write_number(sheet: Worksheet, place: tuple[int, int], value: Number, shape: Format) -> None:
    scale = 100 if value.unit == "%" else 1
    sheet.write_number(*place, float(value.value / scale), shape)


def _write_text(sheet: Worksheet, place: tuple[int, int], cell: str, formats: _Formats) -> None:
    if cell:
        sheet.write_string(*place, cell, _text_format(cell, formats))


def _text_format(cell: str, formats: _Formats) -> Format:
    """The format of a text cell. Text that begins like a formula stays text when a user edits it."""
    options = {"quote_prefix": True, "num_format": "@"} if begins_formula(cell) else {}
    return formats(text_wrap=len(cell) > WIDEST, **options)


def _shape(value: Number, *, grouped: bool) -> str:
    digits = ("#,##0" if grouped or value.group or value.unit else "0") + (
        "." + "0" * value.decimals if value.decimals else ""
    )
    if value.unit == "%":
        return f"{digits}%"
    unit = f'"{value.unit}"' if value.unit else ""
    space = " " if len(value.unit) > 1 else ""
    return f"{unit}{space}{digits}" if value.unit_first else f"{digits}{f' {unit}' if unit else ''}"


def _name(name: str, number: int, names: set[str]) -> str:
    """A valid sheet name that no other sheet has."""
    bare = _FORBIDDEN.sub(" ", name).strip() or "Table"
    for tail in ("", f" ({number})"):
        candidate = f"{bare[: MOST_NAME - len(tail)].strip()}{tail}"
        if candidate.casefold() not in names and candidate.casefold() != "history":
            break
    names.add(candidate.casefold())
    return candidate
