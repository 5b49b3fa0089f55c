"""Clean up the content store: remove content that no event refers to and that is older than a day.

See docs/decisions/0040. The log says what is referenced: any text that looks like the name of content counts, anywhere
in a record, so that no field of any event can be forgotten. The rows, caught up with the log, say which rounds are
open. In case of doubt, content is kept.
"""

import re
import time
from collections.abc import AsyncGenerator, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Final

from poweron_events import topics
from poweron_events.codec import InvalidRequest, Undecodable, decode_request
from poweron_events.content import CLEARED_WITHIN, ContentStore
from poweron_events.content_place import CLEARING
from poweron_events.dead_letter import read_dead_letter
from poweron_events.errors import Conflict, MissingContent, Refused
from poweron_events.log import EventLog, Record
from poweron_events.request import RequestIdentity
from poweron_projections import request_answers
from poweron_projections.verify import catch_up
from poweron_services.client.connect import Connections
from poweron_services.client.content_inventory import ContentInventory, InventoryEntry

DAY: Final = 86_400.0  # seconds
MAX_INDEX: Final = 50_000_000  # bytes of a content that may refer to others, such as the list of a result's documents
TOPICS: Final = (topics.EVENTS.name, topics.REQUESTS.name, topics.DEAD_LETTERS.name)
_NAMES: Final = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")


@dataclass(slots=True)
class Cleanup:
    """What can be removed, or was removed, by workflow; and the workflows that were skipped."""

    found: dict[str, list[InventoryEntry]] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)

    @property
    def all(self) -> list[InventoryEntry]:
        return [entry for entries in self.found.values() for entry in entries]


class NotItsLog(Refused):
    """The log knows no workflow of the content store, which may belong to another log."""

    code = "refused"


@dataclass(slots=True)
class _Seen:
    """What the log says about removable content; reading on can only add references."""

    inventory: ContentInventory
    positions: dict[str, Mapping[int, int]] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)
    """The workflows with at least one event."""
    moved: set[str] = field(default_factory=set)
    """The workflows with an event after the first reading, whose rounds may have been opened since."""

    async def read_on(self, log: EventLog) -> None:
        """Read what was appended since the last time."""
        for topic in TOPICS:
            start, end = self.positions.get(topic, {}), await log.ends(topic)
            async for records in log.read(topic, start, end):
                for record in records:
                    self._take(record)
            self.positions[topic] = end

    def _take(self, record: Record) -> None:
        names = {name.decode() for name in _NAMES.findall(_bytes(record))}
        if record.topic == topics.REQUESTS.name:
            if names and (identity := _identity(record)):
                self.inventory.ask(names, identity)
            return
        self.inventory.name(names)
        if record.topic == topics.EVENTS.name and record.key is not None:
            self.known.add(record.key.decode(errors="replace"))
            self.moved.add(record.key.decode(errors="replace"))


def _identity(record: Record) -> RequestIdentity | None:
    """Return the identity of a request; None if it cannot be read: a dead letter then holds the same references."""
    try:
        return decode_request(record.value, record.headers).identity
    except InvalidRequest as error:
        return error.identity
    except Undecodable:
        return None


def _bytes(record: Record) -> bytes:
    """Return the bytes of a record; for a dead letter also those that could not be read, since a later release may."""
    value = record.value or b""
    if record.topic != topics.DEAD_LETTERS.name:
        return value
    try:
        return value + (read_dead_letter(value).raw or b"")
    except Undecodable:
        return value


@contextmanager
def clearing_up(connections: Connections, now: float) -> Generator["ContentCleanup", None, None]:
    """Open one clean-up; `now` is in seconds since 1970."""
    with closing(ContentInventory()) as inventory:
        yield ContentCleanup(connections, now, inventory)


@dataclass(slots=True)
class ContentCleanup:
    """Finds what can be removed, and removes it; memory holds only what is removed, and the ids of workflows."""

    connections: Connections
    now: float
    inventory: ContentInventory
    _seen: _Seen = field(init=False)
    _open: frozenset[str] = field(init=False)

    async def find(self, *, foreign: bool = False) -> Cleanup:
        """Find what can be removed now; `foreign` allows a log that knows no workflow of the store.

        Raises:
            NotItsLog: the log knows none, and `foreign` does not allow it.
            LogLost: events that the rows were built from are missing.
            Unavailable: a server or the store does not answer.
        """
        log, content = self.connections.log, self.connections.content
        await log.check()
        await catch_up(log, self.connections.pool)
        async for page in content.stored():
            self.inventory.add([entry for entry in map(InventoryEntry.of, page) if entry is not None], self.now - DAY)
        self._seen = _Seen(self.inventory)
        await self._seen.read_on(log)
        self._seen.moved.clear()
        await catch_up(log, self.connections.pool)  # rounds may have been opened while the log was read
        self._open = await request_answers.open_workflows(self.connections.pool)
        if not foreign:
            _expect_its_log(self.inventory, self._seen.known)
        return Cleanup({workflow: going async for workflow, going in self._going()})

    async def remove(self, cleanup: Cleanup) -> Cleanup:
        """Remove what was found, unless it is referenced by now, and return what was removed."""
        result = Cleanup()
        for workflow, entries in cleanup.found.items():
            try:
                if removed := await self._remove(workflow, {entry.path for entry in entries}):
                    result.found[workflow] = removed
            except (Conflict, MissingContent):
                result.skipped.append(workflow)
        return result

    async def _remove(self, workflow: str, paths: Collection[str]) -> list[InventoryEntry]:
        """Check again, by the store's own clock, while a marker keeps writers out; then remove."""
        content, until = self.connections.content, time.monotonic() + CLEARED_WITHIN / 2
        async with content.clearing(workflow) as clock:
            await self._seen.read_on(self.connections.log)
            stored = [
                entry async for page in content.stored(workflow) for entry in map(InventoryEntry.of, page) if entry
            ]
            going = [entry for entry in await self._of_workflow(workflow, stored, clock) if entry.path in paths]
            if time.monotonic() > until:  # writers will soon take the marker for that of a dead process
                raise Conflict(f"Clearing up workflow {workflow} took too long")
            await content.remove([entry.path for entry in going if entry.sort != "key"])
            for key in (entry for entry in going if entry.sort == "key"):
                await _remove_key(content, key)
            return going

    async def _going(self) -> AsyncGenerator[tuple[str, list[InventoryEntry]], None]:
        for workflow, stored in self.inventory.workflows():
            if going := await self._of_workflow(workflow, stored, self.now):
                yield workflow, going

    async def _of_workflow(self, workflow: str, stored: Sequence[InventoryEntry], now: float) -> list[InventoryEntry]:
        """Return what can be removed of a workflow: its key last, if it has no event and nothing else is left."""
        old = [entry for entry in stored if self._is_old(entry, now)]
        going = [entry for entry in old if entry.sort == "leftover"]
        if workflow not in self._open and workflow not in self._seen.moved:
            unnamed = [entry for entry in old if entry.sort == "content" and not await self._is_referenced(entry)]
            going += await self._unlisted(unnamed, _without(stored, unnamed))
            going += [entry for entry in old if entry.sort == "answer"]
        rest = _without(stored, going)
        if workflow in self._seen.known or any(entry.sort != "key" or not self._is_old(entry, now) for entry in rest):
            return going
        return [*going, *rest]

    @staticmethod
    def _is_old(entry: InventoryEntry, now: float) -> bool:
        return entry.modified < now - DAY

    async def _is_referenced(self, entry: InventoryEntry) -> bool:
        """Return whether an event or a pending request refers to it."""
        if self.inventory.is_named(entry.name):
            return True
        for asking in self.inventory.asking(entry.name):
            if await request_answers.answer(self.connections.pool, asking.source, asking.id) is None:
                return True
        return False

    async def _unlisted(
        self, unnamed: Sequence[InventoryEntry], others: Iterable[InventoryEntry]
    ) -> list[InventoryEntry]:
        """Return those that no remaining content refers to either: a result with many documents has its own list."""
        left = {entry.name: entry for entry in unnamed}
        for other in others:
            if left and other.sort == "content" and other.size <= MAX_INDEX:
                data = await self.connections.content.read_path(other.path)
                for name in _NAMES.findall(data):
                    left.pop(name.decode(), None)
        return [*left.values()]


def _without(stored: Iterable[InventoryEntry], excluded: Iterable[InventoryEntry]) -> list[InventoryEntry]:
    paths = {entry.path for entry in excluded}
    return [entry for entry in stored if entry.path not in paths]


async def _remove_key(content: ContentStore, key: InventoryEntry) -> None:
    """Remove a workflow's key, but put it back if something was stored under it meanwhile."""
    data = await content.read_path(key.path)
    await content.remove([key.path])
    left = [item.path async for page in content.stored(key.workflow_id) for item in page]
    if any(path != f"{key.workflow_id}/{CLEARING}" for path in left):
        await content.put_back_key(key.workflow_id, data)


def _expect_its_log(inventory: ContentInventory, known: Collection[str]) -> None:
    strange = 0
    for workflow_id in inventory.workflow_ids():
        if workflow_id in known:
            return
        strange += 1
    if strange:
        raise NotItsLog(
            f"The log knows none of the {strange} workflows of the content store, "
            "so the store may belong to another log, and everything in it would be removed."
        )
