"""The title of a report is in the words of whoever asked for it, and names no file."""

import pytest

from poweron_services.models.builtin.action_choice import report_title


@pytest.mark.req("C-06")
@pytest.mark.parametrize(
    ("request_", "language", "title"),
    [
        ("Write a report comparing the estimates", "en", "Report comparing the estimates"),
        ("Write a short report of the minutes as a PDF.", "en", "Report of the minutes"),
        ("Summarize the contract in a Word document.", "en", "Summary of the contract"),
        ("Please compare the two estimates and make a report. Use tables.", "en", "Comparison of the two estimates"),
        ("Create an overview of all vehicles, as Excel", "en", "Overview of all vehicles"),
        ("Make a memo: roof", "en", "Memo: roof"),
        ("Give me the fees of the contract as a CSV file.", "en", "Fees of the contract"),
        ("Schreibe einen kurzen Bericht über die Sitzung als HTML.", "de", "Bericht über die Sitzung"),
        ("Fasse den Vertrag zusammen", "de", "Zusammenfassung: Vertrag"),
        ("Vergleiche die Angebote", "de", "Vergleich: Angebote"),
        ("Rédige un rapport sur les ventes en PDF", "fr", "Rapport sur les ventes"),
        ("Escribe un informe sobre las ventas", "es", "Informe sobre las ventas"),
        ("What happened in May?", "en", "What happened in May"),
        ("销售报告", "zh", "销售报告"),
        ("...", "en", "Report"),
        ("x" * 500, "en", "X" + "x" * 119),
    ],
)
def test_a_report_is_called_what_it_was_asked_for(request_: str, language: str, title: str) -> None:
    assert report_title(request_, language) == title
