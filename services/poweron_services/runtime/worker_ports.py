"""The queries that the loop sends to Postgres."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from poweron_events.fold.partial import Stub
from poweron_events.fold.state import Workflow


class WorkSnapshot(Protocol):
    """A partition as Postgres holds it: the projector's next offset and the open workflows there."""

    @property
    def offset(self) -> int: ...
    @property
    def workflows(self) -> Mapping[str, Workflow]: ...


class Snapshots(Protocol):
    """The queries that the loop sends to Postgres. Every method raises Unavailable while Postgres does not answer."""

    async def load(self, partitions: Iterable[int]) -> Mapping[int, WorkSnapshot]:
        """The snapshots of partitions, read at one moment."""

    async def look_up(self, partition: int, workflow_ids: Sequence[str]) -> tuple[int, Mapping[str, Stub]]:
        """The projector's next offset and the stubs of the workflows that it knows, read at one moment."""

    async def positions(self) -> Mapping[int, int]:
        """The projector's next offset of every partition."""

    async def answered(self, source: str, request_id: str) -> bool:
        """Return whether the rows hold an answer to the request."""
