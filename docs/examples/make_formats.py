"""Writes the example documents of the rarer formats; what they say stands in `invented_formats.py`."""

import datetime as dt
import io
from collections.abc import Callable
from email.message import EmailMessage
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import docx
import pptx
import xlsxwriter
from docx.opc.constants import CONTENT_TYPE, RELATIONSHIP_TYPE
from docx.opc.packuri import PackURI
from docx.opc.part import Part
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls
from docx.text.paragraph import Paragraph
from invented_formats import (
    CHECKS,
    HANDOVER,
    LEASE,
    LEASE_COSTS,
    LEASE_DELETED,
    LEASE_NOTE,
    LEASE_REMARK,
    MAIL,
    OFFER,
    ORDER,
    PANES,
    POLICY,
    POLICY_DELETED,
    POLICY_INSERTED,
    POLICY_NOTE,
    POLICY_REMARK,
    RATES,
    RELEASE,
    RELEASE_PRICES,
    ROOM_RATES,
    ROOM_RATES_END,
    SIGHTINGS,
    TRAINERS,
    TRAINING,
    TRAINING_NOTES,
    VEHICLES,
)
from office_files import CREATED, date, fix_times, pack
from pptx.slide import Slide
from pptx.util import Inches
from reportlab.pdfgen.canvas import Canvas

STAMP = f"{CREATED.isoformat()}Z"
OFFICE = "urn:oasis:names:tc:opendocument:xmlns:"
NAMESPACES = " ".join(
    f'xmlns:{name}="{OFFICE}{name}:1.0"' for name in ("office", "text", "table", "style", "meta", "drawing")
)
PURL = 'xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:of="urn:oasis:names:tc:opendocument:xmlns:of:1.2"'


def write_lease(path: Path) -> None:
    author, deleted = LEASE_DELETED
    changes = (
        '<text:tracked-changes><text:changed-region text:id="c1"><text:deletion><office:change-info>'
        f"<dc:creator>{author}</dc:creator><dc:date>{STAMP}</dc:date></office:change-info>"
        f"<text:p>{deleted}</text:p></text:deletion></text:changed-region></text:tracked-changes>"
    )
    remark = (
        f"<office:annotation><dc:creator>{LEASE_REMARK[0]}</dc:creator><dc:date>{STAMP}</dc:date>"
        f"<text:p>{LEASE_REMARK[1]}</text:p></office:annotation>"
    )
    note = (
        '<text:note text:note-class="footnote"><text:note-citation>1</text:note-citation>'
        f"<text:note-body><text:p>{LEASE_NOTE}</text:p></text:note-body></text:note>"
    )
    extras = {"1. Premises": "", "2. Term": '<text:change text:change-id="c1"/>', "3. Kiln": note + remark}
    body = changes + '<text:h text:outline-level="1">Lease of a workshop</text:h>'
    for heading, text in LEASE:
        body += f'<text:h text:outline-level="2">{heading}</text:h><text:p>{text}{extras[heading]}</text:p>'
    body += f'<text:h text:outline-level="2">4. Costs per month</text:h>{_lease_costs()}'
    _write_odf(path, "text", f"<office:text>{body}</office:text>", ("Lease of a workshop", LEASE_REMARK[0]))


def _lease_costs() -> str:
    """The first cell of the body reaches over two rows, the head over two columns."""
    cell = "<table:table-cell{}><text:p>{}</text:p></table:table-cell>".format
    covered = "<table:covered-table-cell/>"
    head = cell(' table:number-columns-spanned="2"', "Cost") + covered + cell("", "Euros")
    rows = []
    for kind, what, amount in LEASE_COSTS:
        span = ' table:number-rows-spanned="2"' if kind == "Rent" else ""
        rows.append((cell(span, kind) if kind else covered) + cell("", what) + cell("", amount))
    lines = "".join(f"<table:table-row>{row}</table:table-row>" for row in [head, *rows])
    return f'<table:table><table:table-column table:number-columns-repeated="3"/>{lines}</table:table>'


def write_sightings(path: Path) -> None:
    rows = "".join(f"<table:table-row>{''.join(map(_ods_cell, row))}</table:table-row>" for row in SIGHTINGS)
    total = sum(row[3] for row in SIGHTINGS[1:] if isinstance(row[3], int))
    rows += (
        f'<table:table-row>{_ods_cell("Total")}<table:table-cell table:number-columns-repeated="2"/>'
        f'<table:table-cell table:formula="of:=SUM([.D2:.D5])" office:value-type="float" office:value="{total}">'
        f"<text:p>{total}</text:p></table:table-cell></table:table-row>"
    )
    sheet = f'<table:table table:name="Spring count">{rows}</table:table>'
    body = f"<office:spreadsheet>{sheet}</office:spreadsheet>"
    _write_odf(path, "spreadsheet", body, ("Spring count of waders", "Wren Castellan"))


def _ods_cell(value: str | int) -> str:
    if isinstance(value, int):
        kind = f'office:value-type="float" office:value="{value}"'
    elif value[:2] == "20":
        kind = f'office:value-type="date" office:date-value="{value}"'
    else:
        kind = 'office:value-type="string"'
    return f"<table:table-cell {kind}><text:p>{value}</text:p></table:table-cell>"


def _write_odf(path: Path, kind: str, body: str, about: tuple[str, str]) -> None:
    mime = f"application/vnd.oasis.opendocument.{kind}"
    title, author = about
    meta = f"<dc:title>{title}</dc:title><dc:creator>{author}</dc:creator><dc:date>{STAMP}</dc:date>"
    entry = '<manifest:file-entry manifest:full-path="{}" manifest:media-type="{}"/>'.format
    files = entry("/", mime) + entry("content.xml", "text/xml") + entry("meta.xml", "text/xml")
    space = 'xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"'
    part = f"<office:document-{{0}} {NAMESPACES} {PURL} office:version='1.3'>{{1}}</office:document-{{0}}>".format
    pack(
        path,
        {
            "mimetype": mime,
            "META-INF/manifest.xml": f'<manifest:manifest {space} manifest:version="1.3">{files}</manifest:manifest>',
            "content.xml": part("content", f"<office:body>{body}</office:body>"),
            "meta.xml": part("meta", f"<office:meta>{meta}</office:meta>"),
        },
    )


def write_release(path: Path) -> None:
    info = r"{\info{\title Opening of the second hall}{\author Tidewell Brewery}{\creatim\yr2025\mo5\dy20\hr9\min0}}"
    paragraphs = "".join(f"{_rtf(text)}\\par\n" for text in RELEASE)
    rows = "".join(
        rf"\trowd\cellx4000\cellx6000 {_rtf(what)}\cell {_rtf(price)}\cell\row" + "\n" for what, price in RELEASE_PRICES
    )
    fonts = r"{\fonttbl{\f0\fswiss\fcharset0 Helvetica;}}"
    path.write_text(rf"{{\rtf1\ansi\ansicpg1252\deff0{fonts}{info}\f0 {paragraphs}{rows}\pard}}", encoding="ascii")


def _rtf(text: str) -> str:
    return "".join(letter if letter.isascii() else rf"\u{ord(letter)}?" for letter in text)


def write_mail(path: Path) -> None:
    mail = EmailMessage()
    mail["From"] = "Pavel Horn <horn@glasshaus.example>"
    mail["To"] = "Folake Adeyemi <folake@adeyemi.example>"
    mail["Subject"] = "Your greenhouse: offer GH-0731"
    mail["Date"] = "Mon, 16 Jun 2025 10:24:00 +0200"
    mail["Message-ID"] = "<gh-0731@glasshaus.example>"
    mail.set_content(MAIL)
    mail.add_attachment(_offer(), maintype="application", subtype="pdf", filename="offer.pdf")
    mail.add_attachment(PANES.encode("cp1252"), maintype="text", subtype="csv", filename="panes.csv")
    mail.set_boundary("=_glasshaus")
    path.write_bytes(mail.as_bytes())


def _offer() -> bytes:
    packed = io.BytesIO()
    canvas = Canvas(packed, invariant=1)
    for line, text in enumerate(OFFER):
        canvas.drawString(72, 760 - 24 * line, text)
    canvas.save()
    return packed.getvalue()


def write_handover(path: Path) -> None:
    pack(path, HANDOVER)


def write_order(path: Path) -> None:
    path.write_text(ORDER, encoding="utf-8")


def write_policy(path: Path) -> None:
    document = docx.Document()
    date(document.core_properties, "Travel policy", "Ines Carvalho")
    document.add_heading("Travel policy", 0)
    texts = {}
    for heading, text in POLICY:
        document.add_heading(heading, 1)
        texts[heading] = document.add_paragraph(text)
    _add_footnote(document, texts["Trains"])
    comment = document.add_comment(texts["Flights"].runs, text=POLICY_REMARK[1], author=POLICY_REMARK[0], initials="IC")
    comment._comment_elm.date = CREATED.replace(tzinfo=dt.UTC)  # noqa: SLF001 - it is the time of this run otherwise
    _track(texts["Trains"], "ins", "t", POLICY_INSERTED)
    _track(texts["Hotels"], "del", "delText", POLICY_DELETED)
    _room_rates(document)
    document.save(str(path))
    fix_times(path)


def _add_footnote(document: Any, paragraph: Paragraph) -> None:
    note = f'<w:footnote w:id="1"><w:p><w:r><w:t>{POLICY_NOTE}</w:t></w:r></w:p></w:footnote>'
    blob = f"<w:footnotes {nsdecls('w')}>{note}</w:footnotes>".encode()
    part = Part(PackURI("/word/footnotes.xml"), CONTENT_TYPE.WML_FOOTNOTES, blob, document.part.package)
    document.part.relate_to(part, RELATIONSHIP_TYPE.FOOTNOTES)
    paragraph._p.append(parse_xml(f'<w:r {nsdecls("w")}><w:footnoteReference w:id="1"/></w:r>'))  # noqa: SLF001


def _track(paragraph: Paragraph, change: str, tag: str, what: tuple[str, str]) -> None:
    author, text = what
    run = f'<w:r><w:{tag} xml:space="preserve">{escape(text)}</w:{tag}></w:r>'
    told = f'w:id="9" w:author="{author}" w:date="{STAMP}"'
    paragraph._p.append(parse_xml(f"<w:{change} {nsdecls('w')} {told}>{run}</w:{change}>"))  # noqa: SLF001


def _room_rates(document: Any) -> None:
    """The region of the last two rows is one cell, and so is the whole row below them."""
    table = document.add_table(rows=len(ROOM_RATES) + 1, cols=3, style="Light Grid Accent 1")
    for line, row in enumerate(ROOM_RATES):
        for cell, text in zip(table.rows[line].cells, row, strict=True):
            cell.text = text
    table.cell(1, 0).merge(table.cell(2, 0)).text = ROOM_RATES[1][0]
    last = table.rows[len(ROOM_RATES)].cells
    last[0].merge(last[2]).text = ROOM_RATES_END


def write_fleet(path: Path) -> None:
    book = xlsxwriter.Workbook(path)
    book.set_properties({"title": "Fleet 2025", "author": "Malte Brandt", "created": CREATED})
    day = book.add_format({"num_format": "dd.mm.yyyy"})
    share, bold = book.add_format({"num_format": "0.0%"}), book.add_format({"bold": True, "align": "center"})
    money = book.add_format({"num_format": '#,##0.00 "EUR"'})
    sheet = book.add_worksheet("Vehicles")
    sheet.set_column(0, 4, 14)
    sheet.merge_range("A1:A2", "Vehicle", bold)
    sheet.merge_range("B1:C1", "Until 2025", bold)
    sheet.merge_range("D1:E1", "Per year", bold)
    sheet.write_row("B2", ["Registered", "Kilometers", "In use", "Fuel"], bold)
    for line, (name, registered, kilometers, used) in enumerate(VEHICLES, start=2):
        sheet.write(line, 0, name)
        sheet.write_datetime(line, 1, dt.datetime.fromisoformat(registered), day)
        sheet.write(line, 2, kilometers)
        sheet.write(line, 3, used, share)
        sheet.write_formula(line, 4, f"=C{line + 1}*Rates!B2/5", money, kilometers * 0.31 / 5)
    rates = book.add_worksheet("Rates")
    log = book.add_worksheet("Checks")
    for hidden, rows in ((rates, RATES), (log, CHECKS)):
        for line, row in enumerate(rows):
            hidden.write_row(line, 0, row)
    rates.hide()
    log.very_hidden()
    book.close()
    fix_times(path)


def write_training(path: Path) -> None:
    show = pptx.Presentation()
    date(show.core_properties, "Ladder training", "Silke Oyelaran")
    for title, lines in TRAINING:
        slide = show.slides.add_slide(show.slide_layouts[1 if lines else 5])
        slide.shapes.title.text = title
        if lines:
            slide.placeholders[1].text = "\n".join(lines)
        else:
            _trainers(slide)
    show.slides[0].notes_slide.notes_text_frame.text = TRAINING_NOTES
    show.slides[2]._element.set("show", "0")  # noqa: SLF001 - no public way to hide a slide
    show.save(str(path))
    fix_times(path)


def _trainers(slide: Slide) -> None:
    table = slide.shapes.add_table(len(TRAINERS), 3, Inches(0.5), Inches(1.6), Inches(9), Inches(2)).table
    for line, row in enumerate(TRAINERS):
        for column, text in enumerate(row):
            table.cell(line, column).text = text
    table.cell(1, 0).merge(table.cell(2, 0))


FORMATS: dict[str, Callable[[Path], None]] = {
    "lease.odt": write_lease,
    "sightings.ods": write_sightings,
    "release.rtf": write_release,
    "offer.eml": write_mail,
    "handover.zip": write_handover,
    "order.xml": write_order,
    "policy.docx": write_policy,
    "fleet.xlsx": write_fleet,
    "training.pptx": write_training,
}
