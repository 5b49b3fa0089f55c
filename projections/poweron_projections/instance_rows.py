"""The processes as rows: what each recorded about itself when it started, and when it ended."""

from typing import NamedTuple

from poweron_events.envelope import Recorded
from poweron_events.event import READING
from poweron_events.fold.state import Instance, Workflow
from poweron_events.instance_events import InstanceEnded, InstanceStarted
from poweron_projections.connection import Found
from poweron_projections.table_spec import Json, Table, Uuid, json, text


class InstanceRow(NamedTuple):
    """One process, from its start on."""

    workflow_id: Uuid
    instance: str
    release: str
    roles: Json
    record: Json
    started_ms: int
    ended_ms: int | None


INSTANCES = Table("instances", InstanceRow, key=("workflow_id",), keeps="newest")


def instance_rows(recorded: Recorded, after: Workflow) -> list[InstanceRow]:
    """Return the row of a process after its accepted start or end."""
    instance = after.instance
    if instance is None or not isinstance(recorded.envelope.event, InstanceStarted | InstanceEnded):
        return []
    row = InstanceRow(
        workflow_id=after.id,
        instance=text(instance.started.instance),
        release=text(instance.started.release),
        roles=json(instance.started.roles),
        record=json(instance.started),
        started_ms=instance.started_ms,
        ended_ms=instance.ended_ms,
    )
    return [row]


def instance_state(row: Found) -> Instance:
    """Return the process that a row holds, for the fold to go on from."""
    started = InstanceStarted.model_validate(row["record"], context=READING)
    return Instance(started, row["started_ms"], row["ended_ms"])
