"""Facts at any place of very large files are found, with their places: the files are real and read as always."""

import io
import os
import re
import sys
import time
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import pytest
import xlsxwriter
from docx import Document
from long_documents import THINGS, Reader, built_in, code, fact, process, question
from papers import PROSE, long_pdf, peak_memory

from poweron_services.actions.action import InputDocument
from poweron_services.connectors.document_reader import DocumentReader, ExtractedDocument, LoadBytes, OnPage
from poweron_services.models.chat_model import ChatModel
from poweron_services.models.prompts import ProcessPrompt
from poweron_services.process_memory import tune_memory

MOST_MEMORY: Final = 600_000_000  # bytes, of any process
PAGES: Final = {50 * number + 17: thing for number, thing in enumerate(THINGS)}
ROWS: Final = {28_000 * number + 12_345: thing for number, thing in enumerate(THINGS)}
FILES: Final = {15 * number + 4: thing for number, thing in enumerate(THINGS)}

pytestmark = [pytest.mark.soak, pytest.mark.req("C-04", "X-04"), pytest.mark.timeout(1_500)]


class NamingReader(Reader):
    """Answers with the codes it is shown, each with the document and the place it stands in."""

    def said(self, prompt: ProcessPrompt, shown: str) -> str:
        thing = prompt.ai_prompt.split()[1]
        codes = re.compile(rf"^.*The {thing} code is .*$", re.MULTILINE)
        return "\n".join(
            f"{document.name}, {place.splitlines()[0]}: {line}"
            for document in prompt.documents
            for place in document.text.split("\n## ")
            for line in codes.findall(place)
        )


MODELS: Final = pytest.mark.parametrize(
    ("model", "least"), [(built_in(), 19), (NamingReader(), 20)], ids=["built-in", "reader"]
)


@pytest.fixture(scope="module", autouse=True)
def as_a_service() -> None:
    """The memory of this process as that of one which serves."""
    tune_memory()


@dataclass
class Files:
    """Files of which each is read by its child when it is asked about; only once where the texts are held."""

    data: Mapping[str, bytes]
    holds: bool = True
    reader: DocumentReader = field(default_factory=lambda: DocumentReader(2))
    held: dict[str, ExtractedDocument] = field(default_factory=dict)

    async def __call__(
        self, load: LoadBytes, size: int, name: str, *, on_page: OnPage | None = None
    ) -> ExtractedDocument:
        if name in self.held:
            return self.held[name]
        document = await self.reader(load, size, name, on_page=on_page)
        if self.holds:
            self.held[name] = document
        return document

    def given(self) -> list[InputDocument]:
        return [
            InputDocument(f"docItem:d1:{name}", name, "", len(data), "0" * 64, partial(self._load, name))
            for name, data in self.data.items()
        ]

    async def _load(self, name: str) -> bytes:
        return self.data[name]


@MODELS
async def test_twenty_facts_in_a_pdf_of_a_thousand_pages_are_found_with_their_pages(
    model: ChatModel, least: int
) -> None:
    files = Files({"long.pdf": long_pdf(1_000, {page: fact(thing) for page, thing in PAGES.items()})})
    await find(files, model, least, {thing: f"page {page}" for page, thing in PAGES.items()})


@MODELS
async def test_twenty_facts_in_a_table_of_fifty_megabytes_are_found_with_their_rows(
    model: ChatModel, least: int
) -> None:
    row = "{0},2026-05-17,Customer {0},Łódź,Article {0} of the long list,12,199.95,{1}\n".format
    rows = (row(line, fact(ROWS[line]) if line in ROWS else "shipped on time") for line in range(2, 560_002))
    data = ("id,date,customer,city,article,quantity,price,remark\n" + "".join(rows)).encode()
    assert len(data) > 50_000_000
    await find(
        Files({"large.csv": data}, holds=False), model, least, {thing: str(line) for line, thing in ROWS.items()}
    )


@MODELS
async def test_twenty_facts_in_three_hundred_files_are_found_with_their_files(model: ChatModel, least: int) -> None:
    await find(Files(three_hundred_files()), model, least, PLANTED_FILES)


@MODELS
async def test_twenty_facts_in_an_archive_of_three_hundred_files_are_found_with_their_files(
    model: ChatModel, least: int
) -> None:
    """As one request can bring so many."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in three_hundred_files().items():
            archive.writestr(name, data)
    await find(Files({"all.zip": packed.getvalue()}), model, least, PLANTED_FILES)


async def find(files: Files, model: ChatModel, least: int, places: Mapping[str, str]) -> None:
    """Ask for each thing; its code and its place are to be told by so many answers, and no process grows too large."""
    began = time.monotonic()
    with peak_memory() as most:
        answers = {thing: (await process(files, model, question(thing))).text for thing in places}
    own = most.pop(os.getpid())
    found = [thing for thing, place in places.items() if code(thing) in answers[thing] and place in answers[thing]]
    told = f"{len(found)} of {len(places)} in {time.monotonic() - began:.0f} s, {own >> 20} MB here"
    sys.stderr.write(f"{told}, {max(most.values(), default=0) >> 20} MB in a child\n")
    assert len(found) >= least, {thing: answers[thing][:300] for thing in places if thing not in found}
    assert max(own, *most.values()) < MOST_MEMORY


def three_hundred_files() -> dict[str, bytes]:
    return {
        _name(number): FORMATS[_ending(number)](fact(FILES[number]) if number in FILES else PROSE)
        for number in range(300)
    }


# -- files ------------------------------------------------------------------------------------------------------------


def _pdf(text: str) -> bytes:
    return long_pdf(3, {2: text[:90]})


def _docx(text: str) -> bytes:
    document, packed = Document(), io.BytesIO()
    for line in (PROSE, text, PROSE):
        document.add_paragraph(line)
    document.save(packed)
    return packed.getvalue()


def _xlsx(text: str) -> bytes:
    packed = io.BytesIO()
    with xlsxwriter.Workbook(packed) as book:
        sheet = book.add_worksheet()
        for number, row in enumerate((["id", "remark"], [1, "on time"], [2, text])):
            sheet.write_row(number, 0, row)
    return packed.getvalue()


def _csv(text: str) -> bytes:
    return f'id,remark\n1,on time\n2,"{text}"\n'.encode()


def _html(text: str) -> bytes:
    return f"<html><body><h1>Minutes</h1><p>{PROSE}</p><p>{text}</p></body></html>".encode()


def _txt(text: str) -> bytes:
    return f"{PROSE}\n\n{text}\n\n{PROSE}\n".encode()


FORMATS: Final[dict[str, Callable[[str], bytes]]] = {
    "pdf": _pdf,
    "docx": _docx,
    "xlsx": _xlsx,
    "csv": _csv,
    "html": _html,
    "txt": _txt,
    "md": _txt,
}
ENDINGS: Final = tuple(FORMATS)


def _ending(number: int) -> str:
    return ENDINGS[number % len(ENDINGS)]


def _name(number: int) -> str:
    return f"file-{number}.{_ending(number)}"


PLANTED_FILES: Final = {thing: _name(number) for number, thing in FILES.items()}
