"""Documents for the tests: the project's own examples, the samples where they are, PDFs made on the spot."""

import io
import os
from contextlib import suppress
from pathlib import Path

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


def reading() -> list[psutil.Process]:
    """The processes in which documents are read now."""
    return [child for child in psutil.Process().children() if CHILD in command(child)]


def command(process: psutil.Process) -> list[str]:
    with suppress(psutil.NoSuchProcess):  # it has ended meanwhile
        return process.cmdline()
    return []
