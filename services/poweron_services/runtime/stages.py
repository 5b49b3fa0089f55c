"""A stage of a workflow, tried until it is done or has failed: either way, it ends with an event."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import cast

import structlog

from poweron_events.codec import writable
from poweron_events.errors import PowerOnError, Unavailable
from poweron_events.event import FailedCalls, ModelCall
from poweron_events.fold.day_use import ms_until_next_day
from poweron_events.fold.stage_specs import TIMED_PHASES
from poweron_events.fold.state import Workflow, step_place
from poweron_events.retry import Backoff, Failure, retry
from poweron_events.round_events import Stage, StageFailed
from poweron_events.stream import WorkflowEvent
from poweron_services import telemetry
from poweron_services.decider.rules import BudgetNeeded, budget_request
from poweron_services.decider.size_limits import fitting_calls
from poweron_services.models.call_reservations import may_begin
from poweron_services.models.time_limit import AnswersLost, GivenUp, TimeLimit

log = structlog.get_logger()

LONGEST_STAGE_PAUSE = 30.0  # seconds between two tries of a stage
MAX_ERROR = 4_000  # characters

StageFunction = Callable[[Workflow], Awaitable[Sequence[WorkflowEvent]]]
"""What a role other than the executor does when it is its turn."""


async def stage_events(
    workflow: Workflow, function: StageFunction, now_ms: Callable[[], int], limited: Callable[[TimeLimit], None]
) -> Sequence[WorkflowEvent]:
    """Run the role and return its events; a stage that cannot be done at all is itself an event.

    `limited` receives the time limit of a timed stage, whose clock the caller may stop.
    """
    if workflow.phase not in TIMED_PHASES:
        return await _ending(workflow, function)
    stage = _Stage(workflow, function, now_ms)
    limited(stage.limit)
    return _telling(await stage.events(), stage.limit.failed_calls)


def stage_failed(
    workflow: Workflow,
    error: PowerOnError,
    tries: int,
    calls: Sequence[ModelCall] = (),
    failed_calls: Sequence[FailedCalls] = (),
) -> StageFailed:
    """The event which says that the current stage failed after this many tries; no other event records the calls."""
    return StageFailed(
        **step_place(workflow),
        stage=cast("Stage", workflow.phase),
        error=writable(str(error))[:MAX_ERROR],
        code=error.code,
        tries=tries,
        model_calls=fitting_calls(calls),
        failed_calls=tuple(failed_calls),
    )


def _telling(events: Sequence[WorkflowEvent], failed_calls: Sequence[FailedCalls]) -> Sequence[WorkflowEvent]:
    """The events of a stage, with the calls that failed before it added to the first one."""
    if not failed_calls or not events or "failed_calls" not in type(events[0]).model_fields:
        return events
    return [events[0].model_copy(update={"failed_calls": tuple(failed_calls)}), *events[1:]]


@dataclass(slots=True)
class _Stage:
    """The tries of one stage."""

    workflow: Workflow
    function: StageFunction
    now_ms: Callable[[], int]
    tries: int = 0
    limit: TimeLimit = field(init=False)

    def __post_init__(self) -> None:
        """Count the time from the first try, even a late one; a retry must begin within the stage's time (E-16)."""
        seconds, began_ms = self.timeout_ms / 1000, self.workflow.head_ms
        self.limit = TimeLimit(seconds, retry_seconds=seconds - (self.now_ms() - began_ms) / 1000, pauses=True)

    @property
    def timeout_ms(self) -> int:
        return self.workflow.current.opening.stage_timeout_ms

    async def events(self) -> Sequence[WorkflowEvent]:
        try:
            async with self.limit:
                return await retry(
                    self._attempt, failed=self._handle_failure, backoff=Backoff(longest=LONGEST_STAGE_PAUSE)
                )
        except AnswersLost as error:
            return [self._end(error, error.calls)]
        except TimeoutError:
            return [self._end(_too_long(self.workflow))]
        except GivenUp as given_up:
            return [self._end(given_up)]

    async def _attempt(self) -> Sequence[WorkflowEvent]:
        await may_begin()
        self.tries += 1
        try:
            return await self.function(self.workflow)
        except Unavailable:
            raise
        except BudgetNeeded as error:
            return [budget_request(self.workflow, error.stop, ms_until_next_day(self.now_ms()))]
        except PowerOnError as error:
            return [self._end(error)]
        except Exception:
            log.exception("stage_error", workflow_id=self.workflow.id, stage=self.workflow.phase)
            return [self._end(PowerOnError("An unexpected error; the log of the service has it."))]

    def _handle_failure(self, failure: Failure) -> None:
        trouble = failure.error
        assert isinstance(trouble, Unavailable)
        log.warning(
            telemetry.STAGE_WAITS,
            workflow_id=self.workflow.id,
            stage=self.workflow.phase,
            code=trouble.code,
            error=str(trouble),
        )
        self.limit.failed(trouble)
        self.limit.answers_unused(trouble.code)
        if not self.limit.allows(failure.pause):
            raise self.limit.given_up() from trouble

    def _end(self, error: PowerOnError, lost: Sequence[ModelCall] = ()) -> StageFailed:
        """The event which says that the stage failed: each model request is a try, and only it records the answers."""
        tries = max(self.tries, self.limit.tries + len(lost))
        return stage_failed(self.workflow, error, tries, (*self.limit.answered, *lost))


async def _ending(workflow: Workflow, function: StageFunction) -> Sequence[WorkflowEvent]:
    """Write the end of a round in any case; wait only for unavailable services."""

    def failed(failure: Failure) -> None:
        log.warning("ending_waits", workflow_id=workflow.id, error=str(failure.error))

    return await retry(partial(function, workflow), failed=failed)


def _too_long(workflow: Workflow) -> Unavailable:
    """The error for a stage whose time is over without a known reason."""
    beginning = "It was not done" if workflow.phase == "observe" else "The model has not answered"
    seconds = workflow.current.opening.stage_timeout_ms / 1000
    return Unavailable(f"{beginning} within {seconds:g} s, the time limit of a stage.", code="stage_timeout")
