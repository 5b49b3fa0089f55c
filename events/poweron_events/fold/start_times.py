"""When the current attempt and the current step began, in broker time."""

from typing import Any

from poweron_events.fold.state import Round


def start_times(before: Round | None, after: Round, time_ms: int) -> dict[str, Any]:
    """Return the changes to a round if an attempt or a step of it has just begun."""
    attempt, step = _attempt_and_step(after)
    if before is None:
        return {"attempt_ms": time_ms, "step_ms": time_ms}
    attempt_before, step_before = _attempt_and_step(before)
    if attempt != attempt_before:
        return {"attempt_ms": time_ms, "step_ms": time_ms}
    return {} if step == step_before else {"step_ms": time_ms}


def _attempt_and_step(round_: Round) -> tuple[tuple[int, int, int], int]:
    task = round_.task
    if task is None:
        return (round_.number, 0, 0), 0
    return (round_.number, task.number, task.attempt), task.step.number
