"""What a document says in short: its sections with their facts, lists, sentences and tables, in its order.

A short document is given whole; of a long one every section keeps its facts, the sentences that say
most, and the beginning of its lists and tables.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from poweron_services.models.builtin.passages import Library, Passage, Place
from poweron_services.models.builtin.sources import Row

SHORT_DOCUMENT = 8_000  # characters that are given whole
SENTENCES, LINES, FACTS, ROWS = 3, 8, 30, 12  # of a section of a longer document
SECTIONS = 40  # of a document
SHORTEST, LONGEST = 40, 450  # characters of a sentence that is chosen

_APPARATUS = re.compile(
    r"\b(?:references|footnotes|bibliography|see also|external links|literatur|einzelnachweise)$", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Fact:
    """A label and its value."""

    label: str
    value: str


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading inside a section."""

    text: str


@dataclass(frozen=True, slots=True)
class Line:
    """An entry of a list, or a line that stands for itself."""

    text: str


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of prose."""

    text: str


@dataclass(slots=True)
class Grid:
    """A table with named columns; `left_out` rows are not given."""

    headers: Row
    rows: list[Row] = field(default_factory=list)
    left_out: int = 0


Item = Fact | Heading | Line | Sentence | Grid


@dataclass(frozen=True, slots=True)
class Part:
    """A section in short."""

    place: Place
    items: tuple[Item, ...]

    @property
    def title(self) -> str:
        return re.sub(r"^section ", "", self.place.locator)


def digest(held: Library) -> dict[str, list[Part]]:
    """The documents in short, by their names."""
    found: dict[str, list[Part]] = {}
    for name in dict.fromkeys(section.document for section in held.sections):
        passages = [one for one in held.passages if one.place.document == name]
        places = list(dict.fromkeys(one.place for one in passages if not _APPARATUS.search(one.place.locator)))
        is_long = (
            sum(len(one.value) for one in passages if one.kind in ("fact", "line", "sentence", "row")) > SHORT_DOCUMENT
        )
        parts = [_part(place, passages, is_long=is_long) for place in places[:SECTIONS]]
        found[name] = [part for part in parts if part.items]
    return found


def _part(place: Place, passages: list[Passage], *, is_long: bool) -> Part:
    items = list(_items([one for one in passages if one.place == place]))
    return Part(place, tuple(_shortened(items) if is_long else items))


def _items(passages: list[Passage]) -> Iterator[Item]:
    said = ""
    grid: Grid | None = None
    for one in passages:
        if one.kind in ("cell", "window", "headed"):
            continue
        if one.record is not None:
            if grid is None or grid.headers != one.record.headers:
                grid = Grid(one.record.headers)
                yield grid
            grid.rows.append(one.record.cells)
            continue
        grid = None
        if one.kind == "sentence" and one.value in said:
            continue
        said = one.statement if one.kind != "sentence" else said
        yield _item(one)


def _item(passage: Passage) -> Item:
    if passage.kind == "fact":
        return Fact(passage.label, passage.value)
    if passage.kind == "sentence":
        return Sentence(passage.value)
    return Heading(passage.heading) if passage.value.rstrip(": ") == passage.heading else Line(passage.value)


def _shortened(items: list[Item]) -> list[Item]:
    kept = _telling([item.text for item in items if isinstance(item, Sentence)])
    left = {Fact: FACTS, Line: LINES, Heading: LINES, Sentence: len(items), Grid: LINES}
    found: list[Item] = []
    for item in items:
        left[type(item)] -= 1
        if left[type(item)] < 0 or (isinstance(item, Sentence) and item.text not in kept):
            continue
        if isinstance(item, Grid) and len(item.rows) > ROWS:
            found.append(Grid(item.headers, item.rows[:ROWS], len(item.rows) - ROWS))
        else:
            found.append(item)
    return found


def _telling(sentences: list[str]) -> frozenset[str]:
    """The first sentence of a section, and those whose words the others use most."""
    words = {
        one: frozenset(re.findall(r"\w{4,}", one.casefold())) for one in sentences if SHORTEST <= len(one) <= LONGEST
    }
    common = Counter(word for said in words.values() for word in said)
    central = sorted(words, key=lambda one: -sum(common[word] - 1 for word in words[one]) / (len(words[one]) + 4))
    return frozenset([*list(words)[:1], *central][:SENTENCES])
