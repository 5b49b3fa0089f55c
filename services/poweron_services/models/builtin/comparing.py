"""Questions that compare: which rows are below, above or at a number or another column of their row."""

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from poweron_services.models.builtin.passages import Passage, Place, Table
from poweron_services.models.builtin.question import Question, Term
from poweron_services.models.builtin.tables import Record, number
from poweron_services.models.builtin.words import stem, terms

MOST_ROWS = 40  # more of them are no answer
NUMERIC = 0.8  # of a column's cells
_QUANTITY: Final = "quantity stock hand count available inventory menge bestand anzahl"
_MONEY: Final = "price cost amount fee total preis kosten betrag"
_MEASURES: Final = {"cheaper": _MONEY, "expensive": _MONEY, "older": "age alter", "younger": "age alter"}

_LESS = r"(?:less|fewer|lower|smaller|cheaper|younger|shorter|weniger|kleiner|niedriger|billiger|jünger) (?:than|als)"
_MORE = (
    r"(?:more(?: expensive)?|greater|higher|larger|bigger|older|longer|mehr|größer|höher|teurer|älter) (?:than|als)"
    r"|exceed(?:s|ing|ed)?"
)
_COMPARED = re.compile(
    rf"\b(?:(?P<less>{_LESS}|below|unterhalb)|(?P<more>{_MORE}|above|oberhalb)"
    r"|(?P<least>(?:at least|no less than|mindestens)(?= \W{0,2}\d))"
    r"|(?P<most>(?:at most|no more than|höchstens)(?= \W{0,2}\d))"
    r"|(?P<under>(?:under|unter)(?= \W{0,2}\d))|(?P<over>(?:over|über)(?= \W{0,2}\d)))\s+(?P<than>.+)",
    re.IGNORECASE,
)
_THRESHOLD = re.compile(r"^(?:US\$|[$€£]|USD |EUR |CHF )?\s?(?P<number>\d[\d,]*(?:\.\d+)?)(?![\w/.-]*\d)(?P<rest>.*)")
_DOES: Final[dict[str, Callable[[float, float], bool]]] = {
    "less": operator.lt,
    "under": operator.lt,
    "more": operator.gt,
    "over": operator.gt,
    "least": operator.ge,
    "most": operator.le,
}
Found = tuple[str, str, tuple[Place, ...]]


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a question compares with what."""

    word: str
    holds: Callable[[float, float], bool]
    before: str
    than: str

    @property
    def threshold(self) -> float | None:
        """The number of the question, if it compares with one."""
        match = _THRESHOLD.match(self.than)
        return float(match["number"].replace(",", "")) if match else None

    @property
    def unit(self) -> str:
        """The words behind the number."""
        match = _THRESHOLD.match(self.than)
        return match["rest"] if match else ""

    def said_by(self, passage: Passage) -> bool:
        """Whether a passage itself makes the comparison, in the same words."""
        limit = _THRESHOLD.match(self.than)
        text = passage.statement.casefold()
        return self.word in text and (limit is None or limit["number"] in text)


def comparison(text: str) -> Comparison | None:
    """The comparison of a question, if it makes one."""
    match = _COMPARED.search(text)
    if match is None:
        return None
    name = next(name for name in _DOES if match[name])
    word = match[name].casefold()
    return Comparison(word, _DOES[name], f"{text[: match.start()]} {word}", match["than"].strip())


def compared(tables: Sequence[Table], question: Question, asked: Comparison) -> list[Found]:
    """The rows for which the comparison holds; none where the columns are not plain."""
    found = [rows for table in tables if (rows := _in_table(table, question, asked))]
    rows = [row for rows in found for row in rows]
    return rows if len(rows) <= MOST_ROWS else []


def _in_table(table: Table, question: Question, asked: Comparison) -> list[Found]:
    headers = [frozenset(terms(header.replace("_", " "), question.language)) for header in table.records[0].headers]
    columns = [column for column in range(len(headers)) if _is_numeric(table, column)]
    right = _right(asked, headers, columns, question)
    if asked.threshold is None and right is None:
        return []
    left = _left(asked, headers, [one for one in columns if one != right], question)
    if left is None:
        return []
    used = headers[left] | (headers[right] if right is not None else frozenset())
    used |= _stems(f"{asked.word} {_measure(asked)} {_QUANTITY} {asked.unit}", question)
    open_terms = [one for one in question.terms if one.weight == 1 and not _means(one, used) and not _is_number(one)]
    every = frozenset[str]().union(*headers, table.near)
    filters = [term for term in open_terms if not _means(term, every)]
    records = [one for one in table.records if all(_means(term, _words(one, question)) for term in filters)]
    return [_row(table.place, one, left, right) for one in records if _holds(one, left, right, asked)]


def _right(asked: Comparison, headers: list[frozenset[str]], columns: list[int], question: Question) -> int | None:
    """The column that is compared with: the question says all of its name."""
    if asked.threshold is not None:
        return None
    said = _stems(asked.than, question)
    return _only([column for column in columns if headers[column] and headers[column] <= said])


def _left(asked: Comparison, headers: list[frozenset[str]], columns: list[int], question: Question) -> int | None:
    """The column that is compared: named, or the one that such a comparison measures."""
    before = _stems(f"{asked.before} {asked.unit}", question)
    before_terms = [term for term in question.terms if term.stem in before]
    named = [column for column in columns if any(_means(term, headers[column]) for term in before_terms)]
    if named:
        said = frozenset(one for term in before_terms for one in (term.stem, *term.same))
        return _only([column for column in named if headers[column] <= said] or named)
    measure = _stems(_measure(asked), question)
    if measure or asked.threshold is not None:
        return _only([column for column in columns if headers[column] & measure])
    return _only([column for column in columns if headers[column] & _stems(_QUANTITY, question)])


def _measure(asked: Comparison) -> str:
    if measured := next((words for word, words in _MEASURES.items() if word in asked.word), ""):
        return measured
    return _MONEY if re.match(r"US\$|[$€£]|USD|EUR|CHF", asked.than) else ""


def _only(columns: list[int]) -> int | None:
    return columns[0] if len(columns) == 1 else None


def _holds(record: Record, left: int, right: int | None, asked: Comparison) -> bool:
    mine = number(record.cells[left])
    theirs = asked.threshold if right is None else number(record.cells[right])
    is_sum = next((cell for cell in record.cells if cell), "").casefold().startswith(("total", "sum", "gesamt"))
    return mine is not None and theirs is not None and not is_sum and asked.holds(mine, theirs)


def _row(place: Place, record: Record, left: int, right: int | None) -> Found:
    words = [cell for cell in (*record.inherited, *record.cells) if cell and number(cell) is None][:2]
    other = f" ({record.headers[right]}: {record.cells[right]})" if right is not None else ""
    return ", ".join([*words, record.headers[left]]), f"{record.cells[left]}{other}", (place,)


def _is_numeric(table: Table, column: int) -> bool:
    cells = [record.cells[column] for record in table.records if record.cells[column]]
    numbers = [cell for cell in cells if number(cell) is not None]
    return bool(numbers) and len(numbers) >= NUMERIC * len(cells)


def _means(term: Term, words: frozenset[str]) -> bool:
    return term.stem in words or bool(term.same & words)


def _is_number(term: Term) -> bool:
    return number(term.word) is not None


def _stems(text: str, question: Question) -> frozenset[str]:
    return frozenset(terms(text, question.language)) | frozenset(
        stem(word.casefold(), question.language) for word in re.findall(r"[^\W\d_]+", text)
    )


def _words(record: Record, question: Question) -> frozenset[str]:
    return frozenset(one for cell in (*record.inherited, *record.cells) for one in terms(cell, question.language))
