"""Comparisons of documents: a table of the amounts that they share, and below it those that only one of them names.

Numbers appear as their documents write them; only differences are calculated, if two amounts have the same unit. The
comparison says what it leaves out.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Final, NamedTuple

from poweron_services.models.builtin.passages import Library
from poweron_services.models.builtin.phrases import listed, say
from poweron_services.models.builtin.sources import Row, SourcePlace
from poweron_services.models.builtin.table_cells import SourceTable, TableRecord
from poweron_services.text.numbers import Number, column_numbers, decimal_mark, number, written
from poweron_services.text.source_list import document_sources, place_in


@dataclass(frozen=True, slots=True)
class Joined:
    """The result of a join."""

    name: str
    """The column that names the rows."""
    columns: Row
    """The other columns that all tables have."""
    differing: tuple[Row, ...]
    """One entry per differing cell: the row, the column, the cell in each table and, for two numbers, the
    difference."""
    shared: int
    """The number of rows that all tables have."""
    alone: tuple[tuple[str, ...], ...]
    """For each table, the names of the rows that no other table has."""


class _Keyed(NamedTuple):
    """A table, its columns by normalised name, and its rows by the normalised name of each."""

    table: SourceTable
    columns: dict[str, int]
    rows: dict[str, TableRecord]


MOST_DOCUMENTS: Final = 6  # documents side by side
MOST_ROWS: Final = 60
MOST_JOINED: Final = 4  # documents whose tables are joined
TABLES_TRIED: Final = 5  # tables of each document
MOST_CAPITALS: Final = 4  # letters; a longer word in capitals is not an abbreviation
MOST_FACT: Final = 200  # characters
NOTHING: Final = "\u2013"
TOTAL: Final = "total"

_TOTAL: Final = re.compile(
    r"(?:grand |overall )?total(?: amount| cost| price| due)?|gesamt(?:betrag|summe|preis|kosten)?|(?:end)?summe"
    r"|(?:montant |prix )?total(?: général)?|(?:importe |precio )?total(?: general)?|(?:importo |prezzo )?totale"
    r"|(?:valor )?total(?: geral)?|totaal(?:bedrag|prijs)?|razem|suma|(?:total|slut)summa|i alt"
    r"|المجموع(?: الكلي)?|الإجمالي",
    re.IGNORECASE,
)
_OF_MONEY: Final = re.compile(
    r"(?:cost|price|amount|total|sum|value|betrag|preis|kosten|summe|gesamt|wert"
    r"|montant|prix|coût|importe|precio|importo|prezzo|costo|preço|valor|prijs|bedrag|pris|cena|kwota|summa"
    r"|المجموع|المبلغ|السعر|الإجمالي)s?\b",
    re.IGNORECASE,
)
_MONEY: Final = re.compile(r"[$€£¥₹]|\b(?:USD|EUR|CHF|GBP)\b")
_NOTE: Final = re.compile(  # text in brackets, unless it says what an amount includes or excludes
    r"\((?![^)]*\b(?:net|gross|excl|incl|without|before|after|netto|brutto|ohne|exkl|inkl|zzgl))[^)]*\)", re.IGNORECASE
)
_NO_AMOUNT: Final = re.compile(r"\W*|n/?a", re.IGNORECASE)
_BESIDE: Final = re.compile(r"[^\w%]+")
_MARKUP: Final = re.compile(r"([\\`*_<>|\[\]])")


@dataclass(slots=True)
class _Document:
    """The amounts and other facts that a document names, by label, and their places."""

    name: str
    amounts: dict[str, tuple[str, str]] = field(default_factory=dict)
    facts: dict[str, tuple[str, str]] = field(default_factory=dict)
    places: dict[str, None] = field(default_factory=dict)
    counts: bool = False
    """Whether the document names no money, so that its other numbers are compared."""
    _told: Counter[str | tuple[str, str]] = field(default_factory=Counter)
    """The number of amounts recorded for each name, and for each pair of name and value."""

    def add_amount(self, label: str, value: str, place: SourcePlace, times: int = 1) -> None:
        """Add an amount, unless it is already recorded `times` times; another of the same name gets its own row."""
        key = _key(label)
        if key and self._told[key, value] < times:
            self._told[key, value] += 1
            self._told[key] += 1
            number = f" ({self._told[key]})" if self._told[key] > 1 else ""
            self.amounts[f"{key}{number}"] = (f"{label}{number}", value)
            self.places[place.locator] = None

    def add_fact(self, label: str, value: str, place: SourcePlace) -> None:
        """Add a fact, unless one with the same name is recorded."""
        if (key := _key(label)) and key not in self.facts:
            self.facts[key] = (label, value)
            self.places[place.locator] = None


def comparison(held: Library, language: str) -> str:
    """Return the comparison as markdown; "" if fewer than two documents name an amount."""
    found = _documents(held)
    named = [one for one in found if one.amounts]
    if len(named) < 2:
        return ""
    compared = named[:MOST_DOCUMENTS]
    _leave_notes_out([one.amounts for one in compared])
    _leave_notes_out([one.facts for one in compared])
    title = say("comparison_of", language, names=listed([one.name for one in compared], language))
    shared = _shared([one.amounts for one in compared])
    written = [f"# {_escaped(title)}", *_totals(compared, language)]
    left = [_escaped(one.name) for one in found if one not in compared]
    written += [say("not_compared", language, names=listed(left, language))] if left else []
    written += _amounts_compared(compared, shared, language)
    written += _rows_compared(held, compared, language)
    if facts := _shared([one.facts for one in compared]):
        written.append(f"## {say('facts', language)}")
        written += _bounded(_facts(compared, facts, language), language)
    lines = [
        ", ".join(filter(None, (one.name, *(place_in(place, language) for place in one.places)))) for one in compared
    ]
    return "\n\n".join([*written, document_sources(lines, language)])


def _amounts_compared(compared: Sequence[_Document], shared: Mapping[str, None], language: str) -> list[str]:
    """Return the amounts side by side, and below them those that only one document names."""
    found = [say("side_by_side" if shared else "nothing_shared", language)]
    if shared:
        found.append(f"## {say('amounts', language)}")
        found += _bounded(_amounts(compared, shared, language), language)
    for place, one in enumerate(compared, start=1):
        own = [one.amounts[key] for key in one.amounts if key not in shared]
        if own:
            head = [say("item", language), say("amount", language)]
            found.append(f"## {say('only_in', language, name=_escaped(one.name))} [{place}]")
            found += _bounded([head, *own], language)
    return found


def _joined(held: Library, compared: Sequence[_Document]) -> Joined | None:
    """Join one table of each document on a column of names; return the join with the most shared rows."""
    each = [[table for table in held.tables if table.place.document == one.name] for one in compared]
    most = [sorted(tables, key=lambda table: -len(table.records))[:TABLES_TRIED] for tables in each]
    if not all(most) or len(most) > MOST_JOINED:
        return None
    found = (one for tables in product(*most) if (one := joined(tables, _key)) is not None)
    return max(found, key=lambda one: (one.shared, len(one.columns)), default=None)


def _rows_compared(held: Library, compared: Sequence[_Document], language: str) -> list[str]:
    """Return the differences between rows of the same name, except in the column of amounts."""
    rows = _joined(held, compared)
    if rows is None or len(rows.columns) < 2:
        return []
    told = {table.headers[at] for table in held.tables if (at := _amount_column(table)) is not None}
    differing = [row for row in rows.differing if row[1] not in told]
    changed = len({row[0] for row in rows.differing})
    found = [say("rows_shared", language, count=rows.shared, changed=changed, name=_escaped(rows.name))]
    if differing:
        two = [say("difference", language)] if len(compared) == 2 else []
        head = [rows.name, say("column", language), *_headed(compared), *two]
        found += [f"## {say('differences', language)}", *_bounded([head, *differing], language)]
    return found


def _bounded(rows: Sequence[Sequence[str]], language: str) -> list[str]:
    """Return the rows as a table, headed by the first row; rows beyond the limit are only counted."""
    head, *below = rows
    left = len(below) - MOST_ROWS
    return [_table(head, below[:MOST_ROWS]), *([say("more_rows", language, count=left)] if left > 0 else [])]


def _leave_notes_out(each: Sequence[dict[str, tuple[str, str]]]) -> None:
    """Drop notes in brackets from labels, unless a document would then use one label for two things."""
    counts = [Counter(_key(_NOTE.sub(" ", label)) for label, _ in one.values()) for one in each]
    unclear = {key for one in counts for key in one if one[key] > 1} | {""}
    for one in each:
        bare = {key: _key(_NOTE.sub(" ", label)) for key, (label, _) in one.items()}
        named = {key if bare[key] in unclear else bare[key]: value for key, value in one.items()}
        one.clear()
        one.update(named)


def _totals(compared: Sequence[_Document], language: str) -> list[str]:
    """Return a sentence with the total of each document and their difference; nothing if a document has no total."""
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
                one.add_amount(passage.label, passage.value, passage.place)
            elif len(passage.value) <= MOST_FACT:
                one.add_fact(passage.label, passage.value, passage.place)
    for table in held.tables:
        one = found[table.place.document]
        if not one.amounts or one.counts:
            one.counts = True
            _add_rows(one, table)
    return list(found.values())


def _is_of_money(table: SourceTable) -> bool:
    """Return whether the amounts in the rows of a table are money."""
    column = _amount_column(table)
    return column is not None and _names_money(table, column)


def _add_rows(one: _Document, table: SourceTable) -> None:
    """Add the amount of each row that has a name, from the last column of money or numbers."""
    column = _amount_column(table)
    if column is None:
        return
    header, times = table.headers[column], Counter[tuple[str, str]]()
    for record in table.records:
        value = record.cells[column]
        cells = (record.cells[at] for at in table.name_columns if at < column)
        name = next((cell for cell in cells if cell and not _is_number(cell)), "")
        if name and _says_something(value):
            label = name if _OF_MONEY.search(header) else f"{name}, {header}".strip(", ")
            times[label, value] += 1
            one.add_amount(label, value, table.place, times[label, value])


def _amount_column(table: SourceTable) -> int | None:
    """Return the column with the amounts of the rows: the last column of money, or else of numbers."""
    found = [column for column in range(1, len(table.headers)) if _is_of_numbers(table, column)]
    return next(iter([*filter(lambda column: _names_money(table, column), found[::-1]), *found[::-1]]), None)


def _is_of_numbers(table: SourceTable, column: int) -> bool:
    filled = [record.cells[column] for record in table.records if _says_something(record.cells[column])]
    return bool(filled) and all(map(_is_number, filled))


def _names_money(table: SourceTable, column: int) -> bool:
    """Return whether a column holds money, judging by its name or by currency signs in it."""
    cells = [record.cells[column] for record in table.records]
    return bool(_OF_MONEY.search(table.headers[column])) or any(map(_MONEY.search, cells))


def _says_something(cell: str) -> bool:
    """Return whether a cell is neither empty nor a sign for no value."""
    return _NO_AMOUNT.fullmatch(cell) is None


def _is_number(cell: str) -> bool:
    return number(cell, ".") is not None or number(cell, ",") is not None


def _shared(each: Sequence[Mapping[str, object]]) -> dict[str, None]:
    """Return the keys that at least two of the mappings share, in order of appearance."""
    times = Counter(key for one in each for key in one)
    return {key: None for key, count in times.items() if count > 1}


def _amounts(compared: Sequence[_Document], keys: Iterable[str], language: str) -> list[list[str]]:
    """Return the head and the rows; for two documents, with a column of differences if there are any."""
    rows = [_row(key, [one.amounts for one in compared]) for key in keys]
    head = [say("item", language), *_headed(compared)]
    differences = [_difference(compared, key) for key in keys] if len(compared) == 2 else []
    if all(one == NOTHING for one in differences):
        return [head, *rows]
    return [[*head, say("difference", language)], *([*row, one] for row, one in zip(rows, differences, strict=True))]


def _facts(compared: Sequence[_Document], keys: Iterable[str], language: str) -> list[list[str]]:
    rows = [_row(key, [one.facts for one in compared]) for key in keys]
    return [[say("fact", language), *_headed(compared)], *rows]


def _row(key: str, told: Sequence[Mapping[str, tuple[str, str]]]) -> list[str]:
    """Return a row: a name, then what each document says under it."""
    label = next(one[key][0] for one in told if key in one)
    shown = label.capitalize() if label.isupper() and len(label) > MOST_CAPITALS else label
    return [shown, *(one[key][1] if key in one else NOTHING for one in told)]


def _headed(compared: Sequence[_Document]) -> list[str]:
    return [f"{_escaped(one.name)} [{place}]" for place, one in enumerate(compared, start=1)]


def _difference(compared: Sequence[_Document], key: str) -> str:
    """Return the second amount minus the first, in the format of the first; a dash if they cannot be subtracted."""
    read = [_read(one, key) for one in compared]
    if any(one is None for one in read) or len({one.unit for one in read if one}) > 1:
        return NOTHING
    first, second = (one for one in read if one)
    marks = [mark for mark in map(_mark, compared) if mark]
    difference, decimals = second.value - first.value, max(first.decimals, second.decimals)
    sign = "+" if difference > 0 else ""
    return sign + written(difference, first, decimals, marks[0] if marks else ".")


def _read(one: _Document, key: str) -> Number | None:
    return number(one.amounts[key][1], _mark(one)) if key in one.amounts else None


def _mark(one: _Document) -> str | None:
    return decimal_mark([value for _, value in one.amounts.values()])


def is_total(label: str) -> bool:
    """Return whether a label names a total."""
    return _key(label) == TOTAL


def _key(label: str) -> str:
    """Normalise a label, so that the labels of two documents can be compared."""
    bare = " ".join(_BESIDE.sub(" ", label).split()).casefold()
    return TOTAL if _TOTAL.fullmatch(bare) else bare


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *([_escaped(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _escaped(text: str) -> str:
    """Escape the markdown in a text."""
    return _MARKUP.sub(r"\\\1", " ".join(text.split()))


def joined(tables: Sequence[SourceTable], key: Callable[[str], str]) -> Joined | None:
    """Join tables, one of each document, on a column that names the rows in all of them; None if there is none.

    Args:
        tables: at least two.
        key: normalises a name; equal names have equal keys.
    """
    columns = [{key(header): at for at, header in enumerate(one.headers) if key(header)} for one in tables]
    common = [name for name in columns[0] if all(name in one for one in columns[1:])]
    named = [
        name
        for name in common
        if all(one[name] in table.name_columns for one, table in zip(columns, tables, strict=True))
    ]
    best = max(named, key=lambda name: _matches(tables, columns, name, key), default=None)
    if best is None or len(common) < 2 or not _matches(tables, columns, best, key):
        return None
    keyed = [_keyed(table, named_at, best, key) for table, named_at in zip(tables, columns, strict=True)]
    if any(one is None for one in keyed):
        return None
    sides = [one for one in keyed if one is not None]
    shared = [name for name in sides[0].rows if all(name in one.rows for one in sides[1:])]
    others = [name for name in common if name != best]
    return Joined(
        name=tables[0].headers[columns[0][best]],
        columns=tuple(tables[0].headers[columns[0][name]] for name in others),
        differing=tuple(row for name in others for row in _differing(sides, best, name, shared)),
        shared=len(shared),
        alone=tuple(_alone(one, sides, best) for one in sides),
    )


def _matches(
    tables: Sequence[SourceTable], columns: Sequence[dict[str, int]], name: str, key: Callable[[str], str]
) -> int:
    """Count the rows that all tables share by this column."""
    held = [
        {key(row.cells[at[name]]) for row in table.records} - {""} for table, at in zip(tables, columns, strict=True)
    ]
    return len(held[0].intersection(*held[1:]))


def _keyed(table: SourceTable, columns: dict[str, int], name: str, key: Callable[[str], str]) -> _Keyed | None:
    """Index the rows of a table by name; None if two rows share a name."""
    rows = [(key(row.cells[columns[name]]), row) for row in table.records if key(row.cells[columns[name]])]
    return _Keyed(table, columns, dict(rows)) if len(dict(rows)) == len(rows) else None


def _differing(sides: Sequence[_Keyed], named: str, column: str, shared: Sequence[str]) -> Iterator[Row]:
    """Yield the cells of a column that differ between tables; numbers are compared by value, not by spelling."""
    cells = [[one.rows[name].cells[one.columns[column]] for name in shared] for one in sides]
    numbers = [column_numbers(column_cells) for column_cells in cells]
    marks = [mark for column_cells in cells if (mark := decimal_mark(column_cells))]
    for at, name in enumerate(shared):
        told, values = [one[at] for one in cells], [one[at] for one in numbers]
        known = [one for one in values if one is not None]
        same = len({one.value for one in known}) == 1 if len(known) == len(told) else len(set(told)) == 1
        if same:
            continue
        first = sides[0]
        row = [first.rows[name].cells[first.columns[named]], first.table.headers[first.columns[column]], *told]
        if len(sides) == 2 and len(known) == 2 and len({one.unit for one in known}) == 1:
            change = known[1].value - known[0].value
            said = written(change, known[0], max(one.decimals for one in known), marks[0] if marks else ".")
            row.append(f"{'+' if change > 0 else ''}{said}")
        elif len(sides) == 2:
            row.append(NOTHING)
        yield tuple(row)


def _alone(one: _Keyed, sides: Sequence[_Keyed], named: str) -> tuple[str, ...]:
    others = [each for each in sides if each is not one]
    names = (name for name in one.rows if not any(name in each.rows for each in others))
    return tuple(one.rows[name].cells[one.columns[named]] for name in names)
