"""What kind of document some bytes are: by their content first, by the name only where content cannot tell."""

import re
from pathlib import PurePath

PDF = "application/pdf"
DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
PPTX = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
XLS = "application/vnd.ms-excel"
OLE = "application/x-ole-storage"
HTML = "text/html"
CSV = "text/csv"
TSV = "text/tab-separated-values"
JSON = "application/json"
TEXT = "text/plain"
MARKDOWN = "text/markdown"
ENCRYPTED = "application/encrypted"
UNKNOWN = "application/octet-stream"

BY_EXTENSION = {
    ".pdf": PDF,
    ".docx": DOCX,
    ".xlsx": XLSX,
    ".pptx": PPTX,
    ".xls": XLS,
    ".html": HTML,
    ".htm": HTML,
    ".csv": CSV,
    ".tsv": TSV,
    ".json": JSON,
    ".txt": TEXT,
    ".md": MARKDOWN,
    ".markdown": MARKDOWN,
}

_SIGNATURES = {
    b"\x1f\x8b": "application/gzip",
    b"\x89PNG": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"{\\rtf": "application/rtf",
}
_ZIP_MEMBERS = {b"word/document": DOCX, b"xl/workbook": XLSX, b"ppt/presentation": PPTX}
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\v\f\r\x1b"))
_HTML_START = re.compile(
    rb"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.DOTALL
)
_JSON_START = re.compile(rb'\s*(?:\{\s*(?:"|\}|$)|\[\s*(?:[\[{"\]\d-]|true|false|null|$))')
_HEAD = 4096  # bytes looked at
MOST_CONTROLS = 100  # one control character in so many bytes is still text


def sniff(data: bytes, name: str) -> str:
    """The MIME type of these bytes; `application/octet-stream` for what is no known kind of document."""
    head = data[:_HEAD]
    if b"%PDF-" in head[:1024]:
        return PDF
    if head.startswith(b"PK\x03\x04"):
        return next((mime for member, mime in _ZIP_MEMBERS.items() if member in data), "application/zip")
    if head.startswith(b"\xd0\xcf\x11\xe0"):
        return _ole_kind(data)
    for signature, mime in _SIGNATURES.items():
        if head.startswith(signature):
            return mime
    return _text_kind(head.removeprefix(b"\xef\xbb\xbf"), name) if _is_text(data) else UNKNOWN


def named_kind(name: str) -> str | None:
    """What the extension of the name promises."""
    return BY_EXTENSION.get(PurePath(name).suffix.lower())


def _ole_kind(data: bytes) -> str:
    if "EncryptedPackage".encode("utf-16-le") in data:
        return ENCRYPTED
    return XLS if "Workbook".encode("utf-16-le") in data else OLE


def _is_text(data: bytes) -> bool:
    """Whether a sample from the beginning, from the middle and from the end looks like text."""
    middle = len(data) // 2
    return data.startswith(_UTF16_MARKS) or all(
        map(_looks_like_text, (data[:_HEAD], data[middle : middle + _HEAD], data[-_HEAD:]))
    )


def _looks_like_text(head: bytes) -> bool:
    controls = len(head) - len(head.translate(None, _CONTROLS))
    return controls * MOST_CONTROLS <= len(head)


def _text_kind(head: bytes, name: str) -> str:
    if _HTML_START.match(head):
        return HTML
    named = named_kind(name)
    if named in {HTML, CSV, TSV, JSON, MARKDOWN}:
        return named
    return JSON if _JSON_START.match(head) else TEXT
