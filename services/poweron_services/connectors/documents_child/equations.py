"""Equations of Office files on one line, as users would type them: 1/8, r=3.5%, x^2, √(a+b)."""

from collections.abc import Callable, Mapping
from typing import Any, Final

MATH: Final = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
EQUATION: Final = f"{MATH}oMath"
_TEXT: Final = f"{MATH}t"
_PLAIN: Final = frozenset("+-−±·×*/=<>≤≥≠ ,")  # noqa: RUF001 - a minus is one of them


Parts = dict[str, Any]
"""The children of an element, keyed by name."""


def linear(element: Any) -> str:
    """Return the text of an equation or of a part of one."""
    if element.tag == _TEXT:
        return element.text or ""
    if not isinstance(element.tag, str):
        return ""
    form = _FORMS.get(element.tag.removeprefix(MATH))
    if form is None:
        return "".join(map(linear, element))
    return form(element, {child.tag.removeprefix(MATH): child for child in element if isinstance(child.tag, str)})


def _of(parts: Parts, name: str) -> str:
    return linear(parts[name]) if name in parts else ""


def _operand(parts: Parts, name: str) -> str:
    """The text of a part, in parentheses if it would otherwise read as several parts."""
    text = _of(parts, name)
    return f"({text})" if not _PLAIN.isdisjoint(text) and not _is_enclosed(text) else text


def _is_enclosed(text: str) -> bool:
    return text.startswith("(") and text.find(")") == len(text) - 1


def _sum(inner: Parts) -> str:
    """A sum, a product or an integral with its limits."""
    properties = inner.get("naryPr")
    sign = properties.find(f"{MATH}chr") if properties is not None else None
    symbol = sign.get(f"{MATH}val", "∫") if sign is not None else "∫"
    below, above = _operand(inner, "sub"), _operand(inner, "sup")
    return f"{symbol}{below and f'_{below}'}{above and f'^{above}'} {_of(inner, 'e')}"


def _between(element: Any, inner: Parts) -> str:
    """An expression in parentheses or other brackets."""
    marks = ["(", ")"]
    for at, name in enumerate(("begChr", "endChr")):
        mark = inner["dPr"].find(f"{MATH}{name}") if "dPr" in inner else None
        marks[at] = mark.get(f"{MATH}val", "") if mark is not None else marks[at]
    return f"{marks[0]}{_list(element)}{marks[1]}"


def _list(element: Any) -> str:
    return ", ".join(linear(part) for part in element.iterfind(f"{MATH}e"))


_FORMS: Final[Mapping[str, Callable[[Any, Parts], str]]] = {
    "f": lambda _, inner: f"{_operand(inner, 'num')}/{_operand(inner, 'den')}",
    "sSup": lambda _, inner: f"{_operand(inner, 'e')}^{_operand(inner, 'sup')}",
    "sSub": lambda _, inner: f"{_operand(inner, 'e')}_{_operand(inner, 'sub')}",
    "sSubSup": lambda _, inner: f"{_operand(inner, 'e')}_{_operand(inner, 'sub')}^{_operand(inner, 'sup')}",
    "rad": lambda _, inner: f"{_of(inner, 'deg')}√({_of(inner, 'e')})",
    "nary": lambda _, inner: _sum(inner),
    "d": _between,
    "func": lambda _, inner: f"{_of(inner, 'fName')} {_of(inner, 'e')}",
    "m": lambda element, _: f"[{'; '.join(map(_list, element.iterfind(f'{MATH}mr')))}]",
    "eqArr": lambda element, _: "; ".join(linear(part) for part in element.iterfind(f"{MATH}e")),
}
