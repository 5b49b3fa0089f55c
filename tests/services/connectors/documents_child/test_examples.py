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

EXAMPLES = Path(__file__).parents[4] / "docs" / "examples"
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
        ("lease.odt", "section 4. Costs per month", "| Rent | Workshop | 1,150 |\n| Rent | Yard | 90 |"),
        ("lease.odt", "section Footnotes", "[^1]: The connection of the workshop allows 22 kilowatts"),
        ("lease.odt", "section Comments", "- Harriet Blom (2025-01-06): Please add the serial number"),
        ("lease.odt", "section Tracked changes", "Harriet Blom (2025-01-06) deleted “The tenant may keep one dog.”"),
        ("sightings.ods", "sheet Spring count", "| Mudflat | Curlew | 2025-05-04 | 63 |"),
        ("release.rtf", "", "the tour with Jürgen Falk lasts 50 minutes.\n\n| Tour | Price |"),
        ("offer.eml", "", "Subject: Your greenhouse: offer GH-0731\n\nDear Ms. Adeyemi,"),
        ("offer.eml", "attachment offer.pdf, page 1", "Total price including assembly: 8,940.00 euros."),
        ("offer.eml", "attachment panes.csv", "| Wall | 61 x 91 cm | 36,20 |"),
        ("handover.zip", "file plans/rooms.csv", "| Reading room | 1 | 84 |"),
        ("handover.zip", "file keys.md, section Archive", "One key, in the safe."),
        ("order.xml", "", "order.delivery: Deliver to the side entrance, between 7 and 9 in the morning."),
        ("order.xml", "", "| C-11 | Chair | 62 | 31.00 GBP |"),
        ("policy.docx", "section Trains", "first class.[^1] Night trains are always allowed."),
        (
            "policy.docx",
            "section Hotels",
            "| North | Bergen | 190 |\n| North | Turku | 150 |\n| All limits are in euros",
        ),
        ("policy.docx", "section Footnotes", "[^1]: Counted from station to station, as the timetable says."),
        ("policy.docx", "section Comments", "- Ines Carvalho (2025-01-06) on “Flights are booked only where"),
        ("policy.docx", "section Tracked changes", "- Ines Carvalho (2025-01-06) inserted “Night trains are"),
        ("policy.docx", "section Tracked changes", "- Rolf Amman (2025-01-06) deleted “Breakfast is not paid.”"),
        (
            "fleet.xlsx",
            "sheet Vehicles",
            "| Vehicle | Until 2025 Registered | Until 2025 Kilometers | Per year In use | Per year Fuel |",
        ),
        ("fleet.xlsx", "sheet Vehicles", "| Truck | 2019-03-28 | 112640 | 91.5% | 6983.68 EUR |"),
        ("fleet.xlsx", "sheet Rates (hidden)", "| Electric | 0.19 |"),
        ("fleet.xlsx", "sheet Checks (very hidden)", "| Malte Brandt | 2025-02-27 |"),
        ("training.pptx", "slide 1", "Notes: Ask who has checked a ladder this month"),
        ("training.pptx", "slide 2", "| Harbor | Silke Oyelaran | May 6 |\n| Harbor | Bram de Wit | May 20 |"),
        ("training.pptx", "slide 3 (hidden)", "- A fall from 2.4 meters"),
    ],
)
@pytest.mark.req("C-05")
async def test_each_example_is_read_with_its_facts_in_place(name: str, locator: str, says: str) -> None:
    document = await extract((EXAMPLES / name).read_bytes(), name)

    assert says in next(section.text for section in document.sections if section.locator == locator)
    assert not document.truncated
    assert document.notes == ()
    assert parse_markdown(document.markdown()) == document


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        ("estimate.pdf", {"title": "Repair estimate HP-24817", "author": "Harbor & Pine Auto Body", "pages": "2"}),
        ("contract.docx", {"title": "Cleaning service contract", "author": "Brightwater Cleaning Ltd."}),
        ("kickoff.pptx", {"title": "Project Heron: Kickoff", "slides": "5", "created": "2025-01-06"}),
        ("training.pptx", {"hidden slides": "slide 3"}),
        ("fleet.xlsx", {"author": "Malte Brandt", "sheets": "3", "hidden sheets": "Rates, Checks"}),
        ("sightings.ods", {"title": "Spring count of waders", "sheets": "1"}),
        ("lease.odt", {"author": "Harriet Blom", "modified": "2025-01-06"}),
        ("release.rtf", {"title": "Opening of the second hall", "created": "2025-05-20"}),
        ("offer.eml", {"author": "Pavel Horn <horn@glasshaus.example>", "attachments": "2"}),
        ("handover.zip", {"files": "3"}),
    ],
)
@pytest.mark.req("C-05")
async def test_what_an_example_tells_about_itself_stands_below_its_text(name: str, facts: dict[str, str]) -> None:
    document = await extract((EXAMPLES / name).read_bytes(), name)

    assert facts.items() <= dict(document.metadata).items()
    assert document.markdown().partition("\n## metadata\n")[2].startswith("\n- ")


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
