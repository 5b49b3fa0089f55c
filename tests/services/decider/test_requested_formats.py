"""Formats that were asked for and not made: who asks for one is told."""

import pytest

from builders import At, Told, planned, requested, step
from poweron_services.decider.result_files import missing_formats
from poweron_services.text.format_wishes import is_one_question


def missing(prompt: str, *documents: str, expected: tuple[str, ...] = (), **opening: str) -> str:
    told = Told().tell(requested(prompt=prompt, **opening), planned(expected_formats=expected), *step())
    return missing_formats(told.tell(At().reviewed()).workflow, documents)


@pytest.mark.req("L-08")
@pytest.mark.parametrize(
    ("prompt", "kind"),
    [
        ("Write a report on the letters as PDF", "PDF"),
        ("Write a report comparing the estimates as PDF", "PDF"),
        ("Write a report that compares the estimates as PDF", "PDF"),
        ("Create a PDF report", "PDF"),
        ("Make a Word document of it", "Word"),
        ("Save it as .docx.", "Word"),
        ("Turn it into a Word file", "Word"),
        ("Read the letters and write a report as a PDF file.", "PDF"),
        ("Could you please create a short PDF with all numbers?", "PDF"),
        ("Summarise the letters. Then save the result as .xlsx", "Excel"),
        ("Write a report about what the handbook says on expenses, as a PDF.", "PDF"),
        ("Summarize the contract in a Word document.", "Word"),
        ("Fasse den Vertrag in einem Word-Dokument zusammen.", "Word"),
        ("Make an Excel table of the costs", "Excel"),
        ("- Put the totals into Excel\n- Check them", "Excel"),
        ("Generate a PowerPoint presentation about the costs", "PowerPoint"),
        ("Save it as PDF and Word", "PDF and Word"),
        ("Erstelle ein PDF mit allen Zahlen", "PDF"),
        ("Fasse den Brief als PDF zusammen", "PDF"),
        ("Bitte erstelle mir eine kurze Excel-Tabelle mit den Kosten", "Excel"),
        ("Lies die Briefe und speichere das Ergebnis als Word-Datei", "Word"),
        ("Mach daraus ein PDF.", "PDF"),
    ],
)
def test_a_request_for_a_format_that_was_not_made_is_answered(prompt: str, kind: str) -> None:
    why = "this release cannot make" if kind == "PowerPoint" else "was not made"
    assert missing(prompt) == f"You asked for {kind}, which {why}."


@pytest.mark.req("L-08")
@pytest.mark.parametrize(
    "prompt",
    [
        "Summarise the PDF",
        "What is in the PDF?",
        "Write a report on a.pdf and b.docx",
        "Compare estimate.pdf to letter.docx",
        "Convert invoice.pdf to JSON",
        "Write it word for word",
        "Make a list of the values in PDF 3",
        "Create a list of what the Word file says",
        "Convert PDF to markdown",
        "Turn PDF tables into CSV",
        "Turn a PDF into text",
        "Summarise PDF invoices",
        "Summarise a PDF",
        "Summarise a PDF and write a list",
        "Summarise the numbers found in Excel files",
        "Summarise the letters that came as PDF",
        "Summarise the letters attached as PDF.",
        "Write what changed compared to PDF version",
        "Write a summary of the Word files as well as PDF files",
        "Write how a letter is saved as PDF",
        "Write a report comparing the letters that came as PDF",
        "Write a report about comparing letters saved as PDF",
        "Write a guide about saving letters as PDF",
        "Explain how to save a letter as PDF",
        "How do I create a PDF?",
        "Do not create a PDF",
        "Please don't write it as PDF",
        "Write it as markdown, not as PDF",
        "Write it as PDF or markdown",
        "Create a PDF to text table",
        "Create a PDF summary",
        "Write a PDF invoice list",
        "Make a PDF readable",
        "Look into PDF invoices",
        "Treat the letter as PDF",
        "Put the totals into the Excel file",
        "Summarise the prices typed into Excel",
        "The users open a letter and create a PDF",
        'Translate "Create a PDF" into German',
        "Answer this letter:\nPlease send the report as PDF.",
        "Vergleiche die Zahlen aus Excel Dateien",
        "Fasse ein PDF zusammen",
        "Fasse die als PDF angehängten Briefe zusammen",
        "Fasse die Briefe zusammen, die als PDF vorliegen",
        "Fasse die Rechnungen, gesendet als PDF, zusammen",
        "Fasse zusammen, was wir als PDF haben",
        "Wandle die PDF-Dateien in Text um",
        "Wie erstelle ich ein PDF?",
        "Erstelle kein PDF",
        "Erstelle eine Liste aus dem PDF",
        "Schreibe, ob es neuer ist als Word",
        "Erstelle eine PDF-Zusammenfassung",
    ],
)
def test_a_document_that_is_only_spoken_of_asks_for_no_format(prompt: str) -> None:
    assert missing(prompt) == ""


@pytest.mark.parametrize("filled", ["write ", "and ", "please, ", "as pdf ", "create a ", "x", "write as "])
def test_a_request_of_any_length_is_read_at_once(filled: str) -> None:
    missing(filled * (20_000 // len(filled)))


@pytest.mark.req("L-08")
def test_what_a_task_expects_counts_too_and_what_there_is_is_named() -> None:
    word = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
    assert missing("Report, please", "report.md", "report.html", expected=("Markdown", ".PDF", word)) == (
        "You asked for PDF and Word, which was not made; it made report.md, report.html instead."
    )
    assert missing("Report, please", "report.PDF", expected=("pdf",)) == ""
    assert missing("Bericht, bitte", "report.md", expected=("pdf",), user_language="de") == (
        "Gewünscht war PDF, was nicht erstellt wurde; stattdessen liegt vor: report.md."
    )


@pytest.mark.parametrize(
    ("prompt", "is_one"),
    [
        ("What is the total?", True),
        (" Which company repairs the roof, and for how much? ", True),
        ("Was kostet die Miete bei 2.5 Zimmern ab 14:00?", True),
        ("合計はいくらですか\uff1f", True),
        ("Compare the offers.", False),
        ("What is the total? And who signed?", False),
        ("Read all of it. What is the total?", False),
        ("Can you send me the prices as an Excel file?", False),
        ("Answer this:\nWhat is the total?", False),
        ("?", False),
    ],
)
def test_a_request_is_one_question_or_more(prompt: str, is_one: bool) -> None:
    assert is_one_question(prompt) == is_one
