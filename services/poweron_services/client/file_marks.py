"""Reads the mark in a file: the workflow and the document that the file says it is.

Anyone can write a mark, so it only says where to look; the bytes decide.
"""

import io
import re
import zipfile
import zlib
from html import unescape
from typing import Final, Literal, NamedTuple

import orjson

from poweron_events.codec import is_uuid
from poweron_services.text.provenance import DOCUMENT, KIND, WORKFLOW

MAX_COMMENT: Final = 100_000  # bytes of a mark in markdown
MAX_PROPERTIES: Final = 200_000  # bytes of the custom properties of a Word or Excel file
MAX_HEAD: Final = 1_000_000  # bytes of a page that may hold its head
PROPERTIES: Final = "docProps/custom.xml"

Obstacle = Literal["broken_archive", "encrypted"]
"""Why a mark could not be looked for."""

_VALUE: Final = rb"[A-Za-z0-9._:/#-]{1,200}"
_ENCRYPTED: Final = re.compile(rb"/Encrypt\s{0,9}(?:\d{1,10}\s{1,9}\d{1,5}\s{1,9}R|<<)")
_COMMENT, _COMMENT_END = b"<!-- PowerOn provenance: ", b" -->"


class FileMark(NamedTuple):
    """What a file says of itself."""

    workflow_id: str
    document_id: str
    kind: str
    """The digital source type; empty if it is not there."""


class ReadMark(NamedTuple):
    """The mark of a file, or why there is none."""

    mark: FileMark | None = None
    obstacle: Obstacle | None = None


def read_mark(data: bytes) -> ReadMark:
    """Read the mark of a PDF, a Word or Excel file, an HTML page or markdown."""
    if b"%PDF-" in data[:1024]:
        return _in_pdf(data)
    if data.startswith(b"PK\x03\x04"):
        return _in_archive(data)
    place = data.rfind(_COMMENT)
    if place >= 0:
        comment, end, _ = data[place + len(_COMMENT) : place + MAX_COMMENT].partition(_COMMENT_END)
        return _in_comment(comment) if end else ReadMark()
    head = data[:MAX_HEAD]
    pattern = rb"<meta\s{1,9}name=[\"']%s[\"']\s{1,9}content=[\"'](%s)[\"']"
    return _mark({name: _last(pattern % (name.encode(), _VALUE), head) for name in (WORKFLOW, DOCUMENT, KIND)})


def _in_comment(text: bytes) -> ReadMark:
    try:
        values = orjson.loads(text)
    except orjson.JSONDecodeError:
        return ReadMark()
    names = ((WORKFLOW, "workflowId"), (DOCUMENT, "documentId"), (KIND, "digitalSourceType"))
    return _mark({ours: value if isinstance(value := values.get(name), str) else "" for ours, name in names})


def _in_pdf(data: bytes) -> ReadMark:
    """Read the XMP metadata, with each property as an element or as an attribute."""
    if _ENCRYPTED.search(data):
        return ReadMark(obstacle="encrypted")
    pattern = rb"\b(?:PowerOn|Iptc4xmpExt):%s(?:>|=[\"'])\s{0,99}(%s)"
    names = {WORKFLOW: b"WorkflowId", DOCUMENT: b"DocumentId", KIND: b"DigitalSourceType"}
    return _mark({ours: _last(pattern % (name, _VALUE), data) for ours, name in names.items()})


def _in_archive(data: bytes) -> ReadMark:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive, archive.open(PROPERTIES) as file:
            properties = file.read(MAX_PROPERTIES)
    except KeyError:
        return ReadMark()
    except (zipfile.BadZipFile, zlib.error, RuntimeError, NotImplementedError, EOFError, OSError, ValueError):
        return ReadMark(obstacle="broken_archive")
    pattern = (
        rb"<(?:\w+:)?property\b[^>]{0,300}\bname=[\"']%s[\"'][^>]{0,300}>\s{0,99}<(?:\w+:)?lpwstr\b[^>]{0,300}>(%s)</"
    )
    return _mark({name: _last(pattern % (name.encode(), _VALUE), properties) for name in (WORKFLOW, DOCUMENT, KIND)})


def _last(pattern: bytes, data: bytes) -> str:
    """Return the last value that the pattern finds, since a file that was saved again may hold an earlier one."""
    values = re.findall(pattern, data)
    return unescape(values[-1].decode()) if values else ""


def _mark(values: dict[str, str]) -> ReadMark:
    if not is_uuid(values[WORKFLOW]):
        return ReadMark()
    return ReadMark(FileMark(values[WORKFLOW], values[DOCUMENT], values[KIND]))
