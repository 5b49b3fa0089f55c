"""Detection of the Latin encoding of a text: the one in which its letters are those of a single language.

These encodings differ in a few letters only, too few for the library that detects encodings to tell them apart.
"""

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


def refined(sample: bytes, encoding: str) -> str:
    """Return the Latin encoding that fits best if `encoding` is one of them, else `encoding` itself."""
    return max(ENCODINGS, key=lambda one: _fitness(sample, one)) if encoding in ENCODINGS else encoding


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
