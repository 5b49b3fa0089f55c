"""Progress on its way out: what actions say of how far they are is sent now and then, and nobody waits for it."""

import asyncio
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

import structlog
from pydantic import ValidationError

from poweron_events.envelope import rfc3339
from poweron_events.fold.state import Workflow, step_place
from poweron_events.log import ProgressTopic
from poweron_events.progress import ProgressUnit, StepProgress
from poweron_services.actions.action import TellProgress, told_nobody

log = structlog.get_logger()

SEND_PERIOD: Final = 0.3  # seconds: a step that ends sooner says nothing, and no step says more often how far it is
AFTER_FAILURE: Final = 30.0  # seconds until anything is sent again

StepTeller: TypeAlias = Callable[[Workflow], AbstractContextManager[TellProgress]]
"""Gives the action of a step the way to say how far it is, for as long as the context lasts."""


def tell_nobody(_: Workflow) -> AbstractContextManager[TellProgress]:
    """Where nobody looks on."""
    return nullcontext(told_nobody)


class ProgressSender:
    """Sends the latest of what each step says, and forgets what could not be sent."""

    def __init__(self, topic: ProgressTopic) -> None:
        self._topic = topic
        self._latest: dict[str, dict[str, Any]] = {}
        """By workflow, each of which has one step at work: so it is bounded by how many actions run."""
        self._told = asyncio.Event()
        self._failed = False

    @contextmanager
    def step(self, workflow: Workflow) -> Generator[TellProgress, None, None]:
        """What the action of this step says counts until the context ends."""
        fields = {**step_place(workflow), "workflow_id": workflow.id, "try_": len(workflow.step.starts)}
        selection, at_work = workflow.step.selection, True

        def tell(unit: ProgressUnit, done: int, total: int | None = None) -> None:
            if at_work and selection is not None:
                said = {"action": selection.action, "unit": unit, "done": done, "total": total}
                self._latest[workflow.id] = fields | said | {"time": rfc3339(datetime.now(UTC))}
                self._told.set()

        try:
            yield tell
        finally:
            at_work = False
            self._latest.pop(workflow.id, None)

    async def run(self) -> None:
        """Send until cancelled; whatever goes wrong with it stays here."""
        while True:
            await self._told.wait()
            await asyncio.sleep(SEND_PERIOD)
            self._told.clear()
            told = [progress.message() for said in self._latest.values() for progress in _progress(said)]
            self._latest.clear()
            try:
                await self._topic.send(told)
                self._failed = False
            except Exception as error:  # noqa: BLE001 - whatever befalls progress, the work goes on
                if not self._failed:
                    log.info("progress_lost", error=str(error))
                self._failed = True
                await asyncio.sleep(AFTER_FAILURE)


def _progress(said: dict[str, Any]) -> list[StepProgress]:
    """What was said, where it makes sense."""
    with suppress(ValidationError):
        return [StepProgress(**said)]
    return []
