"""Every record of a workflow, after its rows were compared with the log: as bytes, and folded."""

from poweron_events.client import Heard
from poweron_events.codec import read_record
from poweron_events.fold.evolve import evolve
from poweron_events.fold.state import Workflow
from poweron_projections.reader import StoredRecord
from poweron_projections.workflow_check import checked_records
from poweron_services.client.client_errors import UnknownWorkflow
from poweron_services.client.connect import Connections


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
    workflow, history = Workflow(workflow_id), list[Heard]()
    for record in await verified_records(connections, workflow_id):
        recorded = read_record(record.log_record(workflow_id))
        workflow, verdict = evolve(workflow, recorded)
        history.append(Heard(recorded, verdict, workflow))
    return history
