"""The state of a workflow before something is requested of it, and its records, compared with the log and folded."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from poweron_events import topics
from poweron_events.client import Heard
from poweron_events.codec import is_uuid, read_record
from poweron_events.errors import Refused
from poweron_events.fold.evolve import evolve
from poweron_events.fold.objections import why_superseded
from poweron_events.fold.partial import Stub
from poweron_events.fold.state import Workflow
from poweron_events.request import RequestRefused
from poweron_projections import bootstrap, open_questions
from poweron_projections.reader import StoredRecord
from poweron_projections.verify import catch_up
from poweron_projections.workflow_check import checked_records
from poweron_services.client.client_errors import NotAWorkflowId, RoundOpen, UnknownWorkflow
from poweron_services.client.connect import Connections


@dataclass(frozen=True, slots=True)
class WorkflowSnapshot:
    """The state of a workflow, from rows that were caught up with the log."""

    stub: Stub
    position: int
    """The offset from which on everything about the workflow is new."""

    @property
    def is_known(self) -> bool:
        """Whether a round of it was ever opened."""
        return bool(self.stub.openings)

    @property
    def last_round(self) -> int:
        return len(self.stub.openings)

    @property
    def before_last_round(self) -> Workflow:
        return self.stub.before(self.last_round)

    @property
    def after_last_round(self) -> Workflow:
        return self.stub.before(self.last_round + 1)


async def read_snapshot(connections: Connections, workflow_id: str) -> WorkflowSnapshot:
    """Return the current state of the workflow, after catching the rows up with the log.

    Raises:
        NotAWorkflowId: the id is not a UUID in lower case.
        UnknownWorkflow: there is no such workflow.
        Unavailable: the log or Postgres cannot be reached.
    """
    snapshot = await look_up_snapshot(connections, workflow_id)
    if not snapshot.is_known:
        raise UnknownWorkflow(workflow_id)
    return snapshot


async def look_up_snapshot(connections: Connections, workflow_id: str) -> WorkflowSnapshot:
    """Return the same as `read_snapshot`, even for a workflow that was never opened."""
    if not is_uuid(workflow_id):
        raise NotAWorkflowId(workflow_id)
    name = topics.EVENTS.name
    partition = connections.log.partition_of(name, workflow_id.encode())
    await catch_up(connections.log, connections.pool, {partition: (await connections.log.ends(name))[partition]})
    position, stubs = await bootstrap.look_up(connections.pool, partition, [workflow_id])
    unopened = Stub(workflow_id, (), is_open=False, seq=0, last=-1)
    return WorkflowSnapshot(stubs.get(workflow_id, unopened), position)


async def read_idle_snapshot(connections: Connections, workflow_id: str) -> WorkflowSnapshot:
    """Return the same as `read_snapshot` for a workflow that can be followed up on: no round of it is open.

    Raises:
        RoundOpen: a round of it is still running, or waits for approval.
        Refused, Unavailable: as for `read_snapshot`.
    """
    snapshot = await read_snapshot(connections, workflow_id)
    if snapshot.stub.is_open:
        waiting = await open_questions.approvals(connections.pool, workflow_id)
        raise RoundOpen(workflow_id, snapshot.last_round, waits_for_approval=bool(waiting))
    return snapshot


async def verified_records(connections: Connections, workflow_id: str) -> list[StoredRecord]:
    """Compare all rows of the workflow with the log; return its records, oldest first, including superseded ones.

    Raises:
        UnknownWorkflow: neither the rows nor the log hold it.
        RowsDiffer, RowsMissing: the rows differ from the log.
        Unavailable: the log or Postgres cannot be reached.
    """
    records = await checked_records(connections.log, connections.pool, workflow_id)
    if not records:
        raise UnknownWorkflow(workflow_id)
    return records


async def recorded_history(connections: Connections, workflow_id: str) -> list[Heard]:
    """Return the workflow after each of its records, folded from the first one; raises like `verified_records`."""
    return [*folded_history(workflow_id, await verified_records(connections, workflow_id))]


def folded_history(workflow_id: str, records: Iterable[StoredRecord]) -> Iterator[Heard]:
    """Yield the workflow after each of its records, which start with the first one.

    Raises:
        Refused: a row does not hold the bytes that came.
    """
    workflow = Workflow(workflow_id)
    for record in records:
        if not record.is_whole:
            raise Refused(f"Event {record.seq} of workflow {workflow_id} is damaged in the rows", code="rows_differ")
        recorded = read_record(record.log_record(workflow_id))
        workflow, verdict = evolve(workflow, recorded)
        yield Heard(recorded, verdict, workflow)


def last_state(workflow_id: str, records: Iterable[StoredRecord]) -> Workflow:
    """Return the workflow after its last record; raises like `folded_history`."""
    workflow = Workflow(workflow_id)
    for heard in folded_history(workflow_id, records):
        workflow = heard.workflow
    return workflow


def reasons(history: Iterable[Heard]) -> dict[int, str]:
    """Return why requests were refused, and why answers of people had no effect, by the `seq` of the record."""
    whys, before = dict[int, str](), Workflow("")
    for seq, heard in enumerate(history):
        if isinstance(heard.event, RequestRefused):
            whys[seq] = heard.event.detail
        elif heard.verdict == "superseded" and (why := why_superseded(before, heard.event)) is not None:
            whys[seq] = why
        before = heard.workflow
    return whys
