"""The encoding of a text; what reading it takes is loaded before, while the process can still open files."""

import codecs
import encodings
import pkgutil
import re
from contextlib import suppress
from functools import cache

from poweron_services.connectors.documents_child.latin_encodings import refined

SAMPLE = 1 << 16  # bytes that a guess looks at
PIECE = 1 << 20  # bytes that are looked at at a time
COMMON_ENCODINGS = [
    *("cp932", "cp1252", "gb18030", "euc_kr", "euc_jp", "big5", "cp1251", "cp1250", "mac_roman", "koi8_r", "cp866"),
    *("mac_cyrillic", "cp1253", "cp1255", "cp1256", "iso2022_jp", "utf_16"),
]
WIDE_SHARE = 0.4  # of the bytes of UTF-16 are zero in the scripts of Europe, all of them on the same side

_CHARSET = re.compile(
    rb"<meta[^>]{0,200}charset\s*=\s*[\"']?([\w-]{2,30})|<\?xml[^>]{0,200}encoding\s*=\s*[\"']([\w-]{2,30})",
    re.IGNORECASE,
)
_HEAD = 4096  # bytes in which a page names its encoding
_MARKS = {  # the longer ones first, for they begin with the shorter
    b"\xff\xfe\0\0": "utf-32",
    b"\0\0\xfe\xff": "utf-32",
    b"\xff\xfe": "utf-16",
    b"\xfe\xff": "utf-16",
}


def load(data: bytes) -> None:
    """The encodings that reading this text may take: all of them, unless it is UTF-8."""
    codecs.lookup("utf-8-sig")
    with suppress(LookupError):
        codecs.lookup(named(data) or wide(data) or "utf-8")
    if _not_utf8(data) is not None:
        load_all()


@cache
def load_all() -> None:
    """Once; a document that holds others asks for it again for each of them, when nothing can be loaded any more."""
    import charset_normalizer  # noqa: F401, PLC0415 - most texts are UTF-8 and never need it

    for module in pkgutil.iter_modules(encodings.__path__):
        with suppress(LookupError):  # of modules that are no encoding here
            codecs.lookup(module.name)


def named(page: bytes) -> str | None:
    """The encoding that a page of HTML, or XML, names."""
    found = _CHARSET.search(page[:_HEAD])
    return (found[1] or found[2]).decode() if found and not page.startswith((*_MARKS, codecs.BOM_UTF8)) else None


def found(text: bytes) -> str:
    """The encoding that the bytes look like; the last character may be cut."""
    broad = wide(text)
    if broad is not None:
        return broad
    fault = _not_utf8(text)
    if fault is None:
        return "utf-8-sig"
    cut_in_a_character = fault >= len(text) - 3
    return "utf-8" if cut_in_a_character else _guessed(text[:SAMPLE])


def wide(text: bytes) -> str | None:
    """The encoding of a text whose characters take two or four bytes: by its mark, or by where its zeros stand."""
    marked = next((encoding for mark, encoding in _MARKS.items() if text.startswith(mark)), None)
    head = text[:_HEAD]
    if marked or not head:
        return marked
    shares = [head[side::2].count(0) / len(head) for side in (0, 1)]
    for share, other, encoding in ((shares[1], shares[0], "utf-16-le"), (shares[0], shares[1], "utf-16-be")):
        if share >= WIDE_SHARE and other == 0:
            return encoding
    return None


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
    return refined(sample, best.encoding if best else "cp1252")
