"""Compares how libraries read tables without borders and columns of prose with how our layout does.

`python tests/services/compare_pdf_readers.py` prints the table of docs/decisions/0037-…; xberg is compared where it is
installed, and the samples have to be there.
"""

import asyncio
import io
import sys
import time
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path

import pdfplumber
import pypdfium2
from papers import SAMPLES, long_pdf
from reportlab.pdfgen.canvas import Canvas

from poweron_services.connectors.documents_child import pdf
from poweron_services.connectors.documents_child.document import Section
from poweron_services.connectors.documents_child.limits import DEFAULT_LIMITS
from poweron_services.connectors.documents_child.pipe_tables import pipe_table
from poweron_services.models.builtin import BuiltinModel
from poweron_services.models.prompts import ProcessPrompt, SourceText, Template

sys.path.append(str(Path(__file__).parents[1] / "examples"))
from questions import MORE_QUESTIONS, QUESTIONS

SPARSE, REPAIR = "SPARSE-2024-INV-1234_borderless_table.pdf", "REPAIR-2022-INV-001_multipage.pdf"
BOOKING = "movie-theater-booking-2024.pdf"
ROWS = {  # as the expected readings beside the samples have them; "" is an empty cell
    SPARSE: [
        ["Product Code", "Location", "Expected", "Actual", "Variance", "Status"],
        ["SKU-8847", "A-12", "450", "", "", ""],
        ["", "B-07", "", "289", "-23", ""],
        ["SKU-9201", "", "780", "778", "", "OK"],
        ["", "C-15", "", "", "+15", ""],
        ["SKU-4563", "D-22", "", "156", "", "CRITICAL"],
        ["", "", "180", "", "-24", ""],
        ["SKU-4563", "Software", "$120.00", "$18,720.00", "", "Critical"],
        ["SKU-2234", "Electronics", "$125.00", "$35,000.00", "", ""],
        ["SKU-6678", "Software", "$200.00", "$42,000.00", "2024-10-25", "High Value"],
    ],
    REPAIR: [["GRAND TOTAL", "5,738"], ["GRAND TOTAL", "211,522"], ["Make", "Jeep"]],
    BOOKING: [
        ["Payment Terms:", "Corporate"],
        ["Totals", "48", "$12,500.00", "$11,250.00", "85%"],
        ["Sarah Johnson", "NYC Metro", "NORTHEAST", "12/20/24 - 12/31/24", "100%"],
        ["Product Desc:", "Holiday Movie Marathon Package"],
    ],
}
Reader = Callable[[bytes], str]


def ours(data: bytes) -> str:
    return "\n\n".join(part.text for part in pdf.read(data, DEFAULT_LIMITS) if isinstance(part, Section))


def plumber(strategy: str) -> Reader:
    def read(data: bytes) -> str:
        settings = {"vertical_strategy": strategy, "horizontal_strategy": strategy}
        with pdfplumber.open(io.BytesIO(data)) as document:
            texts = []
            for page in document.pages:
                texts.append(page.extract_text())
                texts += [pipe_table(_cells(table), header=False) for table in page.extract_tables(settings)]
        return "\n\n".join(texts)

    return read


def _cells(table: Iterable[Iterable[str | None]]) -> list[list[str]]:
    return [[cell or "" for cell in row] for row in table]


def pdfium(data: bytes) -> str:
    return "\n\n".join(page.get_textpage().get_text_range() for page in pypdfium2.PdfDocument(data))


def xberg(data: bytes) -> str:
    import xberg as library  # type: ignore[import-not-found]

    given = library.ExtractInput(kind="bytes", bytes=data, mime_type="application/pdf")
    options = library.PdfConfig(reading_order=True)
    config = library.ExtractionConfig(output_format="markdown", use_cache=False, pdf_options=options)

    async def extracted() -> str:
        return str((await library.extract(given, config)).results[0].content)

    return asyncio.run(extracted())


def rows_read(read: Reader) -> str:
    found = wanted = 0
    for name, rows in ROWS.items():
        lines = read((SAMPLES / name).read_bytes()).splitlines()
        table = [
            [cell.strip(" *").replace("\\", "") for cell in line.strip()[1:-1].split("|")]
            for line in lines
            if line.startswith("|")
        ]
        as_wide = [[*row, *[""] * (6 - len(row))] for row in table] if name == SPARSE else [*map(_filled, table)]
        wanted += len(rows)
        found += sum(row in as_wide for row in rows)
    return f"{found} of {wanted}"


def _filled(row: list[str]) -> list[str]:
    return [cell for cell in row if cell]


def columns_in_order(read: Reader) -> str:
    packed = io.BytesIO()
    canvas = Canvas(packed, invariant=1)
    for line in range(20):  # as many programs write them: line by line over both columns
        canvas.drawString(50, 700 - 14 * line, f"left column with words of line {line}")
        canvas.drawString(310, 700 - 14 * line, f"right column with words of line {line}")
    canvas.save()
    text = " ".join(read(packed.getvalue()).split())
    return "yes" if text.rfind("left") < text.find("right") else "no"


def questions_answered(read: Reader) -> str:
    asks = [ask for ask in (*QUESTIONS, *MORE_QUESTIONS) if ask.path and ask.facts and ask.document.endswith(".pdf")]
    texts = {ask.document: read(ask.path.read_bytes()) for ask in asks if ask.path}
    right = [all(fact in asyncio.run(_answer(ask.question, texts[ask.document])) for fact in ask.facts) for ask in asks]
    return f"{sum(right)} of {len(right)}"


async def _answer(question: str, text: str) -> str:
    prompt = ProcessPrompt(
        template=Template("process.v1", ""),
        ai_prompt=question,
        custom_instructions="",
        language=None,
        output_format="markdown",
        documents=(SourceText("docItem:1:a.pdf", "a.pdf", f"# a.pdf\n\n<!-- application/pdf -->\n\n{text}"),),
    )
    return (await BuiltinModel().complete(prompt)).text


def pages_a_second(read: Reader) -> str:
    data, began = long_pdf(20), time.process_time()
    read(data)
    return f"{20 / (time.process_time() - began):.0f}"


READERS = {
    "our layout on pdfium's words": ours,
    "pdfplumber, tables by rules": plumber("lines"),
    "pdfplumber, tables by text": plumber("text"),
    "pypdfium2, text alone": pdfium,
    **({"xberg, markdown in reading order": xberg} if find_spec("xberg") else {}),
}

if __name__ == "__main__":
    measures = (rows_read, columns_in_order, questions_answered, pages_a_second)
    head = ["reader", "rows of tables", "columns of prose in order", "questions answered", "pages a second of a core"]
    lines = [head, ["---"] * len(head), *([name, *(one(read) for one in measures)] for name, read in READERS.items())]
    sys.stdout.write("".join(f"| {' | '.join(line)} |\n" for line in lines))
