"""The reader of pictures: only their metadata, because text recognition, if configured, runs in another process."""

import io
import logging
from collections.abc import Iterator
from typing import Any

from PIL import (
    BmpImagePlugin,
    ExifTags,
    GifImagePlugin,
    Image,
    JpegImagePlugin,
    PngImagePlugin,
    TiffImagePlugin,
    WebPImagePlugin,
)

from poweron_services.connectors.documents_child.document import Unreadable
from poweron_services.connectors.documents_child.limits import ReadLimits
from poweron_services.connectors.documents_child.readers import Fact, Part, Picture

PLUGINS = (BmpImagePlugin, GifImagePlugin, JpegImagePlugin, PngImagePlugin, TiffImagePlugin, WebPImagePlugin)
MOST_PIXELS = 200_000_000
EXIF_FACTS = {
    "ImageDescription": "title",
    "Artist": "author",
    "DateTimeOriginal": "created",
    "DateTime": "created",
    "Model": "camera",
    "Software": "software",
}
EXIF_DETAILS = 0x8769  # the tag of the directory that holds the camera's own tags

Image.MAX_IMAGE_PIXELS = None  # `read` checks our own limit and explains it in a sentence
Image._initialized = 2  # noqa: SLF001 - stops Pillow from loading further formats
logging.getLogger("PIL").disabled = True


def read(data: bytes, _: ReadLimits) -> Iterator[Part]:
    with Image.open(io.BytesIO(data)) as image:
        width, height = image.size
        if width * height > MOST_PIXELS:
            raise Unreadable(
                f"has {width:,} by {height:,} pixels, more than a picture may have; hand over a smaller one.",
                "document_too_large",
            )
        yield Fact("size", f"{width} by {height} pixels")
        frames = getattr(image, "n_frames", 1)
        yield Fact("pages", str(frames) if frames > 1 else "")
        yield from _exif(image)
    yield Picture("")


def _exif(image: Any) -> Iterator[Fact]:
    """Yield the tags of the camera or program; damaged ones are skipped, so that the picture is still used."""
    try:
        tags = image.getexif()
        values = {ExifTags.TAGS.get(tag): value for tag, value in {**tags, **tags.get_ifd(EXIF_DETAILS)}.items()}
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - the library does not document all errors that it raises
        return
    yield from (Fact(fact, str(values[tag])) for tag, fact in EXIF_FACTS.items() if isinstance(values.get(tag), str))
