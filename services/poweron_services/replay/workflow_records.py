"""The stored records of one workflow, each folded onto those before it, and their contents.

The content store of a replay only reads, and remembers which contents were missing.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson

from poweron_events.codec import Undecodable, read
from poweron_events.content import ContentStore, commitment
from poweron_events.envelope import Recorded
from poweron_events.errors import MissingContent
from poweron_events.fold.costs import reported, settled_by, without_reservations
from poweron_events.fold.evolve import evolve
from poweron_events.fold.state import Verdict, Workflow
from poweron_projections.reader import StoredRecord
from poweron_services.client.fork_request import expect_known
from poweron_services.replay.known_states import KnownStates


class Folded(NamedTuple):
    """A record, its verdict now, the workflow before and after it, and the stored row with the original verdict.

    `known` has the states that the author may have known, the most likely one first. They do not include the
    reservations for calls that the event reports, which were made after that state.
    """

    seq: int
    recorded: Recorded
    verdict: Verdict
    known: Sequence[Workflow]
    after: Workflow
    stored: StoredRecord

    @property
    def before(self) -> Workflow:
        return self.known[0]

    @property
    def data(self) -> dict[str, Any]:
        """The event's data as stored in the record."""
        data: dict[str, Any] = orjson.loads(self.stored.value)["data"]
        return data


@dataclass(frozen=True, slots=True)
class Damaged:
    """A record that is no longer what it was when it arrived, and why."""

    stored: StoredRecord
    why: str


def folded(workflow_id: str, records: Iterable[StoredRecord]) -> Iterator[Folded | Damaged]:
    """Yield the records in order, each judged again.

    Raises:
        NewerRelease: the workflow has an event or rules that this release does not know.
    """
    states = KnownStates(Workflow(workflow_id))
    for stored in records:
        if not stored.is_whole:
            yield Damaged(stored, "The row does not hold the bytes that came: their SHA-256 is another one.")
            return
        try:
            recorded = _read_record(workflow_id, stored)
        except Undecodable as error:
            yield Damaged(stored, f"The record cannot be read: {error}.")
            return
        expect_known(workflow_id, stored.seq, recorded.envelope)
        after, verdict = evolve(states.newest, recorded)
        known = tuple(_before_calls(state, recorded) for state in states.of(recorded))
        yield Folded(stored.seq, recorded, verdict, known, after, stored)
        states.take(recorded, after)


def _before_calls(workflow: Workflow, recorded: Recorded) -> Workflow:
    """Return the workflow without the reservations for the calls that the event reports."""
    event = recorded.envelope.event
    settled = settled_by(workflow.round, reported(event)) if event and workflow.round else ()
    return without_reservations(workflow, settled)


def _read_record(workflow_id: str, stored: StoredRecord) -> Recorded:
    key = workflow_id.encode()
    return read(stored.value, key=key, partition=stored.partition, offset=stored.offset, time_ms=stored.time_ms)


class StoredContent(ContentStore):
    """Reads from another store; everything that is written is discarded."""

    def __init__(self, store: ContentStore) -> None:
        self._kept = store
        self._workflow_keys: dict[str, bytes | None] = {}
        self.missing: list[str] = []
        """The commitments that were requested but not found, since this list was last cleared."""

    async def put_all(self, workflow_id: str, contents: Sequence[bytes]) -> Sequence[str]:
        """Return the names under which the contents would be stored."""
        key = await self._key_of(workflow_id) or b""
        return [commitment(key, content) for content in contents]

    async def get(self, workflow_id: str, name: str) -> bytes:
        try:
            return await self._kept.get(workflow_id, name)
        except MissingContent:
            self.missing.append(name)
            raise

    async def size(self, workflow_id: str, name: str) -> int:
        try:
            return await self._kept.size(workflow_id, name)
        except MissingContent:
            self.missing.append(name)
            raise

    async def recall(self, *_: object) -> None:
        """Return nothing: no step runs that could reuse an earlier answer."""

    async def remember(self, *_: object) -> None:
        """Store nothing."""

    async def find(self, workflow_id: str, name: str | None) -> bytes | None:
        """Return the bytes of a commitment; None if they no longer exist."""
        if name is None:
            return None
        try:
            return await self._kept.get(workflow_id, name)
        except MissingContent:
            return None

    async def matches_commitment(self, workflow_id: str, name: str, content: bytes) -> bool:
        """Return whether the bytes match the event's commitment, or True if the key that it needs was erased."""
        key = await self._key_of(workflow_id)
        return key is None or commitment(key, content) == name

    async def _key_of(self, workflow_id: str) -> bytes | None:
        if workflow_id not in self._workflow_keys:
            try:
                self._workflow_keys[workflow_id] = await self._kept.read_path(f"{workflow_id}/key")
            except MissingContent:
                self._workflow_keys[workflow_id] = None
        return self._workflow_keys[workflow_id]
