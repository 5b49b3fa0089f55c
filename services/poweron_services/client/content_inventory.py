"""What the content store holds and what the log refers to, in a temporary file: it can be millions of objects.

SQLite removes the file by itself, even if the process is killed.
"""

import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import groupby
from typing import Final, Literal, NamedTuple

from poweron_events.content_packs import LEFTOVER
from poweron_events.content_place import StoredObject
from poweron_events.request import RequestIdentity

_CONTENT: Final = re.compile(r"[0-9a-f]{64}")
_KIND: Final = re.compile(r"[a-z][a-z_]{0,50}")
_CACHE_KB: Final = 8_000
_TABLES: Final = f"""
PRAGMA cache_size = -{_CACHE_KB};
PRAGMA journal_mode = OFF;
CREATE TABLE stored (workflow_id TEXT, sort TEXT, name TEXT, path TEXT, size INTEGER, modified REAL);
CREATE TABLE might_go (name TEXT PRIMARY KEY, is_named INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID;
CREATE TABLE asked (name TEXT, source TEXT, id TEXT);
CREATE INDEX asked_names ON asked (name);
"""
_MIGHT_GO: Final = "INSERT OR IGNORE INTO might_go (name) VALUES (?)"
_NAMED: Final = "UPDATE might_go SET is_named = 1 WHERE name = ?"
_ASKED: Final = "INSERT INTO asked SELECT name, ?, ? FROM might_go WHERE name = ?"
_IS_NAMED: Final = "SELECT 1 FROM might_go WHERE name = ? AND is_named"

Sort = Literal["content", "answer", "key", "leftover"]
"""Bytes under their commitment, a remembered answer, a workflow's key, or a file whose writer died."""


class InventoryEntry(NamedTuple):
    """An object of the content store that may be removable."""

    workflow_id: str
    sort: Sort
    name: str
    path: str
    size: int
    modified: float

    @classmethod
    def of(cls, item: StoredObject) -> "InventoryEntry | None":
        """Return the stored object; None if it is not ours, in which case it is kept."""
        workflow_id, *inner, name = item.path.split("/")
        sort = _sort(inner, name) if workflow_id != item.path else None
        return None if sort is None else cls(workflow_id, sort, name, *item)


def _sort(inner: Sequence[str], name: str) -> Sort | None:
    if len(inner) > 1 or not all(map(_KIND.fullmatch, inner)):
        return None
    if LEFTOVER.fullmatch(name):
        return "leftover"
    if _CONTENT.fullmatch(name):
        return "answer" if inner else "content"
    return "key" if name == "key" and not inner else None


class ContentInventory:
    """All stored objects, and which of the old content is referenced; not safe for concurrent use."""

    def __init__(self) -> None:
        self._file = sqlite3.connect("", isolation_level=None)
        self._file.executescript(_TABLES)

    def close(self) -> None:
        """Remove the file."""
        self._file.close()

    def add(self, page: Sequence[InventoryEntry], older_than: float) -> None:
        """Add stored objects; content that is older than this moment may be removable."""
        old = ((entry.name,) for entry in page if entry.sort == "content" and entry.modified < older_than)
        self._file.execute("BEGIN")
        self._file.executemany("INSERT INTO stored VALUES (?, ?, ?, ?, ?, ?)", page)
        self._file.executemany(_MIGHT_GO, old)
        self._file.execute("COMMIT")

    def name(self, names: Iterable[str]) -> None:
        """Record that an event or a dead letter refers to these names."""
        self._file.executemany(_NAMED, ((name,) for name in names))

    def ask(self, names: Iterable[str], identity: RequestIdentity) -> None:
        """Record that a request refers to these names."""
        self._file.executemany(_ASKED, ((identity.source, identity.id, name) for name in names))

    def is_named(self, name: str) -> bool:
        """Return whether an event or a dead letter refers to it."""
        return self._file.execute(_IS_NAMED, (name,)).fetchone() is not None

    def asking(self, name: str) -> list[RequestIdentity]:
        """Return the requests that refer to it."""
        rows = self._file.execute("SELECT source, id FROM asked WHERE name = ?", (name,))
        return [RequestIdentity(source=source, id=id_) for source, id_ in rows]

    def workflow_ids(self) -> Iterator[str]:
        """Yield the workflows that have stored objects."""
        with closing(self._file.execute("SELECT DISTINCT workflow_id FROM stored")) as rows:
            yield from (workflow_id for (workflow_id,) in rows)

    def workflows(self) -> Iterator[tuple[str, list[InventoryEntry]]]:
        """Yield the stored objects of each workflow, in the order of their ids."""
        with closing(self._file.execute("SELECT * FROM stored ORDER BY workflow_id")) as stored_rows:
            for workflow_id, rows in groupby(
                map(InventoryEntry._make, stored_rows), key=lambda entry: entry.workflow_id
            ):
                yield workflow_id, [*rows]
