"""Progress reports: send what actions report a few times a second; no work waits for it."""

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
from poweron_services.actions.action import TellProgress, no_progress

log = structlog.get_logger()

SEND_PERIOD: Final = 0.3  # seconds between reports; a step that ends sooner reports nothing
AFTER_FAILURE: Final = 30.0  # seconds until the next attempt to send

StepTeller: TypeAlias = Callable[[Workflow], AbstractContextManager[TellProgress]]
"""Gives the action of a step a function to report its progress, for as long as the context lasts."""


def no_message(_: Workflow) -> AbstractContextManager[TellProgress]:
    """Discard progress: there is no one to report it to."""
    return nullcontext(no_progress)


class ProgressSender:
    """Send the latest report of each step, and drop what could not be sent."""

    def __init__(self, topic: ProgressTopic) -> None:
        self._topic = topic
        self._latest: dict[str, dict[str, Any]] = {}
        """By workflow, each of which runs one step at a time, so the number of running actions bounds the size."""
        self._told = asyncio.Event()
        self._failed = False

    @contextmanager
    def step(self, workflow: Workflow) -> Generator[TellProgress, None, None]:
        """Accept reports from this step's action until the context ends."""
        fields = {**step_place(workflow), "workflow_id": workflow.id, "try_": len(workflow.step.starts)}
        selection, at_work = workflow.step.selection, True

        def tell(unit: ProgressUnit, done: int, total: int | None = None) -> None:
            if at_work and selection is not None:
                report = {"action": selection.action, "unit": unit, "done": done, "total": total}
                self._latest[workflow.id] = fields | report | {"time": rfc3339(datetime.now(UTC))}
                self._told.set()

        try:
            yield tell
        finally:
            at_work = False
            self._latest.pop(workflow.id, None)

    async def run(self) -> None:
        """Send reports until cancelled; an error is logged, not raised."""
        while True:
            await self._told.wait()
            await asyncio.sleep(SEND_PERIOD)
            self._told.clear()
            messages = [progress.message() for report in self._latest.values() for progress in _progress(report)]
            self._latest.clear()
            try:
                await self._topic.send(messages)
                self._failed = False
            except Exception as error:  # noqa: BLE001 - the work continues without progress
                if not self._failed:
                    log.info("progress_lost", error=str(error))
                self._failed = True
                await asyncio.sleep(AFTER_FAILURE)


def _progress(report: dict[str, Any]) -> list[StepProgress]:
    """The report as an event, or nothing if it is invalid."""
    with suppress(ValidationError):
        return [StepProgress(**report)]
    return []
