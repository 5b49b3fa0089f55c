"""Decoding of a page by its byte order mark, the server's charset, the page's own declaration or a guess."""

import codecs
from collections.abc import Iterator

from poweron_services.connectors.documents_child import text_encodings

WRONG = 1_000  # one character in this many may be invalid, since pages contain pieces of other pages

AS_BROWSERS_DO = {  # the larger encodings that are often sent under the name of a smaller one
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "utf-8": "utf-8-sig",
    "utf-16-le": "utf-16",
    "utf-16-be": "utf-16",
}


def decoded(data: bytes, charset: str) -> str:
    """Decode a page. This never fails: bytes that cannot be decoded become replacement characters."""
    for encoding in _named(data, charset):
        text = data.decode(encoding, "replace")
        if text.count("\ufffd") * WRONG <= len(text):
            return text
    return data.decode(text_encodings.found(data), "replace")


def _named(data: bytes, charset: str) -> Iterator[str]:
    """The encodings that the page or its server declares."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF8)):
        yield text_encodings.found(data)
    for name in (charset, text_encodings.named(data)):
        encoding = _known(name or "")
        if encoding:
            yield encoding


def _known(name: str) -> str:
    try:
        b" ".decode(name, "replace")  # some codecs are not text encodings
    except (LookupError, ValueError):  # ValueError: the name has a null character
        return ""
    known = codecs.lookup(name).name
    return AS_BROWSERS_DO.get(known, known)
