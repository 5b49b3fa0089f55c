"""A report as a Word document: real headings, lists, tables with header rows, and figures with descriptions.

`WordWriter()` loads everything that this needs; after that, no file is opened.
"""

import io
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from xml.etree.ElementTree import Element, SubElement, tostring
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from docx import Document
from docx.enum.style import WD_STYLE_TYPE
from docx.enum.table import WD_TABLE_DIRECTION
from docx.enum.text import WD_ALIGN_PARAGRAPH
from docx.opc.constants import CONTENT_TYPE, RELATIONSHIP_TYPE
from docx.opc.packuri import PackURI
from docx.opc.part import Part as WordPart
from docx.oxml import OxmlElement
from docx.oxml.ns import qn
from docx.shared import Cm, Pt, RGBColor
from docx.text.paragraph import Paragraph as WordParagraph

from poweron_services.connectors.reports_child.report import (
    Block,
    Code,
    Figure,
    Heading,
    Listing,
    Paragraph,
    Report,
    ReportQuote,
    ReportTable,
    Run,
    Runs,
    text_of,
)
from poweron_services.connectors.reports_child.table_widths import beside, good_widths, least_widths
from poweron_services.text.provenance import Provenance

ACCENT, SOFT, INK = RGBColor(0x1D, 0x5B, 0x79), RGBColor(0x52, 0x60, 0x6D), RGBColor(0x1F, 0x29, 0x33)
FONT: Final = "Calibri"
TEXT_WIDTH: Final = 16.5  # cm of an A4 page between its margins
BEHIND_BIDI: Final = ("w:adjustRightInd", "w:snapToGrid", "w:spacing", "w:ind", "w:contextualSpacing", "w:jc", "w:rPr")
_CUSTOM: Final = "http://schemas.openxmlformats.org/officeDocument/2006/custom-properties"
_TYPES: Final = "http://schemas.openxmlformats.org/officeDocument/2006/docPropsVTypes"
_FORMAT_ID: Final = "{D5CDD505-2E9C-101B-9397-08002B2CF9AE}"
NO_TIME: Final = (1980, 1, 1, 0, 0, 0)
DEEPEST_LIST: Final = 3
SMALLEST, LARGEST = 6.0, 9.5  # points, of tables
ROOM, MOST_ROOM = 100, 150  # characters per line in a table, at the largest and the smallest font size
WHITE: Final = RGBColor(0xFF, 0xFF, 0xFF)

Picture = Callable[[str], bytes]
"""Renders an SVG figure as PNG."""


class WordWriter:
    """Writes one document."""

    def __init__(self) -> None:
        self._document = Document()
        self._style()
        footer = self._document.sections[0].footer
        footer.is_linked_to_previous = False
        self._footer = footer.paragraphs[0]
        self._rtl = False

    def docx(self, report: Report, picture: Picture) -> bytes:
        """Write the document."""
        self._rtl, self._picture = report.right_to_left, picture
        self._describe(report)
        self._paragraph((Run(report.title),), "Title")
        if report.cover:
            self._paragraph((Run(" · ".join(report.cover)),), "Subtitle")
        self._contents(report)
        self._blocks((*report.blocks, *report.sources))
        self._mark(report.provenance)
        buffer = io.BytesIO()
        self._document.save(buffer)
        return _without_clock(buffer)

    def _style(self) -> None:
        styles, section = self._document.styles, self._document.sections[0]
        section.page_width, section.page_height = Cm(21), Cm(29.7)
        section.left_margin = section.right_margin = Cm(2.25)
        section.top_margin = section.bottom_margin = Cm(2.3)
        _font(styles["Normal"], 10.5, INK)
        styles["Normal"].paragraph_format.space_after = Pt(7)
        _font(styles["Title"], 22, ACCENT)
        _font(styles["Subtitle"], 10.5, SOFT)
        subtitle = styles["Subtitle"].font
        subtitle.bold = subtitle.cs_bold = subtitle.italic = subtitle.cs_italic = False
        for level, size in enumerate((15, 12.5, 11, 10.5, 10.5), start=1):
            _font(styles[f"Heading {level}"], size, ACCENT if level < 3 else INK)
            styles[f"Heading {level}"].font.bold = styles[f"Heading {level}"].font.cs_bold = True
            spacing = styles[f"Heading {level}"].paragraph_format
            spacing.keep_with_next, spacing.space_after = True, Pt(4)
        _font(styles["Caption"], 9, SOFT)
        for level in (1, 2):
            entry = styles.add_style(f"TOC {level}", WD_STYLE_TYPE.PARAGRAPH)
            entry.base_style = styles["Normal"]
            entry.paragraph_format.space_after = Pt(2)
            entry.paragraph_format.left_indent = Cm(0.6 * (level - 1))
        code = styles.add_style("Code", WD_STYLE_TYPE.PARAGRAPH)
        code.font.name, code.font.size = "Consolas", Pt(9)
        tabs = self._document.settings.element.find(qn("w:defaultTabStop"))
        if tabs is not None:
            tabs.addnext(OxmlElement("w:autoHyphenation"))

    def _describe(self, report: Report) -> None:
        core = self._document.core_properties
        core.title, core.author, core.language = report.title[:255], report.author, report.language
        core.keywords, core.comments = ", ".join(report.keywords)[:255], ""
        core.created = core.modified = datetime.fromisoformat(report.day or "1980-01-01").replace(tzinfo=UTC)
        core.last_modified_by, core.revision = report.author, 1
        defaults = self._document.styles.element.find(f".//{qn('w:rPrDefault')}/{qn('w:rPr')}")
        language = defaults.find(qn("w:lang"))
        for name in ("w:val", "w:eastAsia", "w:bidi"):
            language.set(qn(name), report.language)
        if self._rtl:
            self._document.sections[0]._sectPr.insert_element_before(OxmlElement("w:bidi"), "w:rtlGutter", "w:docGrid")
        self._direct(self._footer, end=True)
        self._footer.add_run(f"{report.title[:120]}   ")
        _field(self._footer, "PAGE")
        self._footer.add_run(" / ")
        _field(self._footer, "NUMPAGES")
        for run in self._footer.runs:
            run.font.size, run.font.color.rgb = Pt(8.5), SOFT

    def _mark(self, provenance: Provenance | None) -> None:
        """Write the mark as custom properties."""
        if provenance is None:
            return
        root = Element("Properties", {"xmlns": _CUSTOM, "xmlns:vt": _TYPES})
        for number, (name, value) in enumerate(provenance.unique_properties(), start=2):  # 0 and 1 are reserved
            entry = SubElement(root, "property", {"fmtid": _FORMAT_ID, "pid": str(number), "name": name})
            SubElement(entry, "vt:lpwstr").text = value
        package = self._document.part.package
        data = tostring(root, encoding="UTF-8", xml_declaration=True)
        part = WordPart(PackURI("/docProps/custom.xml"), CONTENT_TYPE.OFC_CUSTOM_PROPERTIES, data, package)
        package.relate_to(part, RELATIONSHIP_TYPE.CUSTOM_PROPERTIES)

    def _contents(self, report: Report) -> None:
        if not report.contents:
            return
        heading = self._paragraph((Run(report.contents, bold=True),), "Normal")
        heading.paragraph_format.keep_with_next = True
        lines = []
        for entry in report.headings:
            lines.append(line := self._paragraph((), f"TOC {entry.level}"))
            if len(lines) == 1:
                _mark(line, "begin", ' TOC \\o "1-2" \\h \\z \\u ')
            self._link(line, (Run(text_of(entry.runs)),), anchor=entry.anchor)
        _mark(lines[-1], "end")
        lines[-1].paragraph_format.space_after = Pt(12)

    def _blocks(self, content: Iterable[Block], style: str = "Normal", depth: int = 0) -> None:
        for block in content:
            match block:
                case Heading():
                    self._bookmark(self._paragraph(block.runs, f"Heading {block.level}"), block.anchor)
                case Paragraph():
                    self._paragraph(block.runs, style)
                case Listing():
                    self._listing(block, depth)
                case ReportQuote():
                    self._blocks(block.blocks, "Intense Quote", depth)
                case Code():
                    self._paragraph((Run(block.text),), "Code")
                case ReportTable():
                    self._table(block)
                case Figure():
                    self._figure(block)

    def _listing(self, listing: Listing, depth: int) -> None:
        """Add a list. Its numbers are plain text, so that no program renumbers the items."""
        tail = f" {min(DEEPEST_LIST, depth + 1)}" if depth else ""
        for place, item in enumerate(listing.items):
            first, *rest = item or (Paragraph(()),)
            runs = first.runs if isinstance(first, Paragraph) else ()
            if listing.start is None:
                self._paragraph(runs, f"List Bullet{tail}")
            else:
                line = self._paragraph((Run(f"{listing.start + place}.\t"), *runs), "Normal")
                line.paragraph_format.left_indent = Cm(0.8 * (depth + 1))
                line.paragraph_format.first_line_indent = Cm(-0.8)
                line.paragraph_format.tab_stops.add_tab_stop(Cm(0.8 * (depth + 1)))
            self._blocks(rest if isinstance(first, Paragraph) else item, f"List Continue{tail}", depth + 1)

    def _table(self, table: ReportTable) -> None:
        for piece in beside(table, MOST_ROOM):
            self._piece(piece)

    def _piece(self, table: ReportTable) -> None:
        rows = [row for row in (table.header, *table.rows) if row]
        grid = self._document.add_table(rows=len(rows), cols=table.columns)
        grid.autofit = False
        if self._rtl:
            grid.table_direction = WD_TABLE_DIRECTION.RTL
        size = max(SMALLEST, min(LARGEST, LARGEST * ROOM / sum(least_widths(table))))
        shares = good_widths(table, ROOM)
        widths = [Cm(TEXT_WIDTH * width / sum(shares)) for width in shares]
        for column, width in zip(grid.columns, widths, strict=True):
            column.width = width
        _look(grid._tbl.tblPr, header=bool(table.header))
        for number, (line, row) in enumerate(zip(list(grid._tbl.tr_lst), rows, strict=True)):
            is_header = bool(table.header) and number == 0
            _element(line.get_or_add_trPr(), "w:cantSplit")
            if is_header:
                _element(line.get_or_add_trPr(), "w:tblHeader")
            for column, (cell, runs) in enumerate(zip(line.tc_lst, row, strict=True)):
                cell.width = widths[column]
                _draw(cell, header=is_header)
                self._cell(cell, runs, size, header=is_header, end=table.aligned[column] == "end")
        self._paragraph((), "Normal").paragraph_format.space_after = Pt(2)

    def _cell(self, cell: Any, runs: Runs, size: float, *, header: bool, end: bool) -> None:
        line = WordParagraph(cell.p_lst[0], self._document._body)
        self._fill(line, runs, size=size)
        for run in line.runs if header else ():
            run.bold = run.font.cs_bold = True
            run.font.color.rgb = WHITE
        line.paragraph_format.space_before = line.paragraph_format.space_after = Pt(2)
        if self._rtl and end and not header:  # a sign comes before its number in every language
            line.alignment = WD_ALIGN_PARAGRAPH.LEFT
        else:
            self._direct(line, end=end)

    def _figure(self, figure: Figure) -> None:
        line = self._document.add_paragraph()
        line.paragraph_format.keep_with_next = True
        shape = line.add_run().add_picture(io.BytesIO(self._picture(figure.svg)), width=Cm(TEXT_WIDTH))
        properties = shape._inline.docPr
        properties.set("descr", figure.alt)
        properties.set("title", figure.caption)
        self._paragraph((Run(figure.caption),), "Caption")

    def _paragraph(self, runs: Runs, style: str) -> WordParagraph:
        line: WordParagraph = self._document.add_paragraph(style=style)
        self._fill(line, runs)
        self._direct(line)
        return line

    def _fill(self, line: WordParagraph, runs: Runs, size: float | None = None) -> None:
        for run in runs:
            if run.link:
                self._link(line, (run,), address=run.link, size=size)
            else:
                self._write(line, run, size)

    def _write(self, line: WordParagraph, run: Run, size: float | None = None) -> Any:
        result = line.add_run()
        for number, text in enumerate(run.text.split("\n")):
            if number:
                result.add_break()
            result.add_text(text)
        result.bold, result.italic, result.font.strike = run.bold or None, run.italic or None, run.strike or None
        if run.monospace:
            result.font.name = "Consolas"
        if size:
            _set_size(result.font, size)
        if self._rtl:
            result.font.rtl = True
            result.font.cs_bold, result.font.cs_italic = result.bold, result.italic
        return result

    def _link(
        self,
        line: WordParagraph,
        runs: Sequence[Run],
        *,
        address: str = "",
        anchor: str = "",
        size: float | None = None,
    ) -> None:
        link = OxmlElement("w:hyperlink")
        if address:
            link.set(qn("r:id"), self._document.part.relate_to(address, RELATIONSHIP_TYPE.HYPERLINK, is_external=True))
        else:
            link.set(qn("w:anchor"), anchor)
        for run in runs:
            word_run = self._write(line, run, size)
            word_run.font.color.rgb = ACCENT
            link.append(word_run._r)
        line._p.append(link)

    def _bookmark(self, line: WordParagraph, name: str) -> None:
        number = str(len(self._document.element.body))
        for tag in ("w:bookmarkStart", "w:bookmarkEnd"):
            mark = OxmlElement(tag)
            mark.set(qn("w:id"), number)
            if tag == "w:bookmarkStart":
                mark.set(qn("w:name"), name)
            line._p.append(mark)

    def _direct(self, line: WordParagraph, *, end: bool = False) -> None:
        """Set the line to right-to-left if the report is; `end` aligns it with the side where lines end."""
        if self._rtl:
            line._p.get_or_add_pPr().insert_element_before(OxmlElement("w:bidi"), *BEHIND_BIDI)
        if end:  # in a right-to-left paragraph, Word's left is the side where lines begin
            line.alignment = WD_ALIGN_PARAGRAPH.RIGHT


def _set_size(font: Any, size: float) -> None:
    """Set the size of all letters, both Latin ones and those that join, such as Arabic."""
    font.size = Pt(size)
    latin = font._element.rPr.find(qn("w:sz"))
    for other in font._element.rPr.findall(qn("w:szCs")):
        font._element.rPr.remove(other)
    joining = OxmlElement("w:szCs")
    joining.set(qn("w:val"), latin.get(qn("w:val")))
    latin.addnext(joining)


def _without_clock(document: io.BytesIO) -> bytes:
    """Repack the file with fixed timestamps, so that the same report always gives the same bytes."""
    buffer = io.BytesIO()
    with ZipFile(document) as before, ZipFile(buffer, "w", ZIP_DEFLATED) as after:
        for name in before.namelist():
            entry = ZipInfo(name, NO_TIME)
            entry.compress_type = ZIP_DEFLATED
            after.writestr(entry, before.read(name))
    return buffer.getvalue()


def _font(style: Any, size: float, colour: RGBColor) -> None:
    style.font.color.rgb, style.font.name = colour, FONT
    _set_size(style.font, size)
    properties = style.element.get_or_add_rPr()
    for spacing in properties.findall(qn("w:spacing")):  # letter spacing would separate letters that join
        properties.remove(spacing)
    fonts = properties.get_or_add_rFonts()
    for name in list(fonts.attrib):
        if name.endswith("Theme"):
            del fonts.attrib[name]
    for name in ("w:ascii", "w:hAnsi", "w:cs"):
        fonts.set(qn(name), FONT)


def _element(parent: Any, tag: str) -> Any:
    element = OxmlElement(tag)
    parent.append(element)
    return element


def _draw(cell: Any, *, header: bool) -> None:
    """Add a line below the cell and, in a header, a background for its white letters."""
    properties = cell.get_or_add_tcPr()
    below = _element(_element(properties, "w:tcBorders"), "w:bottom")
    for name, value in {"val": "single", "sz": "4", "space": "0", "color": "D9E2EC"}.items():
        below.set(qn(f"w:{name}"), value)
    if header:
        background = _element(properties, "w:shd")
        for name, value in {"val": "clear", "color": "auto", "fill": str(ACCENT)}.items():
            background.set(qn(f"w:{name}"), value)


def _look(properties: Any, *, header: bool) -> None:
    look = properties.find(qn("w:tblLook"))
    if look is None:
        look = _element(properties, "w:tblLook")
    for name, value in {"firstRow": header, "firstColumn": True, "noHBand": False, "noVBand": True}.items():
        look.set(qn(f"w:{name}"), "1" if value else "0")


def _field(line: WordParagraph, code: str) -> None:
    """Add a number that is computed by the program that shows the document."""
    _mark(line, "begin", code)
    _mark(line, "end")


def _mark(line: WordParagraph, kind: str, code: str = "") -> None:
    """Add the mark that begins a field, with its code, or the one that ends it; the last result is between them."""
    marks = ["w:fldChar", "w:instrText", "w:fldChar"] if code else ["w:fldChar"]
    for tag, mark_kind in zip(marks, (kind, "", "separate"), strict=False):
        mark = OxmlElement(tag)
        if tag == "w:instrText":
            mark.text = code
            mark.set(qn("xml:space"), "preserve")
        else:
            mark.set(qn("w:fldCharType"), mark_kind)
        line.add_run()._r.append(mark)
