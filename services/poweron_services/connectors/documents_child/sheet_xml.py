"""What the library of workbooks does not tell of their cells: number formats, errors, formulas without values."""

import io
import re
import zipfile
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from lxml import etree  # type: ignore[import-untyped] # it has no stubs

from poweron_services.connectors.documents_child.office_facts import parsed

MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
RELATION = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
LARGEST = 60_000_000  # bytes of a sheet: of a larger one the values alone are read, as they are stored
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

Place = tuple[int, int]
"""Row and column, from 0."""


@dataclass(slots=True)
class SheetDetails:
    formats: dict[Place, str] = field(default_factory=dict)
    errors: dict[Place, str] = field(default_factory=dict)
    uncalculated: int = 0
    """Formulas for which no value is stored."""


class Workbook:
    """An archive that was checked; where it holds no workbook of this kind, nothing is told."""

    def __init__(self, data: bytes) -> None:
        self._archive = zipfile.ZipFile(io.BytesIO(data))
        self._names = set(self._archive.namelist())
        self._paths: dict[str, str] = {}
        self._codes: list[str] = []
        with suppress(etree.XMLSyntaxError, KeyError):
            self._paths = self._sheet_paths()
            self._codes = self._format_codes()

    def sheet(self, name: str) -> SheetDetails:
        path = self._paths.get(name, "")
        if path not in self._names or self._archive.getinfo(path).file_size > LARGEST:
            return SheetDetails()
        with self._archive.open(path) as part, suppress(etree.XMLSyntaxError):
            return self._details(part)
        return SheetDetails()

    def _sheet_paths(self) -> dict[str, str]:
        relations = parsed(self._archive.read("xl/_rels/workbook.xml.rels"))
        targets = {one.get("Id"): one.get("Target", "") for one in relations}
        sheets = parsed(self._archive.read("xl/workbook.xml")).iter(f"{MAIN}sheet")
        return {sheet.get("name"): _path(targets.get(sheet.get(RELATION), "")) for sheet in sheets}

    def _format_codes(self) -> list[str]:
        """The code of each style of cells."""
        styles = parsed(self._archive.read("xl/styles.xml"))
        own = {one.get("numFmtId"): one.get("formatCode", "") for one in styles.iter(f"{MAIN}numFmt")}
        codes = {**BUILT_IN, **own}
        return [codes.get(style.get("numFmtId"), "") for style in styles.iterfind(f"{MAIN}cellXfs/{MAIN}xf")]

    def _details(self, part: Any) -> SheetDetails:
        told = SheetDetails()
        for _, cell in etree.iterparse(part, tag=f"{MAIN}c", resolve_entities=False, no_network=True):
            self._note(told, cell)
            cell.clear()
            while cell.getprevious() is not None:
                del cell.getparent()[0]
        return told

    def _note(self, told: SheetDetails, cell: Any) -> None:
        place = _place(cell.get("r", ""))
        if place is None:
            return
        value = cell.findtext(f"{MAIN}v")
        if cell.get("t") == "e":
            told.errors[place] = value or ""
        elif value is None and cell.find(f"{MAIN}f") is not None:
            told.uncalculated += 1
        style = cell.get("s", "0")
        code = self._codes[int(style)] if style.isdecimal() and int(style) < len(self._codes) else ""
        if code and value is not None:
            told.formats[place] = code


def _path(target: str) -> str:
    return target.removeprefix("/") if target.startswith("/") else f"xl/{target}"


def _place(reference: str) -> Place | None:
    found = _PLACE.match(reference)
    if found is None:
        return None
    column = 0
    for letter in found[1]:
        column = column * 26 + ord(letter) - 64
    return int(found[2]) - 1, column - 1
