"""The arbiter: decides whether an event is what the workflow waits for, and what it changes (E-03).

`evolve` judges slot and state, never content, and the first event in offset order wins. Live, in a replay,
in the projector and in an audit the verdict is the same, because it depends on nothing else.
These are the transition rules up to number 3 (`request.LAWS`); a round keeps the rules that its opening names.

Three superseded records that respond to the same head make the workflow stuck: either a role and the fold disagree,
for example because two releases apply different rules, or events are forged.
"""

from typing import Any, Final, assert_never

from poweron_events.archive_events import ArchiveEvent, ContentErased, WorkflowExported, WorkflowRetained
from poweron_events.codes import Code
from poweron_events.envelope import Recorded
from poweron_events.event import CATALOGUE, RECORDED, StepEvent, TaskEvent
from poweron_events.fold.costs import charges, reserve
from poweron_events.fold.history import message, with_message
from poweron_events.fold.instances import instance_ended, instance_started
from poweron_events.fold.pauses import paused, resumed, resumption
from poweron_events.fold.policy_chain import policy_applied
from poweron_events.fold.questions import (
    answered,
    approval_escalated,
    approval_requested,
    budget_requested,
    lacks_approval,
    rules_changed,
)
from poweron_events.fold.state import (
    Ending,
    Phase,
    Place,
    Round,
    Start,
    Step,
    Task,
    Verdict,
    Workflow,
    gives_up,
    is_at_place,
    max_steps,
    may_ask_again,
    rejections,
    task_context,
    with_step,
    with_task,
)
from poweron_events.instance_events import InstanceEnded, InstanceStarted
from poweron_events.request import (
    LAWS,
    POLICY_ID,
    CancellationRequested,
    DocumentErased,
    PolicyApplied,
    RequestRefused,
    RoundPaused,
    RoundRequested,
    RoundResumed,
    RulesChanged,
    WorkflowRequested,
)
from poweron_events.round_events import (
    ActionsPlanned,
    AnswerRejected,
    BudgetDenied,
    BudgetGranted,
    BudgetRequested,
    DeadlinePassed,
    RoundCancelled,
    RoundCompleted,
    RoundFailed,
    StageFailed,
    TaskReviewed,
    TasksPlanned,
)
from poweron_events.step_events import (
    ActionCompleted,
    ActionSelected,
    ActionStarted,
    ApprovalDenied,
    ApprovalEscalated,
    ApprovalGranted,
    ApprovalRequested,
    CallReserved,
    ObservationRecorded,
    ParametersChanged,
    ParametersRejected,
    ParametersSet,
    RefinementDecided,
    SelectionRejected,
)
from poweron_events.stream import WorkflowEvent


def superseded(workflow: Workflow, recorded: Recorded) -> Workflow:
    """Return the workflow after a record without effect. Identical bytes count once, and none while it is paused."""
    hashes = workflow.superseded
    if not workflow.stuck and not workflow.is_paused and answers_head(workflow, recorded):
        hashes |= {recorded.sha256}
    return workflow._replace(superseded=hashes, seq=workflow.seq + 1, last=recorded.offset)


def answers_head(workflow: Workflow, recorded: Recorded) -> bool:
    """Return whether the writer of the record had read the current state of the workflow.

    A cause without an offset travels in the same append as the record, which its writer sends before the verdict on
    that cause: if the round was stopped in the meantime, the record is merely late.
    """
    cause = recorded.envelope.cause
    return workflow.is_open and cause is not None and cause.offset is not None and cause.names(workflow.head)


WITHOUT_TURN: Final = (
    RequestRefused,
    DocumentErased,
    CallReserved,
    RoundPaused,
    RoundResumed,
    RulesChanged,
    PolicyApplied,
    InstanceStarted,
    InstanceEnded,
    WorkflowExported,
    ContentErased,
    WorkflowRetained,
)
"""After these events the workflow still waits for the same event, with the same head.

New rules for an action that is about to begin are the exception: its executor has to look again.
"""
TIME_IS_OVER: Final = "The time for this round is over."


def evolve(workflow: Workflow, recorded: Recorded) -> tuple[Workflow, Verdict]:
    """Return the workflow after a record, and the verdict on the record."""
    event = recorded.envelope.event
    if event is None:
        return _unknown(workflow, recorded)
    after = _judge(workflow, recorded, event)
    if after is None:
        return superseded(workflow, recorded), "superseded"
    if type(event) in WITHOUT_TURN and not (isinstance(event, RulesChanged) and workflow.phase in ("ready", "approve")):
        return after._replace(seq=workflow.seq + 1, last=recorded.offset), "accepted"
    return _remember(workflow, recorded, event, after), "accepted"


def _unknown(workflow: Workflow, recorded: Recorded) -> tuple[Workflow, Verdict]:
    """Skip an event of unknown type; one from a newer catalogue freezes the workflow for acting (E-13)."""
    newer = recorded.envelope.catalogue > CATALOGUE
    after = workflow._replace(
        frozen=workflow.frozen or (newer and workflow.is_open), seq=workflow.seq + 1, last=recorded.offset
    )
    return after, "unknown" if newer else "superseded"


def _remember(before: Workflow, recorded: Recorded, event: WorkflowEvent, after: Workflow) -> Workflow:
    """Return the workflow with what every accepted event of a round adds: new head, costs, message, count."""
    round_ = after.current
    changes = charges(round_, event) | start_times(before.place, after.place, recorded.time_ms)
    said = message(before, recorded, after)
    if said is not None:
        changes["messages"] = with_message(round_.messages, said)
    return after._replace(
        round=round_._replace(**changes) if changes else round_,
        head=recorded.cause,
        head_ms=recorded.time_ms,
        superseded=frozenset(),
        seq=before.seq + 1,
        last=recorded.offset,
    )


def _judge(workflow: Workflow, recorded: Recorded, event: WorkflowEvent) -> Workflow | None:  # noqa: PLR0911 - one case per event
    """Return the workflow after an accepted event; None if the event is superseded."""
    match event:
        case TaskEvent():  # most events: they are compared with one class instead of several
            return _judge_in_round(workflow, recorded, event)
        case RequestRefused() | DocumentErased() | ArchiveEvent():
            return workflow
        case PolicyApplied():
            return policy_applied(workflow, event)
        case InstanceStarted():
            return instance_started(workflow, recorded, event)
        case InstanceEnded():
            return instance_ended(workflow, recorded, event)
        case WorkflowRequested():
            opens = workflow.phase == "none" and event.round == 1 and workflow.id != POLICY_ID
            return _open(workflow, recorded, event) if opens else None
        case RoundRequested():
            follows = workflow.phase == "ended" and event.round == len(workflow.openings) + 1
            return _open(workflow, recorded, event) if follows else None
        case _:
            return _judge_in_round(workflow, recorded, event)


def _open(workflow: Workflow, recorded: Recorded, event: WorkflowRequested | RoundRequested) -> Workflow:
    return workflow._replace(
        phase="plan",
        openings=(*workflow.openings, recorded.offset),
        round=Round(event.round, event, recorded.time_ms, recorded.envelope.traceparent, policy=event.policy),
        frozen=event.laws > LAWS,
    )


InTask = (
    ActionsPlanned
    | ActionSelected
    | SelectionRejected
    | ParametersSet
    | ParametersRejected
    | ApprovalRequested
    | ApprovalEscalated
    | ActionStarted
    | ObservationRecorded
    | RefinementDecided
    | TaskReviewed
)
Turn = (
    InTask
    | AnswerRejected
    | StageFailed
    | BudgetRequested
    | RoundCompleted
    | RoundFailed
    | RoundCancelled
    | TasksPlanned
)
InRound = (
    Turn
    | CallReserved
    | CancellationRequested
    | RoundPaused
    | RoundResumed
    | RulesChanged
    | DeadlinePassed
    | ActionCompleted
    | ApprovalGranted
    | ApprovalDenied
    | ParametersChanged
    | BudgetGranted
    | BudgetDenied
)


def _judge_in_round(workflow: Workflow, recorded: Recorded, event: InRound) -> Workflow | None:  # noqa: PLR0911 - one case per event
    if not workflow.is_open or event.round != workflow.current.number:
        return None
    match event:
        case CallReserved():
            return reserve(workflow, event)
        case CancellationRequested():
            return _cancelled(workflow, recorded, event)
        case RoundPaused():
            return paused(workflow, recorded, event)
        case RoundResumed():
            return resumption(workflow, recorded, event)
        case RulesChanged():
            return rules_changed(workflow, recorded, event)
        case DeadlinePassed():
            return _deadline_passed(workflow, event)
        case ActionCompleted():
            return _completed(workflow, recorded, event)
        case ApprovalGranted() | ApprovalDenied() | ParametersChanged() | BudgetGranted() | BudgetDenied():
            return answered(workflow, recorded, event)
        case _:
            if workflow.asks_for_budget or not _caused(workflow, recorded):
                return None
            return _judge_turn(workflow, recorded, event)


def _caused(workflow: Workflow, recorded: Recorded) -> bool:
    cause = recorded.envelope.cause
    return cause is not None and cause.names(workflow.head)


def _judge_turn(workflow: Workflow, recorded: Recorded, event: Turn) -> Workflow | None:  # noqa: PLR0911 - one case per event
    match event:
        case TaskEvent():  # most events, as above
            return _judge_task(workflow, recorded, event) if _is_here(workflow, event) else None
        case AnswerRejected():
            return _answer_rejected(workflow, event)
        case StageFailed():
            return _stage_failed(workflow, event)
        case BudgetRequested():
            return budget_requested(workflow, recorded, event)
        case RoundCompleted():
            return _end(workflow, "completed")
        case RoundFailed():
            return _end(workflow, "failed")
        case RoundCancelled():
            return _end(workflow, "cancelled")
        case TasksPlanned():
            return _planned(workflow, recorded, event)
        case _:
            assert_never(event)


def _is_here(workflow: Workflow, event: InTask) -> bool:
    """Return whether an event names the current attempt, and the current step if it is about one."""
    round_number, task, attempt, step = workflow.place
    named = event.step if isinstance(event, StepEvent) else step
    return (event.round, event.task, event.attempt, named) == (round_number, task, attempt, step)


def _judge_task(workflow: Workflow, recorded: Recorded, event: InTask) -> Workflow | None:  # noqa: PLR0911 - one case per event
    phase = workflow.phase
    match event:
        case ActionsPlanned():
            return _actions_planned(workflow, event) if phase == "plan_actions" else None
        case ActionSelected():
            return _selected(workflow, event) if phase == "select" else None
        case SelectionRejected():
            return _refused(workflow, event) if phase == "select" else None
        case ParametersSet():
            return _parameterized(workflow, event) if phase == "parameterize" else None
        case ParametersRejected():
            return _refused(workflow, event) if phase == "parameterize" else None
        case ApprovalRequested():
            return approval_requested(workflow, recorded, event)
        case ApprovalEscalated():
            return approval_escalated(workflow, recorded, event)
        case ActionStarted():
            return _started(workflow, recorded, event)
        case ObservationRecorded():
            return _observed(workflow, event) if phase == "observe" else None
        case RefinementDecided():
            return _refined(workflow, event) if phase == "refine" else None
        case TaskReviewed():
            return _reviewed(workflow, recorded, event) if phase == "review" else None
        case _:
            assert_never(event)


def _cancelled(workflow: Workflow, recorded: Recorded, event: CancellationRequested) -> Workflow | None:
    """Stop the round, which ends a pause; a round that was paused before its end was written can still be cancelled."""
    if workflow.is_paused:
        workflow = resumed(workflow, recorded.time_ms)
    elif workflow.phase in ("closing", "draining"):
        return None
    stopped = _stopped(workflow, "cancelled", event.reason, "cancelled")
    return stopped._replace(round=stopped.current._replace(cancelled_by=event.actor))


def _deadline_passed(workflow: Workflow, event: DeadlinePassed) -> Workflow | None:
    """Stop the round, unless the event was written before a pause or a question that moved the deadline."""
    if workflow.is_paused or workflow.phase in ("closing", "draining") or event.moves != workflow.current.moves:
        return None
    return _stopped(workflow, "failed", TIME_IS_OVER, "deadline")


def _stopped(workflow: Workflow, ending: Ending, reason: str, code: Code) -> Workflow:
    """Stop the round; if an action has started, the round first drains: only the end of the action is still awaited."""
    return _close(workflow, ending, reason, code, "draining" if workflow.phase == "started" else "closing")


def _close(workflow: Workflow, ending: Ending, reason: str, code: Code | None, phase: Phase = "closing") -> Workflow:
    closing = workflow.current._replace(ending=ending, reason=reason, code=code, question=None)
    return workflow._replace(phase=phase, round=closing)


def _end(workflow: Workflow, ending: Ending) -> Workflow | None:
    if workflow.phase != "closing" or workflow.current.ending != ending:
        return None
    return workflow._replace(phase="ended")


def _answer_rejected(workflow: Workflow, event: AnswerRejected) -> Workflow | None:
    """Keep the role in its stage: it asks the model again, or decides without it."""
    here = is_at_place(workflow, event)
    next_try = len(rejections(workflow)) + 1
    if not here or event.stage != workflow.phase or event.try_ != next_try or not may_ask_again(rejections(workflow)):
        return None
    return workflow._replace(round=workflow.current._replace(rejected=(*workflow.current.rejected, event)))


def _stage_failed(workflow: Workflow, event: StageFailed) -> Workflow | None:
    if not is_at_place(workflow, event) or event.stage != workflow.phase:
        return None
    return _close(workflow, "failed", event.error, event.code)


def _planned(workflow: Workflow, recorded: Recorded, event: TasksPlanned) -> Workflow | None:
    if workflow.phase != "plan":
        return None
    planned = workflow._replace(round=workflow.current._replace(tasks=event.tasks))
    return _begin_task(planned, 1, recorded.time_ms)


def _begin_task(workflow: Workflow, number: int, began_ms: int) -> Workflow:
    task = Task(number, workflow.current.tasks[number - 1], began_ms=began_ms)
    return _begin_attempt(workflow._replace(round=workflow.current._replace(task=task)))


def _begin_attempt(workflow: Workflow) -> Workflow:
    return workflow._replace(phase="select" if task_context(workflow).react_mode else "plan_actions")


def _actions_planned(workflow: Workflow, event: ActionsPlanned) -> Workflow:
    return with_task(workflow, workflow.task._replace(planned=event.actions), "select")


def _selected(workflow: Workflow, event: ActionSelected) -> Workflow:
    step = workflow.step._replace(selection=event, try_=1, refusals=())
    task = workflow.task._replace(step=step, actions=workflow.task.actions + 1, announced=True)
    return with_task(workflow, task, "parameterize")


def _parameterized(workflow: Workflow, event: ParametersSet) -> Workflow:
    return with_step(workflow, workflow.step._replace(parameters=event), "ready")


def _refused(workflow: Workflow, event: SelectionRejected | ParametersRejected) -> Workflow | None:
    step = workflow.step
    if event.try_ != step.try_:
        return None
    refusals = (*step.refusals, event)
    task = workflow.task._replace(step=step._replace(try_=step.try_ + 1, refusals=refusals), announced=True)
    if may_ask_again(refusals):
        return with_task(workflow, task)
    return with_task(workflow, task._replace(refused=event), "review")


def _started(workflow: Workflow, recorded: Recorded, event: ActionStarted) -> Workflow | None:
    starts = workflow.step.starts
    if workflow.phase not in ("ready", "started") or event.try_ != len(starts) + 1:
        return None
    if event.claim != RECORDED and lacks_approval(workflow):  # a fork runs nothing under a recorded claim
        return None
    start = Start(recorded.cause, event.claim, event.effect_class, recorded.time_ms, event.deadline_ms)
    return with_step(workflow, workflow.step._replace(starts=(*starts, start)), "started")


def _completed(workflow: Workflow, recorded: Recorded, event: ActionCompleted) -> Workflow | None:
    """Accept the end of any started try; its cause is the start of that try (E-08)."""
    here = is_at_place(workflow, event)
    if not here or workflow.phase not in ("started", "draining") or event.try_ > len(workflow.step.starts):
        return None
    cause, start = recorded.envelope.cause, workflow.step.starts[event.try_ - 1]
    if cause is None or not cause.names(start.cause) or start.given_up:
        return None
    if workflow.phase == "started" and gives_up(event):
        return _given_up(workflow, event.try_)
    phase: Phase = "observe" if workflow.phase == "started" else "closing"
    return with_step(workflow, workflow.step._replace(completed=event), phase)


def _given_up(workflow: Workflow, try_: int) -> Workflow:
    """Return the workflow without this claim: if it is the newest, the step is as ready as before it."""
    starts = list(workflow.step.starts)
    starts[try_ - 1] = starts[try_ - 1]._replace(given_up=True)
    phase: Phase = "ready" if all(start.given_up for start in starts) else "started"
    return with_step(workflow, workflow.step._replace(starts=tuple(starts)), phase)


def _observed(workflow: Workflow, event: ObservationRecorded) -> Workflow:
    if task_context(workflow).react_mode:
        return with_step(workflow, workflow.step._replace(observation=event), "refine")
    more = workflow.step.number < len(workflow.task.planned)
    if event.observation.success and more:
        return with_step(workflow, Step(workflow.step.number + 1), "select")
    return with_step(workflow, workflow.step._replace(observation=event), "review")


def _refined(workflow: Workflow, event: RefinementDecided) -> Workflow:
    """Continue if the refiner says so and the limits allow it; only a retry that takes place is counted (L-05)."""
    task = workflow.task
    again = event.classification == "retry"
    steps_left = workflow.step.number < max_steps(workflow)
    retries_left = not again or task.retries < workflow.current.opening.max_retries
    goes_on = event.decision == "continue" and steps_left and retries_left
    refined = task._replace(
        step=Step(workflow.step.number + 1) if goes_on else workflow.step,
        stopped="" if goes_on else event.reason,
        stop_code=None if goes_on else event.code,
        hint=event.hint,
        improvements=event.improvements,
        progress=event.criteria_progress or task.progress,
        retries=task.retries + (goes_on and again),
    )
    return with_task(_retried(workflow) if goes_on and again else workflow, refined, "select" if goes_on else "review")


def _retried(workflow: Workflow) -> Workflow:
    """Return the workflow with one more retry counted in its round."""
    round_ = workflow.current
    return workflow._replace(round=round_._replace(retries=round_.retries + 1))


def _reviewed(workflow: Workflow, recorded: Recorded, event: TaskReviewed) -> Workflow:
    task = workflow.task
    if event.status == "retry" and task.retries < workflow.current.opening.max_retries:
        return _next_attempt(workflow, event)
    reviewed = with_task(workflow, task._replace(progress=event.criteria_progress or task.progress))
    if event.status != "success":
        return _close(reviewed, "failed", event.reason, event.code)
    if task.number < len(workflow.current.tasks):
        return _begin_task(reviewed, task.number + 1, recorded.time_ms)
    return _close(reviewed, "completed", event.reason, event.code)


def _next_attempt(workflow: Workflow, event: TaskReviewed) -> Workflow:
    task = workflow.task
    again = task._replace(
        attempt=task.attempt + 1,
        retries=task.retries + 1,
        refused=None,
        stopped="",
        stop_code=None,
        hint=None,
        improvements=event.improvements,
        progress=event.criteria_progress or task.progress,
        planned=(),
        step=Step(1),
    )
    return _begin_attempt(with_task(_retried(workflow), again))


def start_times(before: Place, after: Place, time_ms: int) -> dict[str, Any]:
    """Return the changes to a round if an attempt or a step of it has just begun."""
    if before == after:
        return {}
    return {"step_ms": time_ms} if before[:3] == after[:3] else {"attempt_ms": time_ms, "step_ms": time_ms}
