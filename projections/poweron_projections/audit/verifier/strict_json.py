"""JSON as PowerOn writes it, read without mercy: one text for each value, so that two readers cannot disagree."""

import json
import math
from json.encoder import encode_basestring
from typing import Any, Final

_MOST: Final = 2**64 - 1
_LEAST: Final = -(2**63)
_DIGITS: Final = 20  # that an integer may have, with its sign


class InvalidJson(ValueError):
    """The bytes are not JSON in the form in which PowerOn writes it; the message says why."""


def parsed(data: bytes) -> Any:
    """Read a value; raise InvalidJson unless these are the only bytes in which it can be written."""
    try:
        text = data.decode()
        value = _DECODER.decode(text)
        is_canonical = _ENCODER.encode(value) == text or encoded(value) == data
    except UnicodeError as error:
        raise InvalidJson("it is not UTF-8") from error
    except RecursionError as error:
        raise InvalidJson("it is nested too deeply") from error
    except json.JSONDecodeError as error:
        raise InvalidJson("it is not JSON") from error
    if not is_canonical:
        raise InvalidJson("it is not in canonical form: sorted keys that occur once, no spaces")
    return value


def encoded(value: Any) -> bytes:
    """Write a value: sorted keys, no spaces, UTF-8."""
    return _text(value).encode()


def _text(value: Any) -> str:
    if isinstance(value, str):
        return encode_basestring(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return shortest(value)
    if isinstance(value, list):
        return f"[{','.join(map(_text, value))}]"
    members = (f"{encode_basestring(name)}:{_text(value[name])}" for name in sorted(value, key=str.encode))
    return f"{{{','.join(members)}}}"


def shortest(value: float) -> str:
    """Write a finite number with the fewest digits that mean it, as orjson lays them out."""
    sign = "-" if math.copysign(1, value) < 0 else ""
    if value == 0:
        return f"{sign}0.0"
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    length = len(digits)
    if length <= point <= 16:
        return f"{sign}{digits}{'0' * (point - length)}.0"
    if 0 < point <= 16:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -5 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    return f"{sign}{digits[0]}{'.' if length > 1 else ''}{digits[1:]}e{point - 1:+d}"


def _integer(text: str) -> int:
    if len(text) > _DIGITS or not _LEAST <= int(text) <= _MOST:
        raise InvalidJson("a number has too many digits")
    return int(text)


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise InvalidJson("a number is too large")
    if shortest(number) != text:
        raise InvalidJson("a number is not written with the fewest digits")
    return number


def _constant(text: str) -> float:
    raise InvalidJson(f"{text} is not JSON")


_DECODER: Final = json.JSONDecoder(parse_int=_integer, parse_float=_number, parse_constant=_constant)
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"))
"""Writes what `encoded` writes, apart from some numbers with a point, and much faster."""
