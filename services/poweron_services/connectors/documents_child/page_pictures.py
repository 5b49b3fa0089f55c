"""The process that renders pages of a PDF, or scales down a large picture, for text recognition.

The first line of its input names the pages, and the rest is the document, which is itself a picture if no pages are
named. In the output, each picture follows its length, which is 0 if the picture may stay as it is. Like the process
that reads documents, this one applies its limits and drops its privileges before it parses the document.
"""

import io
import json
import os
import sys
from collections.abc import Iterator
from contextlib import suppress

import pypdfium2
from PIL import Image

from poweron_services.connectors.documents_child.limits import ReadLimits, confine
from poweron_services.connectors.documents_child.picture import PLUGINS
from poweron_services.connectors.documents_child.rights import give_up_rights

LENGTH = 4  # bytes of the length prefix of each picture
DOTS_PER_INCH, POINTS_PER_INCH = 200, 72
MOST_PIXELS = 12_000_000  # of one page, regardless of its paper size
MOST_AS_IT_IS = 24_000_000  # pixels of a picture that is not scaled down; with more, the command may run out of memory

LOADED = PLUGINS


def main() -> None:
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    question = json.loads(sys.stdin.buffer.readline())
    confine(ReadLimits(**question["limits"]))
    data = sys.stdin.buffer.read()
    give_up_rights()
    for picture in _pages(data, question["pages"]) if question["pages"] else [_smaller(data)]:
        answers.write(len(picture).to_bytes(LENGTH) + picture)
        answers.flush()
    answers.close()
    os._exit(0)


def _pages(data: bytes, pages: list[int]) -> Iterator[bytes]:
    document = pypdfium2.PdfDocument(data)
    for number in pages:
        page = document[number - 1]
        width, height = page.get_size()
        scale = min(DOTS_PER_INCH / POINTS_PER_INCH, (MOST_PIXELS / (width * height)) ** 0.5)
        buffer = io.BytesIO()
        page.render(scale=scale, grayscale=True).to_pil().save(buffer, "PNG", compress_level=1)
        page.close()
        yield buffer.getvalue()


def _smaller(data: bytes) -> bytes:
    """Scale down a picture that has too many pixels; empty if it is small enough, has several frames or is damaged."""
    with suppress(OSError, SyntaxError, ValueError), Image.open(io.BytesIO(data)) as image:
        width, height = image.size
        if width * height <= MOST_AS_IT_IS or getattr(image, "n_frames", 1) > 1:
            return b""
        scale = (MOST_PIXELS / (width * height)) ** 0.5
        size = (max(1, int(width * scale)), max(1, int(height * scale)))
        image.draft("L", size)  # a JPEG is not even decoded at its full size
        buffer = io.BytesIO()
        image.convert("L").resize(size, reducing_gap=2.0).save(buffer, "PNG", compress_level=1)
        return buffer.getvalue()
    return b""


if __name__ == "__main__":
    main()
