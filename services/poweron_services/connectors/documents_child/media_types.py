"""Detection of document types: by content first, by file name only if the content is inconclusive."""

import re
from pathlib import PurePath

from poweron_services.connectors.documents_child import text_encodings

PDF = "application/pdf"
DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
PPTX = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
XLS = "application/vnd.ms-excel"
ODT = "application/vnd.oasis.opendocument.text"
ODS = "application/vnd.oasis.opendocument.spreadsheet"
ODP = "application/vnd.oasis.opendocument.presentation"
ZIP = "application/zip"
OLE = "application/x-ole-storage"
DOC = "application/msword"
PPT = "application/vnd.ms-powerpoint"
MSG = "application/vnd.ms-outlook"
EML = "message/rfc822"
RTF = "application/rtf"
XML = "application/xml"
PNG = "image/png"
JPEG = "image/jpeg"
TIFF = "image/tiff"
WEBP = "image/webp"
GIF = "image/gif"
BMP = "image/bmp"
MBOX = "application/mbox"
ICS = "text/calendar"
HTML = "text/html"
CSV = "text/csv"
TSV = "text/tab-separated-values"
JSON = "application/json"
TEXT = "text/plain"
MARKDOWN = "text/markdown"
ENCRYPTED = "application/encrypted"
UNKNOWN = "application/octet-stream"
PICTURES = (PNG, JPEG, TIFF, WEBP, GIF, BMP)

BY_EXTENSION = {
    ".pdf": PDF,
    ".docx": DOCX,
    ".xlsx": XLSX,
    ".pptx": PPTX,
    ".xls": XLS,
    ".odt": ODT,
    ".ods": ODS,
    ".odp": ODP,
    ".zip": ZIP,
    ".doc": DOC,
    ".ppt": PPT,
    ".msg": MSG,
    ".eml": EML,
    ".mbox": MBOX,
    ".ics": ICS,
    ".rtf": RTF,
    ".xml": XML,
    ".png": PNG,
    ".jpg": JPEG,
    ".jpeg": JPEG,
    ".tif": TIFF,
    ".tiff": TIFF,
    ".webp": WEBP,
    ".gif": GIF,
    ".bmp": BMP,
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
    re.compile(rb"\x1f\x8b"): "application/gzip",
    re.compile(rb"\x89PNG"): PNG,
    re.compile(rb"\xff\xd8\xff"): JPEG,
    re.compile(rb"II\*\0|MM\0\*"): TIFF,
    re.compile(rb"GIF8"): GIF,
    re.compile(rb"RIFF.{4}WEBP", re.DOTALL): WEBP,
    re.compile(rb"BM.{4}\0{4}", re.DOTALL): BMP,
    re.compile(rb"\{\\rtf"): RTF,
}
_ZIP_MEMBERS = {b"word/document": DOCX, b"xl/workbook": XLSX, b"ppt/presentation": PPTX}
_OPEN_DOCUMENTS = (ODT, ODS, ODP)
_OLE_STREAMS = {
    "__properties_version1.0": MSG,
    "EncryptedPackage": ENCRYPTED,
    "Workbook": XLS,
    "WordDocument": DOC,
    "PowerPoint Document": PPT,
}
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\v\f\r\x1b"))
_HTML_START = re.compile(
    rb"\s*(?:<\?xml[^>]*>\s*)?(?><!--.*?-->\s*)*+<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.DOTALL
)
_XML_START = re.compile(rb"\s*<\?xml\b|\s*<!DOCTYPE\s+\w|\s*<[A-Za-z_][\w.:-]*[\s>/]")
_CALENDAR_START = re.compile(rb"\s*BEGIN:VCALENDAR\s", re.IGNORECASE)
_ENVELOPE = re.compile(rb"From [^\r\n]*\r?\n(?=[A-Za-z][A-Za-z0-9-]*:)")
"""The line above each mail in a mailbox file, or above a mail that a program has passed on."""
_NEXT_MAIL = re.compile(rb"\n\r?\n" + _ENVELOPE.pattern)
_MAIL_HEADER = re.compile(rb"[A-Za-z][A-Za-z0-9-]*:[ \t]*[^\r\n]*(?:\r?\n[ \t]+[^\r\n]*)*\r?\n")
_MAIL_HEADERS = {b"from", b"to", b"subject", b"date", b"message-id", b"mime-version", b"received", b"return-path"}
_MACHINE_HEADERS = {b"message-id", b"mime-version", b"received", b"return-path"}  # never written above a text by hand
_JSON_START = re.compile(rb'\s*(?:\{\s*(?:"|\}|$)|\[\s*(?:[\[{"\]\d-]|true|false|null|$))')
_HEAD = 4096  # bytes examined
MOST_NAMES = 10_000
MOST_CONTROLS = 100  # text has at most one control character in this many bytes


def sniff(data: bytes, name: str) -> str:
    """Return the MIME type of these bytes; `application/octet-stream` if it is unknown."""
    head = data[:_HEAD]
    if b"%PDF-" in head[:1024]:
        return PDF
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _zip_kind(data)
    if head.startswith(b"\xd0\xcf\x11\xe0"):
        return _ole_kind(data)
    media_type = next((mime for signature, mime in _SIGNATURES.items() if signature.match(head)), None)
    if media_type is not None:
        return media_type
    if not _is_text(data):
        return UNKNOWN
    kind = _text_kind(without_envelope(head.removeprefix(b"\xef\xbb\xbf")), name)
    return MBOX if kind == EML and _ENVELOPE.match(head) and _NEXT_MAIL.search(data) else kind


def without_envelope(mail: bytes) -> bytes:
    """Return the mail without the "From " line above its headers."""
    return _ENVELOPE.sub(b"", mail, count=1) if _ENVELOPE.match(mail) else mail


def named_kind(name: str) -> str | None:
    """Return the type for the extension of the name, or None if it is unknown."""
    return BY_EXTENSION.get(PurePath(name).suffix.lower())


def _zip_kind(data: bytes) -> str:
    """Detect the type by the names in the table of contents, since the members may be documents of other types."""
    head = data[: _HEAD // 4]
    for kind in _OPEN_DOCUMENTS:
        if b"mimetype" + kind.encode() in head:
            return kind
    names = _names(data)
    if names is None:  # the archive is cut off
        return next((mime for member, mime in _ZIP_MEMBERS.items() if member in data), ZIP)
    return next((mime for part, mime in _ZIP_MEMBERS.items() if any(name.startswith(part) for name in names)), ZIP)


def _names(data: bytes) -> list[bytes] | None:
    """The names in the table of contents of an archive, as far as they can be parsed; None if it cannot be found."""
    end = data.rfind(b"PK\x05\x06")
    if end < 0:
        return None
    at = int.from_bytes(data[end + 16 : end + 20], "little")
    names: list[bytes] = []
    while data[at : at + 4] == b"PK\x01\x02" and len(names) < MOST_NAMES:
        name, extra, comment = (int.from_bytes(data[at + place : at + place + 2], "little") for place in (28, 30, 32))
        names.append(data[at + 46 : at + 46 + name])
        at += 46 + name + extra + comment
    return names or None


def _ole_kind(data: bytes) -> str:
    return next((kind for stream, kind in _OLE_STREAMS.items() if stream.encode("utf-16-le") in data), OLE)


def _is_text(data: bytes) -> bool:
    """Return whether samples from the beginning, the middle and the end look like text."""
    middle = len(data) // 2
    return text_encodings.wide(data) is not None or all(
        map(_looks_like_text, (data[:_HEAD], data[middle : middle + _HEAD], data[-_HEAD:]))
    )


def _looks_like_text(head: bytes) -> bool:
    controls = len(head) - len(head.translate(None, _CONTROLS))
    return controls * MOST_CONTROLS <= len(head)


def _text_kind(head: bytes, name: str) -> str:
    if _HTML_START.match(head):
        return HTML
    name_kind = named_kind(name)
    if name_kind in {HTML, CSV, TSV, JSON, MARKDOWN}:
        return name_kind
    if _CALENDAR_START.match(head):
        return ICS
    if _is_mail(head, name_kind):
        return EML
    if _XML_START.match(head) and (name_kind == XML or head.lstrip().startswith(b"<?xml")):
        return XML
    return JSON if _JSON_START.match(head) else TEXT


def _is_mail(head: bytes, name_kind: str | None) -> bool:
    """Return whether this begins with the headers of a mail; From and Subject alone are also found above letters."""
    headers, at = set(), 0
    while header := _MAIL_HEADER.match(head, at):
        headers.add(header[0].partition(b":")[0].lower())
        at = header.end()
    return bool(headers & _MAIL_HEADERS) and (
        name_kind == EML or (len(headers) > 2 and bool(headers & _MACHINE_HEADERS))
    )
