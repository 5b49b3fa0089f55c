"""Clearing up the content store: what no event names goes, once it is older than a day (docs/decisions/0040).

The log says what is named: whatever looks like the name of content counts, wherever it stands in a record, so that no
field of any event can be forgotten. The rows, brought as far as the log, say which rounds are open. What is in doubt
stays.
"""

import re
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from poweron_events import topics
from poweron_events.codec import InvalidRequest, Undecodable, decode_request
from poweron_events.content import CLEARED_WITHIN, CLEARING, ContentStore, MissingContent, StoredObject
from poweron_events.content_files import LEFTOVER
from poweron_events.dead_letter import read_dead_letter
from poweron_events.errors import Conflict, Refused
from poweron_events.log import EventLog, Record
from poweron_projections import request_answers
from poweron_projections.catch_up import catch_up
from poweron_services.client.connect import Connections

DAY: Final = 86_400.0  # seconds
MAX_INDEX: Final = 50_000_000  # bytes of a content that may name others, such as the list of a result's documents
TOPICS: Final = (topics.EVENTS.name, topics.REQUESTS.name, topics.DEAD_LETTERS.name)
_NAMES: Final = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
_CONTENT: Final = re.compile(r"[0-9a-f]{64}")
_KIND: Final = re.compile(r"[a-z][a-z_]{0,50}")

Sort = Literal["content", "answer", "key", "leftover"]
"""Bytes under their commitment, a remembered answer, a workflow's key, a file whose writer died."""


class Stored(NamedTuple):
    """Something of the content store that might go."""

    workflow_id: str
    sort: Sort
    name: str
    path: str
    size: int
    modified: float

    @classmethod
    def of(cls, found: StoredObject) -> "Stored | None":
        """What is stored; None for what is not ours, which stays."""
        workflow_id, *inner, name = found.path.split("/")
        sort = _sort(inner, name) if workflow_id != found.path else None
        return None if sort is None else cls(workflow_id, sort, name, *found)


def _sort(inner: Sequence[str], name: str) -> Sort | None:
    if len(inner) > 1 or not all(map(_KIND.fullmatch, inner)):
        return None
    if LEFTOVER.fullmatch(name):
        return "leftover"
    if _CONTENT.fullmatch(name):
        return "answer" if inner else "content"
    return "key" if name == "key" and not inner else None


@dataclass(slots=True)
class Cleanup:
    """What was found to go, or has gone, by its workflow; and where somebody else clears up."""

    found: dict[str, list[Stored]] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)

    @property
    def all(self) -> list[Stored]:
        return [each for stored in self.found.values() for each in stored]


class NotItsLog(Refused):
    """The log knows no workflow of the content store: it may be that of another one."""

    code = "refused"


@dataclass(slots=True)
class _Seen:
    """What the log says of what might go; it only ever adds what stays."""

    might_go: Collection[str]
    positions: dict[str, Mapping[int, int]] = field(default_factory=dict)
    named: set[str] = field(default_factory=set)
    """By events and dead letters."""
    asked: dict[str, list[Record]] = field(default_factory=lambda: defaultdict(list))
    """The requests that name something."""
    known: set[str] = field(default_factory=set)
    """The workflows of which there is any event."""
    moved: set[str] = field(default_factory=set)
    """Those of which one came after the first reading: their rounds may have been opened since."""

    async def read_on(self, log: EventLog) -> None:
        """Take what has come since the last time."""
        for topic in TOPICS:
            start, end = self.positions.get(topic, {}), await log.ends(topic)
            async for records in log.read(topic, start, end):
                for record in records:
                    self._take(record)
            self.positions[topic] = end

    def _take(self, record: Record) -> None:
        names = {name.decode() for name in _NAMES.findall(_bytes(record))}
        found = names.intersection(self.might_go)
        if record.topic == topics.REQUESTS.name:
            for name in found:
                self.asked[name].append(record)
            return
        self.named |= found
        if record.topic == topics.EVENTS.name and record.key is not None:
            self.known.add(record.key.decode(errors="replace"))
            self.moved.add(record.key.decode(errors="replace"))


def _bytes(record: Record) -> bytes:
    """What a record says; of a dead letter, what nobody could read, since a later release may."""
    value = record.value or b""
    if record.topic != topics.DEAD_LETTERS.name:
        return value
    try:
        return value + (read_dead_letter(value).raw or b"")
    except Undecodable:
        return value


@dataclass(slots=True)
class ContentCleanup:
    """One clearing up."""

    connections: Connections
    now: float
    _seen: _Seen = field(init=False)
    _open: frozenset[str] = field(init=False)

    async def find(self, *, foreign: bool = False) -> Cleanup:
        """What would go now; `foreign` says that the log may know no workflow of the store.

        Raises:
            NotItsLog: it knows none, and that was not said.
            LogLost: events are missing that the rows were made of.
            Unavailable: a server or the store does not answer.
        """
        log, content = self.connections.log, self.connections.content
        await log.check()
        await catch_up(log, self.connections.pool)
        stored = [each async for page in content.stored() for each in map(Stored.of, page) if each is not None]
        self._seen = _Seen({each.name for each in stored if each.sort == "content" and self._is_old(each, self.now)})
        await self._seen.read_on(log)
        self._seen.moved.clear()
        await catch_up(log, self.connections.pool)  # reading the log takes its time, and rounds are opened meanwhile
        self._open = await request_answers.open_workflows(self.connections.pool)
        _expect_its_log(stored, self._seen.known, foreign=foreign)
        return Cleanup({workflow: going async for workflow, going in self._going(stored)})

    async def remove(self, cleanup: Cleanup) -> Cleanup:
        """Remove what was found, as far as that still holds; what has gone."""
        gone = Cleanup()
        for workflow, found in cleanup.found.items():
            try:
                if removed := await self._remove(workflow, {each.path for each in found}):
                    gone.found[workflow] = removed
            except (Conflict, MissingContent):
                gone.skipped.append(workflow)
        return gone

    async def _remove(self, workflow: str, found: Collection[str]) -> list[Stored]:
        """Look again behind a sign that keeps writers away, by the store's own clock."""
        content, until = self.connections.content, time.monotonic() + CLEARED_WITHIN / 2
        async with content.clearing(workflow) as clock:
            await self._seen.read_on(self.connections.log)
            stored = [each async for page in content.stored(workflow) for each in map(Stored.of, page) if each]
            going = [each for each in await self._of_workflow(workflow, stored, clock) if each.path in found]
            if time.monotonic() > until:  # writers soon take the sign for that of somebody who died
                raise Conflict(f"Clearing up workflow {workflow} took too long")
            await content.remove([each.path for each in going if each.sort != "key"])
            for key in (each for each in going if each.sort == "key"):
                await _remove_key(content, key)
            return going

    async def _going(self, stored: Iterable[Stored]) -> AsyncGenerator[tuple[str, list[Stored]], None]:
        grouped = defaultdict[str, list[Stored]](list)
        for each in stored:
            grouped[each.workflow_id].append(each)
        for workflow in sorted(grouped):
            if going := await self._of_workflow(workflow, grouped[workflow], self.now):
                yield workflow, going

    async def _of_workflow(self, workflow: str, stored: Sequence[Stored], now: float) -> list[Stored]:
        """What goes of a workflow: its key last, once nobody knows it and nothing else is left."""
        old = [each for each in stored if self._is_old(each, now)]
        going = [each for each in old if each.sort == "leftover"]
        if workflow not in self._open and workflow not in self._seen.moved:
            unnamed = [each for each in old if each.sort == "content" and not await self._is_named(each)]
            going += await self._unlisted(unnamed, _without(stored, unnamed))
            going += [each for each in old if each.sort == "answer"]
        rest = _without(stored, going)
        if workflow in self._seen.known or any(each.sort != "key" or not self._is_old(each, now) for each in rest):
            return going
        return [*going, *rest]

    @staticmethod
    def _is_old(each: Stored, now: float) -> bool:
        return each.modified < now - DAY

    async def _is_named(self, each: Stored) -> bool:
        """Whether an event names it, or a request that nobody has answered yet."""
        if each.name in self._seen.named:
            return True
        for record in self._seen.asked.get(each.name, ()):
            if not await self._is_answered(record):
                return True
        return False

    async def _is_answered(self, record: Record) -> bool:
        try:
            identity = decode_request(record.value, record.headers).identity
        except InvalidRequest as error:
            identity = error.identity
        except Undecodable:
            return True  # a dead letter says so, and names what it names
        return await request_answers.answer(self.connections.pool, identity.source, identity.id) is not None

    async def _unlisted(self, unnamed: Sequence[Stored], others: Iterable[Stored]) -> list[Stored]:
        """Those that no content which stays names either: a result of many documents has a list of its own."""
        left = {each.name: each for each in unnamed}
        for other in others:
            if left and other.sort == "content" and other.size <= MAX_INDEX:
                data = await self.connections.content.read_path(other.path)
                for name in _NAMES.findall(data):
                    left.pop(name.decode(), None)
        return [*left.values()]


def _without(stored: Iterable[Stored], some: Iterable[Stored]) -> list[Stored]:
    paths = {each.path for each in some}
    return [each for each in stored if each.path not in paths]


async def _remove_key(content: ContentStore, key: Stored) -> None:
    """Remove a workflow's key; where somebody has stored something under it meanwhile, it comes back."""
    held = await content.read_path(key.path)
    await content.remove([key.path])
    left = [each.path async for page in content.stored(key.workflow_id) for each in page]
    if any(path != f"{key.workflow_id}/{CLEARING}" for path in left):
        await content.put_back_key(key.workflow_id, held)


def _expect_its_log(stored: Iterable[Stored], known: Collection[str], *, foreign: bool) -> None:
    workflows = {each.workflow_id for each in stored}
    if workflows and not foreign and workflows.isdisjoint(known):
        raise NotItsLog(
            f"The log knows none of the {len(workflows)} workflows of the content store, so it may be the log of "
            "another one, and everything would go."
        )
