"""A stage of a workflow, tried until it is done or has failed: whatever happens, an event comes of it."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

import structlog

from poweron_events.codec import writable
from poweron_events.errors import PowerOnError, Unavailable
from poweron_events.event import ModelCall
from poweron_events.fold.state import Workflow, step_place
from poweron_events.fold.turn import STAGES
from poweron_events.outcome import Stage, StageFailed
from poweron_events.retry import Backoff, Failure, retry
from poweron_events.stream import WorkflowEvent
from poweron_services import telemetry
from poweron_services.decider.size_limits import fitting_calls
from poweron_services.models.time_limit import AnswersLost, TimeLimit

log = structlog.get_logger()

LONGEST_STAGE_PAUSE = 30.0  # seconds between two tries of a stage: each may be a call that costs
MAX_ERROR = 4_000  # characters

StageFunction = Callable[[Workflow], Awaitable[Sequence[WorkflowEvent]]]
"""What a role that is not the executor does when it is its turn."""


async def stage_events(
    workflow: Workflow, function: StageFunction, now_ms: Callable[[], int]
) -> Sequence[WorkflowEvent]:
    """What the role came to; a stage that cannot be done at all is itself an event."""
    if workflow.phase not in STAGES:
        return await _ending(workflow, function)
    stage = _Stage(workflow, function, now_ms)
    try:
        async with TimeLimit(stage.timeout_ms / 1000):  # of all tries, from the first, however late that is (E-16)
            return await retry(stage.attempt, failed=stage.failed, backoff=Backoff(longest=LONGEST_STAGE_PAUSE))
    except AnswersLost as lost:
        return [stage_failed(workflow, lost, stage.tries, lost.calls)]
    except TimeoutError:
        return [stage_failed(workflow, _too_long(workflow, stage), stage.tries)]
    except _TimeIsOver as over:
        return [stage_failed(workflow, over.trouble, stage.tries)]


def stage_failed(workflow: Workflow, error: PowerOnError, tries: int, calls: Sequence[ModelCall] = ()) -> StageFailed:
    """That the stage at hand could not be done, after so many tries; `calls` are those that no other event tells of."""
    return StageFailed(
        **step_place(workflow),
        stage=cast("Stage", workflow.phase),
        error=writable(str(error))[:MAX_ERROR],
        code=error.code,
        tries=tries,
        model_calls=fitting_calls(calls),
    )


class _TimeIsOver(Exception):
    """The stage began so late that the time is over with its first failure."""

    def __init__(self, trouble: PowerOnError) -> None:
        super().__init__(str(trouble))
        self.trouble = trouble


@dataclass(slots=True)
class _Stage:
    """The tries of one stage."""

    workflow: Workflow
    function: StageFunction
    now_ms: Callable[[], int]
    tries: int = 0
    trouble: PowerOnError | None = None

    @property
    def timeout_ms(self) -> int:
        return self.workflow.current.opening.stage_timeout_ms

    async def attempt(self) -> Sequence[WorkflowEvent]:
        self.tries += 1
        try:
            return await self.function(self.workflow)
        except Unavailable:
            raise
        except PowerOnError as refused:
            return [stage_failed(self.workflow, refused, self.tries)]
        except Exception:
            log.exception("stage_error", workflow_id=self.workflow.id, stage=self.workflow.phase)
            error = PowerOnError("An unexpected error; the log of the service has it.")
            return [stage_failed(self.workflow, error, self.tries)]

    def failed(self, failure: Failure) -> None:
        assert isinstance(failure.error, PowerOnError)
        self.trouble = failure.error
        log.warning(
            telemetry.STAGE_WAITS,
            workflow_id=self.workflow.id,
            stage=self.workflow.phase,
            code=self.trouble.code,
            error=str(self.trouble),
        )
        if self.now_ms() >= self.workflow.head_ms + self.timeout_ms:
            raise _TimeIsOver(self.trouble) from failure.error


async def _ending(workflow: Workflow, function: StageFunction) -> Sequence[WorkflowEvent]:
    """The end of a round is written whatever happens: only what is unavailable is waited for."""

    def failed(failure: Failure) -> None:
        log.warning("ending_waits", workflow_id=workflow.id, error=str(failure.error))

    return await retry(partial(function, workflow), failed=failed)


def _too_long(workflow: Workflow, stage: _Stage) -> Unavailable:
    """That the time of a stage is over, with what kept it: only that tells a person what to mend."""
    limit = f"within {stage.timeout_ms / 1000:g} s, the time limit of a stage."
    if stage.trouble is not None:
        tries = "once" if stage.tries == 1 else f"{stage.tries} times"
        return Unavailable(f"It was tried {tries} {limit} The last trouble: {stage.trouble}", code=stage.trouble.code)
    who = "It was not done" if workflow.phase == "observe" else "The model has not answered"
    return Unavailable(f"{who} {limit}", code="stage_timeout")
