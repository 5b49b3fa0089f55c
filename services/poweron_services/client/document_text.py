"""The text of a document, by place, and the search for what a statement takes from it: words, cells, calculations."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from poweron_projections.audit.verifier.quote_search import comparable, occurs
from poweron_services.text.calculations import is_result, parse_equation
from poweron_services.text.statements import Statement
from poweron_services.text.table_text import TableText

_HEAD: Final = re.compile(r"\A# ?(?P<name>[^\n]*)\n\s*<!-- [^\n]* -->\n?")
_PARTS: Final = re.compile(r"^##(?: (.*))?$", re.MULTILINE)
_HEADINGS: Final = re.compile(r"^#{1,6} ([^\n]+)$", re.MULTILINE)
_COUNT: Final = re.compile(r"\d{1,7} \(.+\)", re.DOTALL)


@dataclass(frozen=True)
class SearchedText:
    """A text that is searched for quotes."""

    text: str

    def holds(self, quote: str) -> bool:
        """Return whether it contains the words, or one row of a table does, as in “item: Hinge; price: 4.20”."""
        return occurs(quote, self._plain) or self.tables.has_row(quote)

    def has_cell(self, statement: str) -> bool:
        """Return whether a table has a cell with these words, as in “Hinge, price: 4.20”."""
        return self.tables.has_cell(statement)

    @cached_property
    def _plain(self) -> str:
        return comparable(self.text)

    @cached_property
    def tables(self) -> TableText:
        return TableText(self.text)


@dataclass(frozen=True, slots=True)
class DocumentText:
    """The text of a document as it was read, by place: “page 2”, “sheet Budget”, “section Returns”."""

    parts: Mapping[str, str]

    @classmethod
    def of(cls, markdown: str) -> "DocumentText":
        """Parse what `document.extract` writes about a document, or a text with headings."""
        head = _HEAD.match(markdown)
        first, *rest = (_PARTS if head else _HEADINGS).split(markdown[head.end() if head else 0 :])
        titles = [title or "" if head else f"section {title.strip(' #')}" for title in rest[::2]]
        parts: dict[str, str] = {}
        for place, text in zip(["", *titles], [first, *rest[1::2]], strict=True):
            parts[place] = f"{parts.get(place, '')}\n{text}"
        return cls(parts)

    def at(self, places: Sequence[str]) -> list[SearchedText]:
        """Return the text of each of these places; without places, the whole text."""
        texts = [self.parts[place] for place in places if place in self.parts]
        return [SearchedText(text) for text in (texts if places else ["\n".join(self.parts.values())])]


class CalculatedValue(NamedTuple):
    """A value that a statement calculates: by an equation, or by counting rows, as in “products: 2 (Tent; Lamp)”."""

    label: str
    value: str
    equation: str
    """Its right side; empty for a count."""

    @property
    def text(self) -> str:
        return f"{self.label}: {self.value}" + (f" = {self.equation}" if self.equation else "")

    @property
    def length(self) -> int:
        """The number of quotes that it consists of."""
        return 3 if self.equation else 2

    def cells(self, texts: Sequence[SearchedText]) -> tuple[str, ...]:
        """Return the cells from which it was calculated again; () if they are not in the texts, or give another value.

        A difference may be that of two values outside of tables, each in one of the texts.
        """
        tables = texts[0].tables if len(texts) == 1 else TableText("\n\n".join(text.text for text in texts))
        if not self.equation:
            return tuple(tables.counted(self.value))
        if cells := tables.calculated(self.label, self.value, self.equation):
            return tuple(cells)
        difference = parse_equation(self.equation, 0)
        if difference is None or not is_result(self.value, difference):
            return ()
        return difference.cells if all(any(text.holds(cell) for text in texts) for cell in difference.cells) else ()


def calculated_values(statement: Statement) -> dict[int, CalculatedValue]:
    """Return the values that a statement calculates, or seems to, by the position of their first quote."""
    texts = [quote.text for quote in statement.quotes]
    result: dict[int, CalculatedValue] = {}
    for at, (label, value, equation) in enumerate(zip(texts, texts[1:], [*texts[2:], ""], strict=False)):
        if f"“{label}”: “{value}” = “{equation}”" in statement.text:
            result[at] = CalculatedValue(label, value, equation)
        elif f"“{label}”: “{value}”" in statement.text and _COUNT.fullmatch(value):
            result[at] = CalculatedValue(label, value, "")
    return result
