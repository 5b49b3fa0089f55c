"""Draws the first page of each kind of report: `uv run docs/report_pages.py` writes `docs/reports/*.png`.

The built-in model writes the reports from the examples, with no server and no model key.
"""

import asyncio
from io import BytesIO
from pathlib import Path

import pypdfium2

from poweron_services.connectors.document_reader import extract
from poweron_services.connectors.reports_child.composition import composed
from poweron_services.connectors.reports_child.pdf_report import Typesetter
from poweron_services.connectors.reports_child.report import Draft, Part
from poweron_services.models.builtin.action_choice import report_title
from poweron_services.models.builtin.process import process
from poweron_services.models.builtin.vocabulary import known_language
from poweron_services.models.embedding.local_embedder import packaged_embedder
from poweron_services.models.prompts import ProcessPrompt, SourceText, Template

HOUSE = Path(__file__).resolve().parent.parent
FOLDERS = (HOUSE / "docs" / "examples", HOUSE / "tests" / "examples", HOUSE / "tests" / "answers")
PICTURES = HOUSE / "docs" / "reports"
DAY = "2026-03-14"
SCALE = 1.1  # of 72 dots per inch
COLOURS = 64
REPORTS = {
    "minutes": ("Write a report on the minutes", ("minutes.md",)),
    "contract": ("Write a report on the contract", ("contract.docx",)),
    "budget": ("Write a report on the budget", ("budget.xlsx",)),
    "expenses": ("Write a report about what the handbook says about expenses", ("handbook.html",)),
    "comparison": ("Write a report comparing the two", ("estimate.pdf", "offer.eml")),
    "courses": ("Erstelle einen Bericht über die Kursordnung", ("kursordnung.md",)),
    "quotation": ("Rédige un rapport sur le devis", ("devis.md",)),
    "museum": ("اكتب تقريرا عن المتحف", ("mathaf.md",)),
}


async def text_of(name: str) -> str:
    path = next(folder / name for folder in FOLDERS if (folder / name).is_file())
    return (await extract(path.read_bytes(), name)).markdown()


def page(request: str, names: tuple[str, ...], typesetter: Typesetter) -> bytes:
    """Return the first page as PNG."""
    documents = tuple(SourceText(f"docItem:{name}", name, asyncio.run(text_of(name))) for name in names)
    prompt = ProcessPrompt(
        template=Template("report_pages.v1", ""),
        ai_prompt=request,
        custom_instructions="",
        language=None,
        output_format="markdown",
        documents=documents,
    )
    language = known_language(None, request)
    part = Part("answer.md", "written", process(prompt, packaged_embedder()))
    draft = Draft(
        report_title(request, language), language, (part,), source_count=len(names), requester="Ada Berg", day=DAY
    )
    pdf, _ = typesetter.pdf(composed(draft))
    drawn = BytesIO()
    pypdfium2.PdfDocument(pdf)[0].render(scale=SCALE).to_pil().quantize(COLOURS).save(drawn, "PNG", optimize=True)
    return drawn.getvalue()


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    made = Typesetter()
    for title, (wanted, of) in REPORTS.items():
        (PICTURES / f"{title}.png").write_bytes(page(wanted, of, made))
