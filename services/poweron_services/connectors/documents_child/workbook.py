"""The reader of XLSX, ODS and the older XLS: one section per sheet, with its tables and the comments on its cells.

Formats, errors, formulas without values and comments come from the XML, since the workbook library omits them.
"""

import datetime as dt
import io
import posixpath
import re
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from lxml import etree  # type: ignore[import-untyped] # it has no stubs
from python_calamine import CalamineWorkbook, PasswordError, SheetTypeEnum, SheetVisibleEnum

from poweron_services.connectors.documents_child.document import Section, Unreadable
from poweron_services.connectors.documents_child.limits import ReadLimits
from poweron_services.connectors.documents_child.number_format import formatted, formatted_text
from poweron_services.connectors.documents_child.office_parts import check, office_facts, parsed
from poweron_services.connectors.documents_child.readers import Fact, Note, OmittedPart, Part
from poweron_services.connectors.documents_child.sheet_tables import SheetRow, sheet_blocks

Place = tuple[int, int]
"""Row and column, counted from 0."""


@dataclass(slots=True)
class SheetDetails:
    formats: dict[Place, str] = field(default_factory=dict)
    texts: dict[Place, str] = field(default_factory=dict)
    """The texts of cells that hold an error instead of a value, or a formula that was never calculated."""
    bold: set[Place] = field(default_factory=set)
    uncalculated: int = 0
    """The number of formulas without a stored value."""
    comments: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    """The kinds of drawings on the sheet, which are not read."""


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
    """Yield the rows as texts; the text of a merged cell appears in each place that it covers."""
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


MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"


RELATION = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"


NOT_CALCULATED = " (not calculated)"
"""Shown instead of a formula that only refers to the formula of another cell."""


LARGEST = 60_000_000  # bytes of a sheet; of a larger one, only the values are read, as they are stored


BUILT_IN = {
    "1": "0",
    "2": "0.00",
    "3": "#,##0",
    "4": "#,##0.00",
    "9": "0%",
    "10": "0.00%",
    "37": "#,##0",
    "38": "#,##0",
    "39": "#,##0.00",
    "40": "#,##0.00",
}


_PLACE = re.compile(r"([A-Z]{1,3})(\d{1,7})$")


Thing = TypeVar("Thing")


class Style(NamedTuple):
    code: str = ""
    """The code of its number format."""
    is_bold: bool = False


class Workbook:
    """Reads cell details from an archive that was checked; there are none if it is not an XLSX workbook."""

    def __init__(self, data: bytes) -> None:
        self._archive = zipfile.ZipFile(io.BytesIO(data))
        self._names = set(self._archive.namelist())
        self._paths: dict[str, str] = {}
        self._styles: list[Style] = []
        self._is_to_calculate = False
        with suppress(etree.XMLSyntaxError, KeyError):
            self._paths = self._sheet_paths()
            self._styles = self._cell_styles()

    def sheet(self, name: str) -> SheetDetails:
        path = self._paths.get(name, "")
        if path not in self._names or self._archive.getinfo(path).file_size > LARGEST:
            return SheetDetails()
        details = SheetDetails()
        with self._archive.open(path) as part, suppress(etree.XMLSyntaxError):
            details = self._details(part)
        with suppress(etree.XMLSyntaxError, KeyError):
            beside = self._beside(path)
            details.comments = self._comments(beside)
            details.unread = self._drawing_kinds(beside)
        return details

    def _sheet_paths(self) -> dict[str, str]:
        relations = parsed(self._archive.read("xl/_rels/workbook.xml.rels"))
        targets = {relation.get("Id"): relation.get("Target", "") for relation in relations}
        workbook = parsed(self._archive.read("xl/workbook.xml"))
        settings = workbook.find(f"{MAIN}calcPr")
        self._is_to_calculate = settings is not None and settings.get("fullCalcOnLoad") in {"1", "true"}
        sheets = workbook.iter(f"{MAIN}sheet")
        return {sheet.get("name"): _path(targets.get(sheet.get(RELATION), "")) for sheet in sheets}

    def _cell_styles(self) -> list[Style]:
        styles = parsed(self._archive.read("xl/styles.xml"))
        own_codes = {element.get("numFmtId"): element.get("formatCode", "") for element in styles.iter(f"{MAIN}numFmt")}
        codes = {**BUILT_IN, **own_codes}
        fonts = enumerate(styles.iterfind(f"{MAIN}fonts/{MAIN}font"))
        bold = {str(number) for number, font in fonts if _is_on(font.find(f"{MAIN}b"))}
        cells = styles.iterfind(f"{MAIN}cellXfs/{MAIN}xf")
        return [Style(codes.get(cell.get("numFmtId"), ""), cell.get("fontId") in bold) for cell in cells]

    def _details(self, part: Any) -> SheetDetails:
        details = SheetDetails()
        for _, cell in etree.iterparse(part, tag=f"{MAIN}c", resolve_entities=False, no_network=True):
            self._note(details, cell)
            cell.clear()
            while cell.getprevious() is not None:
                del cell.getparent()[0]
        return details

    def _note(self, details: SheetDetails, cell: Any) -> None:
        place = _place(cell.get("r", ""))
        if place is None:
            return
        value, formula = cell.findtext(f"{MAIN}v"), cell.find(f"{MAIN}f")
        if cell.get("t") == "e":
            details.texts[place] = value or ""
        elif formula is not None and (not value or (self._is_to_calculate and value == "0")):
            details.uncalculated += 1
            details.texts[place] = f"={formula.text or NOT_CALCULATED}"
        style = _nth(self._styles, cell.get("s", "0"), Style())
        if style.code and value is not None:
            details.formats[place] = style.code
        if style.is_bold:
            details.bold.add(place)

    def _beside(self, path: str) -> dict[str, str]:
        """The paths of the parts that belong to the sheet, keyed by kind."""
        folder, _, name = path.rpartition("/")
        relations = parsed(self._archive.read(f"{folder}/_rels/{name}.rels"))
        return {
            relation.get("Type", "").rpartition("/")[2]: posixpath.normpath(
                posixpath.join(folder, relation.get("Target", ""))
            ).removeprefix("/")
            for relation in relations
        }

    def _comments(self, beside: dict[str, str]) -> list[str]:
        """The comments with their cells and authors; replies follow the comment that they answer."""
        if "threadedComment" in beside:
            return self._threads(beside["threadedComment"])
        return self._notes(beside["comments"]) if "comments" in beside else []

    def _drawing_kinds(self, beside: dict[str, str]) -> list[str]:
        if "drawing" not in beside:
            return []
        drawing = parsed(self._archive.read(beside["drawing"]))
        kinds = {"pictures": "{*}pic", "charts": "{http://schemas.openxmlformats.org/drawingml/2006/chart}chart"}
        return [kind for kind, tag in kinds.items() if next(drawing.iter(tag), None) is not None]

    def _notes(self, path: str) -> list[str]:
        part = parsed(self._archive.read(path))
        authors = [author.text or "" for author in part.iter(f"{MAIN}author")]
        return [
            _comment(
                comment.get("ref", ""),
                _nth(authors, comment.get("authorId", ""), ""),
                "".join(comment.itertext(f"{MAIN}t")),
            )
            for comment in part.iter(f"{MAIN}comment")
        ]

    def _threads(self, path: str) -> list[str]:
        people: dict[str, str] = {}
        for name in self._names:
            if name.startswith("xl/persons/"):
                people |= {
                    person.get("id", ""): person.get("displayName", "") for person in parsed(self._archive.read(name))
                }
        return [
            _comment(
                comment.get("ref", ""), people.get(comment.get("personId", ""), ""), comment.findtext("{*}text") or ""
            )
            for comment in parsed(self._archive.read(path))
        ]


def _comment(place: str, author: str, text: str) -> str:
    words = " ".join(text.removeprefix(f"{author}:").split())
    return f"- Comment on {place}{author and f' by {author}'}: {words}"


def _is_on(mark: Any) -> bool:
    return mark is not None and mark.get("val", "1") not in {"0", "false"}


def _nth(items: Sequence[Thing], number: str, other: Thing) -> Thing:
    return items[int(number)] if number.isdecimal() and int(number) < len(items) else other


def _path(target: str) -> str:
    return target.removeprefix("/") if target.startswith("/") else f"xl/{target}"


def _place(reference: str) -> Place | None:
    match = _PLACE.match(reference)
    if match is None:
        return None
    column = 0
    for letter in match[1]:
        column = column * 26 + ord(letter) - 64
    return int(match[2]) - 1, column - 1
