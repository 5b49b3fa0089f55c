"""Numbers as spreadsheet programs show them: the sections of a format code, their conditions, literals and digits.

Anything that a format hides is shown nevertheless: thousands that it leaves out, numbers of an empty section, and the
sign of a number that only its colour marks as negative. Thousands separators are left out: they differ between
countries, and in some they mean a decimal point. The rules are those of ECMA-376, part 1, 18.8.31.
"""

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import lru_cache
from typing import Final, Literal, NamedTuple

MOST_DIGITS: Final = 30  # that a format may ask for on each side of the decimal point
MOST_EXACT: Final = 1e15  # from this value on, a number of a spreadsheet is not exact
EXACT: Final = Context(prec=60, rounding=ROUND_HALF_UP)  # rounds as programs do; fits 15 digits and the decimals

_TOKEN: Final = re.compile(
    r'"(?P<quoted>[^"]*)"|\\(?P<escaped>.)|\[\$(?P<currency>[^\]-]*)[^\]]*\]|\[(?P<bracket>[^\]]*)\]|_.|\*.'
    r"|(?P<general>General)|(?P<digit>[#0?])|(?P<point>\.)|(?P<comma>,)|(?P<percent>%)|(?P<other>[Ee][+-]|[/@])"
    r"|(?P<literal>.)",
    re.DOTALL,
)
_CONDITION: Final = re.compile(r"(<=|>=|<>|<|>|=)(-?[\d.]+)$")
_COMPARISONS: Final[dict[str, Callable[[float, float], bool]]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<>": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "=": operator.eq,
}
_THOUSANDS: Final = re.compile(r"['\u2019 \xa0\u202f]$")
_SIGNS: Final = str.maketrans("", "", "-+()")

Kind = Literal["text", "digit", "point", "percent", "general", "other"]


class Token(NamedTuple):
    kind: Kind
    text: str


@dataclass(frozen=True, slots=True)
class FormatSection:
    """A part of a format code: for positive numbers, negative numbers, zero or texts, or under a condition."""

    tokens: tuple[Token, ...]
    condition: tuple[str, float] | None = None

    @property
    def digits(self) -> str:
        return "".join(token.text for token in self.tokens if token.kind == "digit")

    @property
    def text(self) -> str:
        return "".join(token.text for token in self.tokens if token.kind in ("text", "percent")).strip()

    def has(self, kind: Kind) -> bool:
        return any(token.kind == kind for token in self.tokens)

    @property
    def is_for_texts(self) -> bool:
        return [token.text for token in self.tokens if token.kind == "other"] == ["@"]

    def takes(self, value: float) -> bool:
        return self.condition is None or _COMPARISONS[self.condition[0]](value, self.condition[1])


def formatted(value: float, code: str) -> str:
    """Format a number with a format code; "" is the general format."""
    plain = format(value, ".15g") if abs(value) < MOST_EXACT else str(value)
    section = _choose_section(value, _sections(code))
    if section is None or abs(value) >= MOST_EXACT or section.has("other"):
        return plain
    if section.has("general"):
        return _replace_tokens(section, "general", plain)
    if section.digits:
        return _with_digits(section, Decimal(plain))
    return section.text or plain


def formatted_text(value: str, code: str) -> str:
    """Format a text with a format code, whose last section may be for texts."""
    section = _sections(code)[-1]
    return _replace_tokens(section, "other", value) if section.is_for_texts else value


def _replace_tokens(section: FormatSection, kind: Kind, by: str) -> str:
    return "".join(by if token.kind == kind else token.text for token in section.tokens).strip()


@lru_cache(maxsize=1_000)
def _sections(code: str) -> tuple[FormatSection, ...]:
    parts: list[FormatSection] = [FormatSection(())]
    for match in _TOKEN.finditer(code):
        kind, text = match.lastgroup, match[match.lastgroup] if match.lastgroup else ""
        if kind == "literal" and text == ";":
            parts.append(FormatSection(()))
        elif kind == "bracket":
            if condition := _CONDITION.match(text):
                parts[-1] = replace(parts[-1], condition=(condition[1], float(condition[2])))
        elif kind is not None:
            parts[-1] = replace(
                parts[-1], tokens=(*parts[-1].tokens, *_token(kind, text, parts[-1], code[match.end() :]))
            )
    return tuple(parts)


def _token(kind: str, text: str, before: FormatSection, rest: str) -> Sequence[Token]:
    """Return the token, unless it only separates thousands; a comma after the last digit hides thousands."""
    if kind == "comma":
        if not before.digits:
            return [Token("text", text)]
        return [] if re.match(r",*[#0?]", rest) else [Token("other", text)]
    if kind in ("literal", "quoted", "escaped", "currency"):
        return (
            []
            if before.digits and _THOUSANDS.match(text) and re.match(r"#[#0]0(?![#0])", rest)
            else [Token("text", text)]
        )
    return [Token(kind, text)]  # type: ignore[arg-type] # the other groups are kinds


def _choose_section(value: float, sections: Sequence[FormatSection]) -> FormatSection | None:
    """Choose the section for the number; a section for negative numbers loses its own sign, because we write one."""
    numeric = [
        section
        for section in sections[:3]
        if "@" not in [token.text for token in section.tokens if token.kind == "other"]
    ]
    if not numeric:
        return None
    if any(section.condition for section in numeric):
        choice = next((section for section in numeric if section.takes(value)), None)
    elif value < 0 and len(numeric) > 1:
        choice = numeric[1]
    else:
        choice = numeric[2] if value == 0 and len(numeric) > 2 else numeric[0]
    if choice is not None and value < 0 and len(numeric) > 1:
        return replace(choice, tokens=tuple(_without_sign(token) for token in choice.tokens))
    return choice


def _without_sign(token: Token) -> Token:
    return Token(token.kind, token.text.translate(_SIGNS)) if token.kind == "text" else token


def _with_digits(section: FormatSection, value: Decimal) -> str:
    points = [place for place, token in enumerate(section.tokens) if token.kind == "point"]
    point = points[0] if points else len(section.tokens)
    integers = "".join(token.text for token in section.tokens[:point] if token.kind == "digit")
    decimals = "".join(token.text for token in section.tokens[point:] if token.kind == "digit")
    if len(integers) > MOST_DIGITS or len(decimals) > MOST_DIGITS:
        return f"{value}"
    number = value * 100 ** sum(token.kind == "percent" for token in section.tokens)
    digits = f"{abs(number).quantize(Decimal(1).scaleb(-len(decimals)), context=EXACT):f}"
    sign = "-" if number < 0 and digits.strip("0.") else ""
    before, _, after = digits.partition(".")
    after = after[: decimals.count("0")] + after[decimals.count("0") :].rstrip("0")
    least = len(integers) - integers.find("0") if "0" in integers else 1
    return f"{sign}{_fill(section.tokens[:point], before.zfill(least))}{_behind(section.tokens[point:], after)}".strip()


def _fill(tokens: Sequence[Token], digits: str) -> str:
    """Fill the digits into the places of the tokens, from the right; the first place takes all that remain."""
    places = [place for place, token in enumerate(tokens) if token.kind == "digit"]
    if not places:
        return "".join(token.text for token in tokens) + digits
    pieces: list[str] = []
    left = digits
    for place in range(len(tokens) - 1, -1, -1):
        token = tokens[place]
        if token.kind != "digit":
            pieces.append(token.text if left or place < places[0] or place > places[-1] else "")
            continue
        piece = left if place == places[0] else left[-1:]
        left = left[: len(left) - len(piece)]
        pieces.append(piece)
    return "".join(reversed(pieces))


def _behind(tokens: Sequence[Token], decimals: str) -> str:
    """The decimals after the decimal point, and the texts that follow."""
    texts = "".join(token.text for token in tokens if token.kind in ("text", "percent"))
    return f".{decimals}{texts}" if decimals else texts
