"""Detection of the encoding of a text; codecs are loaded while the process can still open files."""

import codecs
import encodings
import pkgutil
import re
from contextlib import suppress
from functools import cache

ENCODINGS = ("cp1252", "cp1250", "mac_roman", "cp1254", "iso8859_2", "iso8859_15", "cp850", "cp852")
"""The most common first: of several that fit equally well, the first is chosen."""
ALPHABETS = [
    frozenset(letters)
    for letters in (
        "äöüß",
        "éèêëàâçîïôûùœæ",
        "áéíóúñü",
        "àèéìíòóù",
        "ãõáâàçéêíóôú",
        "åäöæøé",
        "ąćęłńóśźż",
        "áčďéěíňóřšťúůýž",
        "áéíóöőúüű",
        "çğıöşüâ",
        "čćđšž",
        "ăâîșțşţ",
    )
]
SIGNS = frozenset("€£°§©®«»„\u201c\u201d\u2018\u2019\u2013\u2014…·½¼²³¿¡\u0307")  # used in any language
SAMPLE = 1 << 16  # bytes that a guess is based on
PIECE = 1 << 20  # bytes examined at a time
COMMON_ENCODINGS = [
    *("cp932", "cp1252", "gb18030", "euc_kr", "euc_jp", "big5", "cp1251", "cp1250", "mac_roman", "koi8_r", "cp866"),
    *("mac_cyrillic", "cp1253", "cp1255", "cp1256", "iso2022_jp", "utf_16"),
]
WIDE_SHARE = 0.4  # of the bytes of UTF-16 are zero in European scripts, all in the same half of the pairs

_CHARSET = re.compile(
    rb"<meta[^>]{0,200}charset\s*=\s*[\"']?([\w-]{2,30})|<\?xml[^>]{0,200}encoding\s*=\s*[\"']([\w-]{2,30})",
    re.IGNORECASE,
)
_HEAD = 4096  # bytes that are searched for a declared encoding
_MARKS = {  # the longer ones first, because one begins with a shorter one
    b"\xff\xfe\0\0": "utf-32",
    b"\0\0\xfe\xff": "utf-32",
    b"\xff\xfe": "utf-16",
    b"\xfe\xff": "utf-16",
}


def load(data: bytes) -> None:
    """Load the encodings that reading this text may need: all of them, unless it is UTF-8."""
    codecs.lookup("utf-8-sig")
    with suppress(LookupError):
        codecs.lookup(named(data) or wide(data) or "utf-8")
    if _not_utf8(data) is not None:
        load_all()


@cache
def load_all() -> None:
    """Load all encodings, once: a container asks again for each member, when nothing can be loaded any longer."""
    import charset_normalizer  # noqa: F401, PLC0415 - most texts are UTF-8 and never need it

    for module in pkgutil.iter_modules(encodings.__path__):
        with suppress(LookupError):  # for modules that are not encodings here
            codecs.lookup(module.name)


def named(page: bytes) -> str | None:
    """Return the encoding that HTML or XML declares; None if it declares none or begins with a byte order mark."""
    match = _CHARSET.search(page[:_HEAD])
    return (match[1] or match[2]).decode() if match and not page.startswith((*_MARKS, codecs.BOM_UTF8)) else None


def found(text: bytes) -> str:
    """Detect the encoding of the bytes; the last character may be cut off."""
    broad = wide(text)
    if broad is not None:
        return broad
    fault = _not_utf8(text)
    if fault is None:
        return "utf-8-sig"
    ends_in_character = fault >= len(text) - 3
    return "utf-8" if ends_in_character else _guess(text[:SAMPLE])


def wide(text: bytes) -> str | None:
    """Detect UTF-16 and UTF-32, by the byte order mark or by the positions of zero bytes; None for other encodings."""
    encoding_of_mark = next((encoding for mark, encoding in _MARKS.items() if text.startswith(mark)), None)
    head = text[:_HEAD]
    if encoding_of_mark or not head:
        return encoding_of_mark
    shares = [head[side::2].count(0) / len(head) for side in (0, 1)]
    for share, other, encoding in ((shares[1], shares[0], "utf-16-le"), (shares[0], shares[1], "utf-16-be")):
        if share >= WIDE_SHARE and other == 0:
            return encoding
    return None


def _not_utf8(data: bytes) -> int | None:
    """The position of the first bytes that are not UTF-8, or None; a large text is examined piece by piece."""
    view, start = memoryview(data), 0
    while start < len(data):
        piece = view[start : start + PIECE]
        try:
            start += codecs.utf_8_decode(piece, "strict", start + PIECE >= len(data))[1]
        except UnicodeDecodeError as error:
            return start + error.start
    return None


def _guess(sample: bytes) -> str:
    from charset_normalizer import from_bytes  # noqa: PLC0415 - `load` has imported it

    best = from_bytes(sample, cp_isolation=COMMON_ENCODINGS).best()
    return refined(sample, best.encoding if best else "cp1252")


def refined(sample: bytes, encoding: str) -> str:
    """Return the Latin encoding that fits best if `encoding` is one of them, else `encoding` itself."""
    return max(ENCODINGS, key=lambda candidate: _fitness(sample, candidate)) if encoding in ENCODINGS else encoding


def _fitness(sample: bytes, encoding: str) -> float:
    """The share of non-ASCII characters that are letters of one language, or signs; a sign within a word is neither."""
    text = sample.decode(encoding, "replace")
    beyond = [place for place, letter in enumerate(text) if letter > "\x7f"]
    signs = sum(text[place] in SIGNS and not _is_in_a_word(text, place) for place in beyond)
    letters = "".join(text[place] for place in beyond).lower()
    known = max(sum(letters.count(letter) for letter in alphabet) for alphabet in ALPHABETS)
    return (known + signs) / max(len(beyond), 1)


def _is_in_a_word(text: str, place: int) -> bool:
    return text[place - 1 : place].isalpha() and text[place + 1 : place + 2].isalpha()
