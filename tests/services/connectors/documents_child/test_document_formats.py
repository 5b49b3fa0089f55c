"""What stands in documents beside their plain text, format by format: cells, notes, changes, members, encodings."""
# ruff: noqa: RUF001 - letters that look alike are what some of it is about

import io
import zipfile
from email.message import EmailMessage

import docx
import pptx
import pytest
import xlsxwriter
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls
from outlook_files import message_of
from papers import ONE_PIXEL, example, pdf_of, with_part, zip_of
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Inches

from poweron_services.connectors.document_reader import ExtractedDocument, Section, UnreadableDocument, extract
from poweron_services.connectors.documents_child.media_types import sniff
from poweron_services.connectors.documents_child.sheet_tables import Cell, spread
from poweron_services.connectors.documents_child.workbook import cell_text

pytestmark = pytest.mark.req("C-05")


AT = (0, 0, Inches(3), Inches(3))
OPEN_SPACES = " ".join(
    f'xmlns:{prefix}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
    for prefix, name in [
        ("draw", "drawing"),
        *((name, name) for name in ("office", "presentation", "style", "table", "text")),
    ]
)


def text_at(document: ExtractedDocument, locator: str) -> str:
    return next(section.text for section in document.sections if section.locator == locator)


def mail_of(text: str, **attachments: bytes) -> EmailMessage:
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "Ada <ada@office.example>", "Bo <bo@office.example>", "Plans"
    mail["Message-ID"], mail["MIME-Version"] = "<1@office.example>", "1.0"
    mail.set_content(text)
    for name, content in attachments.items():
        mail.add_attachment(content, maintype="application", subtype="octet-stream", filename=name.replace("__", "."))
    return mail


# -- what kind of document it is --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("lease.odt", "application/vnd.oasis.opendocument.text"),
        ("sightings.ods", "application/vnd.oasis.opendocument.spreadsheet"),
        ("release.rtf", "application/rtf"),
        ("offer.eml", "message/rfc822"),
        ("handover.zip", "application/zip"),
        ("order.xml", "application/xml"),
    ],
)
async def test_the_first_bytes_decide_and_a_wrong_extension_is_told(name: str, kind: str) -> None:
    document = await extract(example(name), "something.pdf")

    assert document.mime_type == kind
    assert document.notes[0].startswith("The name 'something.pdf' does not fit the content, which is ")


@pytest.mark.parametrize(
    ("data", "name", "kind"),
    [
        (zip_of(a__docx=example("contract.docx")), "a.zip", "application/zip"),
        (b"From: me\nSubject: Rent\n\nDear Sir", "letter.txt", "text/plain"),
        (b"From: me\nSubject: Rent\n\nDear Sir", "letter.eml", "message/rfc822"),
        (bytes(mail_of("Hello")), "letter.txt", "message/rfc822"),
        (b"<p>Not all that begins like this is XML", "a.txt", "text/plain"),
        (b"<order/>", "a.xml", "application/xml"),
        (b'<?xml version="1.0"?><order/>', "a.txt", "application/xml"),
        ("größer".encode("utf-16-le"), "a.txt", "text/plain"),
        (message_of("Hi", "Hello"), "a.xls", "application/vnd.ms-outlook"),
        (b"BM" + bytes(60), "a.png", "image/bmp"),
    ],
)
def test_what_looks_alike_is_told_apart(data: bytes, name: str, kind: str) -> None:
    assert sniff(data, name) == kind


# -- cells ------------------------------------------------------------------------------------------------------------


def test_a_merged_cell_stands_in_each_row_and_column_that_it_covers() -> None:
    rows = [[Cell("2025", columns=2), Cell("Total", rows=2)], [Cell("Q1"), Cell("Q2")], [Cell("In euros", columns=3)]]

    assert spread(rows) == [["2025", "2025", "Total"], ["Q1", "Q2", "Total"], ["In euros", "", ""]]


@pytest.mark.parametrize(
    ("value", "code", "shown"),
    [
        (0.195, "", "0.195"),
        (0.195, "0%", "20%"),
        (0.195, "0.0%", "19.5%"),
        (0.185, "0%", "19%"),
        (1234.5, "#,##0.00", "1234.50"),
        (2.675, "#,##0.00", "2.68"),
        (-1.005, "0.00", "-1.01"),
        (1, "0." + "0" * 400, "1"),
        (1234.5, '#,##0.00 "EUR"', "1234.50 EUR"),
        (1234.5, "[$€-407]#,##0.00", "€1234.50"),
        (-3, "$#,##0.00_);[Red]($#,##0.00)", "-$3.00"),
        (2.5, "0.##", "2.5"),
        (12345678, "0.0,,", "12345678"),
        (12500000, '0.0,,"M"', "12500000"),
        (0.000012, "0.00E+00", "1.2e-05"),
        (7, "000", "007"),
        (0, "#", "0"),
        (7.5, '0.0"%"', "7.5%"),
        (7.5, r"0.0\%", "7.5%"),
        (0.075, "0.0%", "7.5%"),
        (-3, "+0;-0;0", "-3"),
        (3, "+0;-0;0", "+3"),
        (-3, "0;(0)", "-3"),
        (-3, "0;[Red]0", "-3"),
        (1, '"yes";"yes";"no"', "yes"),
        (0, '"yes";"yes";"no"', "no"),
        (0, "0;-0;;@", "0"),
        (120, '[>=100]0"+";0', "120+"),
        (50, '[>=100]0"+";0', "50"),
        (1, '[=1]0" day";[=0]"none";0" days"', "1 day"),
        (3, '[=1]0" day";[=0]"none";0" days"', "3 days"),
        (443219876, "000-000-0000", "044-321-9876"),
        (443219876, "(000) 000-0000", "(044) 321-9876"),
        (20261127, r"0000\-00\-00", "2026-11-27"),
        (1234567.5, "#'##0.00", "1234567.50"),
        (1234567, "# ##0 [$CHF]", "1234567 CHF"),
        (12, r"\#0", "#12"),
        (42, 'General" pieces"', "42 pieces"),
        ("A7", '"No. "@', "No. A7"),
        ("A7", "0;-0;0;@", "A7"),
        ("A7", "0.00", "A7"),
    ],
)
def test_numbers_are_shown_as_their_format_says(value: str | float, code: str, shown: str) -> None:
    assert cell_text(value, code) == shown


async def test_errors_of_a_workbook_stand_in_their_cells_and_formulas_without_values_are_told() -> None:
    packed = io.BytesIO()
    with xlsxwriter.Workbook(packed) as book:
        sheet = book.add_worksheet("Sums")
        sheet.write_row("A1", ["Name", "Sum"])
        sheet.write_row("A2", ["A", 1])
        sheet.write("A3", "B")
        sheet.write_formula("B3", "=1/0", None, "#DIV/0!")
        sheet.write("A4", "C")
        sheet.write_formula("B4", "=SUM(B2:B3)", None, 4711)
    uncalculated = with_part(packed.getvalue(), "xl/worksheets/sheet1.xml", b"<v>4711</v>", b"")

    document = await extract(uncalculated, "sums.xlsx")

    assert text_at(document, "sheet Sums").endswith("| A | 1 |\n| B | #DIV/0! |\n| C | =SUM(B2:B3) |")
    assert document.notes[0].startswith("Sheet 'Sums' holds a formula without a value")
    assert document.truncated


async def test_a_merged_cell_beside_the_table_takes_no_value_of_it() -> None:
    packed = io.BytesIO()
    with xlsxwriter.Workbook(packed) as book:
        sheet = book.add_worksheet("Prices")
        sheet.merge_range("A1:B1", "")
        sheet.write("D1", "Price")
        sheet.write_row("B2", ["Desk", "oak", 84])
    data = packed.getvalue()

    document = await extract(data, "prices.xlsx")

    assert text_at(document, "sheet Prices") == "Price\n\n|  |  |  |\n| --- | --- | --- |\n| Desk | oak | 84 |"


# -- Word -------------------------------------------------------------------------------------------------------------


async def test_pages_of_word_are_told_where_the_file_knows_them() -> None:
    packed = io.BytesIO()
    written = docx.Document()
    written.add_paragraph("On the first page.")
    written.add_page_break()
    written.add_heading("Prices", 1)
    written.add_paragraph("On the second.")
    written.save(packed)

    document = await extract(packed.getvalue(), "a.docx")

    assert document.sections == (
        Section("", "On the first page.\n\n[page 2]"),
        Section("section Prices", "On the second."),
    )


async def test_what_was_moved_or_deleted_stands_only_among_the_changes() -> None:
    packed = io.BytesIO()
    written = docx.Document()
    paragraph = written.add_paragraph("We pay ")
    for change, tag, text in (("del", "delText", "90"), ("ins", "t", "120"), ("moveFrom", "t", "soon")):
        run = f'<w:r><w:{tag} xml:space="preserve">{text}</w:{tag}></w:r>'
        paragraph._p.append(parse_xml(f'<w:{change} {nsdecls("w")} w:author="Ada">{run}</w:{change}>'))
    written.save(packed)

    document = await extract(packed.getvalue(), "a.docx")

    assert text_at(document, "") == "We pay 120"
    assert text_at(document, "section Tracked changes").splitlines() == [
        "- Ada deleted “90” in “We pay 120”",
        "- Ada inserted “120” in “We pay 120”",
        "- Ada moved away “soon” in “We pay 120”",
    ]


async def test_a_box_of_text_is_read_once_where_it_stands_in_a_cell_too() -> None:
    box = "<w:txbxContent><w:p><w:r><w:t>In the box</w:t></w:r></w:p></w:txbxContent>"
    spaces = nsdecls("w") + ' xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
    versions = f"<mc:Choice>{box}</mc:Choice><mc:Fallback><w:pict>{box}</w:pict></mc:Fallback>"
    run = f"<w:r {spaces}><mc:AlternateContent>{versions}</mc:AlternateContent></w:r>"
    packed = io.BytesIO()
    written = docx.Document()
    table = written.add_table(1, 2)
    table.cell(0, 0).text = "Beside"
    for paragraph in (table.cell(0, 1).paragraphs[0], written.add_paragraph("After")):
        paragraph._p.append(parse_xml(run))
    written.save(packed)

    document = await extract(packed.getvalue(), "a.docx")

    assert text_at(document, "") == "|  |  |\n| --- | --- |\n| Beside | In the box |\n\nAfter\n\nIn the box"


# -- mails and archives -----------------------------------------------------------------------------------------------


async def test_a_message_of_outlook_is_read_with_its_attachments() -> None:
    attached = [("prices.csv", b"item;price\nDesk;84\n"), ("plan.pdf", pdf_of("Two floors"))]
    message = message_of("Office", "See below.", sender="Ada", to="Bo", attachments=attached)

    document = await extract(message, "office.msg")

    assert text_at(document, "").startswith('From: "Ada" <ada@office.example>\nTo: Bo <bo@office.example>\nDate: 2025')
    assert text_at(document, "attachment prices.csv") == "| item | price |\n| --- | --- |\n| Desk | 84 |"
    assert text_at(document, "attachment plan.pdf, page 1") == "Two floors"


async def test_a_file_that_leads_out_of_an_archive_is_left_out_and_the_others_are_read() -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name in ("../evil.txt", "plan.txt"):
            archive.writestr(name, "The gate is locked at nine.")
        link = zipfile.ZipInfo("link.txt")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
    document = await extract(packed.getvalue(), "plans.zip")

    assert [section.locator for section in document.sections] == ["file plan.txt"]
    assert document.notes == (
        "File ../evil.txt was left out, since it points out of the archive; pack it again without that.",
        "File link.txt was left out, since it is a link; pack it again without that.",
    )
    assert document.truncated


@pytest.mark.parametrize(
    ("stream", "advice"), [("WordDocument", "DOCX or PDF"), ("PowerPoint Document", "PPTX or PDF")]
)
async def test_an_old_office_file_is_to_be_saved_as_its_own_newer_kind(stream: str, advice: str) -> None:
    old = b"\xd0\xcf\x11\xe0" + bytes(600) + stream.encode("utf-16-le") + bytes(600)
    with pytest.raises(UnreadableDocument, match=f"save it as {advice} and hand that over"):
        await extract(old, "t.doc")


async def test_what_is_within_an_archive_within_a_mail_is_named_by_all_of_them() -> None:
    inner = zip_of(plan__txt=b"The gate is locked at nine.", broken__pdf=b"%PDF-1.4 broken", logo__gif=ONE_PIXEL)
    document = await extract(bytes(mail_of("Plans attached.", all__zip=inner)), "plans.eml")

    assert text_at(document, "attachment all.zip, file plan.txt") == "The gate is locked at nine."
    assert document.truncated
    assert [note.partition(";")[0] for note in document.notes] == [
        "In attachment all.zip: File broken.pdf is damaged or incomplete, so not all of it was read.",
        "In attachment all.zip: File logo.gif is only a picture",
    ]


async def test_archives_deeper_than_any_person_packs_them_are_told_and_not_opened() -> None:
    packed = zip_of(deep__txt=b"the bottom")
    for _ in range(5):
        packed = zip_of(inner__zip=packed, beside__txt=b"beside it")

    document = await extract(packed, "deep.zip")

    assert [section.text for section in document.sections] == ["beside it"] * 4
    assert "is a ZIP archive within 4 others; hand it over on its own." in document.notes[0]


# -- encodings and delimiters -----------------------------------------------------------------------------------------


GERMAN = "Straße;Größe;Preis\nKöln;groß;12,50\nMünchen;übergroß;7,20\nDüsseldorf;schön;3,10\n"
POLISH = "Imię;Miasto;Cena\nŁukasz;Łódź;12\nŻaneta;Gdańsk;15\nMałgorzata;Kraków;9\n"
RUSSIAN = "Имя;Город;Цена\nИван;Москва;120\nОльга;Казань;80\nПётр;Омск;15\n"
TURKISH = "İsim;Şehir\nŞule;İğdır\nÇağrı;Muğla\n"
GREEK = "Όνομα;Πόλη\nΓιώργος;Αθήνα\nΕλένη;Πάτρα\n"
JAPANESE = "名前;年齢;住所\n佐藤太郎;30;東京\n高橋淳;35;名古屋\n"


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        *((GERMAN, encoding) for encoding in ("cp1252", "mac_roman", "iso8859_15", "cp850", "utf-8-sig")),
        *((GERMAN, encoding) for encoding in ("utf-16", "utf-16-le", "utf-16-be", "utf-32")),
        *((POLISH, encoding) for encoding in ("cp1250", "iso8859_2", "cp852")),
        *((RUSSIAN, encoding) for encoding in ("cp1251", "koi8_r", "cp866", "mac_cyrillic")),
        *((JAPANESE, encoding) for encoding in ("cp932", "euc_jp")),
        (TURKISH, "cp1254"),
        (GREEK, "cp1253"),
    ],
)
async def test_a_table_is_read_in_whatever_encoding_it_comes(text: str, encoding: str) -> None:
    document = await extract(text.encode(encoding), "a.csv")

    cells = [line.split(";") for line in text.splitlines()]
    assert [
        line[2:-2].split(" | ") for line in document.sections[0].text.splitlines()[::1] if "---" not in line
    ] == cells


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|", "^", "~"])
@pytest.mark.parametrize("named", [True, False])
async def test_a_table_is_read_with_whatever_parts_its_cells(delimiter: str, named: bool) -> None:
    head = [["item", "note", "price"]] if named else []
    rows = [*head, ["1", '"a, b; c | d"', "2.50"], ["2", '"two\nlines"', "3.10"]]
    data = "\n".join(delimiter.join(row) for row in rows).encode()

    table = (await extract(data, "a.csv")).sections[0].text

    first = "| item | note | price |" if named else "|  |  |  |"
    assert table == f"{first}\n| --- | --- | --- |\n| 1 | a, b; c \\| d | 2.50 |\n| 2 | two lines | 3.10 |"


async def test_the_delimiter_that_excel_names_is_believed() -> None:
    document = await extract(b"sep=;\na,1;b\nc,2;d\n", "a.csv")

    assert document.sections[0].text == "| a,1 | b |\n| --- | --- |\n| c,2 | d |"


# -- XML, slides ------------------------------------------------------------------------------------------------------


async def test_xml_that_defines_entities_is_not_opened() -> None:
    bomb = b'<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]><l>&b;</l>'

    with pytest.raises(UnreadableDocument, match="was not opened because it defines XML entities"):
        await extract(bomb, "a.xml")


async def test_xml_names_its_own_encoding() -> None:
    text = '<?xml version="1.0" encoding="Shift_JIS"?><町><名>東京</名></町>'

    document = await extract(text.encode("cp932"), "a.xml")

    assert document.sections[0].text == "町.名: 東京"


async def test_the_text_of_an_xml_element_is_named_by_its_path_with_its_unit_behind_it() -> None:
    text = (
        '<orders year="2025"><order no="17"><buyer>Ruth Calder</buyer><total currency="EUR">881.50</total></order>'
        '<order no="18"><buyer vip="yes">Ada Berg</buyer><total currency="CHF">12.00</total></order>'
        '<note by="Ada">Urgent</note></orders>'
    )

    document = await extract(text.encode(), "a.xml")

    said = document.sections[0].text
    assert "| no | buyer | total | buyer.vip |" in said
    assert "| 17 | Ruth Calder | 881.50 EUR |  |" in said
    assert "orders.note: Urgent\norders.note.by: Ada" in said


async def test_a_slide_that_is_hidden_is_named_so() -> None:
    packed = io.BytesIO()
    show = pptx.Presentation()
    for title in ("Seen", "Unseen"):
        show.slides.add_slide(show.slide_layouts[5]).shapes.title.text = title
    show.slides[1]._element.set("show", "0")
    show.save(packed)

    document = await extract(packed.getvalue(), "a.pptx")

    assert [section.locator for section in document.sections] == ["slide 1", "slide 2 (hidden)"]
    assert dict(document.metadata)["hidden slides"] == "slide 2"


async def test_slides_have_boxes_of_text_merged_cells_and_the_numbers_of_any_chart() -> None:
    packed = io.BytesIO()
    show = pptx.Presentation()
    shapes = [show.slides.add_slide(show.slide_layouts[6]).shapes for _ in range(3)]
    table = shapes[0].add_table(3, 3, *AT).table
    for row, column in ((0, 2), (1, 0), (1, 1), (1, 2), (2, 0), (2, 1)):
        table.cell(row, column).text = f"{row}{column}"
    table.cell(0, 0).text = "wide"
    table.cell(0, 0).merge(table.cell(0, 1))
    table.cell(1, 2).merge(table.cell(2, 2))
    numbers = CategoryChartData()
    numbers.categories = ["Rent", "Heating"]
    numbers.add_series("Euros", (1150, 98.5))
    shapes[1].add_chart(XL_CHART_TYPE.PIE, *AT, numbers)
    shapes[2].add_textbox(*AT).text_frame.text = "In a box"
    show.save(packed)
    flat = packed.getvalue()
    (chart,) = [name for name in zipfile.ZipFile(io.BytesIO(flat)).namelist() if name.startswith("ppt/charts/chart")]
    deep = with_part(flat, chart, b"c:pieChart", b"c:pie3DChart")

    for data in (flat, deep):
        document = await extract(data, "a.pptx")

        assert text_at(document, "slide 1").splitlines() == [
            "| wide | wide | 02 |",
            "| --- | --- | --- |",
            "| 10 | 11 | 12 |",
            "| 20 | 21 | 12 |",
        ]
        assert text_at(document, "slide 2") == "|  | Euros |\n| --- | --- |\n| Rent | 1150 |\n| Heating | 98.5 |"
        assert text_at(document, "slide 3") == "In a box"
        assert not document.truncated


async def test_an_open_presentation_has_slides_boxes_tables_and_notes() -> None:
    cells = '<table:table-cell table:number-columns-repeated="2"><text:p>5</text:p></table:table-cell>'
    cells += "<table:table-cell><text:p>7</text:p></table:table-cell>"
    table = f"<draw:frame><table:table><table:table-row>{cells}</table:table-row></table:table></draw:frame>"
    box = "<draw:frame><draw:text-box><text:p>In a box</text:p></draw:text-box></draw:frame>"
    notes = f"<presentation:notes>{box.replace('In a box', 'Speak slowly.')}</presentation:notes>"
    pages = f'<draw:page>{box}{table}{notes}</draw:page><draw:page draw:style-name="unseen">{box}</draw:page>'
    unseen = '<style:style style:name="unseen"><style:drawing-page-properties presentation:visibility="hidden"/></style:style>'
    content = (
        f"<office:document-content {OPEN_SPACES}><office:automatic-styles>{unseen}</office:automatic-styles>"
        f"<office:body><office:presentation>{pages}</office:presentation></office:body></office:document-content>"
    )
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.presentation")
        archive.writestr("META-INF/manifest.xml", "<manifest/>")
        archive.writestr("content.xml", content)

    document = await extract(packed.getvalue(), "a.odp")

    assert document.sections == (
        Section("slide 1", "In a box\n\n|  |  |  |\n| --- | --- | --- |\n| 5 | 5 | 7 |\n\nNotes: Speak slowly."),
        Section("slide 2 (hidden)", "In a box"),
    )
