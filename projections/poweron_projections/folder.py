"""From records to rows without a database: the open workflows, advanced by their records.

`LocalFolder` folds in the calling process; `fold_process` does the same in a child process.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Final, Protocol

from poweron_events.codec import Undecodable
from poweron_events.log import Record
from poweron_projections.projection import Batch, Changes, Read, View, project, put_undecodable, read, settle

RECORDS_PER_TURN: Final = 100  # records folded before other tasks on the event loop get their turn

LookUp = Callable[[Collection[str]], Awaitable[Mapping[str, View]]]
"""Returns the workflows of these ids that have records, as the rows hold them."""


class Folder(Protocol):
    """Folds the records of some partitions, in order within each partition and from batch to batch."""

    async def fold(self, records: Sequence[Record], look_up: LookUp) -> Changes:
        """Return what these records change in the rows."""


class Folding:
    """The open workflows, and how records change them."""

    def __init__(self) -> None:
        self._views: dict[str, View] = {}
        self._touched: set[str] = set()

    def unheld(self, reads: Sequence[Read]) -> set[str]:
        """Return the workflows that must be held before these records are taken."""
        named = {recorded.envelope.workflow_id for _, recorded in reads if not isinstance(recorded, Undecodable)}
        return named - self._views.keys()

    def hold(self, found: Mapping[str, View]) -> None:
        self._views.update(found)

    def take(self, reads: Sequence[Read], batch: Batch) -> None:
        for record, recorded in reads:
            if isinstance(recorded, Undecodable):
                put_undecodable(record, recorded, batch)
            else:
                workflow_id = recorded.envelope.workflow_id
                view = self._views.get(workflow_id) or _begin(workflow_id, batch)
                self._views[workflow_id] = project(view, record, recorded, batch)
                self._touched.add(workflow_id)

    def settle(self, batch: Batch) -> None:
        """Put the rows that later records may change into the batch; release workflows that are not open."""
        for workflow_id in self._touched:
            view = settle(self._views.pop(workflow_id), batch)
            if view.workflow.is_open:
                self._views[workflow_id] = view
        self._touched.clear()


def _begin(workflow_id: str, batch: Batch) -> View:
    """Begin a workflow that is not in the rows."""
    batch.begun.add(workflow_id)
    return View.of(workflow_id)


class LocalFolder:
    """Folds in this process."""

    def __init__(self) -> None:
        self._folding = Folding()

    async def fold(self, records: Sequence[Record], look_up: LookUp) -> Changes:
        batch, reads = Batch(), [read(record) for record in records]
        unheld = self._folding.unheld(reads)
        if unheld:
            self._folding.hold(await look_up(unheld))
        for start in range(0, len(reads), RECORDS_PER_TURN):
            self._folding.take(reads[start : start + RECORDS_PER_TURN], batch)
            await asyncio.sleep(0)
        self._folding.settle(batch)
        return batch.changes()
