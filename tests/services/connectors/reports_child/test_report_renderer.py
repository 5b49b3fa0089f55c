"""Reports: what a customer gets to see, in every format, and what never gets into it."""

import io
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import docx
import pypdfium2
import pytest
from docx.oxml.ns import qn
from hypothesis import given
from hypothesis import strategies as st
from python_calamine import CalamineWorkbook

from poweron_services.connectors.report_renderer import LIMITS, Draft, Part, ReportRenderer
from poweron_services.connectors.reports_child.composition import composed
from poweron_services.connectors.reports_child.format_writers import writers
from poweron_services.connectors.reports_child.html_page import html
from poweron_services.connectors.reports_child.markdown_text import markdown
from poweron_services.connectors.reports_child.pdf_report import Typesetter
from poweron_services.text.provenance import Provenance

ALL = ("markdown", "html", "docx", "pdf", "xlsx")
ARABIC = """# تقرير الميزانية

هذا تقرير عن **ميزانية** العام، والمجموع 1,234.50 دولار.

| القسم | الربع الأول | الربع الثاني |
| --- | --- | --- |
| الهندسة | 412000 | 418500 |
| التسويق | 96000 | 128000 |
"""
ARABIC_WORD = "ميزانية"
GERMAN = """# Überblick

Die Geschwindigkeitsbegrenzungsverordnung und die Bundesausbildungsförderungsgesetzänderungen gelten weiterhin.

| Position | Menge | Gesamtpreis |
| --- | --- | --- |
| Außenputz | 2 | 1.234,50 € |
| Nachlass | 1 | -5,00 € |
"""
SALES = "| Year | Sales |\n| --- | --- |\n| 2022 | 1200 |\n| 2023 | 1350 |\n| 2024 | 990 |\n"
HOSTILE = """# <script>alert(1)</script> #import "@preview/x:1.0.0"

`#read("/etc/passwd")` $x^2$ {{ 7 * 7 }} { HYPERLINK "http://evil.example" } <b>bold</b> #eval("1+1")

![chart](https://evil.example/x.png) [x](javascript:alert(1)) [y](file:///etc/passwd) [ok](https://example.org/a)

| =HYPERLINK("http://evil.example") | @SUM(A1) |
| --- | --- |
| +1+1 | -5 |
| \uff1dcmd | -2+3 |
"""


def draft(*texts: str, title: str = "t", language: str = "en", **more: Any) -> Draft:
    parts = tuple(Part(f"part{number}.md", "written", text) for number, text in enumerate(texts))
    return Draft(title, language, parts, **more)


def page(text: str, title: str = "t", language: str = "en") -> str:
    return html(composed(draft(text, title=title, language=language)))


def written(name: str, of: Draft) -> bytes:
    """The report in one format, written in this process."""
    return writers([name])[name](composed(of))[0]


def words_of_pdf(data: bytes) -> str:
    document = pypdfium2.PdfDocument(data)
    return " ".join(" ".join(one.get_textpage().get_text_range() for one in document).split())


def words_of_docx(data: bytes) -> list[str]:
    texts = docx.Document(io.BytesIO(data)).element.body.iter(qn("w:t"))
    return [text.text for text in texts if text.text]


def cells_of(data: bytes) -> list[list[Any]]:
    return CalamineWorkbook.from_filelike(io.BytesIO(data)).get_sheet_by_index(0).to_python()


def sheet_xml(data: bytes) -> bytes:
    return ZipFile(io.BytesIO(data)).read("xl/worksheets/sheet1.xml")


@pytest.mark.req("C-06")
def test_a_report_is_a_whole_page_in_its_language() -> None:
    shown = page("Hello", title="Budget & plan", language="de")

    assert shown.startswith('<!doctype html>\n<html lang="de" dir="ltr">')
    assert "<title>Budget &amp; plan</title>" in shown
    assert "<h1>Budget &amp; plan</h1>" in shown
    assert "<p>Hello</p>" in shown


def test_arabic_reads_from_right_to_left() -> None:
    assert '<html lang="ar-EG" dir="rtl">' in page("x", language="ar-EG")


@pytest.mark.req("C-06")
def test_numbers_of_a_table_stand_under_one_another() -> None:
    shown = page("| a | b |\n| --- | --- |\n| x | 1 |")

    assert '<th scope="col">a</th><th scope="col" class="number">b</th>' in shown
    assert '<th scope="row">x</th><td class="number">1</td>' in shown
    assert "| x   |   1 |" in markdown(composed(draft("| a | b |\n| --- | --- |\n| x | 1 |")))


def test_a_title_that_the_text_repeats_is_shown_once() -> None:
    assert page("# Review\n\nText", title="Review").count("Review</h1>") == 1
    assert "Summary of" not in page("# Summary of letter.txt\n\nText", title="Report on letter.txt")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
        ("[x](javascript:alert(1))", "<p>[x](javascript:alert(1))</p>"),
        ("![chart](https://evil.example/x.png)", "<p>chart</p>"),
        ("![<b>](//evil.example/x.png)", "<p>&lt;b&gt;</p>"),
        ('<img src="https://evil.example/x" onerror="y">', "&lt;img src="),
        ("[x](file:///etc/passwd)", "<p>[x](file:///etc/passwd)</p>"),
        ("[x](relative/path)", "<p>x</p>"),
    ],
)
@pytest.mark.req("C-06")
def test_nothing_in_a_report_runs_or_loads(text: str, shown: str) -> None:
    assert shown in page(text)
    assert "default-src 'none'; img-src data:; style-src 'unsafe-inline'" in page(text)


def test_a_picture_inside_the_report_is_shown() -> None:
    assert '<img src="data:image/png;base64,AAAA" alt="dot">' in page("![dot](data:image/png;base64,AAAA)")


@given(st.text(), st.text())
def test_no_text_adds_a_script_or_a_remote_address(text: str, title: str) -> None:
    shown = page(text, title=title).lower()

    assert "<script" not in shown
    assert 'src="http' not in shown
    assert shown.count("<style>") == 1


@given(st.text(max_size=300))
def test_markdown_of_a_report_says_the_same_when_it_is_read_again(text: str) -> None:
    """Whatever the text was, what is written of it means itself: a report of a report changes nothing."""
    once = composed(draft(text, language="en"))
    again = composed(draft("\n\n".join(markdown(once).split("\n\n")[2:]), language="en"))
    assert plain(html(again)) == plain(html(once))


def plain(shown: str) -> str:
    body = shown[shown.index("</header>") :]
    return "".join(re.sub(r"<[^>]*>", "", body).split())


@pytest.mark.req("C-06")
def test_what_was_written_for_the_user_comes_first_then_tables_then_other_documents_and_nothing_twice() -> None:
    said = "This sentence stands in two of the documents, word for word."
    parts = (
        Part("letter.txt.md", "extracted", f"# letter.txt\n\n<!-- text/plain -->\n\n{said}\n\nDear Ada,\nthank you.\n"),
        Part("sales.csv.md", "extracted", f"# sales.csv\n\n<!-- text/csv -->\n\n{SALES}"),
        Part("answer.md", "written", f"{said}\n\n#### Deep heading\n\nText."),
    )
    text = markdown(composed(Draft("Report", "en", parts, source_count=2, requester="Ada", day="2025-03-14")))

    assert text.startswith("# Report\n\nMarch 14, 2025\\\nPrepared by PowerOn for Ada\\\n2 sources\n\n## Result\n")
    assert [line for line in text.splitlines() if line.startswith("#")] == [
        "# Report",
        "## Result",
        "### Deep heading",
        "## sales.csv",
        "## letter.txt",
    ]
    assert text.count(said) == 1
    assert "Dear Ada,\\\nthank you." in text


def test_a_day_on_the_cover_is_no_numbered_list() -> None:
    text = markdown(composed(draft("Text", title="Bericht", language="de", day="2025-03-14")))
    assert text.startswith("# Bericht\n\n14\\. März 2025\\\n")


@pytest.mark.req("C-06")
def test_a_table_that_can_be_seen_has_its_figure_with_a_description_and_one_of_mixed_units_has_none() -> None:
    mixed = "| Part | Hours | Cost |\n| --- | --- | --- |\n| a | 2.5 | $10.00 |\n| b | 3 | $20.00 |\n"
    bars = "| City | Shops |\n| --- | --- |\n| Basel | 12 |\n| Bern | 7 |\n| Total | 19 |\n"
    assert "<figure>" not in page(mixed)
    assert 'alt="Line chart: Sales: 2022 1200, 2023 1350, 2024 990."' in page(SALES)
    assert 'alt="Bar chart: Shops: Basel 12, Bern 7."' in page(bars)
    for charge in ("Sales tax (8 %)", "Umsatzsteuer", "Discount"):
        assert "<figure>" not in page(bars.replace("Bern", charge))
    for total in ("Montant total", "Totale", "Razem", "المجموع"):
        assert 'alt="Bar chart: Shops: Basel 12, Bern 7."' in page(bars.replace("Total", total))
    for difference in ("Differenz", "Différence", "Diferencia", "Differenza", "الفرق"):
        differing = f"| City | Shops | {difference} |\n| --- | --- | --- |\n| Basel | 12 | -1 |\n| Bern | 7 | +2 |\n"
        assert 'alt="Bar chart: Shops: Basel 12, Bern 7."' in page(differing)
    compared = bars.replace("Shops", "a.docx [1]")
    assert "Bar chart: a.docx [1]: Basel 12, Bern 7." in written("markdown", draft(compared)).decode()


async def test_a_report_comes_in_all_formats_from_a_process_of_its_own() -> None:
    made = await ReportRenderer()(draft(GERMAN, language="de", formats=ALL))

    assert [name for name, _ in made.files] == list(ALL)
    assert made.notes == ()
    assert [data[:4] for _, data in made.files[2:]] == [b"PK\x03\x04", b"%PDF", b"PK\x03\x04"]


@pytest.mark.req("C-06")
async def test_the_same_draft_is_the_same_bytes_whenever_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    renderer, of = ReportRenderer(), draft(GERMAN, SALES, language="de", day="2025-03-14", formats=ALL)
    first, second = await renderer(of), await renderer(of)
    assert first == second
    core = ZipFile(io.BytesIO(dict(first.files)["docx"])).read("docProps/core.xml").decode()
    assert "2025-03-14T00:00:00Z" in core


@pytest.mark.req("C-06")
async def test_a_format_that_takes_too_much_is_told_and_the_others_come_all_the_same() -> None:
    limits = replace(LIMITS, memory_bytes=300 << 20)
    many = "\n".join(f"| {number} | " + " | ".join(["word " * 20] * 6) + " |" for number in range(1000))
    heavy = f"| a | b | c | d | e | f | g |\n|{' --- |' * 7}\n{many}\n"
    mark = Provenance("e4d9c3d3-4439-547e-a89e-4165bcddd933", "r1t1a1")
    made = await ReportRenderer(limits)(draft(heavy, formats=("markdown", "pdf", "html"), provenance=mark))

    assert [name for name, _ in made.files] == ["markdown", "html"]
    assert b'<meta name="PowerOnDocumentId" content="r1t1a1d2">' in made.files[1][1]
    assert len(made.notes) == 1
    assert made.notes[0] == (
        "The report could not be written as a PDF: it took more than 35 seconds or 300 MB of memory; "
        "the other formats are not touched by that."
    )


@pytest.mark.req("C-06")
def test_a_pdf_is_for_archives_and_for_everybody_and_says_what_it_is() -> None:
    data = written("pdf", draft(GERMAN, SALES, title="Übersicht", language="de-CH", day="2025-03-14"))
    metadata = pypdfium2.PdfDocument(data).get_metadata_dict()
    assert (metadata["Title"], metadata["Author"]) == ("Übersicht", "PowerOn")
    assert metadata["CreationDate"].startswith("D:20250314")
    assert b"<pdfaid:part>2</pdfaid:part><pdfaid:conformance>A</pdfaid:conformance>" in data
    assert b"<pdfuaid:part>1</pdfuaid:part>" in data
    assert b"<rdf:li>de-CH</rdf:li>" in data
    assert b"/Lang (de-CH)" in data or b"/Lang(de-CH)" in data


@pytest.mark.req("C-06")
@pytest.mark.parametrize(("text", "language"), [(GERMAN, "de"), (HOSTILE, "en"), (SALES, "fr")])
def test_the_text_of_a_pdf_can_be_selected_and_is_in_order(text: str, language: str) -> None:
    of = draft(text, language=language)
    found = words_of_pdf(written("pdf", of)).replace("\u2010", "").replace("-\u00ad", "")
    place = 0
    for word in texts_of(of):
        found_at = joined(found).find(joined(word), place)
        assert found_at >= 0, word
        place = found_at


def texts_of(of: Draft) -> list[str]:
    """The texts of the report's blocks in their order, without figures."""
    return [line for line in words_of_docx(written("docx", of)) if not line.startswith(("Figure", "\uff1d"))]


def joined(text: str) -> str:
    """Without spaces, hyphens and what is not letters: lines end elsewhere in every format."""
    return re.sub(r"[\W\u00ad\ufffe]+", "", text)


@pytest.mark.req("C-06")
def test_arabic_is_shown_from_right_to_left_with_its_own_letters_in_every_format() -> None:
    of = draft(ARABIC, title="تقرير", language="ar", day="2025-03-14")
    assert "14 مارس 2025" in written("markdown", of).decode()
    data, unknown = Typesetter().pdf(composed(of))
    assert unknown == ""
    assert {letter for letter in "412000" + ARABIC_WORD if letter not in words_of_pdf(data)} == set()
    document = docx.Document(io.BytesIO(written("docx", of)))
    assert document.element.body.findall(f".//{qn('w:bidiVisual')}")
    assert document.element.body.findall(f".//{qn('w:bidi')}")
    assert b'rightToLeft="1"' in sheet_xml(written("xlsx", of))


@pytest.mark.req("C-06")
def test_the_sign_of_a_number_stands_before_it_in_an_arabic_report_too() -> None:
    of = draft(ARABIC.replace("96000", "-96000").replace("412000", "+412000"), language="ar")
    pdf = pypdfium2.PdfDocument(written("pdf", of))[0].get_textpage()
    boxes = [(pdf.get_text_range(n, 1), pdf.get_charbox(n)) for n in range(pdf.count_chars())]
    (minus,) = [box for letter, box in boxes if letter == "-"]
    beside = [box for letter, box in boxes if letter == "9" and abs(box[1] - minus[1]) < 6]
    assert beside
    assert all(minus[0] < box[0] for box in beside)
    table = docx.Document(io.BytesIO(written("docx", of))).tables[0]
    (line,) = table.rows[2].cells[1].paragraphs
    assert line.text == "-96000"
    assert line._p.find(f".//{qn('w:bidi')}") is None
    assert '[dir="rtl"] td.number { text-align: left; unicode-bidi: plaintext; }' in html(composed(of))


def test_what_no_font_has_is_shown_as_a_box_and_told() -> None:
    data, unknown = Typesetter().pdf(composed(draft("日本 and Ελλάδα, Россия, שלום")))
    assert unknown == "日本"
    assert "□□ and Ελλάδα, Россия" in words_of_pdf(data)


@pytest.mark.req("C-06")
def test_a_word_document_has_headings_header_rows_a_language_and_described_figures() -> None:
    document = docx.Document(io.BytesIO(written("docx", draft(f"# One\n\nText\n\n## Two\n\n{SALES}", language="de"))))
    styles = [line.style.name for line in document.paragraphs if line.style.name.startswith(("Title", "Heading"))]
    assert styles == ["Title", "Heading 1", "Heading 2"]
    (table,) = document.tables
    assert table.rows[0]._tr.findall(f"{qn('w:trPr')}/{qn('w:tblHeader')}")
    assert document.inline_shapes[0]._inline.docPr.get("descr").startswith("Liniendiagramm: Sales: 2022 1200")
    assert document.core_properties.language == "de"
    assert document.styles.element.find(f".//{qn('w:lang')}").get(qn("w:val")) == "de"


LONG = "\n\n".join(f"# Chapter {number}\n\n" + "\n\n".join(["A line of a report."] * 30) for number in range(1, 5))


@pytest.mark.req("C-06")
def test_a_long_report_has_contents_that_word_can_update_and_a_short_one_has_none() -> None:
    document = docx.Document(io.BytesIO(written("docx", draft(LONG))))
    entries = [line for line in document.paragraphs if line.style.name.startswith("TOC")]
    texts = ["".join(text.text for text in each._p.iter(qn("w:t"))) for each in entries]
    assert texts == ["Chapter 1", "Chapter 2", "Chapter 3", "Chapter 4"]
    marks = [mark.get(qn("w:fldCharType")) for each in entries for mark in each._p.iter(qn("w:fldChar"))]
    assert marks == ["begin", "separate", "end"]
    assert 'TOC \\o "1-2"' in "".join(mark.text for mark in entries[0]._p.iter(qn("w:instrText")))
    assert "**Contents**" in markdown(composed(draft(LONG)))
    assert "**Contents**" not in markdown(composed(draft("# One\n\nText\n\n# Two\n\nText\n\n# Three\n\nText")))


@pytest.mark.req("C-06")
def test_markup_of_strangers_is_text_in_every_format() -> None:
    of = draft(HOSTILE)
    body = docx.Document(io.BytesIO(written("docx", of)))
    fields = [field.text for field in body.element.body.iter(qn("w:instrText"))]
    targets = [relation.target_ref for relation in body.part.rels.values() if relation.is_external]
    assert (fields, targets) == ([], ["https://example.org/a"])
    assert '#read("/etc/passwd")' in " ".join(words_of_docx(written("docx", of)))
    pdf = written("pdf", of)
    assert '#read("/etc/passwd")' in words_of_pdf(pdf)
    assert "<script>alert(1)</script>" in words_of_pdf(pdf)
    assert b"evil.example/x.png" not in pdf
    assert re.findall(rb"/URI \(([^)]*)\)", pdf) in ([], [b"https://example.org/a"])
    shown = html(composed(of)).lower()
    assert "<script" not in shown
    assert "<b>" not in shown


@pytest.mark.req("S21")
def test_cells_of_a_workbook_are_numbers_or_text_and_never_formulas() -> None:
    data = written("xlsx", draft(HOSTILE))
    assert cells_of(data) == [
        ['=HYPERLINK("http://evil.example")', "@SUM(A1)"],
        ["+1+1", -5],
        ["\uff1dcmd", "-2+3"],
    ]
    assert b"<f>" not in sheet_xml(data)
    assert set(re.findall(rb' t="(\w+)"', sheet_xml(data))) == {b"s"}  # of shared texts; numbers have no type
    assert ZipFile(io.BytesIO(data)).read("xl/styles.xml").count(b'quotePrefix="1"') == 2


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (("$1,980.84", "$6.50"), (1980.84, 6.5)),
        (("1.234,50 €", "-5,00 €"), (1234.5, -5)),
        (("8.9%", "12%"), (0.089, 0.12)),
        (("1,234", "5,678"), ("1,234", "5,678")),  # thousands, or one and a bit: nobody guesses
        (("007", "42"), ("007", 42)),
        (("14.03.2025", "x"), ("14.03.2025", "x")),
        (("1234567890123456789", "1"), ("1234567890123456789", 1)),
    ],
)
def test_a_number_in_a_workbook_is_the_number_that_the_document_says(
    cells: Sequence[str], values: Sequence[float | str]
) -> None:
    table = "| a | b |\n| --- | --- |\n" + "\n".join(f"| x{number} | {cell} |" for number, cell in enumerate(cells))
    assert tuple(row[1] for row in cells_of(written("xlsx", draft(table)))[1:]) == tuple(values)


BUILT_IN = {"1": "0", "3": "#,##0", "4": "#,##0.00"}  # formats that every workbook knows by their numbers


def number_formats(data: bytes) -> list[str]:
    """Those of the numbers in the sheet, in their order."""
    styles = ZipFile(io.BytesIO(data)).read("xl/styles.xml").decode()
    named = {id_: unescape(code) for id_, code in re.findall(r'<numFmt numFmtId="(\d+)" formatCode="([^"]*)"', styles)}
    used = re.findall(r'<xf numFmtId="(\d+)"', styles.partition("<cellXfs")[2])
    cells = re.findall(rb'<c r="\w+" s="(\d+)"><v>', sheet_xml(data))
    return [(BUILT_IN | named)[used[int(cell)]] for cell in cells]


SHAPES = {
    ("Sales", "950", "1250000"): "#,##0",
    ("Budget", "412000", "418500"): "#,##0",
    ("Price", "1234.50", "7.25"): "#,##0.00",
    ("Price", "12500 EUR", "900 EUR"): '#,##0 "EUR"',
    ("Share", "12.5%", "8.1%"): "#,##0.0%",
    ("Founded", "1998", "2024"): "0",
    ("Year", "1998", "12024"): "0",
    ("Rechnungsnummer", "998", "10023"): "0",
    ("Postal code", "80331", "10115"): "0",
    ("Serial", "482913", "482914"): "0",
    ("Call", "4989123456", "498912345678"): "0",
}


@pytest.mark.parametrize("column", SHAPES, ids=" ".join)
def test_what_counts_or_measures_has_thousands_marks_in_a_workbook_and_names_in_digits_have_none(
    column: tuple[str, str, str],
) -> None:
    header, *cells = column
    table = f"| a | {header} |\n| --- | --- |\n" + "\n".join(f"| x | {cell} |" for cell in cells)
    assert number_formats(written("xlsx", draft(table))) == [SHAPES[column]] * 2


def test_a_workbook_is_printed_with_all_columns_side_by_side_and_their_names_on_each_page() -> None:
    data = written("xlsx", draft(SALES))
    assert b'<pageSetup paperSize="9" fitToHeight="0" orientation="landscape"' in sheet_xml(data)
    assert b'<pageSetUpPr fitToPage="1"/>' in sheet_xml(data)
    assert b'<autoFilter ref="A1:B4"/>' in sheet_xml(data)
    assert b"_xlnm.Print_Titles" in ZipFile(io.BytesIO(data)).read("xl/workbook.xml")


def test_a_long_word_in_a_narrow_column_is_not_broken_for_wide_columns_beside_it() -> None:
    texts = "| Angabe | a | b |\n| --- | --- | --- |\n| Zahlungsbedingungen |" + " ein langer Text" * 9
    data = written("pdf", draft(f"{texts} | Wohnungseigentümergemeinschaft Lindenstraße |\n", language="de"))
    assert "Zahlungsbedingungen" in words_of_pdf(data)


@pytest.mark.skipif(shutil.which("soffice") is None, reason="LibreOffice is not installed here")
@pytest.mark.req("C-06")
def test_libreoffice_opens_the_files_and_reads_the_same_text_and_cells(tmp_path: Path) -> None:
    of = draft(f"# Überblick\n\nErster Absatz.\n\n{GERMAN}", title="Bericht", language="de")
    for name in ("docx", "xlsx"):
        (tmp_path / f"report.{name}").write_bytes(written(name, of))
    converted(tmp_path, "txt:Text (encoded):UTF8", "report.docx")
    converted(tmp_path, "csv:Text - txt - csv (StarCalc):44,34,76", "report.xlsx")
    text = (tmp_path / "report.txt").read_text(encoding="utf-8-sig")
    assert joined("".join(words_of_docx((tmp_path / "report.docx").read_bytes()))) == joined(text)
    assert (tmp_path / "report.csv").read_text(encoding="utf-8").splitlines() == [
        "Position,Menge,Gesamtpreis",
        'Außenputz,2,"1,234.50 €"',
        "Nachlass,1,-5.00 €",
    ]


def converted(folder: Path, to: str, name: str) -> None:
    own = f"-env:UserInstallation=file://{folder}/profile"
    command = ["soffice", own, "--headless", "--convert-to", to, "--outdir", str(folder), str(folder / name)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
