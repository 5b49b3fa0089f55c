"""Watching how far the steps of a workflow are, for as long as somebody looks on."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from typing import Final

from poweron_events.codec import Undecodable
from poweron_events.errors import PowerOnError
from poweron_events.fold.state import Workflow
from poweron_events.log import ProgressTopic
from poweron_events.progress import ProgressUnit, StepProgress
from poweron_services.client.follow import step_words

RETRY_PERIOD: Final = 10.0  # seconds until a topic that cannot be read is tried again

UNIT_WORDS: Final[dict[ProgressUnit, str]] = {
    "documents_read": "documents read",
    "pages_read": "pages read",
    "passages_searched": "passages searched",
    "parts_answered": "parts answered",
    "pages_fetched": "pages fetched",
    "tool_steps": "steps of the tool",
}


def amount(done: int, total: int | None, unit: str) -> str:
    """How many are done, of how many."""
    of = "" if total is None else f" of {total:,}"
    return f"{done:,}{of} {unit}"


async def follow_amounts(
    topic: ProgressTopic, workflow_id: str, current: Callable[[], Workflow | None]
) -> AsyncGenerator[str, None]:
    """How far the step at work is, in words, each time that it is another amount; `current` is the workflow so far."""
    said = ""
    async with aclosing(follow_progress(topic, workflow_id)) as following:
        async for progress in following:
            workflow = current()
            told = f"{step_words(progress.task, progress.step)}: {amount_of(progress)}"
            if told != said and workflow is not None and tells_of_step(progress, workflow):
                said = told
                yield told


def amount_of(progress: StepProgress) -> str:
    """How far a step is, in words; however many are done, no less are there in all."""
    total = None if progress.total is None else max(progress.total, progress.done)
    return amount(progress.done, total, UNIT_WORDS[progress.unit])


async def follow_progress(topic: ProgressTopic, workflow_id: str) -> AsyncGenerator[StepProgress, None]:
    """The newest of each batch that is told of the workflow, without end; what cannot be had is not missed."""
    while True:
        with suppress(PowerOnError):
            async with aclosing(topic.tail(workflow_id.encode())) as tail:
                async for records in tail:
                    for record in reversed(records):
                        with suppress(Undecodable):
                            yield StepProgress.read(record)
                            break
        await asyncio.sleep(RETRY_PERIOD)


def tells_of_step(progress: StepProgress, workflow: Workflow) -> bool:
    """Whether it is about the action that is at work there now."""
    step = workflow.step if workflow.is_open and workflow.phase == "started" else None
    return (
        step is not None
        and (progress.workflow_id, progress.place) == (workflow.id, workflow.place)
        and progress.try_ == len(step.starts)
        and step.selection is not None
        and progress.action == step.selection.action
    )
