"""The encoding of a text; what reading it takes is loaded before, while the process can still open files."""

import codecs
import encodings
import pkgutil
import re
from contextlib import suppress

SAMPLE = 1 << 16  # bytes that a guess looks at
PIECE = 1 << 20  # bytes that are looked at at a time
COMMON_ENCODINGS = ["cp932", "cp1252", "gb18030", "euc_kr", "euc_jp", "big5", "cp1251", "iso8859_2", "utf_16"]

_CHARSET = re.compile(rb"<meta[^>]{0,200}charset\s*=\s*[\"']?([\w-]{2,30})", re.IGNORECASE)
_HEAD = 4096  # bytes in which a page names its encoding
_MARKS = (b"\xff\xfe", b"\xfe\xff")  # of UTF-16


def load(data: bytes) -> None:
    """The encodings that reading this text may take: all of them, unless it is UTF-8."""
    codecs.lookup("utf-8-sig")
    with suppress(LookupError):
        codecs.lookup(named(data) or "utf-8")
    if _not_utf8(data) is not None:
        import charset_normalizer  # noqa: F401, PLC0415 - most texts are UTF-8 and never need it

        for module in pkgutil.iter_modules(encodings.__path__):
            with suppress(LookupError):  # of modules that are no encoding here
                codecs.lookup(module.name)


def named(page: bytes) -> str | None:
    """The encoding that a page of HTML names."""
    found = _CHARSET.search(page[:_HEAD])
    return found[1].decode() if found and not page.startswith((*_MARKS, codecs.BOM_UTF8)) else None


def found(text: bytes) -> str:
    """The encoding that the bytes look like; the last character may be cut."""
    if text.startswith(_MARKS):
        return "utf-16"
    fault = _not_utf8(text)
    if fault is None:
        return "utf-8-sig"
    cut_in_a_character = fault >= len(text) - 3
    return "utf-8" if cut_in_a_character else _guessed(text[:SAMPLE])


def _not_utf8(data: bytes) -> int | None:
    """Where the first bytes stand that are no UTF-8. The text is looked at piece by piece: it may be a large one."""
    view, start = memoryview(data), 0
    while start < len(data):
        piece = view[start : start + PIECE]
        try:
            start += codecs.utf_8_decode(piece, "strict", start + PIECE >= len(data))[1]
        except UnicodeDecodeError as error:
            return start + error.start
    return None


def _guessed(sample: bytes) -> str:
    from charset_normalizer import from_bytes  # noqa: PLC0415 - `load` has imported it

    best = from_bytes(sample, cp_isolation=COMMON_ENCODINGS).best()
    return best.encoding if best else "cp1252"
