"""What is read of a file that anybody may have made: a mark, or in a code why there is none."""

import io
from zipfile import ZIP_DEFLATED, ZipFile

import pytest
from hypothesis import given
from hypothesis import strategies as st
from processor_time import within

from poweron_services.client.file_marks import FileMark, ReadMark, read_mark

ID = "e4d9c3d3-4439-547e-a89e-4165bcddd933"
NOTHING = ReadMark()
ENTRY = '<property fmtid="x" pid="2" name="{}"><vt:lpwstr>{}</vt:lpwstr></property>'


def archive(text: str) -> bytes:
    file = io.BytesIO()
    with ZipFile(file, "w", ZIP_DEFLATED) as made:
        made.writestr("docProps/custom.xml", text)
    return file.getvalue()


PROPERTIES = ENTRY.format("PowerOnWorkflowId", ID) + ENTRY.format("PowerOnDocumentId", "r1t1a1d1")
SAVED = archive(PROPERTIES)


@pytest.mark.parametrize(
    ("data", "read"),
    [
        (b"", NOTHING),
        (b"%PDF-1.7", NOTHING),
        (b"%PDF-1.7\ntrailer\n<</Encrypt 5 0 R>>", ReadMark(obstacle="encrypted")),
        (b"%%PDF-1.7\n<x PowerOn:WorkflowId='%s' PowerOn:DocumentId='r1d2'/>" % ID.encode(),
         ReadMark(FileMark(ID, "r1d2", ""))),
        (SAVED, ReadMark(FileMark(ID, "r1t1a1d1", ""))),
        (archive(PROPERTIES.replace("<vt:lpwstr>", '<lpwstr xmlns="x">').replace("</vt:", "</")),
         ReadMark(FileMark(ID, "r1t1a1d1", ""))),
        (SAVED[:60], ReadMark(obstacle="broken_archive")),
        (SAVED[:70] + b"\xff" * 20 + SAVED[90:], ReadMark(obstacle="broken_archive")),
        (archive("<x/>"), NOTHING),
        (archive(" " * 50_000_000 + PROPERTIES), NOTHING),
        (b"<!-- PowerOn provenance: {} -->", NOTHING),
        (b'<!-- PowerOn provenance: {"workflowId":["x"]} -->', NOTHING),
        (b"<!-- PowerOn provenance: {" + b'"a":{' * 9_000 + b"} -->", NOTHING),
        (b'<meta name="PowerOnWorkflowId" content="../../etc">', NOTHING),
        (b'<META name="PowerOnWorkflowId" content="%s">' % ID.upper().encode(), NOTHING),
    ],
    ids=range(15),
)  # fmt: skip
def test_a_mark_is_read_or_a_code_says_why_not(data: bytes, read: ReadMark) -> None:
    assert read_mark(data) == read


@pytest.mark.parametrize(
    "data",
    [
        b"<!-- PowerOn provenance: {" * 200_000,
        b"%PDF-1.7 " + b"PowerOn:WorkflowId> " * 200_000 + b"/Encrypt 1 " * 200_000,
        archive('<property name="PowerOnWorkflowId" ' * 20_000),
        b'<meta name="PowerOnWorkflowId" ' * 100_000,
    ],
    ids=["comment", "pdf", "archive", "page"],
)
def test_a_file_that_was_made_to_take_long_is_read_in_a_moment(data: bytes) -> None:
    with within(3.0):
        assert read_mark(data) == NOTHING


@given(st.sampled_from([b"", b"%PDF-", b"PK\x03\x04", b"<!-- PowerOn provenance: {"]), st.binary())
def test_no_file_stops_the_reader(begin: bytes, data: bytes) -> None:
    assert read_mark(begin + data).mark is None
