"""Questions about whole tables: all rows, rows of a kind or beyond a bound, a count, a total, the highest value.

A table answers only if it explains every significant word of the request: by the name of a column, by cells (then only
their rows count) or by the headings above it. Any other question is left to the passages.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from itertools import groupby
from typing import Final, Literal

from poweron_services.models.builtin.question import Question, Term
from poweron_services.models.builtin.sources import Row, SourcePlace, SourceTable, TableRecord
from poweron_services.models.builtin.values import holds
from poweron_services.models.builtin.vocabulary import stem, terms
from poweron_services.text.calculations import Calculation
from poweron_services.text.numbers import Number, column_numbers, decimal_mark, is_empty, is_numeric, written

Task = Literal["all", "count", "sum", "mean", "highest", "lowest", "cell"]

MOST_WINNERS: Final = 5  # rows that share the highest value; with more of them there is no answer
MOST_COLUMNS: Final = 8  # columns of a table that is listed in full
STEM, ENDING = 4, 2  # letters: the fewest that two forms of a word share, and the most that their endings have
MOST_NAMED: Final = 12  # rows that are named after their count

_HIGHEST: Final = (
    r"highest|largest|biggest|greatest|maximum|max|most expensive|oldest|longest|latest|most"
    r"|höchste\w*|größte\w*|teuerste\w*|älteste\w*|meisten?"
)
_LOWEST: Final = (
    r"lowest|smallest|least|minimum|min|cheapest|youngest|shortest|earliest"
    r"|niedrigste\w*|kleinste\w*|günstigste\w*|billigste\w*|jüngste\w*"
)
_BELOW: Final = r"(?:less|fewer|lower|cheaper|weniger|niedriger|billiger) (?:than|als)|below|under|unter"
_ABOVE: Final = (
    r"(?:more|higher|greater|larger|bigger|older|mehr|höher|größer|älter) (?:than|als)|above|over|exceed\w*|über"
)
_AT_LEAST, _AT_MOST = r"at least|mindestens", r"at most|up to|höchstens|maximal"
_SUM: Final = (
    r"in total|altogether|insgesamt|zusammengerechnet|in all|add up"
    r"|(?:total|sum|gesamt|summe)(?=(?: [\w-]+){0,2} (?:of|over|for|der|aller|von)\b)"
)
_LIST: Final = re.compile(
    r"^\W*(?:please\s+|bitte\s+)?(?:list|enumerate|name|show|give|liste|nenne|zeige?|gib|zähle?|énumère[rz]?"
    r"|liste[rz]?|lista|elenca|elencare|enumera)\b"
    r"|^\W*(?:which|what|welche)\s+(?:\w+\s+){1,3}?(?:are there|gibt es)\b",
    re.IGNORECASE,
)
_PATTERNS: Final[dict[Task, str]] = {
    "sum": rf"\b(?:{_SUM})\b",
    "mean": r"\b(?:average|mean|durchschnitt\w*|im mittel|mittelwert\w*|moyenne|media|promedio)\b",
    "lowest": rf"\b(?<!at )(?:{_LOWEST})\b",
    "highest": rf"\b(?<!at )(?:{_HIGHEST})\b",
    "count": r"\b(?:how many|(?:the )?number of|wie ?viele|anzahl (?:der|von)|combien d\w*|quant[ie]|cuánt[oa]s)\b",
    "all": r"\b(?:all|every|each|alle[rn]?|sämtliche\w*|jede[rsn]?)\b",
}
_TASKS: Final = {task: re.compile(pattern, re.IGNORECASE) for task, pattern in _PATTERNS.items()}
_NO_MATTER: Final = re.compile(
    r"\b(?:list|enumerate|overview|auf|table|tabelle|rows?|zeilen?|entr(?:y|ies)|items?)\b", re.IGNORECASE
)
_BOUND: Final = re.compile(
    rf"\b(?:(?P<below>{_BELOW})|(?P<above>{_ABOVE})|(?P<least>{_AT_LEAST})|(?P<most>{_AT_MOST}))\s+"
    r"(?:(?:an?|the|its|their|his|her|of|den|dem|der|die|das|ihr\w*|sein\w*|dessen|deren)\s+)?"
    r"(?P<bound>[$€£]?\s?\d[\d.,']*\s?(?:%|[$€£]|usd|eur|euros?|chf|dollars?)?|[^\W\d][\w -]{2,40})",
    re.IGNORECASE,
)
_MEASURES: Final = (
    (
        re.compile("expensive|cheap|teuer|günstig|billig", re.IGNORECASE),
        "cost price fee rate amount charge betrag preis gebühr kosten",
    ),
    (re.compile("old|young|ält|jüng", re.IGNORECASE), "age alter 年齢"),
    (re.compile("longest|shortest", re.IGNORECASE), "duration length runtime days dauer"),
)
_STOCK: Final = "quantity stock count units number actual balance spent used menge bestand anzahl stück"
_MOST: Final = re.compile(r"most|meisten?", re.IGNORECASE)
_SUM_ROW: Final = re.compile(r"\s*(?:grand |sub)?(?:total|sum|gesamt|summe|zwischensumme)", re.IGNORECASE)
_DIGIT: Final = re.compile(r"\d")
_LEADING_DIGITS: Final = re.compile(r"\d+(?:[.,']\d+)*")


@dataclass(frozen=True, slots=True)
class TableAnswer:
    """The answer of a table: values with labels, or rows of cells below the names of columns."""

    rows: tuple[Row, ...]
    """The label and the value of each row, or its cells."""
    places: tuple[tuple[SourcePlace, ...], ...]
    """The places of each row; those of the whole table if the value is calculated."""
    columns: Row = ()
    """The names of the columns if the answer is rows; empty if it is values."""
    is_worked_out: bool = False
    """Whether the value is calculated, not in any cell: a document that states it takes precedence."""
    calculation: Calculation | None = None
    """The cells of a calculated value; None for a count."""
    counted: tuple[int, ...] = ()
    """The rows that were counted if they are too many to be named, from 1 below the header."""


def asked_of_tables(tables: Sequence[SourceTable], question: Question) -> TableAnswer | None:
    """Answer a question for all rows, a count, a sum, the highest or rows beyond a bound; None if no table can."""
    task, intent = _task(question.text)
    bound = _BOUND.search(question.text)
    if task is None:
        task = "all" if bound else "cell"
    attempts = [_Attempt(table, question, task, intent, bound) for table in _join_pages(tables)]
    candidates = [attempt for attempt in attempts if attempt.is_explained]
    best = max(candidates, key=lambda attempt: attempt.closeness, default=None)
    return best.told() if best is not None else None


def _task(text: str) -> tuple[Task | None, str]:
    """Return what to do with the rows, and the words that say so."""
    list_match = _LIST.search(text)
    if list_match and not any(_TASKS[task].search(text) for task in ("lowest", "highest")):
        return "all", list_match[0]
    for task, pattern in _TASKS.items():
        if match := pattern.search(text):
            return task, match[0]
    return None, ""


def _join_pages(tables: Sequence[SourceTable]) -> list[SourceTable]:
    """Join the tables of one document that continue from page to page."""
    result: list[SourceTable] = []
    for (_, headers), group in groupby(tables, key=lambda table: (table.place.document, table.headers)):
        parts = list(group)
        near = frozenset[str]().union(*(part.near for part in parts))
        records = tuple(row for part in parts for row in part.records)
        places = tuple(part.place for part in parts for _ in part.records)
        result.append(SourceTable(parts[0].place, records, near, places) if headers else parts[0])
    return result


class _Attempt:
    """A table and a question that it may be able to answer."""

    def __init__(
        self, table: SourceTable, question: Question, task: Task, intent: str, bound: re.Match[str] | None
    ) -> None:
        self.table, self.question, self.task, self.intent, self.bound = table, question, task, intent, bound
        self.language = question.language
        rows = [record for record in table.records if record.filled]
        self.records = [record for record in rows if task == "cell" or not _SUM_ROW.match(record.filled[0][1])]
        self.headers = [frozenset(terms(header, self.language)) for header in table.headers]
        self.numeric = [
            is_numeric([record.cells[column] for record in self.records]) for column in range(len(self.headers))
        ]
        intent_words = {word.casefold() for word in re.findall(r"\w+", f"{intent} {bound[0] if bound else ''}")}
        intent_words |= {word.casefold() for word in _NO_MATTER.findall(question.text)}
        self.asked = [term for term in question.terms if term.word.casefold() not in intent_words]
        measure_words = next((names for pattern, names in _MEASURES if pattern.search(intent)), "")
        self.measures = frozenset(stem(word, self.language) for word in measure_words.split())
        self.named = {term: self._columns_of(term) for term in self.asked}
        self.chosen = self._requested_rows()

    def _columns_of(self, term: Term) -> list[int]:
        """Return the columns that a word names: itself, in another form, or else by a synonym."""
        plain = [at for at, header in enumerate(self.headers) if term.stem in header]
        inflected = [at for at, name in enumerate(self.table.headers) if _is_form_of(term.word, name, self.language)]
        return plain or inflected or [at for at, header in enumerate(self.headers) if term.in_(header)]

    @property
    def closeness(self) -> tuple[int, int, int]:
        """How many words name columns exactly, how many name them at all, and the number of rows."""
        themselves = frozenset[str]().union(*self.headers)
        plain = sum(term.stem in themselves for term in self.asked)
        return plain, sum(map(bool, self.named.values())), len(self.records)

    @property
    def is_explained(self) -> bool:
        """Whether the table explains every significant word, and the answer can be calculated."""
        if not self.records or (len(self.records) < 2 and self.task != "all") or not self.chosen:
            return False
        for term in self.asked:
            is_near = bool(self.named[term]) or term.in_(self.table.near) or self._is_in_cells(term)
            if term.weight == 1 and not is_near:
                return False
        if self.task == "count":
            return bool(self.asked) and self._is_of_rows(self.asked[0])
        if self.task == "cell":
            return len(self.chosen) == 1 and self._names_row() and bool(self._requested_columns())
        if self.task == "all":
            return bool(self.bound) or any(self.named[term] or term.in_(self.table.near) for term in self.asked)
        return self.measured is not None

    def _is_of_rows(self, term: Term) -> bool:
        """Return whether a word denotes the rows: it names their column, is above the table, or is in their names."""
        is_name = self._name_column in self.named[term] or term.in_(self._column(self._name_column))
        return is_name or (term.in_(self.table.near) and not self.named[term])

    def _names_row(self) -> bool:
        """Return whether a word that names no column appears in a name of the chosen row."""
        names = [self.chosen[0].cells[at] for at in self.table.name_columns]
        words = frozenset(word for name in names for word in terms(name, self.language))
        return any(term.in_(words) for term in self.asked if term.weight == 1 and not self.named[term])

    def _requested_columns(self) -> list[int]:
        """Return the columns that the words name, except those that name the row; prefer one that all words name."""
        column_sets = [set(columns) for term in self.asked if (columns := self.named[term])]
        together = set[int]().union(*column_sets).intersection(*column_sets)
        candidates = sorted(together or set[int]().union(*column_sets))
        cells = {at: self.chosen[0].cells[at] for at in candidates}
        row_terms = [term for term in self.asked if not self.named[term]]
        return [
            at
            for at, cell in cells.items()
            if cell
            and holds(self.question.kind, cell, self.question.text)
            and not any(term.in_(frozenset(terms(cell, self.language))) for term in row_terms)
        ]

    def _is_in_cells(self, term: Term) -> bool:
        return any(map(term.in_, self._words))

    @cached_property
    def _words(self) -> list[frozenset[str]]:
        """The words of each row, computed once."""
        return [
            frozenset(word for cell in record.cells for word in terms(cell, self.language)) for record in self.records
        ]

    def _requested_rows(self) -> list[TableRecord]:
        """Return the requested rows: they contain the words that nothing else explains, and are within the bound."""
        left = [term for term in self.asked if not self.named[term] and not term.in_(self.table.near)]
        matter = [term for term in left if term.weight == 1 or self._is_in_cells(term)]
        rows = zip(self.records, self._words, strict=True)
        records = [record for record, words in rows if all(term.in_(words) for term in matter)]
        return records if self.bound is None else self._within(records, self.bound)

    def _within(self, records: list[TableRecord], bound: re.Match[str]) -> list[TableRecord]:
        """Return the rows within the bound, which is a number or another column."""
        limits: Sequence[Number | None]
        if leading := _LEADING_DIGITS.search(bound["bound"]):
            bound_text = bound["bound"].strip()
            column = self._column_of(bound_text)
            limits = self._numbers([leading[0]] * len(records))
        else:
            words = frozenset(terms(bound["bound"], self.language))
            other = next(
                (at for at, header in enumerate(self.headers) if header and header <= words and self.numeric[at]), None
            )
            if other is None:
                return []
            column = self._beside(other)
            limits = self._numbers([record.cells[other] for record in records])
        if column is None:
            return []
        values = self._numbers([record.cells[column] for record in records])
        return [
            record
            for record, value, limit in zip(records, values, limits, strict=True)
            if value is not None and limit is not None and _keeps(bound, value.value, limit.value)
        ]

    def _numbers(self, cells: Sequence[str]) -> list[Number | None]:
        """Parse cells as numbers; the question's language decides what an ambiguous `38,400` means."""
        return column_numbers(cells, "." if self.language == "en" else ",")

    def _column_of(self, bound_text: str) -> int | None:
        """Return the column that a bound is about: the numeric one that is named, or the only possible one."""
        of_numbers = [at for at, numeric in enumerate(self.numeric) if numeric]
        candidates = [at for at in of_numbers if any(at in columns for columns in self.named.values())]
        unit = re.sub(r"[\d.,'\s]", "", bound_text)
        of_unit = [at for at in of_numbers if unit and any(unit in record.cells[at] for record in self.records)]
        return next((columns[0] for columns in (candidates, of_unit, of_numbers) if len(columns) == 1), None)

    def _beside(self, other: int) -> int | None:
        """Return the column to compare with another: one that is named, one that counts stock, or the one before it."""
        of_numbers = [at for at, numeric in enumerate(self.numeric) if numeric and at != other]
        candidates = [at for at in of_numbers if any(at in columns for columns in self.named.values())]
        counts = [at for at in self._of_stock() if at in of_numbers]
        before = [at for at in of_numbers if at == other - 1]
        return next((columns[0] for columns in (candidates, counts, before) if columns), None)

    def _of_stock(self) -> list[int]:
        """Return the columns that say how many there are of a row's item."""
        stock = frozenset(stem(word, self.language) for word in _STOCK.split())
        return [at for at, numeric in enumerate(self.numeric) if numeric and self.headers[at] & stock]

    @property
    def measured(self) -> int | None:
        """The numeric column for a sum or for the highest value: the one that the words name best."""
        of_numbers = [at for at, numeric in enumerate(self.numeric) if numeric]
        if self.measures:
            of_numbers = [at for at in of_numbers if self.headers[at] & self.measures]
        matches = {at: sum(at in columns for columns in self.named.values()) for at in of_numbers}
        best = max(matches, key=lambda at: matches[at], default=None)
        if best is not None and (matches[best] or self.measures):
            return best
        stock = self._of_stock() if _MOST.fullmatch(self.intent) else []
        return next(iter(stock), None)

    def told(self) -> TableAnswer | None:
        match self.task:
            case "all":
                return self._all()
            case "cell":
                return self._cell()
            case "count":
                return self._count()
            case "highest" | "lowest":
                return self._extreme()
            case "sum" | "mean":
                return self._sum(self.task)

    def _all(self) -> TableAnswer:
        mentions = dict.fromkeys(at for term in self.asked for at in self.named[term])
        if _TASKS["count"].search(self.question.text) and (stock := self._of_stock()):
            mentions[stock[0]] = None
        name = self._name_column
        columns = [at for at, header in enumerate(self.table.headers) if at == name or at in mentions]
        if len(columns) < 2:
            filled = [at for at in range(len(self.headers)) if any(record.cells[at] for record in self.chosen)]
            columns = filled if len(filled) <= MOST_COLUMNS else columns
        return self._rows(columns)

    def _rows(self, columns: Sequence[int]) -> TableAnswer:
        """Return these columns of the chosen rows."""
        rows = tuple(tuple(record.cells[at] for at in columns) for record in self.chosen)
        return TableAnswer(rows, self._places(self.chosen), tuple(self.table.headers[at] for at in columns))

    def _places(self, records: Sequence[TableRecord]) -> tuple[tuple[SourcePlace, ...], ...]:
        """Return the place of each row."""
        return tuple((place,) for place in self.table.places_of(records))

    def _numbers_of(self, records: Sequence[TableRecord]) -> tuple[int, ...]:
        """Return the numbers of rows, from 1 below the header."""
        numbers = {id(record): number for number, record in enumerate(self.table.records, start=1)}
        return tuple(numbers[id(record)] for record in records)

    @property
    def _name_column(self) -> int:
        """The column that names the rows: the one that the request names or takes cells from, or else the first."""
        of_words = [at for at, numeric in enumerate(self.numeric) if not numeric]
        names = [at for at in of_words if not any(_DIGIT.match(record.cells[at]) for record in self.records)]
        by_header = [at for at in names if any(at in columns for columns in self.named.values())]
        by_cell = [at for at in names if any(term.in_(self._column(at)) for term in self.asked if not self.named[term])]
        return next(iter(by_header or by_cell or self.table.name_columns), 0)

    def _column(self, at: int) -> frozenset[str]:
        return frozenset(word for record in self.records for word in terms(record.cells[at], self.language))

    def _cell(self) -> TableAnswer:
        """Return the cells where the named row and the named columns cross."""
        row = self.chosen[0]
        name = self.table.name_of(row)
        cells = ((f"{name}, {self.table.headers[at]}", row.cells[at]) for at in self._requested_columns())
        requested = tuple(cells)
        return TableAnswer(requested, self._places([row] * len(requested)))

    def _count(self) -> TableAnswer | None:
        number_columns = [at for term in self.asked for at in self.named[term] if self.numeric[at]]
        if number_columns and self.bound is None:
            return None  # a column holds the number
        name = self._name_column
        if self.bound is None and name not in self.named[self.asked[0]] and (stock := self._of_stock()):
            return self._rows((name, stock[0]))  # each row says how many there are
        names = [record.cells[name] for record in self.chosen]
        is_short = len(names) <= MOST_NAMED and all(names)
        subject = " ".join(term.word for term in self.asked) or self.table.headers[self._name_column]
        return TableAnswer(
            ((subject, f"{len(names)} ({'; '.join(names)})" if is_short else str(len(names))),),
            (self.table.places,),
            counted=() if is_short else self._numbers_of(self.chosen),
        )

    def _extreme(self) -> TableAnswer | None:
        column = self.measured
        if column is None:
            return None
        values = self._numbers([record.cells[column] for record in self.chosen])
        numbers = [value.value for value in values if value is not None]
        extreme = (max if self.task == "highest" else min)(numbers, default=Decimal(0))
        winners = [
            record for record, value in zip(self.chosen, values, strict=True) if value and value.value == extreme
        ]
        label = self.table.headers[column]
        names = [self.table.name_of(record) for record in winners]
        rows = tuple(
            (", ".join(filter(None, (name, label))), record.cells[column])
            for name, record in zip(names, winners, strict=True)
        )
        return TableAnswer(rows, self._places(winners)) if 0 < len(rows) <= MOST_WINNERS else None

    def _sum(self, operation: Literal["sum", "mean"]) -> TableAnswer | None:
        column = self.measured
        if column is None:
            return None
        totals = [
            record for record in self.table.records if record not in self.records and not is_empty(record.cells[column])
        ]
        if operation == "sum" and totals and len(self.chosen) == len(self.records):
            label = f"{self.table.name_of(totals[-1])}, {self.table.headers[column]}"
            return TableAnswer(((label, totals[-1].cells[column]),), self._places(totals[-1:]))
        filled = [record for record in self.chosen if not is_empty(record.cells[column])]
        cells = [record.cells[column] for record in filled]
        values = self._numbers(cells)
        known = [value for value in values if value is not None]
        if len(known) < len(cells) or len({value.unit for value in known}) != 1:
            return None  # an unreadable cell, or one of another unit, makes every total wrong
        total = sum((value.value for value in known), Decimal(0))
        decimals = max(value.decimals for value in known)
        if operation == "mean":
            total, decimals = total / len(known), max(decimals, 2)
        total_text = written(total, known[0], decimals, decimal_mark(cells) or ".")
        sign = "Σ" if operation == "sum" else "Ø"
        label = f"{self.table.headers[column]}, {sign} {len(known)}"
        calculation = Calculation(operation, tuple(cells), self._numbers_of(filled))
        return TableAnswer(((label, total_text),), (self.table.places,), is_worked_out=True, calculation=calculation)


def _is_form_of(word: str, name: str, language: str) -> bool:
    """Return whether a word is in the name with another ending, which stemmers often miss: `Kurse` and `Kurs`."""
    others = name.casefold().split() if language != "en" else []
    return any(_differ_in_ending(word.casefold(), other) for other in others)


def _differ_in_ending(first: str, second: str) -> bool:
    pairs = zip(first, second, strict=False)
    shared = next(
        (at for at, (letter, other_letter) in enumerate(pairs) if letter != other_letter), min(len(first), len(second))
    )
    return shared >= STEM and max(len(first), len(second)) - shared <= ENDING


def _keeps(bound: re.Match[str], value: Decimal, limit: Decimal) -> bool:
    if bound["below"]:
        return value < limit
    if bound["above"]:
        return value > limit
    return value >= limit if bound["least"] else value <= limit
