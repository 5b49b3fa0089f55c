"""A report as a PDF: PDF/A-2a for archiving and PDF/UA-1 for accessibility, with bundled fonts.

`Typesetter()` loads everything that this needs; after that, no file is opened.
"""

import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any, Final

import orjson
import typst

from poweron_services.connectors.reports_child.pdf_metadata import with_mark
from poweron_services.connectors.reports_child.report import Block, Figure, Report, ReportTable
from poweron_services.connectors.reports_child.table_widths import beside, good_widths, least_widths

FONTS: Final = ("fontpkg_noto_sans", "fontpkg_noto_sans_arabic")
UNSHOWN: Final = "\u25a1"
"""The replacement for a character that no font has."""
EVERY_FONT: Final = "Aa *Bb* _Cc_ `Dd` \u0645 *\u0645* `\u0645` \u03a9 \u05d0 \u2192 \u25a1"
PORTRAIT_ROOM, LANDSCAPE_ROOM = 100, 160  # characters per line in a table, at the largest font size
MOST_ROOM: Final = 220  # characters per line at the smallest font size; a wider table is split into several
SMALLEST, LARGEST = 6.0, 9.5  # points

_PLAIN: Final = re.compile(
    "[\x20-\x7e\u00a0-\u017f\u0391-\u03c9\u0400-\u045f\u2013\u2014\u2018-\u201e\u2022\u2026\u20ac\u2212\n\t]*"
)
_HEAD: Final = b'#set document(title: "-")\n#set text(font: ("Noto Sans", "Noto Sans Arabic"))\n'
_PICTURE: Final = (
    b'#set page(width: auto, height: auto, margin: 6pt, fill: white)\n#image(bytes(sys.inputs.svg), format: "svg")'
)


class Typesetter:
    """Renders reports as PDF and figures as pictures."""

    def __init__(self) -> None:
        folders = [str(files(name) / "files") for name in FONTS]
        fonts = typst.Fonts(include_system_fonts=False, font_paths=list(folders))
        self._template = (files("poweron_services.connectors.reports_child") / "report.typ").read_bytes()
        self._typst = typst.Compiler(b"", font_paths=fonts, ignore_system_fonts=True)
        self._compile(_HEAD + EVERY_FONT.encode(), {})

    def pdf(self, report: Report) -> tuple[bytes, str]:
        """Write the PDF; also return the characters in the report that no font can show."""
        content = orjson.dumps(_data(report, self._draw)).decode()
        unknown = self._unknown(content)
        if unknown:
            content = re.sub(f"[{re.escape(unknown)}]", UNSHOWN, content)
        pdf = self._compile(self._template, {"report": content}, report.day)
        return pdf if report.provenance is None else with_mark(pdf, report.provenance), unknown

    def _draw(self, svg: str) -> str:
        """Return the figure for a PDF, as a picture if it has letters that join, such as Arabic ones."""
        if _PLAIN.fullmatch(svg):
            return svg
        box = re.search(r'viewBox="[^"]*" width="(\d+)" height="(\d+)"', svg)
        assert box is not None
        image = f"data:image/png;base64,{b64encode(self.picture(svg)).decode()}"
        element = f'<image width="{box[1]}" height="{box[2]}" href="{image}"/>'
        return f'<svg xmlns="http://www.w3.org/2000/svg" {box[0]}>{element}</svg>'

    def picture(self, svg: str) -> bytes:
        """Render a figure as PNG."""
        output = self._typst.compile(input=_PICTURE, format="png", ppi=160, sys_inputs={"svg": svg})
        return output if isinstance(output, bytes) else (output or [b""])[0]

    def _compile(self, source: bytes, inputs: dict[str, str], day: str = "") -> bytes:
        moment = datetime.fromisoformat(day).replace(tzinfo=UTC) if day else datetime.fromtimestamp(0, UTC)
        output = self._typst.compile(
            input=source, format="pdf", sys_inputs=inputs, pdf_standards=["a-2a", "ua-1"], timestamp=moment
        )
        assert isinstance(output, bytes)
        return output

    def _unknown(self, text: str) -> str:
        """The characters of a text that no font has."""
        return "".join(sorted(self._unshown("".join(sorted({sign for sign in text if not _PLAIN.fullmatch(sign)})))))

    def _unshown(self, signs: str) -> Iterator[str]:
        if not signs or self._can_show(signs):
            return
        if len(signs) == 1:
            yield signs
            return
        half = len(signs) // 2
        yield from self._unshown(signs[:half])
        yield from self._unshown(signs[half:])

    def _can_show(self, signs: str) -> bool:
        try:
            self._compile(_HEAD + b"#for sign in sys.inputs.signs.codepoints() [#sign \\ ]", {"signs": signs})
        except typst.TypstError:
            return False
        return True


def _data(report: Report, draw: Callable[[str], str]) -> dict[str, Any]:
    language, _, region = report.language.partition("-")
    is_known = re.fullmatch("[A-Za-z]{2,3}", language) is not None
    return {
        "title": report.title,
        "author": report.author,
        "keywords": report.keywords,
        "cover": report.cover,
        "contents": report.contents,
        "lang": language.lower() if is_known else "en",
        "region": region.upper() if re.fullmatch("[A-Za-z]{2}", region) else None,
        "right_to_left": report.right_to_left,
        "blocks": list(_blocks(report.blocks, draw)),
        "sources": list(_blocks(report.sources, draw)),
    }


def _blocks(content: Iterable[Block], draw: Callable[[str], str]) -> Iterator[dict[str, Any]]:
    for block in content:
        if isinstance(block, ReportTable):
            yield from map(_table, beside(block, MOST_ROOM))
        elif isinstance(block, Figure):
            yield asdict(block) | {"svg": draw(block.svg)}
        else:
            yield asdict(block)


def _table(table: ReportTable) -> dict[str, Any]:
    """The table with the relative widths of its columns, its font size, and whether its page is in landscape."""
    minimums = least_widths(table)
    wide = sum(minimums) > PORTRAIT_ROOM
    room = LANDSCAPE_ROOM if wide else PORTRAIT_ROOM
    size = max(SMALLEST, min(LARGEST, LARGEST * room / sum(minimums)))
    return asdict(table) | {"widths": good_widths(table, room), "wide": wide, "size": round(size, 1)}
