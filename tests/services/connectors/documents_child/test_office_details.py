"""What Word and PowerPoint show that stands in no text: numbers, equations, boxes, signs, diagrams, charts, comments."""

import io
from typing import Any

import docx
import pptx
import pytest
from docx.opc.constants import RELATIONSHIP_TYPE
from docx.opc.packuri import PackURI
from docx.opc.part import Part
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls
from lxml import etree
from papers import ONE_PIXEL
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Inches

from poweron_services.connectors.document_reader import ExtractedDocument, extract
from poweron_services.connectors.documents_child.office_parts import linear
from poweron_services.connectors.documents_child.word_numbers import written

pytestmark = pytest.mark.req("C-05")

MATH = 'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'
DIAGRAM = "http://schemas.openxmlformats.org/drawingml/2006/diagram"
AT = (0, 0, Inches(3), Inches(3))


async def read(document: Any, name: str = "a.docx") -> ExtractedDocument:
    packed = io.BytesIO()
    document.save(packed)
    return await extract(packed.getvalue(), name)


async def words(document: Any, name: str = "a.docx") -> list[str]:
    """The lines of its sections, without what they are named after."""
    sections = (await read(document, name)).sections
    return [line for section in sections for line in section.text.splitlines() if line]


def word(text: str) -> Any:
    """A paragraph in the XML of Word."""
    return parse_xml(f"<w:p {nsdecls('w', 'r')} {MATH}>{text}</w:p>")


def numbered(document: Any, levels: str, *, number: int = 90, overrides: str = "") -> None:
    """Add a list with these levels to the document."""
    root = document.part.numbering_part.element
    root.insert(0, parse_xml(f'<w:abstractNum {nsdecls("w")} w:abstractNumId="{number}">{levels}</w:abstractNum>'))
    root.append(
        parse_xml(f'<w:num {nsdecls("w")} w:numId="{number}"><w:abstractNumId w:val="{number}"/>{overrides}</w:num>')
    )


def level(at: int, text: str, written_as: str = "decimal", more: str = "") -> str:
    return (
        f'<w:lvl w:ilvl="{at}"><w:start w:val="1"/><w:numFmt w:val="{written_as}"/>{more}'
        f'<w:lvlText w:val="{text}"/></w:lvl>'
    )


def item(document: Any, text: str, at: int, number: int = 90) -> None:
    paragraph = document.add_paragraph(text)
    paragraph._p.get_or_add_pPr().get_or_add_numPr().get_or_add_ilvl().val = at
    paragraph._p.pPr.numPr.get_or_add_numId().val = number


async def test_clauses_have_the_numbers_that_word_counts() -> None:
    document = docx.Document()
    numbered(
        document, level(0, "§ %1") + level(1, "%1.%2") + level(2, "(%3)", "lowerLetter") + level(3, "%4.", "upperRoman")
    )
    for at, text in [
        (0, "Term"),
        (1, "Begin"),
        (2, "Day"),
        (2, "Hour"),
        (0, "Rent"),
        (1, "Sum"),
        (2, "Bank"),
        (3, "Fee"),
    ]:
        item(document, text, at)
    item(document, "No item", 1, number=0)

    assert await words(document) == [
        *("§ 1 Term", "1.1 Begin", "(a) Day", "(b) Hour", "§ 2 Rent", "2.1 Sum", "(a) Bank", "I. Fee", "No item"),
    ]


async def test_a_list_that_begins_anew_does_so_once_and_others_go_on() -> None:
    document = docx.Document()
    numbered(document, level(0, "%1.") + level(1, "%1.%2", more="<w:isLgl/>"))
    start = '<w:lvlOverride w:ilvl="0"><w:startOverride w:val="5"/></w:lvlOverride>'
    document.part.numbering_part.element.append(
        parse_xml(f'<w:num {nsdecls("w")} w:numId="91"><w:abstractNumId w:val="90"/>{start}</w:num>')
    )
    for number in (90, 90, 91, 91, 90):
        item(document, "step", 0, number)

    assert await words(document) == ["1. step", "2. step", "5. step", "6. step", "7. step"]


async def test_headings_and_steps_have_the_numbers_of_their_styles() -> None:
    document = docx.Document()
    numbered(
        document,
        level(0, "%1", more='<w:pStyle w:val="Heading1"/>') + level(1, "%1.%2", more='<w:pStyle w:val="Heading2"/>'),
    )
    for name in ("Heading 1", "Heading 2"):
        properties = document.styles[name].element.get_or_add_pPr()
        properties.insert(0, parse_xml(f'<w:numPr {nsdecls("w")}><w:numId w:val="90"/></w:numPr>'))
    for text, style in [
        ("Scope", "Heading 1"),
        ("Aim", "Heading 2"),
        ("Read it.", "List Number"),
        ("Ways", "Heading 2"),
        ("Go.", "List Bullet"),
        ("End", "Heading 1"),
        ("Done", "Normal"),
    ]:
        document.add_paragraph(text, style=style)

    found = (await read(document)).sections
    assert [(section.locator, section.text) for section in found] == [
        ("section 1 Scope > 1.1 Aim", "1. Read it."),
        ("section 1 Scope > 1.2 Ways", "- Go."),
        ("section 2 End", "Done"),
    ]


@pytest.mark.parametrize(
    ("number", "how", "shown"),
    [
        (4, "lowerRoman", "iv"),
        (1994, "upperRoman", "MCMXCIV"),
        (27, "upperLetter", "AA"),
        (3, "decimalZero", "03"),
        (3, "chineseCounting", "3"),
        (0, "upperRoman", "0"),
    ],
)
def test_a_number_is_written_as_its_format_says(number: int, how: str, shown: str) -> None:
    assert written(number, how) == shown


@pytest.mark.parametrize(
    ("equation", "shown"),
    [
        ("<m:r><m:t>r=3.5%</m:t></m:r>", "r=3.5%"),
        ("<m:f><m:num><m:r><m:t>1</m:t></m:r></m:num><m:den><m:r><m:t>8</m:t></m:r></m:den></m:f>", "1/8"),
        ("<m:f><m:num><m:r><m:t>a+b</m:t></m:r></m:num><m:den><m:r><m:t>2</m:t></m:r></m:den></m:f>", "(a+b)/2"),
        ("<m:sSup><m:e><m:r><m:t>x</m:t></m:r></m:e><m:sup><m:r><m:t>2</m:t></m:r></m:sup></m:sSup>", "x^2"),
        ("<m:sSub><m:e><m:r><m:t>x</m:t></m:r></m:e><m:sub><m:r><m:t>i</m:t></m:r></m:sub></m:sSub>", "x_i"),
        ("<m:rad><m:deg/><m:e><m:r><m:t>a+b</m:t></m:r></m:e></m:rad>", "√(a+b)"),
        (
            (
                '<m:nary><m:naryPr><m:chr m:val="∑"/></m:naryPr><m:sub><m:r><m:t>i=1</m:t></m:r></m:sub>'
                "<m:sup><m:r><m:t>n</m:t></m:r></m:sup><m:e><m:r><m:t>i</m:t></m:r></m:e></m:nary>"
            ),
            "∑_(i=1)^n i",
        ),
        (
            (
                '<m:d><m:dPr><m:begChr m:val="["/><m:endChr m:val="]"/></m:dPr><m:e><m:r><m:t>0</m:t></m:r></m:e>'
                "<m:e><m:r><m:t>1</m:t></m:r></m:e></m:d>"
            ),
            "[0, 1]",
        ),
        ("<m:func><m:fName><m:r><m:t>sin</m:t></m:r></m:fName><m:e><m:r><m:t>x</m:t></m:r></m:e></m:func>", "sin x"),
    ],
)
def test_an_equation_is_one_line(equation: str, shown: str) -> None:
    assert linear(etree.fromstring(f"<m:oMath {MATH}>{equation}</m:oMath>")) == shown


async def test_boxes_of_a_form_are_ticked_or_empty_whichever_way_they_were_made() -> None:
    document = docx.Document()
    field = '<w:r><w:fldChar w:fldCharType="begin"><w:ffData>{}</w:ffData></w:fldChar></w:r>'
    control = '<w:sdt><w:sdtPr><w14:checkbox xmlns:w14="http://schemas.microsoft.com/office/word/2010/wordml">{}</w14:checkbox></w:sdtPr><w:sdtContent><w:r><w:t>X</w:t></w:r></w:sdtContent></w:sdt>'
    sign = '<w:r><w:sym w:font="{}" w:char="{}"/></w:r>'
    boxes = {
        field.format('<w:checkBox><w:default w:val="0"/><w:checked/></w:checkBox>'): "☒",
        field.format('<w:checkBox><w:default w:val="0"/></w:checkBox>'): "☐",
        field.format('<w:ddList><w:result w:val="1"/><w:listEntry w:val="no"/><w:listEntry w:val="yes"/></w:ddList>'): "yes",
        control.format('<w14:checked w14:val="1"/>'): "☒",
        control.format('<w14:checked w14:val="0"/>'): "☐",
        sign.format("Wingdings", "F0FE"): "☒",
        sign.format("Wingdings 2", "00A3"): "☐",
        sign.format("Symbol", "F0B1"): "±",
        sign.format("Some Dingbats", "F0B1"): "[symbol]",
        '<w:r><w:rPr><w:rFonts w:ascii="Wingdings"/></w:rPr><w:t>\uf0a8</w:t></w:r>': "☐",
    }  # fmt: skip
    for box in boxes:
        document.element.body.insert(0, word(f"{box}<w:r><w:t> there</w:t></w:r>"))

    assert await words(document) == [f"{shown} there" for shown in reversed(boxes.values())]


async def test_a_table_within_a_cell_keeps_its_labels_and_clauses_in_cells_their_numbers() -> None:
    document = docx.Document()
    outer = document.add_table(2, 2)
    for cell, text in zip(outer.rows[0].cells, ["Room", "Details"], strict=True):
        cell.text = text
    outer.cell(1, 0).text = "Hall"
    outer.cell(1, 0).paragraphs[0].style = "List Number"
    inner = outer.cell(1, 1).add_table(2, 2)
    for row, texts in zip(inner.rows, [["Seats", "40"], ["Floor", "2nd"]], strict=True):
        for cell, text in zip(row.cells, texts, strict=True):
            cell.text = text

    assert (await words(document))[-1] == "| 1. Hall | Seats: 40; Floor: 2nd |"


async def test_even_pages_have_headers_of_their_own_where_the_document_says_so() -> None:
    document = docx.Document()
    document.add_paragraph("Text")
    document.sections[0].header.paragraphs[0].text = "Odd"
    document.sections[0].even_page_header.is_linked_to_previous = False
    document.sections[0].even_page_header.paragraphs[0].text = "Even"

    assert "Even" not in await words(document)
    document.settings.odd_and_even_pages_header_footer = True
    assert [*await words(document)][-2:] == ["Odd", "Even"]


def drawing(uri: str, inner: str) -> Any:
    return word(
        f'<w:r><w:drawing xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"><a:graphic>'
        f'<a:graphicData uri="{uri}">{inner}</a:graphicData></a:graphic></w:drawing></w:r>'
    )


def diagram_part(package: Any, name: str) -> Part:
    points = "".join(
        f'<dgm:pt modelId="{text}"><dgm:t><a:p><a:r><a:t>{text}</a:t></a:r></a:p></dgm:t></dgm:pt>'
        for text in ("Ask", "Decide")
    )
    data = f'<dgm:dataModel xmlns:dgm="{DIAGRAM}" xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"><dgm:ptLst>{points}</dgm:ptLst></dgm:dataModel>'
    return Part(
        PackURI(name), "application/vnd.openxmlformats-officedocument.drawingml.diagramData+xml", data.encode(), package
    )


async def test_a_diagram_in_a_text_says_its_texts() -> None:
    document = docx.Document()
    document.add_paragraph("In two steps:")
    name = document.part.relate_to(
        diagram_part(document.part.package, "/word/diagrams/data1.xml"), RELATIONSHIP_TYPE.DIAGRAM_DATA
    )
    document.element.body.insert(
        1, drawing(DIAGRAM, f'<dgm:relIds xmlns:dgm="{DIAGRAM}" {nsdecls("r")} r:dm="{name}"/>')
    )

    assert await words(document) == ["In two steps:", "- Ask", "- Decide"]


async def test_a_slide_has_its_charts_titles_equations_and_comments() -> None:
    show = pptx.Presentation()
    slide = show.slides.add_slide(show.slide_layouts[6])
    data = CategoryChartData()
    data.categories = ["Spring"]
    data.add_series("Museum", [12])
    chart = slide.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, *AT, data).chart
    chart.has_title = True
    chart.chart_title.text_frame.text = "Visitors in thousands"
    box = slide.shapes.add_textbox(*AT)
    paragraph = box.text_frame.paragraphs[0]
    paragraph.text = "The rate is "
    paragraph._p.append(
        etree.fromstring(
            f'<a14:m xmlns:a14="http://schemas.microsoft.com/office/drawing/2010/main"><m:oMath {MATH}><m:r><m:t>r=3%</m:t></m:r></m:oMath></a14:m>'
        )
    )
    newer = etree.fromstring(
        '<mc:AlternateContent xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"><mc:Choice Requires="a14"/></mc:AlternateContent>'
    )
    box._element.addprevious(newer)
    newer[0].append(box._element)
    comments = '<p:cmLst xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main"><p:cm authorId="0"><p:text>Check this.</p:text></p:cm></p:cmLst>'
    authors = '<p:cmAuthorLst xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main"><p:cmAuthor id="0" name="Ada"/></p:cmAuthorLst>'
    package = show.part.package
    kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    for part, name, xml in ((slide.part, "comments", comments), (show.part, "commentAuthors", authors)):
        part.relate_to(
            pptx.opc.package.Part(
                pptx.opc.packuri.PackURI(f"/ppt/{name}.xml"), "application/xml", package, xml.encode()
            ),
            f"{kind}/{name}",
        )

    assert await words(show, "a.pptx") == [
        "Chart: Visitors in thousands",
        *("|  | Museum |", "| --- | --- |", "| Spring | 12 |"),
        "The rate is r=3%",
        "- Comment by Ada: Check this.",
    ]


async def test_what_is_not_read_is_told_by_kind_and_place() -> None:
    text, show = docx.Document(), pptx.Presentation()
    text.add_paragraph("Intro")
    text.add_heading("Plan of the hall", 1)
    text.add_paragraph("See below.")
    text.add_picture(io.BytesIO(ONE_PIXEL))
    for _ in range(2):
        slide = show.slides.add_slide(show.slide_layouts[6])
        slide.shapes.add_textbox(*AT).text_frame.text = "Text"
        slide.shapes.add_picture(io.BytesIO(ONE_PIXEL), *AT)

    assert (await read(text)).notes == ("Not read: pictures (section Plan of the hall).",)
    assert (await read(show, "a.pptx")).notes == ("Not read: pictures (slide 1, slide 2).",)
