"""The highest and the lowest: questions that one column of a table decides."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from poweron_services.models.builtin.passages import Around, Place, Table
from poweron_services.models.builtin.question import Question, Term
from poweron_services.models.builtin.superlatives import Superlative
from poweron_services.models.builtin.superlatives import superlative as superlative_of
from poweron_services.models.builtin.tables import Record, number
from poweron_services.models.builtin.words import stem, terms

NUMERIC = 0.8  # of a column's cells, for the column to be one of numbers
MOST = 5  # rows that share the highest value; more of them decide nothing
MEASURED, FOLLOWING = 4, 2  # what it counts that a column measures the superlative, or is named behind it
BEHIND = 3  # words behind a superlative that may name its column

Found = tuple[str, str, tuple[Place, ...]]
"""A label, a value and the places."""

_MONEY = "cost price fee rate amount charge limit betrag preis kosten"
_MEASURES = {
    "expensive": _MONEY,
    "costliest": _MONEY,
    "cheapest": _MONEY,
    "teuerst": _MONEY,
    "günstigst": _MONEY,
    "billigst": _MONEY,
    "oldest": "age alter 年齢",
    "youngest": "age alter 年齢",
    "ältest": "alter age 年齢",
    "jüngst": "alter age 年齢",
    "longest": "duration length runtime days dauer",
    "shortest": "duration length runtime days dauer",
}
_SUMS = ("total", "sum", "summe", "gesamt", "subtotal")


def extremes(tables: Sequence[Table], around: Mapping[Place, Around], question: Question) -> list[Found]:
    """The rows with the highest or lowest value of the column that the question names; nothing if none is named."""
    superlative = superlative_of(question.text)
    if superlative is None:
        return []
    asked = _Asked(question, superlative)
    columns = [(table, column) for table in tables for column in range(len(table.records[0].headers))]
    fitting = [(_fit(table, column, asked, around[table.place]), table, column) for table, column in columns]
    best = max((fit for fit, _, _ in fitting), default=0)
    return next((_rows(table, column, asked) for fit, table, column in fitting if fit == best), []) if best else []


@dataclass(frozen=True, slots=True)
class _Asked:
    """What the question says besides the superlative."""

    question: Question
    superlative: Superlative

    @property
    def terms(self) -> tuple[Term, ...]:
        return tuple(term for term in self.question.terms if term.word.casefold() not in self.superlative.word)

    @property
    def needed(self) -> tuple[Term, ...]:
        """The words that must be explained; the others only help to find the column."""
        return tuple(term for term in self.terms if term.weight == 1 and not term.word.endswith("ed"))

    @property
    def behind(self) -> frozenset[str]:
        """The words that follow the superlative: what is highest or lowest."""
        after = self.question.text.casefold().partition(self.superlative.word)[2]
        return frozenset(self.of(" ".join(re.findall(r"\w[\w-]*", after)[:BEHIND])))

    @property
    def measures(self) -> frozenset[str]:
        """The words for what a superlative such as `cheapest` measures by itself."""
        words = next((words for word, words in _MEASURES.items() if word in self.superlative.word), "")
        return frozenset(stem(word, self.question.language) for word in words.split())

    def of(self, text: str) -> frozenset[str]:
        return frozenset(terms(text, self.question.language))


def _fit(table: Table, column: int, asked: _Asked, around: Around) -> int:
    """How well the question names the column; 0 where it is not of numbers or a word stays unexplained."""
    cells = [record.cells[column] for record in table.records if record.cells[column]]
    numbers = [cell for cell in cells if number(cell) is not None]
    if len(numbers) < 2 or len(numbers) < NUMERIC * len(cells):
        return 0
    header = asked.of(table.records[0].headers[column])
    beside = table.near | around.titles | asked.of(table.place.locator)
    everything = header | beside | _words(table, asked)
    if not all(_in(term, everything) for term in asked.needed):
        return 0
    measured = asked.measures
    if measured and not header & measured:
        return 0
    named = sum(_in(term, header) * (FOLLOWING if term.stem in asked.behind else 1) for term in asked.terms)
    return named + MEASURED * bool(header & measured)


def _rows(table: Table, column: int, asked: _Asked) -> list[Found]:
    records = [record for record in table.records if number(record.cells[column]) is not None and not _is_sum(record)]
    headers = _of_all(table.records[0].headers, asked)
    filters = [term for term in asked.needed if not _in(term, headers | table.near)]
    records = [one for one in records if all(_in(term, _of(one, asked)) for term in filters)] or records
    values = [number(record.cells[column]) or 0.0 for record in records]
    if not values:
        return []
    extreme = max(values) if asked.superlative.highest else min(values)
    winners = [record for record, value in zip(records, values, strict=True) if value == extreme]
    return [_found(table.place, record, column, asked) for record in winners] if len(winners) <= MOST else []


def _found(place: Place, record: Record, column: int, asked: _Asked) -> Found:
    """The row's name with its highest or lowest value; where another column is asked for, with that as well."""
    filled = [index for index, cell in enumerate(record.cells) if cell and index != column]
    words = [index for index in filled if number(record.cells[index]) is None]
    named = [index for index in filled if any(_in(term, asked.of(record.headers[index])) for term in asked.terms)]
    naming = [index for index in words if index in named][:1] or words[:1]
    others = [index for index in named if index not in naming]
    names = [record.cells[index] for index in dict.fromkeys([*words[:1], *naming])]
    said = [*names, *(f"{record.headers[index]}: {record.cells[index]}" for index in others), record.headers[column]]
    return ", ".join(part for part in said if part), record.cells[column], (place,)


def _is_sum(record: Record) -> bool:
    first = next((cell.casefold() for cell in record.cells if cell), "")
    return first.startswith(_SUMS)


def _in(term: Term, words: frozenset[str]) -> bool:
    return term.stem in words or bool(term.same & words)


def _words(table: Table, asked: _Asked) -> frozenset[str]:
    everything = [_of(record, asked) for record in table.records]
    return _of_all(table.records[0].headers, asked).union(*everything)


def _of(record: Record, asked: _Asked) -> frozenset[str]:
    return _of_all((*record.inherited, *record.cells), asked)


def _of_all(texts: Iterable[str], asked: _Asked) -> frozenset[str]:
    return frozenset[str]().union(*map(asked.of, texts))
