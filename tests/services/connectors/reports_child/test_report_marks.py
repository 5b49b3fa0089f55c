"""The mark in every format of a report, read by readers of others, and what reads a marked text again."""

import io
import json
import re
from html.parser import HTMLParser
from zipfile import ZipFile

import docx
import pypdfium2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree
from markdown_it import MarkdownIt

from poweron_services.client.file_marks import FileMark, read_mark
from poweron_services.connectors.report_renderer import Draft, Part, ReportRenderer
from poweron_services.text.provenance import (
    COMPOSITE,
    TRAINED,
    Provenance,
    SourceDigest,
    marked_markdown,
    marked_page,
    without_mark,
)

WORKFLOW = "e4d9c3d3-4439-547e-a89e-4165bcddd933"
SOURCES = (SourceDigest("r1d1", "ab" * 32), SourceDigest("r1t1a1d1", "cd" * 32))
PROVENANCE = Provenance(WORKFLOW, "r1t1a2", is_composite=True, sources=SOURCES, sources_left_out=3)
TABLE = "| Year | Sales |\n| --- | --- |\n| 2022 | 1200 |\n| 2023 | 1350 |\n"
DRAFT = Draft(
    "Sales", "en", (Part("a.md", "written", f"Hello\n\n{TABLE}"),),
    day="2025-03-14", formats=("markdown", "html", "docx", "pdf", "xlsx"), provenance=PROVENANCE,
)  # fmt: skip


class Metas(HTMLParser):
    """The names and contents of `<meta>` elements."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, str]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "meta" and (given.get("name") or "").startswith(("PowerOn", "Digital")):
            self.found.append((given["name"] or "", given["content"] or ""))


def properties(archive: bytes) -> list[tuple[str, str]]:
    root = etree.fromstring(ZipFile(io.BytesIO(archive)).read("docProps/custom.xml"))
    return [(each.get("name"), each[0].text) for each in root]


def xmp(pdf: bytes) -> etree._Element:
    (packet,) = re.findall(rb"<x:xmpmeta.*</x:xmpmeta>", pdf, re.DOTALL)
    return etree.fromstring(packet)


def expected(number: int, *, numbered: bool) -> list[tuple[str, str]]:
    first, second = ("PowerOnSource1", "PowerOnSource2") if numbered else ("PowerOnSource",) * 2
    return [
        ("DigitalSourceType", COMPOSITE),
        ("PowerOnWorkflowId", WORKFLOW),
        ("PowerOnDocumentId", f"r1t1a2d{number}"),
        (first, f"r1d1 sha256:{'ab' * 32}"),
        (second, f"r1t1a1d1 sha256:{'cd' * 32}"),
        ("PowerOnSourcesLeftOut", "3"),
    ]


@pytest.mark.req("C-06")
async def test_every_format_of_a_report_carries_its_mark_and_the_same_draft_is_the_same_bytes() -> None:
    made = await ReportRenderer()(DRAFT)
    files = dict(made.files)
    assert made == await ReportRenderer()(DRAFT)
    assert [read_mark(data).mark for _, data in made.files] == [
        FileMark(WORKFLOW, f"r1t1a2d{number}", COMPOSITE) for number in range(1, 6)
    ]

    *_, comment = files["markdown"].decode().splitlines()
    assert json.loads(comment.removeprefix("<!-- PowerOn provenance: ").removesuffix(" -->"))["sources"] == [
        {"documentId": "r1d1", "sha256": "ab" * 32},
        {"documentId": "r1t1a1d1", "sha256": "cd" * 32},
    ]
    assert Metas(files["html"].decode()).found == expected(2, numbered=False)
    assert properties(files["docx"]) == expected(3, numbered=True)
    assert properties(files["xlsx"]) == expected(5, numbered=True)
    metadata = xmp(files["pdf"])
    values = {etree.QName(each).localname: "".join(each.itertext()) for each in metadata.iter() if len(each) < 3}
    assert (values["DigitalSourceType"], values["WorkflowId"], values["DocumentId"]) == (
        COMPOSITE,
        WORKFLOW,
        "r1t1a2d4",
    )
    assert values["Source"] == "".join(map(str, SOURCES))
    described = metadata.findall(".//{http://www.aiim.org/pdfa/ns/schema#}namespaceURI")
    assert {"http://iptc.org/std/Iptc4xmpExt/2008-02-29/", "urn:poweron:provenance#"} <= {
        each.text for each in described
    }


@pytest.mark.req("C-06")
async def test_a_marked_pdf_and_a_marked_word_document_show_what_unmarked_ones_show() -> None:
    marked, bare = [
        dict((await ReportRenderer()(Draft(**{**fields_of(DRAFT), "provenance": mark}))).files)
        for mark in (PROVENANCE, None)
    ]
    pages = [pypdfium2.PdfDocument(each["pdf"]) for each in (marked, bare)]
    assert len({page[0].get_textpage().get_text_range() for page in pages}) == 1
    table = marked["pdf"][int(re.findall(rb"startxref\n(\d+)", marked["pdf"])[-1]) :]
    places = [int(place) for place in re.findall(rb"(\d{10}) 00000 n", table)]
    assert [int(re.match(rb"\d+", marked["pdf"][place:])[0]) for place in places] == [*range(1, len(places) + 1)]
    texts = [[line.text for line in docx.Document(io.BytesIO(each["docx"])).paragraphs] for each in (marked, bare)]
    assert texts[0] == texts[1]
    assert without_mark(marked["markdown"].decode()) == bare["markdown"].decode()
    assert without_mark(marked["html"].decode()) == bare["html"].decode()
    assert read_mark(bare["pdf"]).mark is None


def fields_of(draft: Draft) -> dict[str, object]:
    return {name: getattr(draft, name) for name in draft.__slots__}


@pytest.mark.parametrize(
    "text", ["Hello", "# A\n\n```\ncode", "~~~~\n~~~\n", "- a\n  - b", "| a |\n| --- |\n| b |", "> q"]
)
def test_no_renderer_shows_the_mark_even_if_a_code_block_was_left_open(text: str) -> None:
    marked = marked_markdown(text, Provenance(WORKFLOW, "r1t1a1"))
    shown = MarkdownIt("commonmark").enable("table").render(marked)
    comment = "<!-- PowerOn provenance: "
    assert shown.startswith(MarkdownIt("commonmark").enable("table").render(text).strip()[:20])
    assert re.sub(r"<!--.*?-->\n", "", shown, flags=re.DOTALL).count("PowerOn") == 0
    assert shown.count(comment) == 1
    assert TRAINED in marked


@given(st.text())
def test_a_text_is_read_again_without_its_mark(text: str) -> None:
    marked = marked_markdown(text, PROVENANCE)
    again = without_mark(marked)
    assert "PowerOn provenance" in marked
    assert again.startswith(text)
    assert again.removeprefix(text).strip("`~\n") == ""
    assert without_mark(text) == text
    page = f'<!doctype html>\n<html>\n<head>\n<meta charset="utf-8">\n</head>\n<body>{text}</body>\n</html>\n'
    assert without_mark(marked_page(page, PROVENANCE)) == page
