"""Documents side by side: the amounts that they name in one table, and what only one of them names below.

Every number stands as its document writes it; only differences are worked out, where two amounts have one unit.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

from poweron_services.decider.source_list import document_sources, place_in
from poweron_services.decider.written_numbers import Number, decimal_mark, number
from poweron_services.models.builtin.passages import Library
from poweron_services.models.builtin.phrases import listed, say
from poweron_services.models.builtin.sources import Place
from poweron_services.models.builtin.table_cells import Table

MOST_DOCUMENTS: Final = 6  # side by side
MOST_ROWS: Final = 60
MOST_CAPITALS: Final = 4  # letters; more of them are no abbreviation
MOST_FACT: Final = 200  # characters
NOTHING: Final = "\u2013"
TOTAL: Final = "total"

_TOTAL: Final = re.compile(
    r"(?:grand |overall )?total(?: amount| cost| price| due)?|gesamt(?:betrag|summe|preis|kosten)?|(?:end)?summe",
    re.IGNORECASE,
)
_OF_MONEY: Final = re.compile(
    r"(?:cost|price|amount|total|sum|value|betrag|preis|kosten|summe|gesamt|wert)s?\b", re.IGNORECASE
)
_MONEY: Final = re.compile(r"[$€£¥₹]|\b(?:USD|EUR|CHF|GBP)\b")
_NOTE: Final = re.compile(  # in brackets; what an amount is without or with is no note
    r"\((?![^)]*\b(?:net|gross|excl|incl|without|before|after|netto|brutto|ohne|exkl|inkl|zzgl))[^)]*\)", re.IGNORECASE
)
_BESIDE: Final = re.compile(r"[^\w%]+")
_MARKUP: Final = re.compile(r"([\\`*_<>|\[\]])")


@dataclass(slots=True)
class _Document:
    """What a document names: amounts and other facts by their labels, and where."""

    name: str
    amounts: dict[str, tuple[str, str]] = field(default_factory=dict)
    facts: dict[str, tuple[str, str]] = field(default_factory=dict)
    places: dict[str, None] = field(default_factory=dict)
    counts: bool = False
    """Whether it names no money, so that its other numbers are compared."""

    def add(self, into: dict[str, tuple[str, str]], label: str, value: str, place: Place) -> None:
        if (key := _key(label)) and key not in into:
            into[key] = (label, value)
            self.places[place.locator] = None


def comparison(held: Library, language: str) -> str:
    """The comparison as markdown; "" where fewer than two documents name an amount."""
    found = _documents(held)
    compared = [one for one in found if one.amounts][:MOST_DOCUMENTS]
    if len(compared) < 2:
        return ""
    _leave_notes_out([one.amounts for one in compared])
    _leave_notes_out([one.facts for one in compared])
    title = say("comparison_of", language, names=listed([one.name for one in compared], language))
    written = [f"# {_escaped(title)}", *_totals(compared, language), say("side_by_side", language)]
    shared = _shared([one.amounts for one in compared])
    written += [f"## {say('amounts', language)}", _amounts(compared, shared, language)] if shared else []
    for place, one in enumerate(compared, start=1):
        own = [one.amounts[key] for key in one.amounts if key not in shared][:MOST_ROWS]
        if own:
            head = [say("item", language), say("amount", language)]
            written += [f"## {say('only_in', language, name=_escaped(one.name))} [{place}]", _table(head, own)]
    facts = _shared([one.facts for one in compared])
    written += [f"## {say('facts', language)}", _facts(compared, facts, language)] if facts else []
    lines = [
        ", ".join(filter(None, (one.name, *(place_in(place, language) for place in one.places)))) for one in compared
    ]
    return "\n\n".join([*written, document_sources(lines, language)])


def _leave_notes_out(each: Sequence[dict[str, tuple[str, str]]]) -> None:
    """Name things without their notes in brackets, where no document names two things so."""
    counts = [Counter(_key(_NOTE.sub(" ", label)) for label, _ in one.values()) for one in each]
    unclear = {key for one in counts for key in one if one[key] > 1} | {""}
    for one in each:
        bare = {key: _key(_NOTE.sub(" ", label)) for key, (label, _) in one.items()}
        named = {key if bare[key] in unclear else bare[key]: value for key, value in one.items()}
        one.clear()
        one.update(named)


def _totals(compared: Sequence[_Document], language: str) -> list[str]:
    """What the documents come to and how far that differs, as a sentence of its own; none where one has no total."""
    if any(TOTAL not in one.amounts for one in compared):
        return []
    each = [say("total_of", language, amount=one.amounts[TOTAL][1], name=one.name) for one in compared]
    difference = _difference(compared, TOTAL) if len(compared) == 2 else NOTHING
    phrase = "totals" if difference == NOTHING else "totals_differ"
    said = say(phrase, language, each=listed(each, language), difference=difference)
    return [f"**{_escaped(said)}**"]


def _documents(held: Library) -> list[_Document]:
    found: dict[str, _Document] = {
        section.place.document: _Document(section.place.document) for section in held.sections
    }
    for table in filter(_is_of_money, held.tables):
        _add_rows(found[table.place.document], table)
    for passage in held.passages:
        if passage.kind == "fact" and passage.label:
            one = found[passage.place.document]
            amount = number(passage.value, ".") or number(passage.value, ",")
            if amount is not None and (amount.unit or _OF_MONEY.search(passage.label)):
                one.add(one.amounts, passage.label, passage.value, passage.place)
            elif len(passage.value) <= MOST_FACT:
                one.add(one.facts, passage.label, passage.value, passage.place)
    for table in held.tables:
        one = found[table.place.document]
        if not one.amounts or one.counts:
            one.counts = True
            _add_rows(one, table)
    return list(found.values())


def _is_of_money(table: Table) -> bool:
    """Whether what its rows come to is money, by the name of the column or by signs in it."""
    column = _last_of_numbers(table)
    if column is None:
        return False
    cells = [record.cells[column] for record in table.records]
    return bool(_OF_MONEY.match(table.headers[column])) or any(map(_MONEY.search, cells))


def _add_rows(one: _Document, table: Table) -> None:
    """Of each row that has a name the last amount, which is what the row comes to."""
    column = _last_of_numbers(table)
    if column is None:
        return
    header = table.headers[column]
    for record in table.records:
        value = record.cells[column]
        name = next(
            (cell for index, cell in enumerate(record.cells) if cell and index < column and not _is_number(cell)), ""
        )
        if name and value:
            label = name if _OF_MONEY.match(header) else f"{name}, {header}".strip(", ")
            one.add(one.amounts, label, value, table.place)


def _last_of_numbers(table: Table) -> int | None:
    for column in range(len(table.headers) - 1, 0, -1):
        filled = [record.cells[column] for record in table.records if record.cells[column]]
        if filled and all(map(_is_number, filled)):
            return column
    return None


def _is_number(cell: str) -> bool:
    return number(cell, ".") is not None or number(cell, ",") is not None


def _shared(each: Sequence[Mapping[str, object]]) -> list[str]:
    """What at least two of them have, in the order in which they have it, at most so many."""
    keys = dict.fromkeys(key for one in each for key in one)
    return [key for key in keys if sum(key in one for one in each) > 1][:MOST_ROWS]


def _amounts(compared: Sequence[_Document], keys: Sequence[str], language: str) -> str:
    rows = []
    for key in keys:
        values = [one.amounts[key][1] if key in one.amounts else NOTHING for one in compared]
        more = [_difference(compared, key)] if len(compared) == 2 else []
        rows.append((_label(compared, key, "amounts"), *values, *more))
    more_names = [say("difference", language)] if len(compared) == 2 else []
    return _table([say("item", language), *_headed(compared), *more_names], rows)


def _facts(compared: Sequence[_Document], keys: Sequence[str], language: str) -> str:
    rows = [
        (_label(compared, key, "facts"), *(one.facts[key][1] if key in one.facts else NOTHING for one in compared))
        for key in keys
    ]
    return _table([say("fact", language), *_headed(compared)], rows)


def _headed(compared: Sequence[_Document]) -> list[str]:
    return [f"{_escaped(one.name)} [{place}]" for place, one in enumerate(compared, start=1)]


def _label(compared: Sequence[_Document], key: str, kind: str) -> str:
    found: str = next(getattr(one, kind)[key][0] for one in compared if key in getattr(one, kind))
    return found.capitalize() if found.isupper() and len(found) > MOST_CAPITALS else found


def _difference(compared: Sequence[_Document], key: str) -> str:
    """The second amount less the first, written like that; a dash where they cannot be taken from one another."""
    read = [_read(one, key) for one in compared]
    if any(one is None for one in read) or len({one.unit for one in read if one}) > 1:
        return NOTHING
    first, second = (one for one in read if one)
    return _written(second.value - first.value, first, max(first.decimals, second.decimals), _mark(compared[0]))


def _read(one: _Document, key: str) -> Number | None:
    return number(one.amounts[key][1], _mark(one)) if key in one.amounts else None


def _mark(one: _Document) -> str | None:
    return decimal_mark([value for _, value in one.amounts.values()])


def _written(value: Decimal, like: Number, decimals: int, mark: str | None) -> str:
    digits = f"{abs(value):,.{decimals}f}" if like.grouped or abs(value) < 1000 else f"{abs(value):.{decimals}f}"
    if mark == ",":
        digits = digits.translate(str.maketrans(",.", ".,"))
    sign = "-" if value < 0 else "+" if value > 0 else ""
    space = " " if len(like.unit) > 1 else ""
    if like.unit_first:
        return f"{sign}{like.unit}{space}{digits}"
    return f"{sign}{digits}{' ' if like.unit else ''}{like.unit}"


def _key(label: str) -> str:
    """What two documents may both call something."""
    bare = " ".join(_BESIDE.sub(" ", label).split()).casefold()
    return TOTAL if _TOTAL.fullmatch(bare) else bare


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *([_escaped(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _escaped(text: str) -> str:
    """The signs of a text shown as they are."""
    return _MARKUP.sub(r"\\\1", " ".join(text.split()))
