"""The executor: claims an action before it has any effect, runs it, and reports the result (E-08)."""

from collections.abc import Callable, Sequence

from poweron_events.fold.questions import lacks_approval
from poweron_events.fold.state import PAUSED, Start, Workflow, with_step
from poweron_events.step_events import MAX_TRIES, ActionCompleted, Outcome, ParametersSet
from poweron_events.stream import WorkflowEvent
from poweron_services.decider.approval import escalated, expired
from poweron_services.fork.forks import Forks
from poweron_services.fork.original import forked_from
from poweron_services.roles.action_execution import Execution
from poweron_services.roles.action_results import without_result
from poweron_services.roles.claims import Assignment, Claim, Claims


class Executor:
    """Run each action at most as often as its effect class allows."""

    def __init__(self, execution: Execution, *, worker: str, concurrency: int, forks: Forks | None = None) -> None:
        self._execution = execution
        self._approval = execution.approval
        self._claims = Claims(execution.actions, worker, concurrency)
        self._forks = forks

    async def __call__(self, workflow: Workflow, assignment: Assignment) -> Sequence[WorkflowEvent]:
        if self._forks is not None and (events := await self._forks.act(workflow)) is not None:
            return events
        claim = self._claims.get(workflow.id)
        match workflow.phase:
            case "ready" if self._approval.must_be_asked(workflow):
                return [self._approval.request(workflow)]
            case "ready":
                return await self._claim(workflow, len(workflow.step.starts) + 1, assignment.is_ours)
            case "approve":
                return await self._wait_for_people(workflow, assignment)
            case "started" if claim is not None and not claim.begun and claim.token == workflow.step.starts[-1].claim:
                return await self._begin(workflow, claim, assignment)
            case _:
                return await self._other_claim(workflow, assignment)

    async def claim_at_once(self, workflow: Workflow, events: Sequence[WorkflowEvent]) -> Sequence[WorkflowEvent]:
        """The claim to append together with the parameters it is for, if there is a free slot to run the action now.

        The action does not begin any sooner: its claim must be read back first. The parameters are the cause of the
        claim, so if they are superseded, the claim is superseded, too.
        """
        match events:
            case [ParametersSet()] if (
                forked_from(workflow) or self._claims.all_taken or self._approval.must_be_asked(workflow)
            ):
                return []
            case [ParametersSet() as parameters]:
                ready = with_step(workflow, workflow.step._replace(parameters=parameters), "ready")
                return await self._claim(ready, 1, lambda: True)
            case _:
                return []

    def runs(self, workflow_id: str) -> bool:
        """Return whether an action of the workflow is running here."""
        claim = self._claims.get(workflow_id)
        return claim is not None and claim.begun

    def forget(self, workflow_id: str) -> None:
        """Give up a claim that has not begun: the workflow has continued without it, or is no longer ours."""
        self._claims.forget(workflow_id)

    async def _claim(self, workflow: Workflow, try_: int, is_ours: Callable[[], bool]) -> Sequence[WorkflowEvent]:
        start_event = await self._claims.claim(workflow, try_, is_ours)
        return [start_event] if start_event is not None else []

    async def _wait_for_people(self, workflow: Workflow, assignment: Assignment) -> Sequence[WorkflowEvent]:
        """Wait, for days if necessary; let further groups answer after a time, and deny the action in the end."""
        escalation_ms = workflow.step.escalation_due_ms
        if escalation_ms:  # always before the expiry
            return [escalated(workflow)] if await assignment.wait_until(escalation_ms) else []
        return [expired(workflow)] if await assignment.wait_until(workflow.step.approval_due_ms) else []

    async def _begin(self, workflow: Workflow, claim: Claim, assignment: Assignment) -> Sequence[WorkflowEvent]:
        """Run the action under a claim that was read back as accepted, which uses up its token.

        The rules are those of the moment at which it begins: a newer policy may have come since the claim.
        """
        if workflow.is_paused:
            self.forget(workflow.id)
            return [without_result(workflow, "not_begun", "The round was paused before the action began.", PAUSED)]
        current = await assignment.may_begin(workflow)
        is_valid = current is not None and self._claims.get(workflow.id) is claim
        if current is None or not is_valid or self._execution.now_ms() >= workflow.step.starts[-1].due_ms:
            self.forget(workflow.id)
            message = "The worker lost its claim before the action began."
            return [without_result(workflow, "not_begun", message, "claim_lost")]
        policy = current.current.policy if current.round else None
        with self._claims.begun(claim):
            return await self._execution.run(workflow._replace(round=workflow.current._replace(policy=policy)))

    async def _other_claim(self, workflow: Workflow, assignment: Assignment) -> Sequence[WorkflowEvent]:
        """Handle an action started by another process, started here before a restart, or being stopped."""
        start, claim = workflow.step.newest_start, self._claims.get(workflow.id)
        if workflow.phase == "draining" and claim is not None and claim.token == start.claim:
            return [self._cancellation(workflow, start, claim)]
        if claim is not None and claim.token != start.claim:
            self.forget(workflow.id)  # another worker was first: our claim must not hold a slot while that one runs
        if workflow.is_paused:
            return []  # no other try begins, and the time of the claim is suspended
        retriable = start.effect_class != "at_most_once"
        held_before = start.cause.offset is not None and start.cause.offset < assignment.end
        if not await assignment.wait_until(0 if retriable and held_before else start.due_ms):
            return []
        may_claim = workflow.phase == "started" and not lacks_approval(workflow)  # new rules may need an approval
        if retriable and may_claim and _tries(workflow) < MAX_TRIES:
            return await self._claim(workflow, len(workflow.step.starts) + 1, assignment.is_ours)
        if retriable:
            message = "The worker stopped before the action ended."
            return [without_result(workflow, "crashed", message, "worker_stopped")]
        error = "The worker stopped before the action ended; whether it had its effect is unknown."
        return [without_result(workflow, "unknown", error, "worker_stopped")]

    def _cancellation(self, workflow: Workflow, start: Start, claim: Claim) -> ActionCompleted:
        if not claim.begun:
            self.forget(workflow.id)
            error = "The round was stopped before the action began."
            return without_result(workflow, "not_begun", error, "round_stopped")
        outcome: Outcome = "unknown" if start.effect_class == "at_most_once" else "cancelled"
        return without_result(workflow, outcome, "The round was stopped while the action ran.", "round_stopped")


def _tries(workflow: Workflow) -> int:
    """Return how often the action was claimed, without the claims that a pause ended."""
    return sum(not start.given_up for start in workflow.step.starts)
