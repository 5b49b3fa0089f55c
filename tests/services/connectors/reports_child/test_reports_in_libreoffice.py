"""Reports of documents of each kind, opened by another program: it reads the same text and cells."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from python_calamine import CalamineWorkbook
from test_actions import done, given
from test_report_renderer import converted, joined, words_of_docx

pytestmark = pytest.mark.skipif(shutil.which("soffice") is None, reason="LibreOffice is not installed here")


@pytest.mark.req("C-06")
@pytest.mark.system
@pytest.mark.parametrize("name", ["estimate.pdf", "budget.xlsx", "contract.docx", "inventory.csv", "minutes.md"])
async def test_libreoffice_reads_the_text_and_the_cells_of_a_report(name: str, tmp_path: Path) -> None:
    mime_type = "text/markdown" if name.endswith(".md") else "application/octet-stream"
    result = await done("document.generateReport", given(name, mime_type=mime_type), title="Report")
    made = {one.document_name: one.document_data for one in result.result.documents}
    for kind in ("report.docx", "report.xlsx"):
        (tmp_path / kind).write_bytes(made[kind])
    converted(tmp_path, "txt:Text (encoded):UTF8", "report.docx")
    text = (tmp_path / "report.txt").read_text(encoding="utf-8-sig")
    assert joined("".join(words_of_docx(made["report.docx"]))) in joined(text)
    (tmp_path / "again").mkdir()
    again = tmp_path / "again" / "report.xlsx"
    again.write_bytes(made["report.xlsx"])
    converted(tmp_path, "ods", "again/report.xlsx")
    assert cells(tmp_path / "report.ods") == cells(again)


def cells(path: Path) -> list[list[list[Any]]]:
    book = CalamineWorkbook.from_path(path)
    return [book.get_sheet_by_name(name).to_python() for name in book.sheet_names]
