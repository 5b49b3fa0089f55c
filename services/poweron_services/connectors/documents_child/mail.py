"""The reader of EML: the headers, text and attachments of a mail."""

import re
from collections.abc import Iterator
from email import contentmanager, generator, message_from_bytes, policy
from email.errors import HeaderParseError
from email.header import decode_header, make_header
from email.message import EmailMessage
from functools import partial
from typing import Any

from poweron_services.connectors.documents_child import media_types, plain_text, text_encodings, webpage
from poweron_services.connectors.documents_child.document import Member, Section
from poweron_services.connectors.documents_child.limits import ReadLimits
from poweron_services.connectors.documents_child.readers import Fact, Note, Part

LOADED = (contentmanager, generator)  # modules that the library would otherwise import while it reads
HEADERS = ("From", "To", "Cc", "Date", "Subject")
FACTS = {"Subject": "title", "From": "author", "Date": "created"}
MOST_HEADER = 2_000  # characters
SAID = 0.5  # of the words of the HTML; a plain text with fewer of them is not a version of it
_SURROGATE = re.compile("[\udc80-\udcff]")  # bytes that are not ASCII
_TAG = re.compile(rb"<(?:style|script)\b.*?</(?:style|script)>|<[^>]*>|&\w+;", re.DOTALL | re.IGNORECASE)
_WORD = re.compile(rb"[a-z0-9\x80-\xff]{3,}")
SIGNATURES = {"application/pkcs7-signature", "application/x-pkcs7-signature", "application/pgp-signature"}
SEALED = {"application/pkcs7-mime", "application/x-pkcs7-mime", "application/pgp-encrypted"}


def opened(data: bytes, limits: ReadLimits) -> Iterator[Part | Member]:
    message: Any = message_from_bytes(media_types.without_envelope(data), policy=policy.default)
    leaves = [leaf for leaf in _leaves(message) if leaf.get_content_type() not in SIGNATURES]
    texts = [leaf for leaf in leaves if _is_text(leaf)]
    plain = [leaf for leaf in texts if leaf.get_content_type() != "text/html"]
    attachments = [leaf for leaf in leaves if leaf not in texts and not _is_ornament(leaf)]
    headers = [(name, _header(message, name)) for name in HEADERS]
    yield from (Fact(FACTS[name], value) for name, value in headers if name in FACTS)
    yield Fact("attachments", str(len(attachments)) if attachments else "")
    yield from text_of_mail(headers, [_text(leaf, limits) for leaf in plain])
    yield from (part for leaf in texts if leaf not in plain for part in webpage.read(_bytes(leaf), limits))
    for number, leaf in enumerate(attachments, start=1):
        if leaf.get_content_type() in SEALED:
            yield Note("The mail is encrypted; save it decrypted and hand it over again.", truncated=True)
        else:
            yield _attachment(leaf, number)


def text_of_mail(headers: list[tuple[str, str]], texts: list[str]) -> Iterator[Section]:
    """Yield one section with the headers and the texts of a mail."""
    lines = "\n".join(f"{name}: {value}" for name, value in headers if value)
    yield Section("", "\n\n".join([lines, *texts]))


def _leaves(part: Any) -> Iterator[Any]:
    """Yield the parts without subparts, including forwarded mails, and only one version of a text that comes in two."""
    if not part.is_multipart() or part.get_content_type() == "message/rfc822":
        yield part
        return
    leaves = [leaf for inner in part.iter_parts() for leaf in _leaves(inner)]
    yield from _without_repetition(leaves) if part.get_content_type() == "multipart/alternative" else leaves


def _without_repetition(leaves: list[Any]) -> list[Any]:
    """Keep the plain text unless it holds little of the HTML: some programs leave it empty or only write an apology."""
    texts = [leaf for leaf in leaves if _is_text(leaf)]
    plain = [leaf for leaf in texts if leaf.get_content_type() == "text/plain" and _bytes(leaf).strip()]
    page = [leaf for leaf in texts if leaf.get_content_type() == "text/html"]
    words = _words(b" ".join(map(_bytes, plain)))
    of_page = _words(_TAG.sub(b" ", b" ".join(map(_bytes, page))))
    is_stub = len(words & of_page) < len(of_page) * SAID
    choice = page if page and is_stub else plain or texts
    return [leaf for leaf in leaves if leaf not in texts or leaf in choice]


def _words(text: bytes) -> set[bytes]:
    return set(_WORD.findall(text.lower()))


def _is_text(leaf: Any) -> bool:
    return (
        leaf.get_content_type() in {"text/plain", "text/html"}
        and leaf.get_content_disposition() != "attachment"
        and not leaf.get_filename()
    )


def _is_ornament(leaf: Any) -> bool:
    """Return whether the part is a picture shown within the text, such as the sender's logo."""
    is_inline = bool(leaf["Content-ID"]) and leaf.get_content_disposition() != "attachment"
    return is_inline and str(leaf.get_content_maintype()) == "image"


def _attachment(leaf: Any, number: int) -> Member:
    path = _file_name(leaf).strip()
    if leaf.get_content_type() == "message/rfc822":
        return Member("attachment", path or f"{number}.eml", 0, lambda: bytes(_inner_message(leaf)))
    return Member("attachment", path or str(number), 0, partial(_bytes, leaf))


def _file_name(leaf: Any) -> str:
    raw = next((value for key, value in leaf.raw_items() if key.lower() == "content-disposition"), "")
    if not _SURROGATE.search(raw):
        return _decode(leaf.get_filename() or "")
    header = EmailMessage()
    header["Content-Disposition"] = " ".join(_decode(raw).split())
    return header.get_filename() or ""


def _inner_message(leaf: Any) -> EmailMessage:
    message: EmailMessage = leaf.get_payload(0)
    return message


def _bytes(leaf: Any) -> bytes:
    content = leaf.get_payload(decode=True)
    return content if isinstance(content, bytes) else b""


def _text(leaf: Any, limits: ReadLimits) -> str:
    data = _bytes(leaf)
    try:
        return plain_text.decoded(data, limits, encoding=leaf.get_content_charset())[0]
    except LookupError:  # an unknown encoding
        return plain_text.decoded(data, limits)[0]


def _header(message: Any, name: str) -> str:
    """Return the decoded header; a damaged one is empty, so that the rest of the mail is still read."""
    raw = next((value for key, value in message.raw_items() if key.lower() == name.lower()), "")
    if _SURROGATE.search(raw):
        return " ".join(_decode(raw).split())[:MOST_HEADER]
    try:
        return " ".join(str(message[name] or "").split())[:MOST_HEADER]
    except (ValueError, LookupError, TypeError, AttributeError, IndexError):
        return ""


def _decode(text: str) -> str:
    """Decode a header, or a name in it, that is encoded where it must not be, or not encoded where it must be."""
    if _SURROGATE.search(text):
        data = text.encode("ascii", "surrogateescape")
        text = data.decode(text_encodings.found(data), "replace")
    try:
        return str(make_header(decode_header(text))) if "=?" in text else text
    except (ValueError, LookupError, HeaderParseError):
        return text
