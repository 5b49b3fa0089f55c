"""What a record changes: a pure step from a workflow and its next record to rows.

A `View` is the fold state of one workflow together with what its rows need; a `Batch` collects the changes of many
records. Rows that can no longer change are made at once, the others when the batch is done.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from poweron_events.codec import Undecodable, read_record
from poweron_events.dead_letter import DeadLetter
from poweron_events.envelope import Recorded
from poweron_events.event import StageEvent, StepEvent
from poweron_events.fold.evolve import evolve
from poweron_events.fold.stage_specs import AFTER_STEPS
from poweron_events.fold.state import Workflow
from poweron_events.log import Record
from poweron_events.round_events import TaskReviewed
from poweron_projections import records as records_
from poweron_projections.documents import DOCUMENTS, document_rows
from poweron_projections.messages import MESSAGES, message_row
from poweron_projections.records import RECORDS
from poweron_projections.requests import DEAD_LETTERS, REQUESTS, dead_letter_row, request_rows
from poweron_projections.steps import STEPS, StepRow, step_row, step_status
from poweron_projections.table_spec import Row, Table
from poweron_projections.tasks import TASKS, TaskCourse, task_course, task_row
from poweron_projections.usage import USAGE, usage_rows
from poweron_projections.workflows import ROUNDS, WORKFLOWS, WorkflowRow, round_row, workflow_row

Read = tuple[Record, Recorded | Undecodable]
"""A record of `poweron.events`, and its event or the reason why it is not one."""


class View(NamedTuple):
    """A workflow, and what its rows need besides its state.

    `row` is its row in `workflows`, and `settled` holds its other rows that can still change, both as last put into
    a batch; `newest` is its last record; `step` holds the events of the running step; `last` is the row of the last
    step of an attempt that awaits its review.
    """

    workflow: Workflow
    row: WorkflowRow | None = None
    settled: tuple[Row, ...] = ()
    newest: Recorded | None = None
    task: TaskCourse | None = None
    step: tuple[Recorded, ...] = ()
    last: StepRow | None = None

    @classmethod
    def of(cls, workflow_id: str) -> "View":
        """Return the view of a workflow without records."""
        return cls(Workflow(workflow_id))


class Changes(NamedTuple):
    """What to write, by table: new rows, and rows that may replace existing ones. Also the dead letters to append."""

    new: Mapping[str, Sequence[Row]]
    replacing: Mapping[str, Sequence[Row]]
    letters: Sequence[DeadLetter]


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows collected by table, only the newest of those that replace each other. Also the dead letters to append.

    `begun` holds the workflows that had no rows before: all of their rows are new.
    """

    added: defaultdict[str, list[Row]] = field(default_factory=partial(defaultdict, list))
    changed: defaultdict[str, dict[object, Row]] = field(default_factory=partial(defaultdict, dict))
    letters: list[DeadLetter] = field(default_factory=list)
    begun: set[str] = field(default_factory=set)

    def put(self, table: Table, rows: Sequence[Row]) -> None:
        if not rows:
            return
        if table.keeps == "all":
            self.added[table.name].extend(rows)
        elif table.keeps == "newest":
            self.changed[table.name].update((table.key_of(row), row) for row in rows)
        else:
            for row in rows:
                self.changed[table.name].setdefault(table.key_of(row), row)

    def changes(self) -> Changes:
        new, replacing = dict[str, Sequence[Row]](self.added), dict[str, Sequence[Row]]()
        for name, rows in self.changed.items():
            new[name] = [row for row in rows.values() if row[0] in self.begun]  # the workflow is the first column
            replacing[name] = [row for row in rows.values() if row[0] not in self.begun]
        return Changes(new, replacing, self.letters)


def read(record: Record) -> Read:
    """Read a record of `poweron.events` as input for the fold.

    The reason why it is not an event is kept without the traceback: its frames would hold whole batches until the next
    garbage collection.
    """
    try:
        return record, read_record(record)
    except Undecodable as error:
        return record, Undecodable(str(error))


def project(view: View, record: Record, recorded: Recorded, batch: Batch) -> View:
    """Return the view after a record; rows that no longer change go into the batch, `settle` puts the others there."""
    seq = view.workflow.seq
    after, verdict = evolve(view.workflow, recorded)
    batch.put(RECORDS, [records_.judged(record, recorded, seq, verdict)])
    batch.put(USAGE, usage_rows(recorded, seq, verdict))
    if verdict == "accepted":
        batch.put(REQUESTS, request_rows(recorded, seq))
    if verdict != "accepted" or after.head is view.workflow.head:  # its round is unchanged
        told = view._replace(workflow=after, newest=recorded)
    else:
        told = _project_round(view, recorded, after, batch)
    return told if told.row is not None and after.is_open else settle(told, batch)


def _project_round(view: View, recorded: Recorded, after: Workflow, batch: Batch) -> View:
    said, before = after.current.messages[-1], view.workflow.round
    if before is None or not before.messages or said is not before.messages[-1]:
        batch.put(MESSAGES, [message_row(after.id, said)])
    batch.put(DOCUMENTS, document_rows(recorded, after))
    task, tasks = task_course(view.task, view.workflow, recorded, after)
    batch.put(TASKS, tasks)
    step, last = _step(view, recorded, after, batch)
    return View(after, view.row, view.settled, recorded, task, step, last)


def _step(view: View, recorded: Recorded, after: Workflow, batch: Batch) -> tuple[tuple[Recorded, ...], StepRow | None]:
    """Return the events of the running step, and the row of the last step of an attempt that awaits its review."""
    if view.last is not None and isinstance(recorded.envelope.event, TaskReviewed):
        batch.put(STEPS, [view.last._replace(reviewed_ms=recorded.time_ms)])
    step = (*view.step, recorded) if _is_of_the_step(view, recorded) else view.step
    status = step_status(step, after)
    if status == "running":
        return step, view.last if after.phase in AFTER_STEPS else None
    round_ = view.workflow.current
    row = step_row(step, status, begun_ms=round_.step_ms, ended_ms=recorded.time_ms, stopped_by=after.current.code)
    batch.put(STEPS, [row])
    return (), row if after.phase in AFTER_STEPS else None


def _is_of_the_step(view: View, recorded: Recorded) -> bool:
    """Return whether the event belongs to a step; a stage event may belong to the task unless a step is running."""
    event = recorded.envelope.event
    return isinstance(event, StepEvent) or (bool(view.step) and isinstance(event, StageEvent))


def settle(view: View, batch: Batch) -> View:
    """Put the rows that can still change into the batch, unless they are unchanged since they were last put there."""
    assert view.newest is not None
    row = workflow_row(view.row, view.newest, view.workflow)
    batch.put(WORKFLOWS, [row])
    rows = list(_changing(view))
    for table, one in rows:
        batch.put(table, [] if one in view.settled else [one])
    return view._replace(row=row, settled=tuple(one for _, one in rows))


def _changing(view: View) -> Iterator[tuple[Table, Row]]:
    if view.workflow.round is not None:
        yield ROUNDS, round_row(view.workflow)
    if view.task is not None:
        yield TASKS, task_row(view.workflow, view.task)
    if view.step:
        yield STEPS, step_row(view.step, "running", begun_ms=view.workflow.current.step_ms)


def put_undecodable(record: Record, error: Undecodable, batch: Batch) -> None:
    """Put the row of a record that is not an event into the batch, and its dead letter."""
    batch.put(RECORDS, [records_.undecodable(record)])
    batch.letters.append(DeadLetter.of(record, str(error)))


def put_dead_letters(records: Iterable[Record], batch: Batch) -> None:
    """Put the rows of records of `poweron.deadletter` into the batch."""
    batch.put(DEAD_LETTERS, [dead_letter_row(record) for record in records])
