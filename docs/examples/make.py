"""Writes the example documents of this folder, and the pages of `site`; running it twice gives the same bytes.

What they say stands in `invented.py`, `invented_formats.py` and `invented_site.py`.
"""

import csv
import json
import sys
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

import docx
import pptx
import xlsxwriter
from docx.document import Document as DocxDocument
from example_site import write_site
from invented import (
    BUDGET,
    CONTRACT,
    DISPOSAL,
    FEES,
    HANDBOOK,
    HEADCOUNT,
    INVENTORY,
    LABOR,
    LETTER_TEXT,
    MATERIALS,
    MILESTONES,
    MINUTES,
    PARTS,
    QUARTERS,
    REPAIRED,
    SALES_TAX,
    SENSOR,
    SLIDES,
    SPEAKER_NOTE,
    TERMS,
    WORK_SUMMARY,
)
from make_formats import FORMATS
from office_files import CREATED, date, fix_times
from pptx.slide import Slide
from pptx.util import Inches
from reportlab.lib import colors
from reportlab.lib.pagesizes import LETTER
from reportlab.lib.styles import ParagraphStyle
from reportlab.lib.units import inch
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import Flowable, PageBreak, Paragraph, SimpleDocTemplate, Spacer, Table, TableStyle
from xlsxwriter.format import Format
from xlsxwriter.worksheet import Worksheet

HERE = Path(__file__).parent
CENT = Decimal("0.01")
INK, ACCENT, SHADE = colors.HexColor("#1f2933"), colors.HexColor("#1d5b79"), colors.HexColor("#eef3f6")

BODY = ParagraphStyle("body", fontName="Helvetica", fontSize=9.5, leading=13.5, textColor=INK)
CELL = ParagraphStyle("cell", parent=BODY, fontSize=9, leading=11.5)
STRONG = ParagraphStyle("strong", parent=CELL, fontName="Helvetica-Bold")
TITLE = ParagraphStyle("title", parent=BODY, fontName="Helvetica-Bold", fontSize=20, leading=24, textColor=ACCENT)
HEADING = ParagraphStyle(
    "heading", parent=BODY, fontName="Helvetica-Bold", fontSize=11, leading=14, spaceBefore=10, spaceAfter=4
)

_TIGHT = [
    ("FONT", (0, 0), (-1, -1), "Helvetica", 9),
    ("TEXTCOLOR", (0, 0), (-1, -1), INK),
    ("TOPPADDING", (0, 0), (-1, -1), 3),
    ("BOTTOMPADDING", (0, 0), (-1, -1), 3),
    ("VALIGN", (0, 0), (-1, -1), "TOP"),
]
_NUMBERS = [("ALIGN", (1, 0), (-1, -1), "RIGHT")]
_HEAD = [
    ("FONT", (0, 0), (-1, 0), "Helvetica-Bold", 9),
    ("BACKGROUND", (0, 0), (-1, 0), ACCENT),
    ("TEXTCOLOR", (0, 0), (-1, 0), colors.white),
]

SHOP = "Harbor & Pine Auto Body"


def main() -> None:
    """Write every example into the folder named on the command line, or into this one."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    for name, write in WRITERS.items():
        write(folder / name)
        print(name, (folder / name).stat().st_size, "bytes")
    write_site(folder / "site")


def write_estimate(path: Path) -> None:
    margins = {"leftMargin": 0.8 * inch, "rightMargin": 0.8 * inch, "topMargin": 0.7 * inch, "bottomMargin": 0.8 * inch}
    document = SimpleDocTemplate(
        str(path), pagesize=LETTER, invariant=1, title="Repair estimate HP-24817", author=SHOP, **margins
    )
    document.build([*_first_page(), PageBreak(), *_terms()], onFirstPage=_footer, onLaterPages=_footer)


def _first_page() -> list[Flowable]:
    return [
        Paragraph(SHOP, TITLE),
        Paragraph("418 Wharf Street, Port Alden, WA 98362 · (360) 555-0142 · service@harborpine.example", BODY),
        Paragraph("Repair Estimate HP-24817", HEADING),
        _facts(),
        Paragraph("Parts and Labor", HEADING),
        _items(),
        Spacer(0, 8),
        _totals(),
        Paragraph("Work Summary", HEADING),
        Paragraph(WORK_SUMMARY, BODY),
    ]


def _facts() -> Table:
    rows = [
        ["Customer", "Marisol Okafor", "Vehicle", "2021 Subaru Outback Premium"],
        ["Phone", "(360) 555-0178", "VIN", "4S4BTAFC1M3104772"],
        ["Insurer", "Cascade Mutual Insurance", "License plate", "BKT 4471"],
        ["Claim number", "CM-2025-03381", "Color", "Autumn Green"],
        ["Date", "March 14, 2025", "Odometer", "48,215 miles"],
        ["Estimator", "Dana Whitlock", "Ready on", "March 21, 2025"],
    ]
    cells = [[Paragraph(text, STRONG if column % 2 == 0 else CELL) for column, text in enumerate(row)] for row in rows]
    table = Table(cells, colWidths=[1.1 * inch, 2.3 * inch, 1.1 * inch, 2.4 * inch])
    table.setStyle(TableStyle([*_TIGHT, ("LINEBELOW", (0, 0), (-1, -1), 0.25, colors.lightgrey)]))
    return table


def _items() -> Table:
    rows = [["Description", "Quantity", "Hours", "Rate", "Cost"]]
    rows += [[name, str(count), "", _money(price), _money(count * price)] for name, count, price in PARTS]
    rows += [[name, "", str(hours), _money(rate), _money(hours * rate)] for name, hours, rate in [*LABOR, MATERIALS]]
    rows += [["Waste disposal", "", "", "", _money(DISPOSAL)]]
    table = Table(rows, colWidths=[3.3 * inch, 0.8 * inch, 0.8 * inch, 1.0 * inch, 1.0 * inch])
    table.setStyle(
        TableStyle([*_TIGHT, *_NUMBERS, *_HEAD, ("ROWBACKGROUNDS", (0, 1), (-1, -1), [colors.white, SHADE])])
    )
    return table


def _totals() -> Table:
    subtotal, tax = estimate_totals()
    rows = [
        ["Subtotal", _money(subtotal)],
        [f"Sales tax ({SALES_TAX * 100:.1f}%)", _money(tax)],
        ["GRAND TOTAL", _money(subtotal + tax)],
    ]
    table = Table([*rows, ["Note", Paragraph(REPAIRED, CELL)]], colWidths=[1.9 * inch, 5.0 * inch])
    bold = ("FONT", (0, 2), (-1, 2), "Helvetica-Bold", 11)
    table.setStyle(
        TableStyle([*_TIGHT, bold, ("LINEABOVE", (0, 2), (-1, 2), 1, ACCENT), ("BACKGROUND", (0, 2), (-1, 2), SHADE)])
    )
    return table


def estimate_totals() -> tuple[Decimal, Decimal]:
    """Subtotal and sales tax."""
    parts = sum(count * price for _, count, price in PARTS)
    labor = sum((hours * rate).quantize(CENT) for _, hours, rate in [*LABOR, MATERIALS])
    subtotal = parts + labor + DISPOSAL
    return subtotal, (subtotal * SALES_TAX).quantize(CENT, ROUND_HALF_UP)


def _terms() -> list[Flowable]:
    flowables: list[Flowable] = [Paragraph("Terms and Conditions", TITLE), Spacer(0, 6)]
    for heading, text in TERMS.items():
        flowables += [Paragraph(heading, HEADING), Paragraph(text, BODY)]
    lines = Table([["Customer signature", "Date"]], colWidths=[4.4 * inch, 2.5 * inch])
    lines.setStyle(TableStyle([*_TIGHT, ("LINEABOVE", (0, 0), (-1, -1), 0.75, INK)]))
    accepted = "I have read this estimate and these terms, and I authorize the work listed."
    return [*flowables, Paragraph("Authorization", HEADING), Paragraph(accepted, BODY), Spacer(0, 48), lines]


def _footer(canvas: Canvas, document: SimpleDocTemplate) -> None:
    canvas.setFont("Helvetica", 8)
    canvas.setFillColor(colors.grey)
    canvas.drawString(0.8 * inch, 0.5 * inch, f"{SHOP} · Estimate HP-24817")
    canvas.drawRightString(LETTER[0] - 0.8 * inch, 0.5 * inch, f"Page {document.page} of 2")


def _money(amount: Decimal) -> str:
    return f"${amount.quantize(CENT):,}"


def write_contract(path: Path) -> None:
    document = docx.Document()
    date(document.core_properties, "Cleaning service contract", "Brightwater Cleaning Ltd.")
    document.sections[0].header.paragraphs[0].text = "Contract BW-2025-014"
    document.add_heading("Service Contract", 0)
    for heading, paragraphs in CONTRACT:
        document.add_heading(heading, 1)
        for paragraph in paragraphs:
            document.add_paragraph(paragraph)
        if heading == "5. Payment":
            _fee_table(document)
    document.add_paragraph("Ashford, January 6, 2025")
    document.add_paragraph("Dr. Helen Marsh (Customer)\t\tTomas Reyes (Provider)")
    document.save(str(path))
    fix_times(path)


def _fee_table(document: DocxDocument) -> None:
    total = sum(fee for _, fee in FEES)
    rows = [("Service", "Fee per month"), *((name, f"${fee:,}") for name, fee in FEES), ("Total", f"${total:,}")]
    table = document.add_table(rows=0, cols=2, style="Light Grid Accent 1")
    for row in rows:
        for cell, text in zip(table.add_row().cells, row, strict=True):
            cell.text = text


def write_budget(path: Path) -> None:
    book = xlsxwriter.Workbook(path)
    book.set_properties({"title": "Budget 2025", "created": CREATED})
    bold = book.add_format({"bold": True, "bg_color": "#D9E8EF", "num_format": "#,##0"})
    money = book.add_format({"num_format": "#,##0"})
    budget = {name: (*quarters, sum(quarters)) for name, quarters in BUDGET.items()}
    growth = {name: (now, planned, planned - now) for name, (now, planned) in HEADCOUNT.items()}
    _sheet(book.add_worksheet("Budget"), ["Department", *QUARTERS, "Total"], budget, (bold, money))
    _sheet(book.add_worksheet("Headcount"), ["Department", "January", "December", "Growth"], growth, (bold, money))
    book.close()
    fix_times(path)


def _sheet(
    sheet: Worksheet, header: list[str], rows: dict[str, tuple[int, ...]], formats: tuple[Format, Format]
) -> None:
    bold, plain = formats
    sheet.set_column(0, 0, 20)
    sheet.set_column(1, len(header), 12)
    sheet.write_row(0, 0, header, bold)
    for line, (name, numbers) in enumerate(rows.items(), start=1):
        sheet.write_row(line, 0, [name, *numbers], plain)
    last = len(rows) + 1
    sheet.write(last, 0, "Total", bold)
    for column, numbers in enumerate(zip(*rows.values(), strict=True), start=1):
        letter = chr(ord("A") + column)
        sheet.write_formula(last, column, f"=SUM({letter}2:{letter}{last})", bold, sum(numbers))


def write_kickoff(path: Path) -> None:
    show = pptx.Presentation()
    date(show.core_properties, "Project Heron: Kickoff", "Saltmarsh Ferries")
    for number, (title, lines) in enumerate(SLIDES):
        layout = 0 if number == 0 else 1 if lines else 5
        slide = show.slides.add_slide(show.slide_layouts[layout])
        slide.shapes.title.text = title
        if lines:
            slide.placeholders[1].text = "\n".join(lines)
        else:
            _milestone_table(slide)
    show.slides[1].notes_slide.notes_text_frame.text = SPEAKER_NOTE
    show.save(str(path))
    fix_times(path)


def _milestone_table(slide: Slide) -> None:
    frame = slide.shapes.add_table(len(MILESTONES), 3, Inches(0.5), Inches(1.6), Inches(9), Inches(3))
    for line, row in enumerate(MILESTONES):
        for column, text in enumerate(row):
            frame.table.cell(line, column).text = text


def write_handbook(path: Path) -> None:
    path.write_text(HANDBOOK, encoding="utf-8")


def write_inventory(path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(INVENTORY)


def write_sensor(path: Path) -> None:
    path.write_text(json.dumps(SENSOR, indent=2) + "\n", encoding="utf-8")


def write_minutes(path: Path) -> None:
    path.write_text(MINUTES, encoding="utf-8")


def write_letter(path: Path) -> None:
    path.write_text(LETTER_TEXT, encoding="utf-8")


WRITERS: dict[str, Callable[[Path], None]] = {
    "estimate.pdf": write_estimate,
    "contract.docx": write_contract,
    "budget.xlsx": write_budget,
    "kickoff.pptx": write_kickoff,
    "handbook.html": write_handbook,
    "inventory.csv": write_inventory,
    "sensor.json": write_sensor,
    "minutes.md": write_minutes,
    "letter.txt": write_letter,
    **FORMATS,
}

if __name__ == "__main__":
    main()
