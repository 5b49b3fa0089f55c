"""The encoding of a text; what reading it takes is loaded before, while the process can still open files."""

import codecs
import encodings
import pkgutil
import re
from contextlib import suppress
from functools import cache

SAMPLE = 1 << 16  # bytes that a guess looks at
COMMON_ENCODINGS = ["cp932", "cp1252", "gb18030", "euc_kr", "euc_jp", "big5", "cp1251", "iso8859_2", "utf_16"]
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
        codecs.lookup(named(data) or "utf-8")
    if not _is_utf8(data):
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
    try:
        text.decode()
    except UnicodeDecodeError as error:
        cut_in_a_character = error.start >= len(text) - 3
        return "utf-8" if cut_in_a_character else _guessed(text[:SAMPLE])
    return "utf-8-sig"


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


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _guessed(sample: bytes) -> str:
    from charset_normalizer import from_bytes  # noqa: PLC0415 - `load` has imported it

    best = from_bytes(sample, cp_isolation=COMMON_ENCODINGS).best()
    return best.encoding if best else "cp1252"
