"""Cell details that the workbook library does not provide: formats, errors, formulas without values, comments."""

import io
import posixpath
import re
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from lxml import etree  # type: ignore[import-untyped] # it has no stubs

from poweron_services.connectors.documents_child.office_facts import parsed

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

Place = tuple[int, int]
"""Row and column, counted from 0."""
Thing = TypeVar("Thing")


class Style(NamedTuple):
    code: str = ""
    """The code of its number format."""
    is_bold: bool = False


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
