"""Every record of a workflow as the rows hold it: its bytes, and what the fold makes of them."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from poweron_events.client import Heard
from poweron_events.codec import read_record
from poweron_events.fold.evolve import evolve
from poweron_events.fold.state import Workflow
from poweron_events.log import Record
from poweron_projections import reader
from poweron_projections.compression import DamagedRecord
from poweron_projections.connection import Pool
from poweron_services.client.client_errors import UnknownWorkflow

PAGE: Final = 500  # records fetched at a time


async def all_records(pool: Pool, workflow_id: str) -> AsyncGenerator[Record, None]:
    """The workflow's records, oldest first, superseded ones too.

    Raises:
        UnknownWorkflow: the rows hold none.
        DamagedRecord: a row does not hold the bytes that came.
        Unavailable: Postgres cannot be reached.
    """
    seq = 0
    while page := await reader.stored_records(pool, workflow_id, after_seq=seq - 1, limit=PAGE):
        for stored in page:
            if not stored.is_whole:
                raise DamagedRecord
            yield stored.log_record(workflow_id)
        seq += len(page)
    if seq == 0:
        raise UnknownWorkflow(workflow_id)


async def recorded_history(pool: Pool, workflow_id: str) -> list[Heard]:
    """The workflow after each of its records, folded from the first one; raises like `all_records`."""
    workflow, heard = Workflow(workflow_id), list[Heard]()
    async with aclosing(all_records(pool, workflow_id)) as records:
        async for record in records:
            recorded = read_record(record)
            workflow, verdict = evolve(workflow, recorded)
            heard.append(Heard(recorded, verdict, workflow))
    return heard
