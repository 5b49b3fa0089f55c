"""The numbers that Word puts before headings, clauses and steps; the file does not store them, so they are counted.

A paragraph, or its style, names a list and a level; the list counts each level and defines how its number is written.
The rules are those of ECMA-376, part 1, 17.9.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from docx.opc.constants import RELATIONSHIP_TYPE
from docx.oxml.ns import qn

from poweron_services.connectors.documents_child.office_parts import parsed

BULLET: Final = "-"
NO_LIST: Final = "0"
LEVELS: Final = 9
HIGHEST: Final = 3_999  # the highest number written in Roman numerals or letters

_ROMAN: Final = (
    *((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl")),
    *((10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i")),
)
_PLACE: Final = re.compile(r"%([1-9])")


@dataclass(frozen=True, slots=True)
class Level:
    """How a level of a list is counted and written."""

    start: int = 1
    written: str = "decimal"
    text: str = ""
    style: str = ""
    is_legal: bool = False
    """Whether all levels in its number are written in digits."""
    restarts_after: int | None = None
    """The deepest level, counted from 1, whose numbers restart this one; None is the level above, 0 is no level."""


@dataclass(slots=True)
class _List:
    levels: dict[int, Level]
    counts: dict[int, int] = field(default_factory=dict)
    begun: set[str] = field(default_factory=set)
    """The instances of the list whose own start numbers were already applied."""


@dataclass(frozen=True, slots=True)
class _Instance:
    """What a paragraph refers to: a list, and overrides of how its levels are counted or written."""

    list_id: str
    starts: dict[int, int]
    levels: dict[int, Level]


class Numbers:
    """Counts through a document: call `of` once for each paragraph, in order."""

    def __init__(self, document: Any) -> None:
        parts = {relation.reltype: relation for relation in document.part.rels.values() if not relation.is_external}
        self._lists: dict[str, _List] = {}
        self._instances: dict[str, _Instance] = {}
        self._styles: dict[str, tuple[str | None, str | None, str]] = {}
        if RELATIONSHIP_TYPE.STYLES in parts:
            self._read_styles(parts[RELATIONSHIP_TYPE.STYLES].target_part)
        if RELATIONSHIP_TYPE.NUMBERING in parts:
            self._read_lists(parsed(parts[RELATIONSHIP_TYPE.NUMBERING].target_part.blob))

    def of(self, paragraph: Any) -> str:
        """Return the prefix of the paragraph: its number, a dash for a bullet, or nothing."""
        number, level = self._place(paragraph)
        instance = self._instances.get(number or NO_LIST)
        if instance is None:
            return ""
        levels = {**self._lists[instance.list_id].levels, **instance.levels}
        if level not in levels:
            return ""
        if levels[level].written in ("bullet", "none"):
            return BULLET if levels[level].written == "bullet" else ""
        counts = self._count(number or "", instance, level, levels)
        return _PLACE.sub(
            lambda match: _level_number(levels, counts, int(match[1]) - 1, levels[level]), levels[level].text
        )

    def _place(self, paragraph: Any) -> tuple[str | None, int]:
        """The instance and the level that the paragraph names, or its style, or a style that this one is based on."""
        properties = paragraph.find(qn("w:pPr"))
        number, level = _list_reference(properties)
        style = properties.find(qn("w:pStyle")) if properties is not None else None
        name = style.get(qn("w:val"), "") if style is not None else ""
        list_style, visited = name, set[str]()
        while number is None and name in self._styles and name not in visited:
            visited.add(name)
            number, of_style, base = self._styles[name]
            level = of_style if level is None else level
            name, list_style = (base, list_style) if number is None else (name, name)
        if level is None and number in self._instances:
            levels = self._lists[self._instances[number].list_id].levels
            level = next(
                (str(at) for at, definition in levels.items() if definition.style and definition.style == list_style),
                None,
            )
        return number, int(level) if level and level.isdecimal() else 0

    def _count(self, number: str, instance: _Instance, level: int, levels: dict[int, Level]) -> dict[int, int]:
        """Count the paragraph, and return the counts of its list."""
        list_state = self._lists[instance.list_id]
        if number not in list_state.begun:
            list_state.begun.add(number)
            list_state.counts |= {at: start - 1 for at, start in instance.starts.items()}
        list_state.counts[level] = list_state.counts.get(level, levels[level].start - 1) + 1
        for below in range(level + 1, LEVELS):
            after = levels[below].restarts_after if below in levels else None
            if after is None or (after > 0 and level < after):
                list_state.counts.pop(below, None)
        return list_state.counts

    def _read_styles(self, part: Any) -> None:
        for style in parsed(part.blob).iter(qn("w:style")):
            number, level = _list_reference(style.find(qn("w:pPr")))
            self._styles[style.get(qn("w:styleId"), "")] = (number, level, _value(style, "w:basedOn"))

    def _read_lists(self, numbering: Any) -> None:
        links = {}
        for element in numbering.iter(qn("w:abstractNum")):
            name = element.get(qn("w:abstractNumId"), "")
            self._lists[name] = _List(_levels(element.iterfind(qn("w:lvl"))))
            links[name] = _value(element, "w:numStyleLink")
        for element in numbering.iter(qn("w:num")):
            overrides = list(element.iterfind(qn("w:lvlOverride")))
            starts = {
                int(override.get(qn("w:ilvl"), "0")): _value(override, "w:startOverride") for override in overrides
            }
            self._instances[element.get(qn("w:numId"), "")] = _Instance(
                _value(element, "w:abstractNumId"),
                {at: int(start) for at, start in starts.items() if start.isdecimal()},
                _levels(level for override in overrides for level in override.iterfind(qn("w:lvl"))),
            )
        self._instances = {
            name: instance for name, instance in self._instances.items() if instance.list_id in self._lists
        }
        for name, style in links.items():  # a list that is defined by a list style
            instance = self._instances.get(self._styles.get(style, (None, None, ""))[0] or "")
            if instance is not None:
                self._lists[name].levels = self._lists[instance.list_id].levels


def _list_reference(properties: Any) -> tuple[str | None, str | None]:
    numbers = properties.find(qn("w:numPr")) if properties is not None else None
    return (None, None) if numbers is None else (_value(numbers, "w:numId") or None, _value(numbers, "w:ilvl") or None)


def _levels(elements: Iterable[Any]) -> dict[int, Level]:
    return {
        int(element.get(qn("w:ilvl"), "0")): Level(
            start=_int(_value(element, "w:start"), 1),
            written=_value(element, "w:numFmt") or "decimal",
            text=_value(element, "w:lvlText"),
            style=_value(element, "w:pStyle"),
            is_legal=element.find(qn("w:isLgl")) is not None,
            restarts_after=_int(_value(element, "w:lvlRestart"), None),
        )
        for element in elements
        if element.get(qn("w:ilvl"), "0").isdecimal()
    }


def _level_number(levels: dict[int, Level], counts: dict[int, int], at: int, of: Level) -> str:
    """The number of a level, as the text of the level `of` shows it."""
    level = levels.get(at, Level())
    number = counts.get(at, level.start)
    return str(number) if of.is_legal else written(number, level.written)


def written(number: int, number_format: str) -> str:
    """Write a number in a format of Word, or in digits if the format is another one."""
    if not 0 < number <= HIGHEST:
        return str(number)
    match number_format:
        case "lowerLetter" | "upperLetter":
            letters = chr(ord("a") + (number - 1) % 26) * ((number - 1) // 26 + 1)
            return letters.upper() if number_format == "upperLetter" else letters
        case "lowerRoman" | "upperRoman":
            text, left = "", number
            for value, letters in _ROMAN:
                text += letters * (left // value)
                left %= value
            return text.upper() if number_format == "upperRoman" else text
        case "decimalZero":
            return f"{number:02}"
        case "none":
            return ""
        case _:
            return str(number)


def _value(element: Any, tag: str) -> str:
    child = element.find(qn(tag))
    return "" if child is None else str(child.get(qn("w:val"), ""))


def _int(text: str, other: int | None) -> Any:
    return int(text) if text.isdecimal() else other
