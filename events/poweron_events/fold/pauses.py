"""Pauses of a round, and the time that counts for no time limit: that of pauses and of people's answers."""

from poweron_events.envelope import Recorded
from poweron_events.fold.state import Pause, Step, Workflow, with_step
from poweron_events.request import RoundPaused, RoundResumed


def paused(workflow: Workflow, recorded: Recorded, event: RoundPaused) -> Workflow | None:
    round_ = workflow.current
    if workflow.is_paused or workflow.phase in ("closing", "draining") or event.request in round_.pause_requests:
        return None
    pause = Pause(recorded.time_ms, event.reason, event.actor)
    return workflow._replace(round=round_._replace(pause=pause, pause_requests=(*round_.pause_requests, event.request)))


def resumption(workflow: Workflow, recorded: Recorded, event: RoundResumed) -> Workflow | None:
    if not workflow.is_paused or event.request in workflow.current.pause_requests:
        return None
    after = resumed(workflow, recorded.time_ms)
    requests = (*after.current.pause_requests, event.request)
    return after._replace(round=after.current._replace(pause_requests=requests))


def resumed(workflow: Workflow, now_ms: int) -> Workflow:
    """End the pause: every time limit moves by the part of the pause during which it ran."""
    pause, head_ms = workflow.current.pause, workflow.head_ms
    assert pause is not None
    since_head = suspended(pause, head_ms, now_ms)
    after = workflow._replace(round=workflow.current._replace(pause=None), head_ms=head_ms + since_head)
    if (question := workflow.current.question) is not None:
        due_ms = question.due_ms + since_head
        after = after._replace(round=after.current._replace(question=question._replace(due_ms=due_ms)))
    ms = suspended(pause, pause.since_ms, now_ms)
    if workflow.current.task is None:
        return waited(after, ms)
    starts = tuple(
        start._replace(time_ms=start.time_ms + suspended(pause, start.time_ms, now_ms))
        for start in workflow.step.starts
    )
    step = workflow.step._replace(starts=starts)
    if step.approval == "asked":
        step = postponed(step, since_head)
    return waited(with_step(after, step), ms, of_task_ms=suspended(pause, workflow.task.began_ms, now_ms))


def postponed(step: Step, ms: int) -> Step:
    """Return the step with the time limits of its approval moved by a pause."""
    escalation_due_ms = step.escalation_due_ms and step.escalation_due_ms + ms
    return step._replace(approval_due_ms=step.approval_due_ms + ms, escalation_due_ms=escalation_due_ms)


def suspended(pause: Pause, from_ms: int, now_ms: int) -> int:
    """Return how long a time limit that has run since `from_ms` was suspended by a pause that ends now."""
    return max(0, now_ms - max(pause.since_ms, from_ms))


def waited_for_person(workflow: Workflow, now_ms: int) -> Workflow:
    """Add the time from the question to the answer, or to the start of a pause; `resumed` adds the pause itself."""
    pause = workflow.current.pause
    until_ms = now_ms if pause is None else min(now_ms, pause.since_ms)
    return waited(workflow, max(0, until_ms - workflow.head_ms))


def waited(workflow: Workflow, ms: int, *, of_task_ms: int | None = None) -> Workflow:
    """Add a pause or the time that a person took to answer, which counts neither for the round nor for the task.

    `of_task_ms` is the part of it since the task began, if that is less.
    """
    round_, task = workflow.current, workflow.current.task
    own_ms = ms if of_task_ms is None else of_task_ms
    return workflow._replace(
        round=round_._replace(
            waited_ms=round_.waited_ms + ms, task=task and task._replace(waited_ms=task.waited_ms + own_ms)
        )
    )
