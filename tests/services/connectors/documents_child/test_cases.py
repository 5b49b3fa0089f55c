"""Small files that people reported because they came out wrong, with what is right of each."""

import re

import pytest
from papers import SAMPLES

from poweron_services.connectors.document_reader import ExtractedDocument, extract

CASES = SAMPLES.parent / "cases"

pytestmark = [
    pytest.mark.req("C-05"),
    pytest.mark.skipif(not CASES.is_dir(), reason="the files are not on this machine"),
]


async def read(name: str) -> ExtractedDocument:
    return await extract((CASES / name).read_bytes(), name)


@pytest.mark.parametrize(
    ("name", "right"),
    [
        (
            "B01.xlsx",
            (
                "Discount | 7.5%; Share (typed) | 7.5%; Margin (typed) | 7.5%; VAT | 19% VAT; Postal code | 01067; "
                "Loss | -1234.50; Change | -3; Turnover | 12500000; Fee | 1999.00 €; Paid | yes; Stock | 50; "
                "Phone | 044-321-9876; Zero | none; Order no | ORD-0042; Basis | 1.25%; Drop | -5.0%; Minus paren | -5"
            ),
        ),
        ("B03-A.xlsx", "a formula without a value"),
        ("B03-B.xlsx", "a formula without a value"),
        ("B06.csv", "00002 | part two | 9,50; 00003 | part 3 | 3,50"),
        (
            "B07.docx",
            (
                "1. Term; 1.1 The lease begins; 1.2 It ends; 2. Rent; 2.1 The rent is; 2.2 The deposit; "
                "1. Read the meters.; 2. Sign; 3. Return; \nThis remark has no number."
            ),
        ),
        ("B10.docx", "The rate is r=3.5%+0.25 per year.; The share is 1/8 of the profit.; fee=40+2n"),
        ("B10.pptx", "The rate is r=3.5%+0.25"),
        ("B11.docx", "Smoker: ☒ yes ☐ no; Insured: ☒ yes ☐ no; Tolerance ±5 mm"),
        ("B13.docx", "Apply; Check; Pay; Visitors 2026 in thousands; Spring | 12; Autumn | 15"),
        ("B13.pptx", "Apply; Check; Pay; Visitors 2026 in thousands; Spring | 12; Autumn | 15"),
        (
            "B14.pdf",
            (
                "price-determining; long-term; e-mail; Anglo-saxon; 2025-2026; transportation; AX-4711-XB-990-LM-b; "
                "self-employed; Vor- und Nachteile"
            ),
        ),
        ("B15.pdf", "Coolant | 18.6 | quarts"),
        ("B15-ruled.pdf", "Coolant | 18.6 | quarts"),
        ("B20.pdf", "Pages 2, 4 and 5 are pictures"),
        (
            "B22-relay.eml",
            "Grüße aus Zürich; für Müller; attachment Angebot Müller; 4711; attachment café.txt; 12 Franken; 33 Franken",
        ),
        ("B23.eml", "14:35; gate B7"),
        ("B24.mbox", "mail 3; Ja, die Brücke ist ab 15:20 geöffnet.; Der Zoll kostet 42 Franken für uns."),
        *(
            (name, "its opening hours; 3 December 2026 14:00; Europe/Zurich; Room 4, Hall B; every Thursday")
            for name in ("B25.eml", "B25.ics")
        ),
    ],
)
async def test_what_came_out_wrong_comes_out_right(name: str, right: str) -> None:
    text = re.sub(r"[ \xa0]+", " ", (await read(name)).markdown())
    assert [part for part in right.split("; ") if part not in text] == []
    assert "Total | 0" not in text
