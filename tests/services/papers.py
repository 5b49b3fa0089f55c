"""Documents for the tests: the project's own examples, the samples where they are, PDFs made on the spot."""

import io
import os
import threading
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import psutil
import pytest
from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas

from poweron_services.connectors.document_child import CHILD

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples"
SAMPLES = Path(os.environ.get("POWERON_SAMPLES", ROOT.parent / "shared" / "samples"))

needs_samples = pytest.mark.skipif(not SAMPLES.is_dir(), reason="the sample documents are not on this machine")

PROSE = (
    "the contract says that every delivery of the year is paid within thirty days after its invoice has come and was "
    "checked by whoever ordered it while goods that were damaged on their way are sent back at once with a note"
)
ONE_PIXEL = (
    b"GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;"
)


def example(name: str) -> bytes:
    return (EXAMPLES / name).read_bytes()


def sample(name: str) -> bytes:
    return (SAMPLES / name).read_bytes()


def pdf_of(*pages: str | None, font: str = "Helvetica", encrypt: StandardEncryption | None = None) -> bytes:
    """Each page holds its text, or an image if there is none."""
    packed = io.BytesIO()
    canvas = Canvas(packed, invariant=1, encrypt=encrypt)
    for text in pages:
        if text is None:
            canvas.drawImage(ImageReader(io.BytesIO(ONE_PIXEL)), 0, 0, 500, 700)
        else:
            canvas.setFont(font, 12)
            canvas.drawString(72, 720, text)
        canvas.showPage()
    canvas.save()
    return packed.getvalue()


def long_pdf(pages: int, planted: Mapping[int, str] | None = None, kinds: Sequence[str] = ("prose",)) -> bytes:
    """Full pages, of these kinds in turn; on some of them a sentence is planted, the others name their number."""
    packed = io.BytesIO()
    canvas = Canvas(packed, invariant=1)
    for page in range(1, pages + 1):
        canvas.setFont("Helvetica", 10)
        FULL_PAGES[kinds[page % len(kinds)]](canvas, page)
        canvas.drawString(72, 50, (planted or {}).get(page, f"This was page {page}."))
        canvas.showPage()
    canvas.save()
    return packed.getvalue()


def _prose(canvas: Canvas, page: int) -> None:
    for line in range(50):
        canvas.drawString(72, 770 - 14 * line, _words(page * 31 + line * 7, 12))


def _columns(canvas: Canvas, page: int) -> None:
    """Both are written line by line, as many programs do."""
    for line in range(50):
        canvas.drawString(50, 770 - 14 * line, _words(page * 31 + line * 7, 7)[:40])
        canvas.drawString(310, 770 - 14 * line, _words(page * 17 + line * 5, 7)[:40])


def _table(canvas: Canvas, page: int) -> None:
    """Each cell has a frame of its own."""
    for row in range(40):
        cells = [str(page * 100 + row), _words(page + row, 2)[:14], str(row * 3), f"{row * 1.5:.2f}", _words(row, 1)]
        for column, cell in enumerate(cells if row else ("Pos", "Article", "Quantity", "Total", "Remark")):
            canvas.rect(50 + 100 * column, 760 - 17 * row, 100, 17)
            canvas.drawString(53 + 100 * column, 765 - 17 * row, cell)


def _words(start: int, count: int) -> str:
    prose = PROSE.split()
    return " ".join(prose[(start + place * place) % len(prose)] for place in range(count))


FULL_PAGES: Final = {"prose": _prose, "columns": _columns, "table": _table}


def bare_pdf(contents: Sequence[bytes]) -> bytes:
    """A page for each of these streams, which are written as they are; with nothing in it, for an empty one."""
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Count %d/Kids[%s]>>"
        % (len(contents), b" ".join(b"%d 0 R" % (3 + 2 * place) for place in range(len(contents)))),
    ]
    for place, content in enumerate(contents):
        stream = b"/Contents %d 0 R" % (4 + 2 * place) if content else b""
        objects.append(
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]"
            b"/Resources<</Font<</F<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>>>%s>>" % stream
        )
        objects.append(content or b"null")
    packed, places = bytearray(b"%PDF-1.4\n"), []
    for number, content in enumerate(objects, start=1):
        places.append(len(packed))
        packed += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    size = len(objects) + 1
    end = b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % (size, len(packed))
    return bytes(packed) + b"xref\n0 %d\n0000000000 65535 f \n" % size + table + end


@contextmanager
def peak_memory() -> Iterator[dict[int, int]]:
    """The most bytes that this process and each one that reads documents had resident, by their ids.

    Not of other children: the servers of the tests are children of this process, too, and until a new child executes
    its own program it has the memory of this process.
    """
    most: dict[int, int] = {}
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.02):
            for process in (psutil.Process(), *reading()):
                with suppress(psutil.Error):  # it has ended meanwhile
                    most[process.pid] = max(most.get(process.pid, 0), process.memory_info().rss)

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield most
    finally:
        over.set()
        watching.join()


def reading() -> list[psutil.Process]:
    """The processes in which documents are read now."""
    return [child for child in psutil.Process().children() if CHILD in command(child)]


def command(process: psutil.Process) -> list[str]:
    with suppress(psutil.NoSuchProcess):  # it has ended meanwhile
        return process.cmdline()
    return []


def zip_of(**files: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name.replace("__", "."), content)
    return packed.getvalue()


def with_part(data: bytes, part: str, old: bytes, new: bytes) -> bytes:
    """The archive with another text in one of its parts."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    assert old in parts[part]
    return zip_of(
        **{
            name.replace(".", "__"): content.replace(old, new) if name == part else content
            for name, content in parts.items()
        }
    )
