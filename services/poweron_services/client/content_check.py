"""Check the content store: which contents that accepted events refer to are missing, damaged or unreadable.

The rows, already compared with the log, say which events were accepted. References and listing are compared in a
temporary file, so that a long log needs no more memory.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing, closing, suppress
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

import orjson
from pydantic import ValidationError

from poweron_events.archive_events import ContentErased
from poweron_events.codec import Undecodable, decode, sha256
from poweron_events.content import ContentStore, commitment
from poweron_events.content_references import ContentReference, content_references
from poweron_events.errors import MissingContent, Refused, Unavailable
from poweron_events.event import DocumentRef, Model, ModelCall
from poweron_events.request import DocumentErased
from poweron_events.step_events import ActionCompleted
from poweron_projections.connection import Pool
from poweron_projections.content_rows import accepted_events, recent_contents
from poweron_projections.workflow_lifetimes import ERASURES
from poweron_services.client.content_inventory import InventoryEntry

TOGETHER: Final = 16  # contents that are read concurrently
SMALL: Final = 1_000_000  # bytes; larger contents are read one by one
KEY: Final = "key"
ALL: Final = ""  # as a name: all contents of the workflow were erased

_TABLES: Final = """
PRAGMA cache_size = -8000;
PRAGMA journal_mode = OFF;
CREATE TABLE stored (workflow_id TEXT, name TEXT, size INTEGER, PRIMARY KEY (workflow_id, name)) WITHOUT ROWID;
CREATE TABLE referenced (
    workflow_id TEXT, name TEXT, seq INTEGER, field TEXT, document_id TEXT, document_name TEXT,
    PRIMARY KEY (workflow_id, name)
) WITHOUT ROWID;
CREATE TABLE sizes (workflow_id TEXT, name TEXT, size INTEGER, PRIMARY KEY (workflow_id, name, size)) WITHOUT ROWID;
CREATE TABLE digests (workflow_id TEXT, name TEXT, sha256 TEXT, PRIMARY KEY (workflow_id, name, sha256)) WITHOUT ROWID;
CREATE TABLE parts (
    workflow_id TEXT, document_id TEXT, name TEXT, seq INTEGER, PRIMARY KEY (workflow_id, document_id, name)
) WITHOUT ROWID;
CREATE TABLE erased (
    workflow_id TEXT, document_id TEXT, seq INTEGER, PRIMARY KEY (workflow_id, document_id, seq)
) WITHOUT ROWID;
CREATE TABLE erasures (workflow_id TEXT, name TEXT, seq INTEGER, PRIMARY KEY (workflow_id, name, seq)) WITHOUT ROWID;
CREATE TABLE faults (workflow_id TEXT, name TEXT, fault TEXT, PRIMARY KEY (workflow_id, name)) WITHOUT ROWID;
"""
_REFER: Final = """
INSERT INTO referenced VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (workflow_id, name) DO UPDATE
   SET seq = excluded.seq, field = excluded.field, document_id = excluded.document_id,
       document_name = excluded.document_name
 WHERE excluded.seq < referenced.seq
"""
_BELONG: Final = """
INSERT INTO parts VALUES (?, ?, ?, ?)
    ON CONFLICT (workflow_id, document_id, name) DO UPDATE SET seq = excluded.seq WHERE excluded.seq < parts.seq
"""
_HAS_SIZE: Final = "INSERT OR IGNORE INTO sizes VALUES (?, ?, ?)"
_HAS_DIGEST: Final = "INSERT OR IGNORE INTO digests VALUES (?, ?, ?)"
_KEYS: Final = """
INSERT OR IGNORE INTO referenced (workflow_id, name, seq, field)
SELECT workflow_id, 'key', max(seq), 'key' FROM referenced GROUP BY workflow_id
"""
_OF_DOCUMENTS: Final = """
INSERT OR IGNORE INTO erasures
SELECT workflow_id, name, erased.seq FROM erased JOIN parts USING (workflow_id, document_id)
 WHERE parts.seq < erased.seq
"""
_ERASED: Final = """
UPDATE faults SET fault = 'erased'
 WHERE fault = 'missing'
   AND EXISTS (SELECT 1 FROM referenced JOIN erasures USING (workflow_id)
                WHERE referenced.workflow_id = faults.workflow_id AND referenced.name = faults.name
                  AND erasures.name IN ('', faults.name) AND erasures.seq > referenced.seq)
"""
_MISSING: Final = """
INSERT INTO faults
SELECT workflow_id, name, 'missing' FROM referenced LEFT JOIN stored USING (workflow_id, name) WHERE stored.size IS NULL
"""
_OF_OTHER_SIZE: Final = """
INSERT INTO faults
SELECT DISTINCT workflow_id, name, 'damaged' FROM sizes JOIN stored USING (workflow_id, name)
 WHERE stored.size - sizes.size NOT IN (0, {overhead})
"""
_DIGESTS: Final = "SELECT sha256 FROM digests WHERE workflow_id = ? AND name = ?"
_TO_READ: Final = """
SELECT workflow_id, name, stored.size FROM referenced JOIN stored USING (workflow_id, name)
 WHERE name <> 'key' AND NOT EXISTS (SELECT 1 FROM faults
                                        WHERE faults.workflow_id = stored.workflow_id AND faults.name = stored.name)
 ORDER BY workflow_id, name
"""
_UNREFERENCED: Final = """
SELECT count(*) FROM stored LEFT JOIN referenced USING (workflow_id, name)
 WHERE name <> 'key' AND referenced.name IS NULL
"""
_FAULTS: Final = """
SELECT workflow_id, name, fault, seq, field, document_id, document_name
  FROM faults JOIN referenced USING (workflow_id, name) WHERE fault <> 'erased' ORDER BY workflow_id, seq, name
"""
_GONE: Final = "SELECT count(*) FROM faults WHERE fault = 'erased'"

Fault = Literal["missing", "damaged", "unreadable"]
OnProgress = Callable[[int, int], None]


class ContentFault(NamedTuple):
    """A content that an accepted event refers to, and that the store does not hold intact."""

    workflow_id: str
    name: str
    fault: Fault
    seq: int
    """The first event that refers to it; for the key of a workflow, the last of those of its contents."""
    field: str
    document_id: str | None
    """The document whose bytes it is; None for a prompt, an answer, the key of the workflow or any other content."""
    document_name: str | None


class ContentLost(Refused):
    """Nothing that recent events refer to is in the content store."""

    code = "content_lost"


@dataclass(slots=True)
class CheckedContent:
    """The result of checking the content store."""

    referenced: int = 0
    """How many contents events refer to, including the key of each of their workflows."""
    stored: int = 0
    unreferenced: int = 0
    erased: int = 0
    """How many contents are gone because events erased them."""
    read: int = 0
    """How many contents were compared with their names."""
    faults: Sequence[ContentFault] = ()


async def expect_content(pool: Pool, content: ContentStore) -> None:
    """Look for contents that the newest workflows refer to, and expect to find one of them.

    Raises:
        ContentLost: there are such references, and the store holds none of them.
        Unavailable: Postgres or the store cannot be reached.
    """
    await content.check()
    recent = await recent_contents(pool)
    for workflow_id, name in recent:
        with suppress(MissingContent):
            await content.size(workflow_id, name)
            return
    if recent:
        raise ContentLost(
            "The content store holds none of the contents that the newest workflows refer to: it was lost or moved"
        )


async def check_content(
    pool: Pool, content: ContentStore, *, reading: bool, on_progress: OnProgress = lambda _, __: None
) -> CheckedContent:
    """Compare what the store holds with what accepted events refer to; with `reading`, also the bytes.

    Raises:
        Unavailable: Postgres or the store cannot be reached.
    """
    await content.check()
    with closing(sqlite3.connect("", isolation_level=None)) as file:
        check = ContentCheck(content, file)
        await check.take_references(accepted_events(pool))
        await check.take_listing()
        if reading:
            await check.read(on_progress)
        if check.result().faults:  # an event may have erased them since the references were read
            await check.take_references(accepted_events(pool, ERASURES))
        return check.result()


@dataclass(slots=True)
class ContentCheck:
    """One check: reads references before the listing, so that content stored meanwhile is not reported as missing."""

    content: ContentStore
    file: sqlite3.Connection
    _keys: dict[str, bytes | None] = field(default_factory=dict)
    _read: int = 0

    def __post_init__(self) -> None:
        self.file.executescript(_TABLES)

    async def take_references(self, pages: AsyncIterator[Sequence[tuple[str, int, bytes]]]) -> None:
        """Record all contents that these events refer to, directly or through a list that is itself a content."""
        async for page in pages:
            self.file.execute("BEGIN")
            for workflow_id, seq, value in page:
                await self._take(workflow_id, seq, value)
            self.file.execute("COMMIT")
        self.file.execute(_KEYS)

    async def _take(self, workflow_id: str, seq: int, value: bytes) -> None:
        try:
            event = decode(value).event
        except Undecodable:
            return
        if event is None:  # a type that only a newer release knows
            return
        if isinstance(event, DocumentErased):
            rows = ((workflow_id, document_id, seq) for document_id in event.documents)
            self.file.executemany("INSERT OR IGNORE INTO erased VALUES (?, ?, ?)", rows)
        if isinstance(event, ContentErased):
            rows = ((workflow_id, name, seq) for name in (event.contents if event.documents else (ALL,)))
            self.file.executemany("INSERT OR IGNORE INTO erasures VALUES (?, ?, ?)", rows)
        self._refer(workflow_id, seq, content_references(event))
        if isinstance(event, ActionCompleted):
            for name, kind in _lists(event):
                for entry in await self._entries(workflow_id, name, kind):
                    self._refer(workflow_id, seq, content_references(entry))

    def _refer(self, workflow_id: str, seq: int, references: Iterable[ContentReference]) -> None:
        refs = [*references]
        self.file.executemany(_REFER, [(workflow_id, ref.name, seq, ref.field, *_document(ref)) for ref in refs])
        self.file.executemany(
            _BELONG, [(workflow_id, ref.owner.document_id, ref.name, seq) for ref in refs if ref.owner]
        )
        self.file.executemany(_HAS_SIZE, [(workflow_id, ref.name, ref.document.size) for ref in refs if ref.document])
        self.file.executemany(_HAS_DIGEST, [(workflow_id, ref.name, ref.sha256) for ref in refs if ref.sha256])

    async def _entries(self, workflow_id: str, name: str, kind: type[Model]) -> list[Model]:
        """Return the entries of a list stored as content; none if it cannot be read, which is a fault of its own."""
        try:
            return [kind.model_validate(entry) for entry in orjson.loads(await self.content.get(workflow_id, name))]
        except (MissingContent, Unavailable, ValidationError, ValueError, TypeError):
            return []

    async def take_listing(self) -> None:
        """List the store, and record what is missing or has a different size."""
        async with aclosing(self.content.stored()) as pages:
            async for page in pages:
                entries = (InventoryEntry.of(item) for item in page)
                rows = [
                    (entry.workflow_id, entry.name, entry.size) for entry in entries if entry and entry.sort in _COUNTED
                ]
                self.file.execute("BEGIN")
                self.file.executemany("INSERT OR IGNORE INTO stored VALUES (?, ?, ?)", rows)
                self.file.execute("COMMIT")
        self.file.execute(_MISSING)
        self.file.execute(_OF_OTHER_SIZE.format(overhead=self.content.overhead))

    async def read(self, on_progress: OnProgress) -> None:
        """Read every stored content that events refer to, and compare it with its name."""
        (total,) = self.file.execute(f"SELECT count(*) FROM ({_TO_READ})").fetchone()  # noqa: S608 - our own query
        for group in _groups(self.file.execute(_TO_READ)):
            faults = await asyncio.gather(*(self._fault(workflow_id, name) for workflow_id, name, _ in group))
            rows = [(*place[:2], fault) for place, fault in zip(group, faults, strict=True) if fault is not None]
            self.file.executemany("INSERT INTO faults VALUES (?, ?, ?)", rows)
            self._read += len(group)
            on_progress(self._read, total)

    async def _fault(self, workflow_id: str, name: str) -> Fault | None:
        try:
            data = await self.content.get(workflow_id, name)
            key = await self._key(workflow_id)
        except MissingContent:
            return "missing"
        except Unavailable as error:
            if isinstance(error.__cause__, OSError):  # only this file, not the store
                return "unreadable"
            raise
        if key is None:
            return None  # the missing key is a fault of its own
        is_named = await asyncio.to_thread(commitment, key, data) == name
        return None if is_named and self._has_digests(workflow_id, name, data) else "damaged"

    def _has_digests(self, workflow_id: str, name: str, data: bytes) -> bool:
        """Return whether the content has the SHA-256 that events say of it."""
        said = {digest for (digest,) in self.file.execute(_DIGESTS, (workflow_id, name))}
        return not said or said == {sha256(data)}

    async def _key(self, workflow_id: str) -> bytes | None:
        if workflow_id not in self._keys:
            self._keys.clear()  # contents are ordered by workflow
            key = None
            with suppress(MissingContent):
                key = await self.content.read_path(f"{workflow_id}/{KEY}")
            self._keys[workflow_id] = key
        return self._keys[workflow_id]

    def result(self) -> CheckedContent:
        """Return what was found; contents that an event erased count as erased, unless they are still there."""
        self.file.execute(_OF_DOCUMENTS)
        self.file.execute(_ERASED)
        return CheckedContent(
            self._count("SELECT count(*) FROM referenced") - self._count(_GONE),
            self._count("SELECT count(*) FROM stored"),
            self._count(_UNREFERENCED),
            self._count(f"{_GONE} AND name <> 'key'"),
            self._read,
            [ContentFault(*row) for row in self.file.execute(_FAULTS)],
        )

    def _count(self, query: str) -> int:
        (count,) = self.file.execute(query).fetchone()
        return int(count)


_COUNTED: Final = ("content", KEY)


def _document(reference: ContentReference) -> tuple[str | None, str | None]:
    """Return id and name of the document whose bytes the content holds, if it is one."""
    document = reference.document
    return (None, None) if document is None else (document.document_id, document.document_name)


def _lists(event: ActionCompleted) -> Iterator[tuple[str, type[Model]]]:
    """Yield the contents that list what did not fit into the event."""
    if event.all_calls is not None:
        yield event.all_calls, ModelCall
    if event.documents_left_out and event.documents:
        yield event.documents[-1].content, DocumentRef


def _groups(places: Iterable[tuple[str, str, int]]) -> Iterator[list[tuple[str, str, int]]]:
    """Group contents of one workflow that are read concurrently; a large one is read alone."""
    group: list[tuple[str, str, int]] = []
    for place in places:
        is_full = len(group) == TOGETHER or place[2] > SMALL or (group and group[-1][2] > SMALL)
        if group and (is_full or group[0][0] != place[0]):
            yield group
            group = []
        group.append(place)
    if group:
        yield group
