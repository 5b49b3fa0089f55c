"""Comparisons of documents: a table of the amounts that they share, then those that only one of them names.

If the documents have tables with the same rows, it also shows where these rows differ.

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
from poweron_services.models.builtin.sources import Row, SourcePlace, SourceTable, TableRecord
from poweron_services.text.citations import document_sources, place_in
from poweron_services.text.numbers import Number, column_numbers, decimal_mark, number, written


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


class _IndexedTable(NamedTuple):
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


def comparison(library: Library, language: str) -> str:
    """Return the comparison as markdown; "" if fewer than two documents name an amount."""
    all_documents = _documents(library)
    with_amounts = [document for document in all_documents if document.amounts]
    if len(with_amounts) < 2:
        return ""
    documents = with_amounts[:MOST_DOCUMENTS]
    _leave_notes_out([document.amounts for document in documents])
    _leave_notes_out([document.facts for document in documents])
    title = say("comparison_of", language, names=listed([document.name for document in documents], language))
    shared = _common_keys([document.amounts for document in documents])
    parts = [f"# {_escape(title)}", *_totals(documents, language)]
    others = [_escape(document.name) for document in all_documents if document not in documents]
    parts += [say("not_compared", language, names=listed(others, language))] if others else []
    parts += _amount_sections(documents, shared, language)
    parts += _row_sections(library, documents, language)
    if facts := _common_keys([document.facts for document in documents]):
        parts.append(f"## {say('facts', language)}")
        parts += _limit_rows(_facts(documents, facts, language), language)
    lines = [
        ", ".join(filter(None, (document.name, *(place_in(place, language) for place in document.places))))
        for document in documents
    ]
    return "\n\n".join([*parts, document_sources(lines, language)])


def _amount_sections(documents: Sequence[_Document], shared: Mapping[str, None], language: str) -> list[str]:
    """Return the amounts side by side, and below them those that only one document names."""
    parts = [say("side_by_side" if shared else "nothing_shared", language)]
    if shared:
        parts.append(f"## {say('amounts', language)}")
        parts += _limit_rows(_amounts(documents, shared, language), language)
    for place, document in enumerate(documents, start=1):
        rows = [document.amounts[key] for key in document.amounts if key not in shared]
        if rows:
            head = [say("item", language), say("amount", language)]
            parts.append(f"## {say('only_in', language, name=_escape(document.name))} [{place}]")
            parts += _limit_rows([head, *rows], language)
    return parts


def _best_join(library: Library, documents: Sequence[_Document]) -> Joined | None:
    """Join one table of each document on a column of names; return the join with the most shared rows."""
    document_tables = [
        [table for table in library.tables if table.place.document == document.name] for document in documents
    ]
    candidates = [sorted(tables, key=lambda table: -len(table.records))[:TABLES_TRIED] for tables in document_tables]
    if not all(candidates) or len(candidates) > MOST_JOINED:
        return None
    joins = (join for tables in product(*candidates) if (join := joined(tables, _key)) is not None)
    return max(joins, key=lambda join: (join.shared, len(join.columns)), default=None)


def _row_sections(library: Library, documents: Sequence[_Document], language: str) -> list[str]:
    """Return the differences between rows of the same name, except in the column of amounts."""
    rows = _best_join(library, documents)
    if rows is None or len(rows.columns) < 2:
        return []
    amount_headers = {table.headers[at] for table in library.tables if (at := _amount_column(table)) is not None}
    differences = [row for row in rows.differing if row[1] not in amount_headers]
    changed_rows = len({row[0] for row in rows.differing})
    parts = [say("rows_shared", language, count=rows.shared, changed=changed_rows, name=_escape(rows.name))]
    if differences:
        two = [say("difference", language)] if len(documents) == 2 else []
        head = [rows.name, say("column", language), *_headers(documents), *two]
        parts += [f"## {say('differences', language)}", *_limit_rows([head, *differences], language)]
    return parts


def _limit_rows(rows: Sequence[Sequence[str]], language: str) -> list[str]:
    """Return the rows as a table, headed by the first row; rows beyond the limit are only counted."""
    head, *below = rows
    left = len(below) - MOST_ROWS
    return [_table(head, below[:MOST_ROWS]), *([say("more_rows", language, count=left)] if left > 0 else [])]


def _leave_notes_out(mappings: Sequence[dict[str, tuple[str, str]]]) -> None:
    """Drop notes in brackets from labels, unless a document would then use one label for two things."""
    counts = [Counter(_key(_NOTE.sub(" ", label)) for label, _ in mapping.values()) for mapping in mappings]
    unclear = {key for count in counts for key in count if count[key] > 1} | {""}
    for mapping in mappings:
        bare = {key: _key(_NOTE.sub(" ", label)) for key, (label, _) in mapping.items()}
        result = {key if bare[key] in unclear else bare[key]: value for key, value in mapping.items()}
        mapping.clear()
        mapping.update(result)


def _totals(documents: Sequence[_Document], language: str) -> list[str]:
    """Return a sentence with the total of each document and their difference; nothing if a document has no total."""
    if any(TOTAL not in document.amounts for document in documents):
        return []
    totals = [
        say("total_of", language, amount=document.amounts[TOTAL][1], name=document.name) for document in documents
    ]
    difference = _difference(documents, TOTAL) if len(documents) == 2 else NOTHING
    phrase = "totals" if difference == NOTHING else "totals_differ"
    sentence = say(phrase, language, each=listed(totals, language), difference=difference)
    return [f"**{_escape(sentence)}**"]


def _documents(library: Library) -> list[_Document]:
    documents: dict[str, _Document] = {
        section.place.document: _Document(section.place.document) for section in library.sections
    }
    for table in filter(_is_of_money, library.tables):
        _add_rows(documents[table.place.document], table)
    for passage in library.passages:
        if passage.kind == "fact" and passage.label:
            document = documents[passage.place.document]
            amount = number(passage.value, ".") or number(passage.value, ",")
            if amount is not None and (amount.unit or _OF_MONEY.search(passage.label)):
                document.add_amount(passage.label, passage.value, passage.place)
            elif len(passage.value) <= MOST_FACT:
                document.add_fact(passage.label, passage.value, passage.place)
    for table in library.tables:
        document = documents[table.place.document]
        if not document.amounts or document.counts:
            document.counts = True
            _add_rows(document, table)
    return list(documents.values())


def _is_of_money(table: SourceTable) -> bool:
    """Return whether the amounts in the rows of a table are money."""
    column = _amount_column(table)
    return column is not None and _names_money(table, column)


def _add_rows(document: _Document, table: SourceTable) -> None:
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
            document.add_amount(label, value, table.place, times[label, value])


def _amount_column(table: SourceTable) -> int | None:
    """Return the column with the amounts of the rows: the last column of money, or else of numbers."""
    columns = [column for column in range(1, len(table.headers)) if _is_of_numbers(table, column)]
    return next(iter([*filter(lambda column: _names_money(table, column), columns[::-1]), *columns[::-1]]), None)


def _is_of_numbers(table: SourceTable, column: int) -> bool:
    cells = [record.cells[column] for record in table.records if _says_something(record.cells[column])]
    return bool(cells) and all(map(_is_number, cells))


def _names_money(table: SourceTable, column: int) -> bool:
    """Return whether a column holds money, judging by its name or by currency signs in it."""
    cells = [record.cells[column] for record in table.records]
    return bool(_OF_MONEY.search(table.headers[column])) or any(map(_MONEY.search, cells))


def _says_something(cell: str) -> bool:
    """Return whether a cell is neither empty nor a sign for no value."""
    return _NO_AMOUNT.fullmatch(cell) is None


def _is_number(cell: str) -> bool:
    return number(cell, ".") is not None or number(cell, ",") is not None


def _common_keys(mappings: Sequence[Mapping[str, object]]) -> dict[str, None]:
    """Return the keys that at least two of the mappings share, in order of appearance."""
    times = Counter(key for mapping in mappings for key in mapping)
    return {key: None for key, count in times.items() if count > 1}


def _amounts(documents: Sequence[_Document], keys: Iterable[str], language: str) -> list[list[str]]:
    """Return the head and the rows; for two documents, with a column of differences if there are any."""
    rows = [_row(key, [document.amounts for document in documents]) for key in keys]
    head = [say("item", language), *_headers(documents)]
    differences = [_difference(documents, key) for key in keys] if len(documents) == 2 else []
    if all(difference == NOTHING for difference in differences):
        return [head, *rows]
    return [
        [*head, say("difference", language)],
        *([*row, difference] for row, difference in zip(rows, differences, strict=True)),
    ]


def _facts(documents: Sequence[_Document], keys: Iterable[str], language: str) -> list[list[str]]:
    rows = [_row(key, [document.facts for document in documents]) for key in keys]
    return [[say("fact", language), *_headers(documents)], *rows]


def _row(key: str, mappings: Sequence[Mapping[str, tuple[str, str]]]) -> list[str]:
    """Return a row: a name, then what each document says under it."""
    label = next(mapping[key][0] for mapping in mappings if key in mapping)
    name = label.capitalize() if label.isupper() and len(label) > MOST_CAPITALS else label
    return [name, *(mapping[key][1] if key in mapping else NOTHING for mapping in mappings)]


def _headers(documents: Sequence[_Document]) -> list[str]:
    return [f"{_escape(document.name)} [{place}]" for place, document in enumerate(documents, start=1)]


def _difference(documents: Sequence[_Document], key: str) -> str:
    """Return the second amount minus the first, in the format of the first; a dash if they cannot be subtracted."""
    amounts = [_amount(document, key) for document in documents]
    if any(amount is None for amount in amounts) or len({amount.unit for amount in amounts if amount}) > 1:
        return NOTHING
    first, second = (amount for amount in amounts if amount)
    marks = [mark for mark in map(_mark, documents) if mark]
    difference, decimals = second.value - first.value, max(first.decimals, second.decimals)
    sign = "+" if difference > 0 else ""
    return sign + written(difference, first, decimals, marks[0] if marks else ".")


def _amount(document: _Document, key: str) -> Number | None:
    return number(document.amounts[key][1], _mark(document)) if key in document.amounts else None


def _mark(document: _Document) -> str | None:
    return decimal_mark([value for _, value in document.amounts.values()])


def is_total(label: str) -> bool:
    """Return whether a label names a total."""
    return _key(label) == TOTAL


def _key(label: str) -> str:
    """Normalise a label, so that the labels of two documents can be compared."""
    bare = " ".join(_BESIDE.sub(" ", label).split()).casefold()
    return TOTAL if _TOTAL.fullmatch(bare) else bare


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *([_escape(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _escape(text: str) -> str:
    """Escape the markdown in a text."""
    return _MARKUP.sub(r"\\\1", " ".join(text.split()))


def joined(tables: Sequence[SourceTable], key: Callable[[str], str]) -> Joined | None:
    """Join tables, one of each document, on a column that names the rows in all of them; None if there is none.

    Args:
        tables: at least two.
        key: normalises a name; equal names have equal keys.
    """
    columns = [{key(header): at for at, header in enumerate(table.headers) if key(header)} for table in tables]
    common = [name for name in columns[0] if all(name in positions for positions in columns[1:])]
    candidates = [
        name
        for name in common
        if all(positions[name] in table.name_columns for positions, table in zip(columns, tables, strict=True))
    ]
    best = max(candidates, key=lambda name: _matches(tables, columns, name, key), default=None)
    if best is None or len(common) < 2 or not _matches(tables, columns, best, key):
        return None
    optional_sides = [_index(table, positions, best, key) for table, positions in zip(tables, columns, strict=True)]
    if any(side is None for side in optional_sides):
        return None
    sides = [side for side in optional_sides if side is not None]
    names = [name for name in sides[0].rows if all(name in side.rows for side in sides[1:])]
    others = [name for name in common if name != best]
    return Joined(
        name=tables[0].headers[columns[0][best]],
        columns=tuple(tables[0].headers[columns[0][name]] for name in others),
        differing=tuple(row for name in others for row in _differences(sides, best, name, names)),
        shared=len(names),
        alone=tuple(_alone(side, sides, best) for side in sides),
    )


def _matches(
    tables: Sequence[SourceTable], columns: Sequence[dict[str, int]], name: str, key: Callable[[str], str]
) -> int:
    """Count the rows that all tables share by this column."""
    row_names = [
        {key(row.cells[at[name]]) for row in table.records} - {""} for table, at in zip(tables, columns, strict=True)
    ]
    return len(row_names[0].intersection(*row_names[1:]))


def _index(table: SourceTable, columns: dict[str, int], name: str, key: Callable[[str], str]) -> _IndexedTable | None:
    """Index the rows of a table by name; None if two rows share a name."""
    rows = [(key(row.cells[columns[name]]), row) for row in table.records if key(row.cells[columns[name]])]
    return _IndexedTable(table, columns, dict(rows)) if len(dict(rows)) == len(rows) else None


def _differences(sides: Sequence[_IndexedTable], name_column: str, column: str, shared: Sequence[str]) -> Iterator[Row]:
    """Yield the cells of a column that differ between tables; numbers are compared by value, not by spelling."""
    cells = [[side.rows[name].cells[side.columns[column]] for name in shared] for side in sides]
    numbers = [column_numbers(column_cells) for column_cells in cells]
    marks = [mark for column_cells in cells if (mark := decimal_mark(column_cells))]
    for at, name in enumerate(shared):
        texts, values = [side[at] for side in cells], [side[at] for side in numbers]
        known = [value for value in values if value is not None]
        is_same = len({value.value for value in known}) == 1 if len(known) == len(texts) else len(set(texts)) == 1
        if is_same:
            continue
        first = sides[0]
        row = [first.rows[name].cells[first.columns[name_column]], first.table.headers[first.columns[column]], *texts]
        if len(sides) == 2 and len(known) == 2 and len({value.unit for value in known}) == 1:
            change = known[1].value - known[0].value
            difference = written(change, known[0], max(value.decimals for value in known), marks[0] if marks else ".")
            row.append(f"{'+' if change > 0 else ''}{difference}")
        elif len(sides) == 2:
            row.append(NOTHING)
        yield tuple(row)


def _alone(side: _IndexedTable, sides: Sequence[_IndexedTable], name_column: str) -> tuple[str, ...]:
    others = [other for other in sides if other is not side]
    names = (name for name in side.rows if not any(name in other.rows for other in others))
    return tuple(side.rows[name].cells[side.columns[name_column]] for name in names)
