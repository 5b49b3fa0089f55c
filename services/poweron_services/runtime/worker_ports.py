"""The queries that the loop sends to Postgres, and the listener that is notified of what it holds."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from poweron_events.envelope import Recorded
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


class Listener(Protocol):
    """Acts on what is held. All calls come between two awaits of the loop, and none of them waits."""

    def changed(self) -> None:
        """Some partition may have workflows to consider, in its `pending`."""

    def superseded(self, workflow: Workflow, recorded: Recorded) -> None:
        """A record of a held workflow had no effect."""

    def accepted(self, before: Workflow, after: Workflow, recorded: Recorded) -> None:
        """A record changed a held workflow."""

    def released(self, workflow_ids: Iterable[str]) -> None:
        """These workflows are no longer held."""
