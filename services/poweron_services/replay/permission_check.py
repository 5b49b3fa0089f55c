"""Replays the permission check of an action: the executor's own checks, with placeholders that run nothing."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Final, NoReturn

from poweron_events.catalog import ActionSpec
from poweron_events.errors import Refused
from poweron_events.fold.state import Workflow, result_label
from poweron_events.step_events import ActionCompleted, ApprovalRequested
from poweron_services.actions.action import Order
from poweron_services.decider.approval import NEVER, Approval, marks
from poweron_services.models.call import Caller
from poweron_services.models.chat_model import Completion
from poweron_services.models.prompts import Prompt
from poweron_services.replay.action_specs import CatalogThen
from poweron_services.replay.prompt_check import CheckedPrompt
from poweron_services.replay.replay_model import differences
from poweron_services.replay.workflow_records import Folded, StoredContent
from poweron_services.roles.action_execution import Execution
from poweron_services.roles.address_check import ConfiguredPlaces

DENIAL: Final = ("success", "outcome", "error", "detail", "code")
"""The fields of an action's end that say why it was not allowed to run; its words stay as released."""


@dataclass(slots=True)
class _NotRun:
    """A placeholder for an action, which does nothing."""

    spec: ActionSpec
    reached: list[Order] = field(default_factory=list)

    async def __call__(self, order: Order) -> NoReturn:
        self.reached.append(order)
        raise Refused("A replay runs no action.")


class _Nobody:
    """A model that no check calls."""

    async def complete(self, prompt: Prompt) -> Completion:
        raise AssertionError(f"no model is asked: {prompt.stage}")


@dataclass(frozen=True, slots=True)
class PermissionCheck:
    """Lets the executor judge again whether an action may run."""

    content: StoredContent
    configured_places: ConfiguredPlaces

    async def completed(self, folded: Folded, event: ActionCompleted, then: CatalogThen) -> CheckedPrompt:
        """Check whether an action would be run, or refused, as it was then. Its result is taken as recorded."""
        selection = folded.before.step.selection
        assert selection is not None
        label = result_label(folded.before, selection.action)
        if label != event.result_label:
            return CheckedPrompt("differs", f"resultLabel was {event.result_label!r} and is {label!r}.")
        first_difference = ""
        for known, (catalog, approval) in product(folded.known, _circumstances(selection.action, event, then)):
            now = await self._judge(known, catalog, approval)
            if event.outcome != "denied" and now.outcome != "denied":
                return self._as_far_as_known("same", "")
            changes = differences(folded.data, now, only=DENIAL)
            if not changes:
                return CheckedPrompt("same")
            first_difference = first_difference or " ".join(changes)
        if event.outcome == "denied" and event.code == "action_not_allowed":
            return CheckedPrompt("inconclusive", "No event records the lists of the process that refused it.")
        return self._as_far_as_known("differs", first_difference)

    def _as_far_as_known(self, sameness: str, detail: str) -> CheckedPrompt:
        if self.content.missing and sameness != "same":
            return CheckedPrompt("inconclusive", "What it was to read was erased.")
        return CheckedPrompt(sameness, detail)  # type: ignore[arg-type] # one of the two

    async def _judge(self, workflow: Workflow, catalog: CatalogThen, approval: Approval) -> ActionCompleted:
        actions = {name: _NotRun(spec) for name, spec in catalog.specs.items()}
        execution = Execution(
            actions=actions,
            caller=Caller(_Nobody(), self.content),
            content=self.content,
            observes=False,
            now_ms=lambda: workflow.step.starts[-1].time_ms,
            approval=approval,
            configured_places=self.configured_places,
        )
        (completed,) = await execution.run(workflow)
        assert isinstance(completed, ActionCompleted)
        return completed


def _circumstances(action: str, event: ActionCompleted, then: CatalogThen) -> Iterator[tuple[CatalogThen, Approval]]:
    """Yield what no event records of a process: whether it had the action, and whether it marked it for approval."""
    yield then, NEVER
    if event.outcome == "denied":
        without = {name: spec for name, spec in then.specs.items() if name != action}
        yield CatalogThen(without), NEVER
        if event.code == "approval_missing":
            yield then, Approval({action})


def asked_again(known: Sequence[Workflow], event: ApprovalRequested) -> CheckedPrompt:
    """Check whether a user would be asked again, about the same parameters, in a state that the executor knew.

    No event records how far it had read, nor the process's marks.
    """
    checks = [_asked_again(workflow, event) for workflow in known]
    return next((check for check in checks if check.sameness == "same"), checks[0])


def _asked_again(workflow: Workflow, event: ApprovalRequested) -> CheckedPrompt:
    if marks(workflow.current.opening.approve, event.action) and not NEVER.must_be_asked(workflow):
        return CheckedPrompt("differs", "No approval would be requested now.")
    now = Approval({event.action}, event.expires_ms).request(workflow)
    changes = differences(event.model_dump(mode="json", by_alias=True), now)
    return CheckedPrompt("differs", " ".join(changes)) if changes else CheckedPrompt("same")
