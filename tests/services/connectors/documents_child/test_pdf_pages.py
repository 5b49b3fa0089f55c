"""Pages of PDFs as people read them: broken words, tables written sideways, columns, pages that are pictures."""

import io
from collections.abc import Callable

import pytest
from papers import ONE_PIXEL, needs_samples, sample
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas

from poweron_services.connectors.document_reader import extract
from poweron_services.connectors.documents_child.line_ends import mended, with_break

pytestmark = pytest.mark.req("C-05")

Draw = Callable[[Canvas], None]


def page_of(*draw: Draw) -> bytes:
    packed = io.BytesIO()
    canvas = Canvas(packed)
    for page in draw:
        canvas.setFont("Helvetica", 11)
        page(canvas)
        canvas.showPage()
    canvas.save()
    return packed.getvalue()


@pytest.mark.parametrize(
    ("above", "below", "read"),
    [
        ("the vote was about a long-", "term plan for the town", "long-term"),
        ("the money for public trans-", "portation in the town", "transportation"),
        ("you can send us an e-", "mail about the matter", "e-mail"),
        ("it is valid in the years 2025-", "2026 and in none after them", "2025-2026"),
        ("the order is known as BX-77-", "QA in all of the papers", "BX-77-QA"),
        ("the father of Jean-", "Pierre was a baker", "Jean-Pierre"),
        ("das sind die Vor-", "und Nachteile der Sache", "Vor- und Nachteile"),
        ("die Kosten der Strom-", "versorgung und der Heizung", "Stromversorgung"),
        ("c'est pour cela que la peut-", "être dans le jardin est", "peut-être"),
        ("the com\u00ad", "pany is in the town", "company"),
        ("the vote was about a long\u2010", "term plan for the town", "long-term"),
    ],
)
def test_a_hyphen_at_the_end_of_a_line_stays_where_it_is_one_of_the_word(above: str, below: str, read: str) -> None:
    assert read in mended(with_break(above, below), frozenset())


def test_the_documents_own_words_decide() -> None:
    assert mended(with_break("the em-", "ail here"), {"email"}) == "the email here"
    assert mended(with_break("the kilo-", "watt-hours"), {"kilo-watt-hours", "kilo-watt"}) == "the kilo-watt-hours"


async def test_a_word_of_another_page_decides_for_one_that_a_line_breaks() -> None:
    first = "The pumpworks of the town were built long ago."
    lines = ("Nobody in the whole of the town knows who has built the pump-", "works, and when.")
    texts = ((first,), lines)

    def draw(page: tuple[str, ...]) -> Draw:
        def drawn(canvas: Canvas) -> None:
            for at, line in enumerate(page):
                canvas.drawString(50, 700 - 13 * at, line)

        return drawn

    document = await extract(page_of(*map(draw, texts)), "a.pdf")
    assert "the pumpworks, and when." in document.sections[1].text


@pytest.mark.parametrize("angle", [90, 270])
@pytest.mark.parametrize("turned", [0, 90])
async def test_a_table_that_is_written_sideways_is_read_row_by_row(angle: int, turned: int) -> None:
    def draw(canvas: Canvas) -> None:
        canvas.setPageRotation(turned)
        canvas.drawString(60, 40, "Page 12")
        canvas.translate(300, 400)
        canvas.rotate(angle)
        for row, cells in enumerate(
            [("Item", "Amount", "Unit"), ("Cool water", "18.6", "quarts"), ("Oil", "6.0", "pints")]
        ):
            for column, cell in enumerate(cells):
                canvas.drawString(110 * column - 150, -20 * row, cell)

    text = (await extract(page_of(draw), "a.pdf")).sections[0].text
    assert (
        "| Item | Amount | Unit |\n| --- | --- | --- |\n| Cool water | 18.6 | quarts |\n| Oil | 6.0 | pints |" in text
    )
    assert "Page 12" in text


async def test_a_stamp_along_the_margin_is_in_no_sentence() -> None:
    def draw(canvas: Canvas) -> None:
        for at, line in enumerate(("The council has met in the large hall and", "decided about the new bridge.")):
            canvas.drawString(80, 700 - 14 * at, line)
        canvas.translate(40, 650)
        canvas.rotate(90)
        canvas.drawString(0, 0, "Copy of the archive")

    text = (await extract(page_of(draw), "a.pdf")).sections[0].text
    assert text == ("The council has met in the large hall and decided about the new bridge.\n\nCopy of the archive")


async def test_short_columns_of_prose_are_read_one_after_the_other() -> None:
    left = ("The museum opens its doors at", "nine in the morning and closes", "them at six every day.")
    right = ("Tickets cost twelve francs for", "grown people, and children pay", "nothing at all on Sundays.")

    def draw(canvas: Canvas) -> None:
        for at, (one, other) in enumerate(zip(left, right, strict=True)):
            canvas.drawString(50, 700 - 13 * at, one)
            canvas.drawString(230, 700 - 13 * at, other)

    text = (await extract(page_of(draw), "a.pdf")).sections[0].text
    assert " ".join(text.split()) == " ".join((*left, *right))


async def test_the_two_pages_of_an_open_book_are_read_one_after_the_other() -> None:
    """Their lines share no height, and what begins in the gap, a page number, is far from either page."""

    def draw(canvas: Canvas) -> None:
        canvas.setPageSize((1200, 800))
        for at in range(8):
            canvas.drawString(80 + 15 * (at % 3), 700 - 13 * at, f"{at}. the left page goes on with its report here")
            canvas.drawString(740 + 15 * (at % 3), 694 - 13 * at, f"{at}. on the right page people tell of their work")

    text = (await extract(page_of(draw), "a.pdf")).sections[0].text
    assert text.index("7. the left page") < text.index("0. on the right page")
    assert "|" not in text


async def test_a_wide_table_with_an_empty_strip_is_no_open_book() -> None:
    def draw(canvas: Canvas) -> None:
        canvas.setPageSize((1200, 800))
        for at in range(8):
            for x, cell in ((80, "Ada Meier"), (250, "New Bern"), (740, "3 May 2024"), (900, f"{at} pounds")):
                canvas.drawString(x, 700 - 13 * at, cell)

    text = (await extract(page_of(draw), "a.pdf")).sections[0].text
    assert "| Ada Meier | New Bern | 3 May 2024 | 3 pounds |" in text


@needs_samples
@pytest.mark.parametrize(("file", "read"), [("right_to_left_02", "الإنسخن"), ("right_to_left_03", "فولادهای سازه")])
async def test_a_ligature_of_an_arabic_page_is_read_in_the_order_of_its_letters(file: str, read: str) -> None:
    document = await extract(sample(f"public/docling/{file}.pdf"), "a.pdf")
    assert read in document.sections[0].text


async def test_a_page_that_is_a_picture_but_for_one_line_is_told_as_unread() -> None:
    picture = ImageReader(io.BytesIO(ONE_PIXEL))

    def scanned(*lines: str) -> Draw:
        def draw(canvas: Canvas) -> None:
            canvas.drawImage(picture, 0, 60, 595, 780)
            for at, line in enumerate(lines):
                canvas.drawString(50, 30 - 14 * at, line)

        return draw

    named = scanned("Alden Ltd, page 1")
    explained = scanned("The picture shows the hall of the museum", "before the fire that destroyed it in 1911.")
    document = await extract(page_of(named, explained), "a.pdf")

    assert document.notes == ("Page 1 is a picture, whose text could not be read.",)
    assert document.truncated
