"""The values of cells as people see them: with the decimals, the percent sign or the currency of their format.

Only the marks that part thousands are left out: they differ from country to country, and in some they mean a decimal.
Dates are written as ISO 8601 has them, for the same reason.
"""

import datetime as dt
import re
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import lru_cache

Value = str | float | bool | dt.date | dt.time | dt.timedelta

MOST_DECIMALS = 30  # that a format may ask for
EXACT = Context(prec=60, rounding=ROUND_HALF_UP)  # what spreadsheet programs round by; 15 digits, and those decimals

_DIGITS = re.compile(r"[#0?][#0?,]*(?:\.([#0?]*))?")
_UNSHOWN = re.compile(r"_.|\*.|\[(?!\$)[^\]]*\]")  # gaps, filling, colors and conditions
_CURRENCY = re.compile(r"\[\$([^\]-]*)(?:-[^\]]*)?\]")
_OTHER_SHAPE = re.compile(r"[Ee@/]|[#0?.],+(?:[^#0?,]|$)")  # powers, texts, fractions, thousands left out
_QUOTED = re.compile(r'"([^"]*)"|\\(.)')


def cell_text(value: Value, code: str = "") -> str:
    """A value in the number format of that code, as workbooks write it; "" is the general one."""
    match value:
        case bool():
            return "TRUE" if value else "FALSE"
        case float() | int():
            return _number(value, code)
        case dt.datetime():
            return value.date().isoformat() if value.time() == dt.time() else value.isoformat(" ")
        case dt.date() | dt.time():
            return value.isoformat()
        case dt.timedelta():
            minutes, seconds = divmod(round(value.total_seconds()), 60)
            return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"
        case _:
            return str(value).strip()


def _number(value: float, code: str) -> str:
    plain = format(value, ".15g") if abs(value) < 1e15 else str(value)
    shape = _shape(code)
    if shape is None or abs(value) >= 1e15:
        return plain
    before, after, least, most = shape
    shown = Decimal(plain) * 100 if "%" in after or "%" in before else Decimal(plain)
    digits = f"{shown.quantize(Decimal(1).scaleb(-most), context=EXACT):f}"
    if most > least:
        whole, _, decimals = digits.partition(".")
        decimals = decimals[:least] + decimals[least:].rstrip("0")
        digits = f"{whole}.{decimals}" if decimals else whole
    sign = "-" if digits.startswith("-") and digits.strip("-0.") else ""
    return f"{sign}{before}{digits.removeprefix('-')}{after}".strip()


@lru_cache(maxsize=1_000)
def _shape(code: str) -> tuple[str, str, int, int] | None:
    """What stands before and after the digits, and how many decimals at least and at most; None for another shape."""
    first = _UNSHOWN.sub("", code.partition(";")[0])
    marked = _CURRENCY.sub(lambda found: f'"{found[1]}"', first)
    bare = _QUOTED.sub("", marked)
    places = list(_DIGITS.finditer(bare))
    if len(places) != 1 or _OTHER_SHAPE.search(bare):
        return None
    decimals = places[0][1] or ""
    if len(decimals) > MOST_DECIMALS:
        return None
    before, after = _around(marked)
    return before, after, decimals.count("0"), len(decimals)


def _around(code: str) -> tuple[str, str]:
    """The texts before and after the digits."""
    texts, digits_seen = ["", ""], False
    for part in re.finditer(r'"([^"]*)"|\\(.)|([#0?][#0?,.]*)|(.)', code):
        quoted, escaped, digits, other = part.groups()
        digits_seen = digits_seen or digits is not None
        texts[digits_seen] += quoted or escaped or other or ""
    return texts[0], texts[1]
