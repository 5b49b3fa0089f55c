"""Claims: the actions that this process has announced it will run, and the slots in which it can run them (E-08)."""

import secrets
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from poweron_events.fold.state import Workflow, step_place
from poweron_events.step_events import ActionStarted
from poweron_services.actions.action import Action
from poweron_services.fair_slots import FairSlots

GRACE_MS = 30_000  # how long a claim outlasts the action's time limit, to read documents, store results and append


@dataclass(frozen=True, slots=True)
class Assignment:
    """The assignment of the partition that the workflow in hand belongs to."""

    end: int
    """The end of the partition when it was assigned."""
    is_ours: Callable[[], bool]
    may_begin: Callable[[Workflow], Awaitable[Workflow | None]]
    """Waits until all records present at the call are folded; returns the workflow as it is then, or None if the
    assignment was lost meanwhile.

    Before an action that must not run twice, it also waits until no request to stop the workflow is unanswered.
    """
    wait_until: Callable[[int], Awaitable[bool]]
    """Waits until a moment (ms since 1970); returns False, at once, if the assignment was lost meanwhile."""


@dataclass(slots=True, eq=False)
class Claim:
    """A claim of this process. It holds one of the slots until its action has run or it is forgotten."""

    token: str
    begun: bool = False


class Claims:
    """The claims of one process, by workflow: each workflow has one action at a time."""

    def __init__(self, actions: Mapping[str, Action], worker: str, concurrency: int) -> None:
        self._actions = actions
        self._worker = worker
        self._claims: dict[str, Claim] = {}
        self._places = FairSlots(concurrency)

    def __len__(self) -> int:
        return len(self._claims)

    def get(self, workflow_id: str) -> Claim | None:
        return self._claims.get(workflow_id)

    @property
    def all_taken(self) -> bool:
        """Whether a claim would have to wait for a slot."""
        return self._places.locked()

    async def claim(self, workflow: Workflow, try_: int, is_ours: Callable[[], bool]) -> ActionStarted | None:
        """Claim the action once there is a slot to run it, so that a claimed action can begin at once.

        Returns:
            The claim, to be appended; None if the workflow is no longer `is_ours`.
        """
        self.forget(workflow.id)
        await self._places.acquire()
        if not is_ours():
            self._places.release()
            return None
        self._claims[workflow.id] = claim = Claim(secrets.token_hex(16))
        return self._start_event(workflow, try_, claim)

    def forget(self, workflow_id: str) -> None:
        """Give up a claim that has not begun: the workflow has continued without it, or is no longer ours."""
        claim = self._claims.get(workflow_id)
        if claim is not None:
            del self._claims[workflow_id]
            if not claim.begun:
                self._places.release()

    @contextmanager
    def begun(self, claim: Claim) -> Generator[None, None, None]:
        """Use up the token; the slot is free again once the action has run."""
        claim.begun = True
        try:
            yield
        finally:
            self._places.release()

    def _start_event(self, workflow: Workflow, try_: int, claim: Claim) -> ActionStarted:
        selection = workflow.step.selection
        assert selection is not None
        spec = self._actions[selection.action].spec if selection.action in self._actions else None
        return ActionStarted(
            **step_place(workflow),
            try_=try_,
            action=selection.action,
            claim=claim.token,
            worker=self._worker,
            effect_class=spec.effect_class if spec else "at_most_once",
            deadline_ms=(spec.limit_ms if spec else 0) + GRACE_MS,
            tool_sha256=(spec.digest if spec else "") or None,
        )
