"""The state from which a reader begins: the open workflows, folded from the records of their open round (E-07).

No fold state is stored. `records` keeps every byte, so the state of an open workflow follows from its
records since the opening of that round; for any other workflow a stub is enough.
"""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from poweron_events import topics
from poweron_events.codec import read_record
from poweron_events.envelope import Recorded
from poweron_events.fold.partial import Stub
from poweron_events.fold.state import Instance, Phase, Workflow
from poweron_events.log import Record
from poweron_events.request import POLICY_ID
from poweron_projections import offsets
from poweron_projections.connection import Connection, Found, Pool, acquire, cells, snapshot
from poweron_projections.instance_rows import instance_state
from poweron_projections.policies import applied_policy
from poweron_projections.projection import Batch, View, advance, judge
from poweron_projections.records import decompress
from poweron_projections.workflows import WorkflowRow

EVENTS: Final = topics.EVENTS.name

PREFETCHED: Final = 500  # records fetched at a time while open rounds are folded

_STUBS: Final = """
SELECT workflows.*,
       ARRAY(SELECT opening_offset FROM rounds WHERE rounds.workflow_id = workflows.workflow_id ORDER BY round)
       AS openings
  FROM workflows
"""
_STUBS_BY_ID: Final = f"{_STUBS} WHERE workflow_id = ANY($1::uuid[])"
_STUBS_OF_OPEN: Final = f"{_STUBS} WHERE is_open AND partition = ANY($1::integer[])"

_OPEN_ROUNDS: Final = """
SELECT rounds.opening_seq,
       records.partition, records.log_offset, records.time_ms, records.workflow_id, records.compressed
  FROM workflows
  JOIN rounds USING (workflow_id, round)
  JOIN records ON records.workflow_id = workflows.workflow_id AND records.seq >= rounds.opening_seq
 WHERE workflows.workflow_id = ANY($1::uuid[])
 ORDER BY records.workflow_id, records.seq
"""


_NEWEST_POLICY: Final = "SELECT number, sha256, policy FROM policies ORDER BY number DESC LIMIT 1"
_INSTANCES: Final = "SELECT * FROM instances WHERE workflow_id = ANY($1::uuid[])"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A partition at one moment: the projector's next offset, and every workflow with an open round."""

    offset: int
    workflows: dict[str, Workflow]


async def load(pool: Pool, partitions: Collection[int]) -> dict[int, Snapshot]:
    """Return what a reader of these partitions starts from, all of it at one moment.

    Raises:
        Unavailable: Postgres cannot be reached, or nothing has been projected into it yet.
    """
    async with snapshot(pool) as connection:
        positions_ = await offsets.read(connection, EVENTS)
        snapshots = {partition: Snapshot(positions_.get(partition, 0), {}) for partition in partitions}
        async for view in _views(connection, await connection.fetch(_STUBS_OF_OPEN, list(partitions))):
            assert view.row is not None
            snapshots[view.row.partition].workflows[view.workflow.id] = view.workflow
    return snapshots


async def look_up(pool: Pool, partition: int, workflow_ids: Collection[str]) -> tuple[int, dict[str, Stub]]:
    """Return the projector's next offset and the stubs of those workflows that have records, all at one moment.

    Raises:
        Unavailable: Postgres cannot be reached, or nothing has been projected into it yet.
    """
    async with snapshot(pool) as connection:
        position = (await offsets.read(connection, EVENTS)).get(partition, 0)
        found = await connection.fetch(_STUBS_BY_ID, list(workflow_ids))
    return position, {stub.workflow_id: stub for stub in map(_stub, found)}


async def positions(pool: Pool) -> dict[int, int]:
    """Return the projector's next offset in each partition of `poweron.events` that has one.

    Raises:
        Unavailable: Postgres cannot be reached, or nothing has been projected into it yet.
    """
    async with acquire(pool) as connection:
        return await offsets.read(connection, EVENTS)


async def views(connection: Connection, workflow_ids: Collection[str]) -> dict[str, View]:
    """Return the workflows of these ids that have records, in the state from which the projector continues."""
    found = await connection.fetch(_STUBS_BY_ID, list(workflow_ids))
    return {view.workflow.id: view async for view in _views(connection, found)}


async def _views(connection: Connection, found: Sequence[Found]) -> AsyncIterator[View]:
    opened = dict[str, View]()
    instances = await _instances(connection, [str(stub["workflow_id"]) for stub in found if not stub["openings"]])
    for stub in found:
        view = await _with_policy(connection, _view(stub, instances.get(str(stub["workflow_id"]))))
        if stub["is_open"]:
            opened[view.workflow.id] = view
        else:
            yield view
    if opened:
        async for view in _folded(connection, opened):
            yield view


async def _folded(connection: Connection, opened: Mapping[str, View]) -> AsyncIterator[View]:
    """Yield each open workflow, folded from the records of its open round."""
    view = None
    async for row in connection.cursor(_OPEN_ROUNDS, list(opened), prefetch=PREFETCHED):
        record, recorded = _recorded(row)
        workflow_id = recorded.envelope.workflow_id
        if view is None or view.workflow.id != workflow_id:
            if view is not None:
                yield view
            view = _before_open_round(opened[workflow_id], row["opening_seq"])
        view = advance(view, judge(view.workflow, record, recorded), Batch())
    if view is not None:
        yield view


async def _with_policy(connection: Connection, view: View) -> View:
    """Return the view with the newest policy if it is that of the policies' key: the next one follows it."""
    if view.workflow.id != POLICY_ID or (row := await connection.fetchrow(_NEWEST_POLICY)) is None:
        return view
    return view._replace(workflow=view.workflow._replace(policy=applied_policy(row)))


async def _instances(connection: Connection, workflow_ids: Sequence[str]) -> Mapping[str, Instance]:
    """Return the processes among keys that opened no workflow: each ends at most once."""
    found = await connection.fetch(_INSTANCES, list(workflow_ids)) if workflow_ids else ()
    return {str(row["workflow_id"]): instance_state(row) for row in found}


def _before_open_round(view: View, opening_seq: int) -> View:
    openings = view.workflow.openings[:-1]
    phase: Phase = "ended" if openings else "none"
    return View(Workflow(view.workflow.id, phase, openings, seq=opening_seq), view.row)


def _recorded(row: Found) -> tuple[Record, Recorded]:
    key = str(row["workflow_id"]).encode()
    record = Record(EVENTS, row["partition"], row["log_offset"], row["time_ms"], key, decompress(row["compressed"]), {})
    return record, read_record(record)


def _stub(found: Found) -> Stub:
    return Stub(
        workflow_id=str(found["workflow_id"]),
        openings=tuple(found["openings"]),
        is_open=found["is_open"],
        seq=found["seq"],
        last=found["last_offset"],
    )


def _view(found: Found, instance: Instance | None) -> View:
    """Return a workflow as its stub describes it, which is complete unless the workflow is open."""
    row = WorkflowRow(**cells(found, WorkflowRow._fields))
    row = row._replace(workflow_id=str(row.workflow_id))
    openings = tuple(found["openings"])
    workflow = Workflow(
        id=row.workflow_id,
        phase="ended" if openings else "none",
        openings=openings,
        frozen=row.frozen,
        seq=row.seq,
        last=row.last_offset,
        instance=instance,
    )
    return View(workflow, row)
