"""Which of the encodings of Latin letters a text has: that in which its letters are those of one language.

They differ in a few letters only, too few for the library that tells scripts apart.
"""

ENCODINGS = ("cp1252", "cp1250", "mac_roman", "cp1254", "iso8859_2", "iso8859_15", "cp850", "cp852")
"""The most usual ones first: the first of those that fit as well is taken."""
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
SIGNS = frozenset("€£°§©®«»„\u201c\u201d\u2018\u2019\u2013\u2014…·½¼²³¿¡\u0307")  # that stand in texts of any language


def refined(sample: bytes, encoding: str) -> str:
    """The encoding itself, unless it is one of Latin letters and another of them fits better."""
    return max(ENCODINGS, key=lambda one: _fitness(sample, one)) if encoding in ENCODINGS else encoding


def _fitness(sample: bytes, encoding: str) -> float:
    """The share of all that is beyond ASCII which one language knows; a sign in the middle of a word is none of it."""
    text = sample.decode(encoding, "replace")
    beyond = [place for place, letter in enumerate(text) if letter > "\x7f"]
    signs = sum(text[place] in SIGNS and not _is_in_a_word(text, place) for place in beyond)
    letters = "".join(text[place] for place in beyond).lower()
    known = max(sum(letters.count(letter) for letter in alphabet) for alphabet in ALPHABETS)
    return (known + signs) / max(len(beyond), 1)


def _is_in_a_word(text: str, place: int) -> bool:
    return text[place - 1 : place].isalpha() and text[place + 1 : place + 2].isalpha()
