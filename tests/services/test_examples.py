"""The example documents: written by their script, consistent, and readable."""

import importlib
import re
import sys
from decimal import Decimal
from pathlib import Path
from types import ModuleType

import pytest
from extracted_markdown import parse_markdown

from poweron_services.connectors.document_reader import extract

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
NAMES = [
    "budget.xlsx",
    "contract.docx",
    "estimate.pdf",
    "handbook.html",
    "inventory.csv",
    "kickoff.pptx",
    "letter.txt",
    "minutes.md",
    "sensor.json",
    "lease.odt",
    "sightings.ods",
    "release.rtf",
    "offer.eml",
    "handover.zip",
    "order.xml",
    "policy.docx",
    "fleet.xlsx",
    "training.pptx",
]


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return importlib.import_module("make")


def test_the_script_writes_exactly_the_files_that_ship(make, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(sys, "argv", ["make.py", str(tmp_path)])
    make.main()

    written = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file())
    site = [path.relative_to(EXAMPLES).as_posix() for path in (EXAMPLES / "site").rglob("*") if path.is_file()]
    assert written == sorted([*NAMES, *site])
    for name in written:
        assert (tmp_path / name).read_bytes() == (EXAMPLES / name).read_bytes(), name


def test_the_examples_are_small() -> None:
    assert sum((EXAMPLES / name).stat().st_size for name in NAMES) < 500_000


@pytest.mark.parametrize(
    ("name", "locator", "says"),
    [
        ("budget.xlsx", "sheet Budget", "| Total | 897150 | 942950 | 912200 | 1000800 | 3753100 |"),
        ("contract.docx", "section 4. Notice period", "notice period of three months to the end of the term"),
        ("estimate.pdf", "page 1", "| GRAND TOTAL | $1,980.84 |"),
        ("handbook.html", "section Vacation", "27 vacation days per calendar year"),
        ("inventory.csv", "", "| TE-2004 | Four-person tent | Boise | 19 | 25 | 349.00 | 2025-02-10 |"),
        ("kickoff.pptx", "slide 3", "| Go-live on all lines | April 13, 2026 | Priya Nandakumar |"),
        ("letter.txt", "", "that you gave us on February 20, 2025. The photographs"),
        ("minutes.md", "section Roof repair", "| Castell Roofing | $38,400 | May 12, 2025 | 10 years |"),
        ("sensor.json", "", "| 2025-05-04T15:00:00Z | 31.6 | 52 | too hot, too dry |"),
    ],
)
@pytest.mark.req("C-05")
async def test_each_example_is_read_with_its_facts_in_place(name: str, locator: str, says: str) -> None:
    document = await extract((EXAMPLES / name).read_bytes(), name)

    assert says in next(section.text for section in document.sections if section.locator == locator)
    assert not document.truncated
    assert document.notes == ()
    assert parse_markdown(document.markdown()) == document


@pytest.mark.req("C-05")
async def test_the_estimate_says_what_was_repaired_and_adds_up() -> None:
    document = await extract((EXAMPLES / "estimate.pdf").read_bytes(), "estimate.pdf")
    page = document.sections[0].text
    items = page.split("| Cost |")[1].split("Subtotal")[0]

    assert sum(map(Decimal, re.findall(r"\$([\d.,]+) \|\n", items))) == Decimal("1818.95")
    assert Decimal("1818.95") + Decimal("161.89") == Decimal("1980.84")
    assert (
        "| Note | Rear-end collision: the rear bumper cover and the left tail lamp were replaced, the dent in the left "
        "quarter panel was repaired, cover and panel were refinished in Autumn Green, and the rear camera was "
        "calibrated. |"
    ) in page
