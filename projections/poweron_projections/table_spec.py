"""A table in code: a name, a row type whose fields are its columns, and a key.

The statements that write and compare rows are derived from it, so columns are listed once in SQL (`migrations/`)
and once in Python. A test keeps the two consistent.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Annotated, Any, Final, Literal, get_args, get_type_hints

import orjson
from pydantic import BaseModel

Row = tuple[Any, ...]
"""One row, a NamedTuple whose fields are the table's columns in order."""

Uuid = Annotated[str, "uuid"]
Json = Annotated[str, "jsonb"]
"""JSON as text; read back as the value."""

Keeps = Literal["all", "newest", "first"]
"""`all`: rows are only added. `newest`: a row replaces the one with its key. `first`: an existing row is kept."""

_TYPES: Final[dict[object, str]] = {
    Uuid: "uuid",
    Json: "jsonb",
    str: "text",
    int: "bigint",
    bool: "boolean",
    bytes: "bytea",
}


@dataclass(frozen=True)
class Table:
    """A table, and how its rows are written."""

    name: str
    row: type[Row]
    key: tuple[str, ...]
    keeps: Keeps = "all"
    not_compared: tuple[str, ...] = ()
    """Columns that may hold the same value in different bytes; `shadow` compares the values."""

    @cached_property
    def columns(self) -> tuple[str, ...]:
        return tuple(get_type_hints(self.row))

    @cached_property
    def json_columns(self) -> tuple[str, ...]:
        """The columns whose cells are JSON."""
        hints = get_type_hints(self.row, include_extras=True)
        return tuple(column for column, hint in hints.items() if Json in (hint, *get_args(hint)))

    @cached_property
    def key_of(self) -> Callable[[Row], object]:
        """A function that returns the key of a row, which can be compared."""
        return itemgetter(*map(self.columns.index, self.key))

    @cached_property
    def upsert(self) -> str:
        """One statement for any number of rows, which it takes as the parameter that `given` returns."""
        types = [_pg_type(hint) for hint in get_type_hints(self.row, include_extras=True).values()]
        told = [f"{column} {_passed_as(name)}" for column, name in zip(self.columns, types, strict=True)]
        chosen = [f"{column}::{name}" for column, name in zip(self.columns, types, strict=True)]
        return (
            f"INSERT INTO {self.name} ({', '.join(self.columns)}) "  # noqa: S608 - names from this package
            f"SELECT {', '.join(chosen)} FROM json_to_recordset($1::json) AS given ({', '.join(told)}) "
            f"ON CONFLICT ({', '.join(self.key)}) DO {self._on_conflict}"
        )

    def given(self, rows: Iterable[Row]) -> str:
        """Return rows as the parameter of `upsert`: JSON, which costs less than one array per column."""
        return orjson.dumps([dict(zip(self.columns, row, strict=True)) for row in rows], default=_bytea).decode()

    @property
    def _on_conflict(self) -> str:
        if self.keeps == "first":
            return "NOTHING"
        changed = [column for column in self.columns if column not in self.key]
        return f"UPDATE SET {', '.join(f'{column} = excluded.{column}' for column in changed)}"

    def differences(self, expected: str, found: str) -> str:
        """Return a query for the rows that two schemas do not have in common: key, and both rows as JSON."""
        left, right = (", ".join(f"{side}.{column}" for column in self.columns) for side in ("e", "f"))
        told = [f"{name} IS NOT NULL AS {name}" if name in self.not_compared else name for name in self.columns]
        cells = ", ".join([*told, "TRUE AS there"])
        key = ", ".join(f"'{column}', {column}" for column in self.key)
        return (
            f"SELECT jsonb_build_object({key}) AS key, "  # noqa: S608 - names from this package
            f"CASE WHEN e.there THEN to_jsonb(e) - 'there' END AS expected, "
            f"CASE WHEN f.there THEN to_jsonb(f) - 'there' END AS found "
            f"FROM (SELECT {cells} FROM {expected}.{self.name}) e "
            f"FULL JOIN (SELECT {cells} FROM {found}.{self.name}) f USING ({', '.join(self.key)}) "
            f"WHERE ROW(e.there, {left}) IS DISTINCT FROM ROW(f.there, {right}) LIMIT $1"
        )


def _pg_type(hint: object) -> str:
    return next(_TYPES[part] for part in (hint, *get_args(hint)) if part in _TYPES)


def _passed_as(pg_type: str) -> str:
    return "text" if pg_type == "jsonb" else pg_type  # JSON within JSON is a text


def columns_of(rows: Iterable[Row]) -> Sequence[Row]:
    """Transpose the rows: one tuple per column."""
    return list(zip(*rows, strict=True))


class TransposedRows(Collection[Row]):
    """Rows that are kept as columns, and made one at a time while they are written."""

    def __init__(self, columns: Sequence[Row]) -> None:
        self._columns = columns

    def __len__(self) -> int:
        return len(self._columns[0])

    def __iter__(self) -> Iterator[Row]:
        return zip(*self._columns, strict=True)

    def __contains__(self, row: object) -> bool:
        return any(row == mine for mine in self)


def text(value: str) -> str:
    """Return the text in a form that Postgres can store: without NUL."""
    return value.replace("\0", "\ufffd") if "\0" in value else value


def optional_text(value: str | None) -> str | None:
    return None if value is None else text(value)


def json(value: object) -> Json:
    """Encode a value of our models as the text of a `jsonb`, without the NULs that Postgres cannot store."""
    if value == ():
        return "[]"
    dumped = orjson.dumps(value, default=_plain)
    if rb"\u0000" in dumped:
        dumped = orjson.dumps(_without_nul(orjson.loads(dumped)))
    return dumped.decode()


def _plain(value: object) -> object:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True)
    raise TypeError(f"{type(value).__name__} is not a value of our models")


def _bytea(value: object) -> str:
    if isinstance(value, bytes):
        return f"\\x{value.hex()}"
    raise TypeError(f"{type(value).__name__} is not a value of a row")


def _without_nul(value: Any) -> Any:
    match value:
        case str():
            return text(value)
        case list():
            return [_without_nul(item) for item in value]
        case dict():
            return {text(key): _without_nul(item) for key, item in value.items()}
        case _:
            return value
