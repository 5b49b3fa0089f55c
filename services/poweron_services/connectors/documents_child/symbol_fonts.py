"""Mapping of the signs of symbol fonts, such as Wingdings, to Unicode.

A box that is ticked in any way becomes ☒, and an empty one ☐, because users ask about these. An unknown sign becomes
"[symbol]", so that it is not mistaken for a letter.
"""

from typing import Final

TICKED, EMPTY = "☒", "☐"
UNKNOWN: Final = "[symbol]"

_SYMBOL: Final = dict(
    enumerate(
        " !∀#∃%&∋()∗+,−./0123456789:;<=>?"  # noqa: RUF001 - the letters of the font
        "≅ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ[∴]⊥_‾αβχδεφγηιϕκλμνοπθρστυϖωξψζ{|}∼",  # noqa: RUF001
        start=0x20,
    )
) | dict(
    enumerate(
        "€ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…⏐⎯↵ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓◊〈®©™∑",  # noqa: RUF001
        start=0xA0,
    )
)
_WINGDINGS: Final = {
    **dict.fromkeys((0x6F, 0x70, 0x71, 0x72, 0xA8), EMPTY),
    **dict.fromkeys((0x78, 0xFD, 0xFE), TICKED),
    0xFB: "✗",
    0xFC: "✓",
    0x28: "☎",
    0x2A: "✉",
    0x4A: "☺",
    0x4C: "☹",
    0x6C: "●",
    0x6E: "■",
    0x9F: "•",
    0xA7: "▪",
    0x76: "❖",
    0xD8: "➢",
    0xDF: "←",
    0xE0: "→",
    0xE1: "↑",
    0xE2: "↓",
    0xE8: "→",
    0xEF: "⇦",
    0xF0: "⇨",
}
_WINGDINGS_2: Final = {
    **dict.fromkeys((0x2A, 0xA3), EMPTY),
    **dict.fromkeys((0x51, 0x52, 0x53, 0x54), TICKED),
    0x4F: "✗",
    0x50: "✓",
    0x97: "●",
}
_FONTS: Final = {
    "symbol": _SYMBOL,
    "wingdings": _WINGDINGS,
    "wingdings 2": _WINGDINGS_2,
    "wingdings 3": {0x66: "←", 0x67: "→", 0x68: "↑", 0x69: "↓", 0x7D: "▶"},
    "webdings": {0x61: "✓", 0x63: EMPTY, 0x67: "■", 0x72: "✗"},
}


def is_symbol_font(font: str) -> bool:
    return font.casefold() in _FONTS


def symbol(font: str, code: int) -> str:
    """Return the sign for a code of the font; only its low byte counts, because Word adds 0xF000 to such codes."""
    return _FONTS.get(font.casefold(), {}).get(code & 0xFF, UNKNOWN)


def symbols(font: str, text: str) -> str:
    """Convert a text in a symbol font; white space stays as it is."""
    return "".join(letter if letter.isspace() else symbol(font, ord(letter)) for letter in text)
