"""The process that draws pages of a PDF as pictures, for whoever recognises their text.

The first line of its input says which pages, the rest is the document; each picture follows its length. It is confined
and has given up its rights before it looks into the document, as the process that reads one.
"""

import io
import json
import os
import sys
from collections.abc import Iterator

import pypdfium2
from PIL import Image, PngImagePlugin

from poweron_services.connectors.documents_child.limits import Limits, confine
from poweron_services.connectors.documents_child.rights import give_up_rights

LENGTH = 4  # bytes of the number before each picture
DOTS_PER_INCH, POINTS_PER_INCH = 200, 72
MOST_PIXELS = 12_000_000  # of one page, however large its paper

LOADED = (PngImagePlugin,)
Image._initialized = 2  # noqa: SLF001 - it would look for further formats


def main() -> None:
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    question = json.loads(sys.stdin.buffer.readline())
    confine(Limits(**question["limits"]))
    data = sys.stdin.buffer.read()
    give_up_rights()
    for picture in _pictures(data, question["pages"]):
        answers.write(len(picture).to_bytes(LENGTH) + picture)
        answers.flush()
    answers.close()
    os._exit(0)


def _pictures(data: bytes, pages: list[int]) -> Iterator[bytes]:
    document = pypdfium2.PdfDocument(data)
    for number in pages:
        page = document[number - 1]
        width, height = page.get_size()
        scale = min(DOTS_PER_INCH / POINTS_PER_INCH, (MOST_PIXELS / (width * height)) ** 0.5)
        packed = io.BytesIO()
        page.render(scale=scale, grayscale=True).to_pil().save(packed, "PNG", compress_level=1)
        page.close()
        yield packed.getvalue()


if __name__ == "__main__":
    main()
