"""The first step of every role in a fork: take over the events of the original workflow, as far as they apply.

The original's events are read from the rows, so that any process can serve a fork and continue where another one died.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

import structlog

from poweron_events.catalog import ActionSpec
from poweron_events.codes import ForkStopCode
from poweron_events.content import ContentStore
from poweron_events.errors import Unavailable
from poweron_events.event import RECORDED
from poweron_events.fold.state import Workflow, result_label, step_place
from poweron_events.retry import Failure, retry
from poweron_events.round_events import StageFailed
from poweron_events.step_events import ActionCompleted, ActionStarted
from poweron_events.stream import WorkflowEvent
from poweron_services import telemetry
from poweron_services.fork.event_copies import Copying
from poweron_services.fork.manual_answer import ManualAnswer, answering
from poweron_services.fork.original import AcceptedEvent, Original, Result, forked_from

log = structlog.get_logger()

StageFunction = Callable[[Workflow], Awaitable[Sequence[WorkflowEvent]]]
Name = TypeVar("Name", bound=str)

NEEDS_LIVE: Final[ForkStopCode] = "fork_needs_live"
NEVER_RUNS: Final[ForkStopCode] = "fork_never_runs"
_WHY: Final[Mapping[str, str]] = {
    NEEDS_LIVE: "The workflow that this one was forked from has no result of {action} with these parameters, "
    "and this fork runs no actions.",
    NEVER_RUNS: "The workflow that this one was forked from has no result of {action} with these parameters, "
    "and a fork never runs an action whose effect must not happen twice.",
}


class Originals(Protocol):
    """Access to the workflows that were forked."""

    async def accepted_events(self, workflow_id: str) -> Sequence[AcceptedEvent]:
        """Return the accepted events known so far, in order. Raises Unavailable if Postgres does not answer."""


@dataclass(frozen=True, slots=True)
class Forks:
    """Take over events from the workflows that were forked."""

    originals: Originals
    content: ContentStore
    specs: Mapping[str, ActionSpec]

    def first(self, functions: Mapping[Name, StageFunction]) -> dict[Name, StageFunction]:
        """Wrap stage functions so that, in a fork, each is called only if there is nothing to take over."""
        return {name: self._first(function) for name, function in functions.items()}

    def _first(self, function: StageFunction) -> StageFunction:
        async def staged(workflow: Workflow) -> Sequence[WorkflowEvent]:
            if forked_from(workflow) is None:
                return await function(workflow)
            if events := await self._taken_over(workflow) or _stop(workflow):
                return events
            if (edited := await self._manual_answer(workflow)) is None:
                return await function(workflow)
            with answering(edited):
                return await function(workflow)

        return staged

    async def _manual_answer(self, workflow: Workflow) -> ManualAnswer | None:
        """Return the answer that a person gives to this decision instead of a model; None if a model is asked."""
        fork = forked_from(workflow)
        if fork is None or fork.answer is None or not (await self._original(workflow)).is_at_end(workflow):
            return None
        text = (await self.content.get(workflow.id, fork.answer)).decode()
        actor = workflow.current.opening.actor
        return ManualAnswer(text, actor.id if actor is not None else workflow.current.opening.requester.name)

    async def act(self, workflow: Workflow) -> Sequence[WorkflowEvent] | None:
        """Return the events that the executor writes without running an action; None to proceed as in any workflow."""
        if forked_from(workflow) is None:
            return None

        def failed(failure: Failure) -> None:
            log.warning(telemetry.STAGE_WAITS, workflow_id=workflow.id, stage="execute", error=str(failure.error))

        async def acted() -> Sequence[WorkflowEvent] | None:
            return await self._taken_over(workflow) or await self._act(workflow)

        return await retry(acted, failed=failed)

    async def _taken_over(self, workflow: Workflow) -> Sequence[WorkflowEvent]:
        """Return the next event of the part that is taken over; nothing after its end."""
        next_event = (await self._original(workflow)).next_event(workflow)
        return [] if next_event is None else [await self._copying(workflow).event(next_event.event, next_event.seq)]

    async def _act(self, workflow: Workflow) -> Sequence[WorkflowEvent] | None:
        match workflow.phase:
            case "ready" if workflow.step.approval != "denied":
                return await self._begin(workflow)
            case "approve":
                return await self._answer(workflow)
            case "started" | "draining" if workflow.step.starts[-1].claim == RECORDED:
                return [await self._end(workflow)]
            case _:
                return None

    async def _begin(self, workflow: Workflow) -> Sequence[WorkflowEvent] | None:
        """Return the claim of a result to take over, or of an action that must not run; None to run the action."""
        result = (await self._original(workflow)).result(workflow)
        return [self._start_event(workflow)] if result is not None or self._why_not(workflow) else None

    async def _answer(self, workflow: Workflow) -> Sequence[WorkflowEvent] | None:
        """Return the user's answer from the original if its result is also taken over; None to ask a user."""
        original = await self._original(workflow)
        answer = original.answer(workflow)
        if answer is None or original.result(workflow) is None:
            return None
        return [await self._copying(workflow).event(answer.event, answer.seq)]

    async def _end(self, workflow: Workflow) -> ActionCompleted:
        result = (await self._original(workflow)).result(workflow)
        if result is None or workflow.phase == "draining":
            return self._unbegun_result(workflow)
        copy = await self._copying(workflow).event(result.completed, result.seq)
        assert isinstance(copy, ActionCompleted)
        return _at_hand(workflow, copy, result)

    def _start_event(self, workflow: Workflow) -> ActionStarted:
        spec = self.specs.get(_action(workflow))
        return ActionStarted(
            **step_place(workflow),
            try_=len(workflow.step.starts) + 1,
            action=_action(workflow),
            claim=RECORDED,
            worker=RECORDED,
            effect_class=spec.effect_class if spec else "at_most_once",
            deadline_ms=spec.limit_ms if spec else 0,
        )

    def _unbegun_result(self, workflow: Workflow) -> ActionCompleted:
        code = self._why_not(workflow) or NEEDS_LIVE
        return ActionCompleted(
            **step_place(workflow),
            try_=len(workflow.step.starts),
            success=False,
            outcome="not_begun",
            error=_WHY[code].format(action=_action(workflow)),
            code=code,
            result_label=result_label(workflow, _action(workflow)),
        )

    def _why_not(self, workflow: Workflow) -> ForkStopCode | None:
        """Return why the current action must not run; None if it may."""
        fork, spec = forked_from(workflow), self.specs.get(_action(workflow))
        if spec is None or spec.effect_class == "at_most_once":
            return NEVER_RUNS
        return None if fork is not None and fork.live else NEEDS_LIVE

    async def _original(self, workflow: Workflow) -> Original:
        fork = forked_from(workflow)
        assert fork is not None
        events = await self.originals.accepted_events(fork.workflow)
        if all((event.seq, event.sha256) != (fork.seq, fork.head) for event in events):
            raise Unavailable(f"Postgres does not hold record {fork.seq} of workflow {fork.workflow} yet")
        return Original(workflow.id, fork.seq, events)

    def _copying(self, workflow: Workflow) -> Copying:
        fork = forked_from(workflow)
        assert fork is not None
        return Copying(self.content, fork.workflow, workflow.id)


def _action(workflow: Workflow) -> str:
    assert workflow.step.selection is not None
    return workflow.step.selection.action


def _at_hand(workflow: Workflow, completed: ActionCompleted, result: Result) -> ActionCompleted:
    """Return a result as that of the current step, wherever it came from."""
    task = workflow.task
    label, here = result_label(workflow, result.action), f"r{workflow.current.number}t{task.number}a{task.actions}"
    documents = tuple(
        document.model_copy(update={"document_id": f"{here}d{document.document_id.rpartition('d')[2]}"})
        for document in completed.documents
    )
    place = {**step_place(workflow), "try_": len(workflow.step.starts)}
    return completed.model_copy(update={**place, "result_label": label, "documents": documents})


def _stop(workflow: Workflow) -> Sequence[WorkflowEvent]:
    """Return the failure that ends a fork whose action was not run; nothing otherwise."""
    task = workflow.current.task
    completed = task.step.completed if task is not None and workflow.phase == "observe" else None
    if completed is None or completed.outcome != "not_begun" or completed.code not in _WHY:
        return []
    error = completed.error or ""
    return [StageFailed(**step_place(workflow), stage="observe", error=error, code=completed.code, tries=1)]
