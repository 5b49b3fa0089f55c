"""What records change: pure steps from a workflow and its next record to rows.

`judge` folds a record, `project` makes the rows that follow from it alone, and `advance` those that need the course of
its workflow, which a `View` holds. A `Batch` collects the changes of many records. Rows that can no longer change are
made at once, the others when the batch is done.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from poweron_events.codec import Undecodable
from poweron_events.dead_letter import DeadLetter
from poweron_events.envelope import Recorded
from poweron_events.event import StageEvent, StepEvent
from poweron_events.fold.stage_specs import AFTER_STEPS
from poweron_events.fold.state import ChatMessage, Verdict, Workflow, quick_replace
from poweron_events.log import Record
from poweron_events.round_events import TaskReviewed
from poweron_projections.documents import DOCUMENTS, document_rows
from poweron_projections.fold_cache import fold_cache
from poweron_projections.instance_rows import INSTANCES, instance_rows
from poweron_projections.messages import MESSAGES, message_row
from poweron_projections.policies import POLICIES, policy_rows
from poweron_projections.records import RECORDS, RecordRow, compressed_rows, judged_row, undecodable_row
from poweron_projections.requests import DEAD_LETTERS, REQUESTS, dead_letter_row, request_rows
from poweron_projections.steps import STEPS, StepRow, step_row, step_status
from poweron_projections.table_spec import Row, Table
from poweron_projections.tasks import TASKS, TaskCourse, task_course, task_row
from poweron_projections.usage import USAGE, usage_rows
from poweron_projections.workflows import ROUNDS, WORKFLOWS, WorkflowRow, round_row, workflow_row

Read = tuple[Record, Recorded | Undecodable]
"""A record of `poweron.events`, and its event or the reason why it is not one."""


@quick_replace
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

    new: Mapping[str, Collection[Row]]
    replacing: Mapping[str, Collection[Row]]
    letters: Sequence[DeadLetter]


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows collected by table, only the newest of those that replace each other. Also the dead letters to append.

    `records` holds the rows of the records, not compressed yet; `messages` holds the newest version of each message
    by its workflow and `seq`; `begun` holds the workflows that had no rows before: all of their rows are new.
    """

    records: list[RecordRow] = field(default_factory=list)
    messages: dict[tuple[str, int], ChatMessage] = field(default_factory=dict)
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
        new: dict[str, Collection[Row]] = {RECORDS.name: compressed_rows(self.records), **self.added}
        replacing = dict[str, Collection[Row]]()
        self.put(MESSAGES, [message_row(workflow_id, message) for (workflow_id, _), message in self.messages.items()])
        for name, rows in self.changed.items():
            new[name] = [row for row in rows.values() if row[0] in self.begun]  # the workflow is the first column
            replacing[name] = [row for row in rows.values() if row[0] not in self.begun]
        return Changes(new, replacing, self.letters)


def read(record: Record) -> Read:
    """Read a record of `poweron.events` as input for the fold."""
    return record, fold_cache.read(record)


class Judged(NamedTuple):
    """A record, its event, the workflow before and after it, and the verdict."""

    record: Record
    recorded: Recorded
    before: Workflow
    after: Workflow
    verdict: Verdict

    @property
    def changes_round(self) -> bool:
        return self.verdict == "accepted" and self.after.head is not self.before.head

    @property
    def message(self) -> ChatMessage | None:
        """The message that the event adds or replaces."""
        said, before = self.after.current.messages[-1], self.before.round
        return said if before is None or not before.messages or said is not before.messages[-1] else None


def judge(workflow: Workflow, record: Record, recorded: Recorded) -> Judged:
    """Fold a record into its workflow."""
    before, after, verdict = fold_cache.judge(workflow, recorded)
    return Judged(record, recorded, before, after, verdict)


def project(judged: Sequence[Judged], batch: Batch) -> None:
    """Put the rows that follow from each of these records alone into the batch.

    Go from table to table, not from record to record: the processor then runs a small piece of code many times, which
    takes two thirds of the time.
    """
    batch.records.extend(judged_row(one.record, one.recorded, one.before.seq, one.verdict) for one in judged)
    batch.put(USAGE, [row for one in judged for row in usage_rows(one.recorded, one.before.seq, one.verdict)])
    accepted = [one for one in judged if one.verdict == "accepted"]
    batch.put(REQUESTS, [row for one in accepted for row in request_rows(one.recorded, one.before.seq)])
    without_round = [one for one in accepted if one.after.round is None]
    batch.put(POLICIES, [row for one in without_round for row in policy_rows(one.recorded, one.before.seq)])
    batch.put(INSTANCES, [row for one in without_round for row in instance_rows(one.recorded, one.after)])
    in_round = [one for one in accepted if one.changes_round]
    batch.messages.update(((one.after.id, said.seq), said) for one in in_round if (said := one.message) is not None)
    batch.put(DOCUMENTS, [row for one in in_round for row in document_rows(one.recorded, one.after)])


def advance(view: View, judged: Judged, batch: Batch) -> View:
    """Return the view after a record, and put the rows of tasks and steps that no longer change into the batch."""
    _, recorded, before, after, _ = judged
    if judged.changes_round:
        task, tasks = task_course(view.task, before, recorded, after)
        batch.put(TASKS, tasks)
        step, last = _step(view, recorded, after, batch)
        view = View(after, view.row, view.settled, recorded, task, step, last)
    else:
        view = view._replace(workflow=after, newest=recorded)
    return view if view.row is not None and after.is_open else settle(view, batch)


def _step(view: View, recorded: Recorded, after: Workflow, batch: Batch) -> tuple[tuple[Recorded, ...], StepRow | None]:
    """Return the events of the running step, and the row of the last step of an attempt that awaits its review."""
    if view.last is not None and isinstance(recorded.envelope.event, TaskReviewed):
        batch.put(STEPS, [view.last._replace(reviewed_ms=recorded.time_ms)])
    step = (*view.step, recorded) if _is_of_the_step(view, recorded) else view.step
    status = step_status(step, after)
    if status == "running":
        return step, view.last if after.phase in AFTER_STEPS else None
    before, round_ = view.workflow, view.workflow.current
    row = step_row(
        step,
        status,
        begun_ms=round_.step_ms,
        workflow=after if after.place == before.place else before,  # a cancellation may end a pause
        ended_ms=recorded.time_ms,
        stopped_by=after.current.code,
    )
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
        workflow = view.workflow
        yield STEPS, step_row(view.step, "running", begun_ms=workflow.current.step_ms, workflow=workflow)


def put_undecodable(record: Record, error: Undecodable, batch: Batch) -> None:
    """Put the row of a record that is not an event into the batch, and its dead letter."""
    batch.records.append(undecodable_row(record))
    batch.letters.append(DeadLetter.of(record, str(error)))


def put_dead_letters(records: Iterable[Record], batch: Batch) -> None:
    """Put the rows of records of `poweron.deadletter` into the batch."""
    batch.put(DEAD_LETTERS, [dead_letter_row(record) for record in records])
