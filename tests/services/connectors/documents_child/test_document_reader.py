"""Documents of every format become text and tables through one door: `extract`."""

import hashlib
import io
import time
from types import SimpleNamespace

import docx
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC
from docx.opc.constants import RELATIONSHIP_TYPE
from extracted_markdown import parse_markdown
from hypothesis import given, settings
from hypothesis import strategies as st
from papers import example, needs_samples, pdf_of, sample
from reportlab.lib import pdfencrypt
from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.pdfbase.cidfonts import UnicodeCIDFont
from reportlab.pdfbase.pdfmetrics import registerFont
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import Paragraph, SimpleDocTemplate, Table

from poweron_services.connectors.document_reader import (
    ExtractedDocument,
    Section,
    UnreadableDocument,
    extract,
)
from poweron_services.connectors.documents_child.media_types import sniff
from poweron_services.connectors.documents_child.page_layout import Piece, blocks
from poweron_services.connectors.documents_child.pipe_tables import pipe_table

# -- markdown and back ------------------------------------------------------------------------------------------------


def test_the_markdown_of_a_document_names_its_parts() -> None:
    document = ExtractedDocument(
        "offer.pdf", "application/pdf", (Section("page 1", "Hello"),), truncated=True, notes=("Page 2 is missing.",)
    )

    assert document.markdown() == (
        "# offer.pdf\n\n<!-- application/pdf truncated -->\n\n## page 1\n\nHello\n\n## notes\n\n- Page 2 is missing.\n"
    )


@pytest.mark.req("C-05")
def test_a_line_that_looks_like_a_heading_of_the_document_stays_text() -> None:
    document = ExtractedDocument(
        "a.md", "text/markdown", (Section("", "## page 9\n\n\\# kept\n\n### deeper"),), truncated=False, notes=()
    )

    assert parse_markdown(document.markdown()) == document


words = st.text(alphabet="ab# \\-\n|<>!", max_size=40).map(lambda text: text.strip())
texts = words.filter(bool)
locators = st.from_regex(r"(page|sheet|slide|section) [a-z#>]{1,8}", fullmatch=True)
documents = st.builds(
    ExtractedDocument,
    name=st.from_regex(r"[a-z]{1,8}\.[a-z]{3}", fullmatch=True),
    mime_type=st.just("text/plain"),
    sections=st.lists(st.builds(Section, st.one_of(st.just(""), locators), texts), max_size=4).map(tuple),
    truncated=st.booleans(),
    notes=st.lists(st.from_regex(r"[A-Z][a-z ]{0,10}\.", fullmatch=True), max_size=2).map(tuple),
)


@given(documents)
@settings(max_examples=100)
def test_markdown_gives_the_same_document_back(document: ExtractedDocument) -> None:
    assert parse_markdown(document.markdown()) == document


def test_markdown_of_somebody_else_is_one_section() -> None:
    assert parse_markdown("# Title\n\nText").sections == (Section("", "# Title\n\nText"),)


# -- what kind of document it is --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "name", "kind"),
    [
        (b"%PDF-1.7 ...", "notes.txt", "application/pdf"),
        (b"\n<!DOCTYPE html><p>", "page.txt", "text/html"),
        (b'{"a": 1}', "data", "application/json"),
        (b"a,b\n1,2\n", "data.csv", "text/csv"),
        (b"# Title", "README.md", "text/markdown"),
        (b"Dear Sir", "letter", "text/plain"),
        ("größer".encode("utf-16"), "letter.txt", "text/plain"),
        (b"\x1f\x8b\x08", "letter.txt", "application/gzip"),
        (bytes(range(256)), "letter.txt", "application/octet-stream"),
    ],
)
def test_content_tells_the_kind_and_the_name_only_helps(data: bytes, name: str, kind: str) -> None:
    assert sniff(data, name) == kind


@pytest.mark.req("X-04")
def test_no_page_takes_long_to_be_told_apart() -> None:
    began = time.monotonic()

    assert sniff(b"<!-- -->" * 500 + b"Text", "page") == "text/plain"
    assert sniff(b"<!-- -->" * 100 + b"<html>", "page") == "text/html"
    assert time.monotonic() - began < 1


async def test_a_wrong_extension_is_noted_and_does_not_matter() -> None:
    document = await extract(example("estimate.pdf"), "estimate.docx")

    assert document.mime_type == "application/pdf"
    assert "GRAND TOTAL" in document.markdown()
    assert document.notes == (
        "The name 'estimate.docx' does not fit the content, which is a PDF document and was read as such.",
    )


# -- PDF --------------------------------------------------------------------------------------------------------------


def test_labels_and_values_without_rules_become_rows() -> None:
    page = line(100, (50, "Subtotal"), (300, "90.00")) + line(112, (50, "TOTAL"), (300, "98.10"))

    assert list(blocks(page)) == ["|  |  |\n| --- | --- |\n| Subtotal | 90.00 |\n| TOTAL | 98.10 |"]


def test_two_lists_side_by_side_become_two_tables() -> None:
    page = (
        line(100, (50, "Name:"), (120, "Ada"), (250, "Make"), (320, "Saab"))
        + line(112, (50, "Phone"), (120, "0142"), (250, "Color"), (320, "red"))
        + line(124, (250, "Year"), (320, "1999"))
    )

    (tables,) = blocks(page)
    assert tables.split("\n\n") == [
        "|  |  |\n| --- | --- |\n| Name: | Ada |\n| Phone | 0142 |",
        "|  |  |\n| --- | --- |\n| Make | Saab |\n| Color | red |\n| Year | 1999 |",
    ]


def test_a_wrapped_cell_stays_in_its_row() -> None:
    page = (
        line(100, (50, "Item"), (150, "What"), (400, "Cost"))
        + line(120, (50, "A"), (150, "Replace the"), (400, "10"))
        + line(131, (150, "rear bumper"))
        + line(151, (50, "B"), (150, "Paint"), (400, "20"))
    )

    assert list(blocks(page)) == [
        "| Item | What | Cost |\n| --- | --- | --- |\n| A | Replace the rear bumper | 10 |\n| B | Paint | 20 |"
    ]


def test_columns_of_prose_are_read_one_after_the_other() -> None:
    page = [
        word
        for row in range(6)
        for word in line(100 + 12 * row, (50, f"left words of row {row}"), (300, f"right words of row {row}"))
    ]

    left, right = list(blocks(page))
    assert left.splitlines()[0] == "left words of row 0"
    assert "right" not in left
    assert right.splitlines()[-1] == "right words of row 5"


async def test_rules_decide_which_words_are_one_cell() -> None:
    long = Paragraph("Replace the rear bumper cover and paint it in the color of the car")
    table = Table([["Pos", "Work", "Cost"], ["1", long, "90.00"], ["2", "Polish", ""]], colWidths=[40, 120, 60])
    table.setStyle([("GRID", (0, 0), (-1, -1), 1, "black"), ("VALIGN", (0, 0), (-1, -1), "MIDDLE")])
    packed = io.BytesIO()
    SimpleDocTemplate(packed, invariant=1).build([Paragraph("Offer"), table, Paragraph("Thank you")])

    document = await extract(packed.getvalue(), "offer.pdf")

    assert document.sections[0].text == (
        "Offer\n\n| Pos | Work | Cost |\n| --- | --- | --- |\n"
        "| 1 | Replace the rear bumper cover and paint it in the color of the car | 90.00 |\n| 2 | Polish |  |\n\n"
        "Thank you"
    )


@needs_samples
@pytest.mark.req("C-05")
async def test_totals_of_a_form_without_full_rules_stand_in_one_row() -> None:
    document = await extract(sample("REPAIR-2022-INV-001_multipage.pdf"), "repair.pdf")

    first, second, third = document.sections
    assert [section.locator for section in document.sections] == ["page 1", "page 2", "page 3"]
    assert "| GRAND TOTAL |  |  |  | 5,738 |" in first.text
    assert "| Make | Jeep |" in first.text
    assert "| GRAND TOTAL |  |  |  | 211,522 |" in second.text
    assert third.text.startswith("This is a preliminary estimate for the visible damage of the vehicle.")


@needs_samples
async def test_a_sparse_table_keeps_its_empty_cells() -> None:
    document = await extract(sample("SPARSE-2024-INV-1234_borderless_table.pdf"), "sparse.pdf")

    assert (
        "| Product Code | Location | Expected | Actual | Variance | Status |\n"
        "| --- | --- | --- | --- | --- | --- |\n"
        "| SKU-8847 | A-12 | 450 |  |  |  |\n"
        "|  | B-07 |  | 289 | -23 |  |\n"
        "| SKU-9201 |  | 780 | 778 |  | OK |\n"
    ) in document.sections[0].text
    assert "| SKU-6678 | Software | $200.00 | $42,000.00 | 2024-10-25 | High Value |" in document.sections[1].text


@needs_samples
async def test_the_lines_of_a_receipt_stay_lines() -> None:
    document = await extract(sample("RECEIPT-2024-TXN-98765_retail_purchase.pdf"), "receipt.pdf")

    assert "\nSales Tax (8.5%) $66.23\nRewards Applied -$25.00\n" in document.sections[0].text
    assert "\nTOTAL $821.14\n" in document.sections[0].text


@needs_samples
async def test_tables_with_headings_between_them_stay_apart() -> None:
    text = (await extract(sample("movie-theater-booking-2024.pdf"), "booking.pdf")).sections[0].text

    assert "| Payment Terms: | Corporate |" in text
    assert "| Totals | 48 | $12,500.00 | $11,250.00 | 85% |" in text
    assert "| Sarah Johnson | NYC Metro | NORTHEAST | 12/20/24 - 12/31/24 | 100% |" in text


async def test_a_page_that_is_only_an_image_is_noted() -> None:
    document = await extract(pdf_of("Hello", None), "part.pdf")

    assert document.sections == (Section("page 1", "Hello"),)
    assert document.notes == ("Page 2 is a picture, whose text could not be read.",)
    assert document.truncated


async def test_a_pdf_locked_only_against_printing_is_read() -> None:
    document = await extract(pdf_of("Hello", encrypt=StandardEncryption("", ownerPassword="x")), "a.pdf")

    assert document.sections[0].text == "Hello"


@pytest.mark.req("C-05")
@pytest.mark.parametrize(
    ("font", "text"), [("HeiseiMin-W3", "見積書 合計"), ("STSong-Light", "报价单"), ("HYSMyeongJo-Medium", "견적서")]
)
async def test_letters_of_a_font_that_a_pdf_does_not_bring_along_are_read(font: str, text: str) -> None:
    registerFont(UnicodeCIDFont(font))

    document = await extract(pdf_of(text, font=font), "a.pdf")

    assert document.sections == (Section("page 1", text),)


async def test_what_was_filled_into_a_form_stands_where_it_was_filled_in() -> None:
    packed = io.BytesIO()
    canvas = Canvas(packed, invariant=1)
    canvas.drawString(72, 700, "Name:")
    canvas.acroForm.textfield(value="Ada Lovelace", x=110, y=694, width=200, height=20)
    canvas.linkURL("https://poweron.example/terms", (72, 600, 200, 620))
    canvas.save()

    document = await extract(packed.getvalue(), "form.pdf")

    assert document.sections == (Section("page 1", "Name: Ada Lovelace"),)
    assert document.links == ("https://poweron.example/terms",)


@pytest.mark.parametrize(
    ("seen", "read"),
    [
        ("לחודש 1,150 בסך חוזה", "חוזה בסך 1,150 לחודש"),
        ("Berlin Mitte في العقد رقم", "رقم العقد في Berlin Mitte"),
        ("The word שלום לכולם means hello", "The word לכולם שלום means hello"),
        ("Total 17 pieces", "Total 17 pieces"),
        ("אתמול iPhone 15 Pro קניתי", "קניתי iPhone 15 Pro אתמול"),
        ("فرنك 1,299 بسعر iPhone 15", "iPhone 15 بسعر 1,299 فرنك"),
        (".12-34 מספר חוזה", "חוזה מספר 12-34."),
        ("34 و 12 بين", "بين 12 و 34"),
        ("Room שתיים 12 אחד is free", "Room אחד 12 שתיים is free"),
    ],
)
def test_words_that_are_written_from_the_right_are_read_from_the_right(seen: str, read: str) -> None:
    assert list(blocks(line(100, (50, seen)))) == [read]


class Encrypter:
    """As reportlab expects it of a package that we do not need otherwise."""

    def __init__(self, key_and_start: tuple[bytes, bytes]) -> None:
        key, start = key_and_start
        self._aes = Cipher(AES(key), CBC(start)).encryptor()

    def feed(self, data: bytes = b"") -> bytes:
        return self._aes.update(data)


async def test_a_pdf_encrypted_as_today_but_without_a_password_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    aes = SimpleNamespace(Encrypter=Encrypter, AESModeOfOperationCBC=lambda key, iv: (key, iv))
    monkeypatch.setattr(pdfencrypt, "pyaes", aes)
    monkeypatch.setattr(pdfencrypt, "sha256", hashlib.sha256, raising=False)

    document = await extract(pdf_of("Hello", encrypt=StandardEncryption("", ownerPassword="x", strength=256)), "a.pdf")

    assert document.sections[0].text == "Hello"


# -- the other formats ------------------------------------------------------------------------------------------------


@needs_samples
@pytest.mark.req("C-05")
async def test_word_headings_are_sections() -> None:
    document = await extract(sample("test.docx"), "test.docx")

    assert [section.locator for section in document.sections][1:3] == ["section Abstract", "section Introduction"]
    assert "| 13 | 14 | 49e168b7-d2ae-407f-a055-2167576f39a1 | 15 | 16 | 17 |" in document.sections[3].text


@pytest.mark.req("C-05")
async def test_headings_of_word_are_sections_also_without_a_list_of_styles() -> None:
    packed = io.BytesIO()
    written = docx.Document()
    written.add_heading("Scope", level=1)
    written.add_paragraph("A kitchen.")
    del written.part.rels[written.part.relate_to(written.part._styles_part, RELATIONSHIP_TYPE.STYLES)]
    written.save(packed)

    document = await extract(packed.getvalue(), "a.docx")

    assert document.sections == (Section("section Scope", "A kitchen."),)


@needs_samples
@pytest.mark.req("C-05")
async def test_workbook_sheets_are_sections() -> None:
    document = await extract(sample("test.xlsx"), "test.xlsx")

    assert document.sections[0].locator == "sheet Sheet1"
    assert document.sections[0].text.startswith(
        "| Alpha | Beta | Gamma | Delta |\n| --- | --- | --- | --- |\n| 89 | 82 | 100 | 12 |"
    )


@needs_samples
@pytest.mark.req("C-05")
async def test_slides_have_titles_tables_and_charts() -> None:
    slides = (await extract(sample("test.pptx"), "test.pptx")).sections

    assert "| 7 | 8 | 9 | 1b92870d-e3b5-4e65-8153-919f4ff45592 | 11 | 12 |" in slides[2].text
    assert slides[3].text.startswith("### A chart to test parsing:\n\nChart: ")


@needs_samples
@pytest.mark.req("C-05")
async def test_an_encyclopedia_page_is_read_without_its_menus() -> None:
    document = await extract(sample("test_wikipedia.html"), "page.html")

    assert "| Founded | April 4, 1975 in Albuquerque, New Mexico, U.S. |" in document.sections[0].text
    assert "section History > 1972\N{EN DASH}1985: Founding" in [section.locator for section in document.sections]
    assert "Jump to content" not in document.markdown()


@needs_samples
@pytest.mark.req("C-05")
async def test_a_table_in_an_old_japanese_encoding_is_read() -> None:
    document = await extract(sample("test_mskanji.csv"), "test_mskanji.csv")

    assert document.sections[0].text.splitlines()[::2] == [
        "| 名前 | 年齢 | 住所 |",
        "| 佐藤太郎 | 30 | 東京 |",
        "| 髙橋淳 | 35 | 名古屋 |",
    ]


@pytest.mark.parametrize(
    ("name", "data", "text"),
    [
        ("a.csv", b"name;price\nnut;1,50\n", "| name | price |\n| --- | --- |\n| nut | 1,50 |"),
        ("a.tsv", b"a\tb\n1\t2\n", "| a | b |\n| --- | --- |\n| 1 | 2 |"),
        ("a.csv", b"1,2\n3,4\n", "|  |  |\n| --- | --- |\n| 1 | 2 |\n| 3 | 4 |"),
        ("a.csv", b'a,b\n"x|y",2\n', "| a | b |\n| --- | --- |\n| x\\|y | 2 |"),
        ("a.json", b'{"a": {"b": [1, 2]}, "c": true}', "a.b: 1, 2\nc: true"),
        ("a.json", b'[{"x": 1, "y": {"z": 2}}, {"x": 3}]', "| x | y.z |\n| --- | --- |\n| 1 | 2 |\n| 3 |  |"),
        ("a.json", b'{"a": 1}\n{"a": 2}\n', "| a |\n| --- |\n| 1 |\n| 2 |"),
        ("a.json", b'{"a": 12.50, "b": 12345678901234567.89}', "a: 12.50\nb: 12345678901234567.89"),
        (
            "a.txt",
            "Stra\xdfe nach K\xf6ln, gr\xfc\xdf Gott".encode("latin-1"),
            "Stra\xdfe nach K\xf6ln, gr\xfc\xdf Gott",
        ),
        ("a.txt", "\ufeffH\xe9llo\r\nW\xf6rld".encode(), "H\xe9llo\nW\xf6rld"),
        ("a.txt", "Gr\xf6\xdfe".encode("utf-16"), "Gr\xf6\xdfe"),
        ("a.html", b"<p>A<br>B</p><script>x()</script><ul><li>one<ol><li>two</ol></ul>", "A\nB\n\n- one\n  1. two"),
        ("a.html", b"<table><tr><th>a<th>b<tr><td colspan=2>1</table>", "| a | b |\n| --- | --- |\n| 1 |  |"),
        ("a.html", '<meta charset="koi8-r"><p>Смета</p>'.encode("koi8-r"), "Смета"),
        ("a.html", b'<meta charset="cp1252"><p>Estimate</p>', "Estimate"),
        ("a.html", b'<meta charset="unheard-of"><p>Estimate</p>', "Estimate"),
        ("a.html", '<meta charset="latin-1"><p>见积</p>'.encode("utf-16"), "见积"),
    ],
)
@pytest.mark.req("C-05")
async def test_small_documents_read_as_expected(name: str, data: bytes, text: str) -> None:
    document = await extract(data, name)

    assert document.sections == (Section("", text),)
    assert not document.truncated


async def test_headings_of_markdown_are_sections_and_code_is_not_a_heading() -> None:
    document = await extract(b"# Guide\n\nIntro\n\n## Use\n\n```\n# comment\n```\n\nEnd\n=======\n\nBye", "guide.md")

    assert document.sections == (
        Section("section Guide", "Intro"),
        Section("section Guide > Use", "```\n# comment\n```"),
        Section("section End", "Bye"),
    )


async def test_broken_json_is_read_as_text_with_a_note() -> None:
    document = await extract(b'{"a": 1,', "a.json")

    assert document.sections == (Section("", '{"a": 1,'),)
    assert document.notes == ("The content is not valid JSON and was read as plain text.",)


def test_a_table_is_rectangular_and_without_empty_columns() -> None:
    assert pipe_table([["a", "", "b"], ["1"], [], ["", "", "2"]]) == ("| a | b |\n| --- | --- |\n| 1 |  |\n|  | 2 |")


def line(top: float, *cells: tuple[float, str]) -> list[Piece]:
    """Words of one line, 5 points per letter, a space of 3 points."""
    words = []
    for start, text in cells:
        x = start
        for word in text.split():
            words.append(Piece(x, x + 5 * len(word), top, top + 10, word))
            x += 5 * len(word) + 3
    return words


async def test_what_cannot_be_read_is_told_with_its_name_a_code_and_a_sentence() -> None:
    with pytest.raises(UnreadableDocument) as empty:
        await extract(b"", "it's.pdf")
    with pytest.raises(UnreadableDocument) as strange:
        await extract(b"\x00\x01\x02\x03" * 99, "a.bin")
    assert (empty.value.document.document_name, empty.value.document.code) == ("it's.pdf", "document_empty")
    assert empty.value.document.reason.startswith('"it\'s.pdf" is empty; ')
    assert (strange.value.document.document_name, strange.value.document.code) == ("a.bin", "document_format_unknown")
