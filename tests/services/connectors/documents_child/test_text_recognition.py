"""Pictures become text where a command for that is set: it may fail in every way, and knows nothing of this process."""

import io
import shutil
import struct
import sys
import zlib
from pathlib import Path

import psutil
import pytest
from papers import ONE_PIXEL, pdf_of
from PIL import Image, ImageDraw, ImageFont
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas

from poweron_services.connectors import text_recognition
from poweron_services.connectors.document_reader import Section, UnreadableDocument, extract
from poweron_services.connectors.text_recognition import TextRecognition, shown_places
from poweron_services.settings.config import Settings
from poweron_services.settings.setting_types import command_of

pytestmark = pytest.mark.req("C-05", "X-04")

needs_tesseract = pytest.mark.skipif(shutil.which("tesseract") is None, reason="tesseract is not on this machine")


def command(program: str) -> TextRecognition:
    """A program in place of one that recognises text: it is shown the picture, and what it prints is the text."""
    return TextRecognition((sys.executable, "-c", f"import os, sys, time; data = sys.stdin.buffer.read(); {program}"))


def picture_of(text: str) -> Image.Image:
    picture = Image.new("L", (1000, 160), 255)
    ImageDraw.Draw(picture).text((30, 50), text, fill=0, font=ImageFont.load_default(48))
    return picture


def png_of(text: str) -> bytes:
    packed = io.BytesIO()
    picture_of(text).save(packed, "PNG")
    return packed.getvalue()


async def test_the_text_of_a_picture_is_what_the_command_writes() -> None:
    document = await extract(png_of("x"), "scan.png", recognition=command("print(data[1:4].decode(), 'seen')"))

    assert document.sections == (Section("", "PNG seen"),)
    assert document.metadata == (("size", "1000 by 160 pixels"),)
    assert document.notes == ("The text of the document was recognised in a picture; it may hold mistakes.",)


async def test_pages_of_a_pdf_that_are_only_pictures_stand_where_they_were() -> None:
    document = await extract(
        pdf_of("First", None, "Third", None), "scan.pdf", recognition=command("print(data[1:4].decode())")
    )

    assert [(section.locator, section.text) for section in document.sections] == [
        ("page 1", "First"),
        ("page 2", "PNG"),
        ("page 3", "Third"),
        ("page 4", "PNG"),
    ]
    assert document.notes == ("The text of pages 2 and 4 was recognised in a picture; it may hold mistakes.",)
    assert not document.truncated


async def test_the_command_knows_nothing_of_the_environment_and_may_do_only_so_much() -> None:
    program = "import resource; print(dict(os.environ), resource.getrlimit(resource.RLIMIT_AS)[0])"

    document = await extract(ONE_PIXEL, "a.gif", recognition=command(program))

    seen, limit = document.sections[0].text.rsplit(" ", 1)
    assert set(eval(seen)) <= {"LC_CTYPE"}  # which Python sets for itself
    assert int(limit) == 600_000_000


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("sys.exit(3)", "the command, which may use 600 MB of memory, ended with code 3."),
        ("bytearray(600_000_000)", "the command, which may use 600 MB of memory, ended with code 1."),
        ("print('x' * 2_000_000)", "the command wrote more than any page holds."),
        ("time.sleep(600)", "it took longer than 0.5 seconds."),
        ("os.fork() or time.sleep(600); time.sleep(600)", "it took longer than 0.5 seconds."),
    ],
)
async def test_a_command_that_fails_is_told_and_ends_with_all_that_it_started(
    program: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "sleep" in program:
        monkeypatch.setattr(text_recognition, "SECONDS_PER_PICTURE", 0.5)

    with pytest.raises(UnreadableDocument, match="No text was recognised in the document: ") as unread:
        await extract(ONE_PIXEL, "a.gif", recognition=command(program))

    assert str(unread.value).endswith(why)
    assert [child for child in psutil.Process().children(recursive=True) if "sleep" in " ".join(child.cmdline())] == []


def black_png(width: int, height: int) -> bytes:
    """In colours, made without ever being held as a whole."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    packing, row = zlib.compressobj(1), bytes(1 + 3 * width)
    packed = b"".join(packing.compress(row) for _ in range(height)) + packing.flush()
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", packed) + chunk(b"IEND", b"")


@pytest.mark.parametrize("ending", ["png", "jpeg", "tiff"])
async def test_a_picture_with_more_pixels_than_the_command_has_memory_for_is_drawn_anew_with_fewer(ending: str) -> None:
    packed = io.BytesIO()
    Image.new("L", (6_000, 5_000), "white").save(packed, ending)
    size_of_png = command("print(int.from_bytes(data[16:20]), int.from_bytes(data[20:24]))")

    document = await extract(packed.getvalue(), f"a.{ending}", recognition=size_of_png)

    assert document.sections[0].text == "3794 3162"  # 12 million, of the same proportions
    assert document.metadata == (("size", "6000 by 5000 pixels"),)


async def test_a_picture_that_needs_more_memory_than_any_process_has_says_so() -> None:
    with pytest.raises(UnreadableDocument) as unread:
        await extract(black_png(14_000, 8_500), "a.png", recognition=command("print('seen')"))

    assert str(unread.value).endswith(
        "No text was recognised in the document: it needs more than 600 MB of memory; hand over a smaller picture."
    )


async def test_a_picture_without_text_says_so() -> None:
    with pytest.raises(UnreadableDocument, match="In the document there is no text that could be recognised"):
        await extract(ONE_PIXEL, "a.gif", recognition=command("print()"))


@pytest.mark.parametrize("ending", ["png", "jpeg", "tiff", "webp", "gif", "bmp"])
async def test_without_a_command_a_picture_of_any_format_tells_what_to_set(ending: str) -> None:
    packed = io.BytesIO()
    picture_of("Hello").save(packed, ending)

    with pytest.raises(UnreadableDocument, match="run text recognition") as unread:
        await extract(packed.getvalue(), f"a.{ending}")

    assert unread.value.document.code == "document_without_text"
    assert "POWERON_OCR" in str(unread.value)


def test_a_command_that_is_not_there_is_told_at_the_start(tmp_path: Path) -> None:
    assert Settings(ocr=f"{sys.executable} -c 'print(1)'").ocr_command == (sys.executable, "-c", "print(1)")
    assert Settings().ocr_command is None
    with pytest.raises(ValueError, match="begins with no program of this machine; write it like `tesseract"):
        Settings(ocr="tesserakt - -")
    with pytest.raises(ValueError, match="has a quote that is not closed; write it like `tesseract"):
        Settings(ocr="tesseract '-")


def test_pages_are_named_as_people_name_them() -> None:
    assert shown_places(["page 3"]) == "page 3"
    assert shown_places([f"page {number}" for number in (1, 2, 3, 7, 9, 10)]) == "pages 1 to 3, 7, 9 and 10"
    assert shown_places([""]) == "the document"


@needs_tesseract
async def test_what_a_scanner_made_of_a_letter_is_read_by_a_real_program() -> None:
    packed = io.BytesIO()
    canvas = Canvas(packed, invariant=1)
    canvas.drawImage(ImageReader(picture_of("Invoice 4711 total 98 euros")), 50, 400, 500, 80)
    canvas.save()

    document = await extract(
        packed.getvalue(),
        "a.pdf",
        recognition=TextRecognition(command_of("tesseract - - -l eng", like="tesseract - -")),
    )

    assert document.sections == (Section("page 1", "Invoice 4711 total 98 euros"),)
