"""Documents that are broken, huge or hostile, and the child process that reads them: a sentence, never a fall."""

import asyncio
import gzip
import io
import os
import resource
import sys
import time
import zipfile
import zlib
from collections.abc import Coroutine

import papers
import psutil
import pytest
from hostile_files import COUNT, MAKERS, HostileFile, hostile_files
from papers import EXAMPLES, example, pdf_of
from reportlab.lib.pdfencrypt import StandardEncryption

from poweron_events.errors import Refused
from poweron_services.connectors import document_reader
from poweron_services.connectors.document_reader import (
    DEFAULT_LIMITS,
    DocumentReader,
    ExtractedDocument,
    ReadLimits,
    Section,
    UnreadableDocument,
    affordable_readers,
    extract,
)
from poweron_services.connectors.documents_child import limits
from poweron_services.connectors.documents_child.readers import collect


def docx_with(*extra: tuple[str, bytes], replace: dict[str, bytes] | None = None) -> bytes:
    packed = io.BytesIO()
    with (
        zipfile.ZipFile(EXAMPLES / "contract.docx") as source,
        zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as to,
    ):
        for name in source.namelist():
            to.writestr(name, (replace or {}).get(name, source.read(name)))
        for name, content in extra:
            to.writestr(name, content)
    return packed.getvalue()


def pdf_bomb() -> bytes:
    stream = zlib.compress(zlib.compress(bytes(600_000_000), 1), 9)
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 4 0 R>>",
        b"<</Filter[/FlateDecode/FlateDecode]/Length " + str(len(stream)).encode() + b">>stream\n" + stream,
    ]
    numbered = [str(number).encode() + b" 0 obj\n" + content for number, content in enumerate(objects, start=1)]
    body = b"\nendobj\n".join(numbered)
    return b"%PDF-1.4\n" + body + b"\nendstream\nendobj\ntrailer<</Size 5/Root 1 0 R>>\n%%EOF"


NOISE = bytes(range(256)) * 400
ENTITIES = (
    b'<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>'
    b'<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body/></w:document>'
)


@pytest.mark.parametrize(
    ("name", "make", "says"),
    [
        ("a.pdf", lambda: b"", "is empty"),
        ("a.pdf", lambda: example("estimate.pdf")[:2500], "is damaged or incomplete"),
        ("a.docx", lambda: example("contract.docx")[:20_000], "is damaged or incomplete"),
        ("a.pdf", lambda: b"%PDF-1.7\n" + NOISE, "is damaged or incomplete"),
        ("a.pdf", lambda: NOISE, "is not a kind of document that can be read"),
        ("a.txt", lambda: b"text " * 2000 + NOISE, "is not a kind of document that can be read"),
        ("a.txt", lambda: gzip.compress(bytes(10_000_000)), "looks like application/gzip"),
        ("a.png", lambda: b"\x89PNG\r\n" + NOISE, "looks like a picture but is damaged"),
        ("a.doc", lambda: b"\xd0\xcf\x11\xe0" + bytes(999), "looks like application/x-ole-storage"),
        ("a.pdf", lambda: pdf_of("secret", encrypt=StandardEncryption("word")), "is protected with a password"),
        (
            "a.docx",
            lambda: b"\xd0\xcf\x11\xe0" + bytes(99) + "EncryptedPackage".encode("utf-16-le"),
            "is protected with a password",
        ),
        ("a.pdf", lambda: pdf_of(None, None), "run text recognition (OCR)"),
        ("a.docx", lambda: docx_with(("a.bin", bytes(20_000_000))), "times its size"),
        ("a.docx", lambda: docx_with(*((f"x/{i}", b"") for i in range(10_001))), "files, more than the 10,000"),
        ("a.docx", lambda: docx_with(("../../etc/passwd", b"x")), "points out of the archive"),
        ("a.docx", lambda: docx_with(replace={"word/document.xml": ENTITIES}), "defines XML entities"),
        ("a.docx", lambda: docx_with(replace={"word/document.xml": b"junk"}), "is damaged or incomplete"),
        ("a.xlsx", lambda: b"PK\x03\x04" + b"xl/workbook.xml" + NOISE, "is damaged or incomplete"),
        ("a.json", lambda: b"[" * 100_000, "is nested too deeply"),
        ("a.csv", lambda: b",,,\n,,,\n", "holds no text"),
    ],
)
@pytest.mark.req("X-04", "X-06", "C-05", "S18")
async def test_what_can_not_be_read_is_refused_with_a_sentence(name, make, says) -> None:
    with pytest.raises(UnreadableDocument) as refused:
        await extract(make(), name)

    assert repr(name) in str(refused.value)
    assert says in str(refused.value)
    assert isinstance(refused.value, Refused)


@pytest.mark.req("X-04", "S18")
async def test_an_archive_that_unpacks_to_too_much_is_not_opened() -> None:
    with pytest.raises(UnreadableDocument, match="it would unpack to 3 MB, more than 2 MB"):
        await extract(docx_with(("a.bin", bytes(3_000_000))), "a.docx", limits=ReadLimits(archive_bytes=2_000_000))


@pytest.mark.req("X-04")
async def test_a_pdf_that_unpacks_to_more_than_the_memory_is_refused() -> None:
    with pytest.raises(UnreadableDocument, match="could not be read within 400 MB of memory"):
        await extract(pdf_bomb(), "bomb.pdf", limits=ReadLimits(memory_bytes=400 * limits.MEGABYTE))


@pytest.mark.req("X-06", "S19")
async def test_a_page_nested_too_deeply_is_truncated_and_says_so() -> None:
    deep = b"<html><body><p>Start.</p>" + b"<div>" * 100_000 + b"deep" + b"</div>" * 100_000

    document = await extract(deep, "deep.html")

    assert document.truncated
    assert document.sections == (Section("", "Start."),)
    assert document.notes == ("The page is nested too deeply; what lies deeper than 256 levels could not be read.",)


@pytest.mark.parametrize("name", ["a.txt", "a.csv", "a.md", "a.html", "a.json"])
@pytest.mark.req("X-06")
async def test_far_too_much_text_is_cut_with_a_note(name: str) -> None:
    document = await extract(
        b"<p>Many words, again and again.\n" * 1_600_000, name, limits=ReadLimits(characters=100_000)
    )

    assert document.truncated
    assert sum(len(section.text) for section in document.sections) <= 100_000
    assert document.notes


MOST_MEMORY = 600_000_000  # bytes, of any process that reads
MEANWHILE = 2.0  # seconds that nothing else may wait, on a machine on which all else runs, too
KEPT = 200 << 20  # bytes by which this process may grow, while the children read


QUARTERS = [
    pytest.param(
        range(start, start + COUNT // 4), id=f"from {start}", marks=[pytest.mark.soak, pytest.mark.timeout(900)]
    )
    for start in range(0, COUNT, COUNT // 4)
]


@pytest.mark.parametrize("which", [pytest.param(range(0, COUNT, 45), id="some"), *QUARTERS])
@pytest.mark.req("X-04", "X-06", "S18", "S19")
async def test_two_hundred_hostile_files_are_read_or_refused_with_a_sentence_while_other_work_goes_on(
    which: range,
) -> None:
    given = list(hostile_files(which))
    assert len({file.kind for file in given}) == min(len(given), len(MAKERS))
    read, before = DocumentReader(2), psutil.Process().memory_info().rss

    took: dict[str, float] = {}

    async def outcome(file: HostileFile) -> str:
        async def load() -> bytes:
            took[str(file)] = time.monotonic()
            return file.data

        try:
            document = await read(load, len(file.data), file.name)
        except UnreadableDocument as unread:
            return str(unread)
        finally:
            took[str(file)] = time.monotonic() - took.get(str(file), time.monotonic())
            print(f"{file}: {len(file.data):,} bytes, {took[str(file)]:.1f} s")  # noqa: T201 - where it fails
        return "" if document.sections else "nothing"

    with papers.peak_memory() as most:
        outcomes, longest = await _meanwhile([outcome(file) for file in given])

    sentences = [said for said in outcomes if said]
    assert all(said.startswith(("'", '"')) and said.endswith(".") for said in sentences)
    assert len(sentences) < len(given), "what can be read of some of them is read"
    assert max(took.values()) < DEFAULT_LIMITS.document_seconds + 10
    assert longest < MEANWHILE
    assert most.pop(os.getpid()) - before < KEPT
    assert max(most.values()) <= MOST_MEMORY
    assert papers.reading() == []


async def _meanwhile(work: list[Coroutine[None, None, str]]) -> tuple[list[str], float]:
    """What came of the work, and how long other work had to wait at most."""
    doing, longest, seen = asyncio.gather(*work), 0.0, time.monotonic()
    while not doing.done():
        await asyncio.sleep(0.01)
        now = time.monotonic()
        longest, seen = max(longest, now - seen), now
    return await doing, longest


async def test_a_document_over_the_size_limit_is_not_even_sent() -> None:
    with pytest.raises(UnreadableDocument, match="has 3 MB, more than the 2 MB"):
        await extract(bytes(3_000_000), "big.pdf", limits=ReadLimits(input_bytes=2_000_000))


# -- the child --------------------------------------------------------------------------------------------------------


@pytest.mark.req("X-04")
async def test_reading_ends_at_its_time_limit() -> None:
    began = time.monotonic()

    with pytest.raises(UnreadableDocument, match=r"'slow\.pdf' could not be read within 0\.05 seconds"):
        await extract(example("estimate.pdf"), "slow.pdf", limits=ReadLimits(wall_seconds=0.05))

    assert time.monotonic() - began < 2
    assert papers.reading() == []


@pytest.mark.req("X-04")
def test_a_long_document_is_read_as_far_as_time_allows() -> None:
    parts = iter([Section("page 1", "One"), Section("page 2", "Two"), Section("page 3", "Three")])

    document = collect(parts, ReadLimits(), deadline=time.monotonic())

    assert document.truncated
    assert document.sections == (Section("page 1", "One"),)
    assert document.notes == ("Reading took too long and ended after page 1.",)
    assert next(parts).locator == "page 2"


@pytest.mark.req("X-04")
def test_a_document_with_too_many_parts_is_cut() -> None:
    parts = [Section(f"page {number}", "x") for number in range(9)]

    document = collect(parts, ReadLimits(sections=2), deadline=time.monotonic() + 60)

    assert [section.locator for section in document.sections] == ["page 0", "page 1"]
    assert document.notes == ("Only the first 2 parts were read.",)


@pytest.mark.req("X-04")
async def test_cancelling_kills_the_child() -> None:
    reading = asyncio.create_task(extract(example("estimate.pdf"), "estimate.pdf"))
    while not papers.reading():  # noqa: ASYNC110 - the operating system signals no event
        await asyncio.sleep(0)
    reading.cancel()

    with pytest.raises(asyncio.CancelledError):
        await reading
    assert papers.reading() == []


@pytest.mark.req("X-04", "S17")
async def test_the_child_is_confined_before_it_sees_the_document() -> None:
    program = (
        "import resource, sys\n"
        "from poweron_services.connectors.documents_child.limits import ReadLimits, confine\n"
        "confine(ReadLimits())\n"
        "names = ['RLIMIT_AS', 'RLIMIT_CPU', 'RLIMIT_NOFILE', 'RLIMIT_FSIZE', 'RLIMIT_CORE', 'RLIMIT_NPROC']\n"
        "print([resource.getrlimit(getattr(resource, name)) for name in names])\n"
    )
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE)
    said, _ = await child.communicate()

    assert said.decode().strip() == "[(600000000, 600000000), (55, 55), (64, 64), (0, 0), (0, 0), (0, 0)]"


async def test_the_child_starts_without_the_rest_of_poweron() -> None:
    program = (
        "import sys, poweron_services.connectors.documents_child.__main__\n"
        "print(sorted({'asyncio', 'pdfplumber', 'poweron_events', 'pydantic'} & set(sys.modules)))"
    )
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE)

    assert await child.communicate() == (b"[]\n", None)


@pytest.mark.req("X-04")
async def test_the_event_loop_goes_on_while_a_document_is_read() -> None:
    reading, turns = asyncio.create_task(extract(example("estimate.pdf"), "estimate.pdf")), 0
    while not reading.done():
        await asyncio.sleep(0)
        turns += 1

    assert (await reading).sections
    assert turns > 100  # read in the loop, it would be a handful on any machine


@pytest.mark.req("X-04")
async def test_a_few_bytes_that_refer_to_themselves_end_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LEAST_CPU_SECONDS", 1)
    itself = b"%PDF-1.4\n1 0 obj\n1 0 R\nendobj\ntrailer<</Size 2/Root 1 0 R>>\n%%EOF"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with pytest.raises(UnreadableDocument, match="is damaged or incomplete"):
        await extract(itself, "self.pdf")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 3


@pytest.mark.req("X-04")
def test_a_large_document_gets_all_the_time_there_is_and_a_small_one_less() -> None:
    seconds = [DEFAULT_LIMITS.for_size(size).cpu_seconds for size in (0, 192, 40_000, 200_000, 50_000_000)]
    assert seconds == [5, 5, 15, 55, 55]
    assert ReadLimits(cpu_seconds=3).for_size(50_000_000).cpu_seconds == 3


@pytest.mark.req("X-04")
async def test_no_more_documents_are_read_at_a_time_than_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, most = 0, 0

    async def counted(data: bytes, name: str, **_: object) -> ExtractedDocument:
        nonlocal reading, most
        reading += 1
        most = max(most, reading)
        await asyncio.sleep(0)
        reading -= 1
        if name == "3":
            raise UnreadableDocument(name, "is damaged.", "document_damaged")
        return ExtractedDocument(name, "text/plain", (Section("", data.decode()),), truncated=False, notes=())

    async def load() -> bytes:
        assert reading < 2  # what waits for its turn is not in memory
        return b"text"

    monkeypatch.setattr(document_reader, "extract", counted)
    read = DocumentReader(2)
    answers = await asyncio.gather(*(read(load, 4, str(number)) for number in range(9)), return_exceptions=True)
    assert most == 2
    assert [type(answer) for answer in answers].count(ExtractedDocument) == 8


@pytest.mark.req("X-04")
@pytest.mark.parametrize(
    ("processors", "gigabytes", "readers"), [(8, 64, 8), (8, 8, 4), (1, 64, 1), (4, 0.5, 1), (None, 64, 1)]
)
def test_processors_and_memory_say_how_many_documents_are_read_at_a_time(
    processors: int | None, gigabytes: float, readers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    has = {"SC_PHYS_PAGES": int(gigabytes * DEFAULT_LIMITS.memory_bytes) // 4096, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr("os.cpu_count", lambda: processors)
    monkeypatch.setattr("os.sysconf", has.__getitem__)
    assert affordable_readers() == readers
