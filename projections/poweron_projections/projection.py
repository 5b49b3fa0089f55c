"""What a record changes: from the workflow as it stood and the record to rows. Pure.

A `View` is the fold state of one workflow with those of its rows that can still change; a `Batch`
collects what many records change, each row once.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from poweron_events.codec import Undecodable, read_record
from poweron_events.dead_letter import DeadLetter
from poweron_events.envelope import Recorded
from poweron_events.fold.evolve import evolve
from poweron_events.fold.state import Workflow
from poweron_events.log import Record
from poweron_projections import records as records_
from poweron_projections.dead_letters import DEAD_LETTERS, dead_letter_row
from poweron_projections.documents import DOCUMENTS, document_rows
from poweron_projections.messages import MESSAGES, message_row
from poweron_projections.records import RECORDS
from poweron_projections.requests import REQUESTS, request_rows
from poweron_projections.steps import STEPS, StepRow, step_row
from poweron_projections.table import Row, Table
from poweron_projections.tasks import TASKS, TaskRow, task_rows
from poweron_projections.usage import USAGE, usage_rows
from poweron_projections.workflows import ROUNDS, WORKFLOWS, RoundRow, WorkflowRow, round_row, workflow_row

Read = tuple[Record, Recorded | Undecodable]
"""A record of `poweron.events`, and the event that it is or why it is none."""


@dataclass(frozen=True, slots=True)
class View:
    """A workflow, and the rows of it that its next event may change."""

    workflow: Workflow
    row: WorkflowRow | None = None
    round: RoundRow | None = None
    task: TaskRow | None = None
    step: StepRow | None = None

    @classmethod
    def of(cls, workflow_id: str) -> "View":
        """A workflow of which no record has been seen."""
        return cls(Workflow(workflow_id))


@dataclass(slots=True)
class Batch:
    """Rows to be written, by table and key."""

    rows: dict[str, dict[object, Row]] = field(default_factory=dict)

    def put(self, table: Table, rows: Iterable[Row]) -> None:
        for row in rows:
            kept = self.rows.setdefault(table.name, {})
            key = table.key_of(row)
            if table.keeps == "newest" or key not in kept:
                kept[key] = row

    def of(self, table: Table) -> Sequence[Row]:
        return list(self.rows.get(table.name, {}).values())


def read(record: Record) -> Read:
    """A record of `poweron.events` as the fold takes it."""
    try:
        return record, read_record(record)
    except Undecodable as error:
        return record, error


def dead_letter(record: Record, error: Undecodable) -> DeadLetter:
    """What is told of a record that is no event."""
    return DeadLetter.of(record, str(error))


def project(view: View, record: Record, recorded: Recorded, batch: Batch) -> View:
    """The view after a record; its rows go into the batch."""
    seq = view.workflow.seq
    after, verdict = evolve(view.workflow, recorded)
    row = workflow_row(view.row, recorded, after)
    batch.put(WORKFLOWS, [row])
    batch.put(RECORDS, [records_.judged(record, recorded, seq, verdict)])
    batch.put(USAGE, usage_rows(recorded, seq, verdict))
    if verdict == "accepted":
        batch.put(REQUESTS, request_rows(recorded, seq))
    if verdict != "accepted" or after.head is view.workflow.head:  # its round is as it was
        return View(after, row, view.round, view.task, view.step)
    return _project_round(view, recorded, View(after, row), batch)


def _project_round(before: View, recorded: Recorded, view: View, batch: Batch) -> View:
    after = view.workflow
    opens = before.round is None or before.round.round != after.current.number
    round_ = round_row(before.round, recorded, after)
    tasks = task_rows(None if opens else before.task, recorded, after)
    step = step_row(None if opens else before.step, recorded, after)
    batch.put(ROUNDS, [round_])
    batch.put(TASKS, tasks)
    batch.put(STEPS, [step] if step is not None and step is not before.step else [])
    batch.put(DOCUMENTS, document_rows(recorded, after))
    said = after.current.messages[-1]
    batch.put(MESSAGES, [message_row(after.id, said)] if said.seq == after.seq - 1 else [])
    return View(after, view.row, round_, tasks[-1] if tasks else None, step)


def put_undecodable(record: Record, batch: Batch) -> None:
    """The rows of a record that is no event."""
    batch.put(RECORDS, [records_.undecodable(record)])


def put_dead_letters(records: Iterable[Record], batch: Batch) -> None:
    """The rows of records of `poweron.deadletter`."""
    batch.put(DEAD_LETTERS, map(dead_letter_row, records))
