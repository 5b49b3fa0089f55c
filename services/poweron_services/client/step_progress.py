"""Following the progress of the steps of a workflow, while a user is watching."""

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

RETRY_PERIOD: Final = 10.0  # seconds until reading the topic is retried

UNIT_WORDS: Final[dict[ProgressUnit, str]] = {
    "documents_read": "documents read",
    "pages_read": "pages read",
    "passages_searched": "passages searched",
    "parts_answered": "parts answered",
    "pages_fetched": "pages fetched",
    "tool_steps": "steps of the tool",
}


def amount(done: int, total: int | None, unit: str) -> str:
    """Format how many are done, and of how many."""
    of = "" if total is None else f" of {total:,}"
    return f"{done:,}{of} {unit}"


async def follow_amounts(
    topic: ProgressTopic, workflow_id: str, current: Callable[[], Workflow | None]
) -> AsyncGenerator[str, None]:
    """Yield the progress of the running step in words, each time it changes; `current` returns the workflow so far."""
    last = ""
    async with aclosing(follow_progress(topic, workflow_id)) as following:
        async for progress in following:
            workflow = current()
            text = f"{step_words(progress.task, progress.step)}: {amount_of(progress)}"
            if text != last and workflow is not None and tells_of_step(progress, workflow):
                last = text
                yield text


def amount_of(progress: StepProgress) -> str:
    """Return the progress of a step in words; the total is never less than what is done."""
    total = None if progress.total is None else max(progress.total, progress.done)
    return amount(progress.done, total, UNIT_WORDS[progress.unit])


async def follow_progress(topic: ProgressTopic, workflow_id: str) -> AsyncGenerator[StepProgress, None]:
    """Yield the newest progress of each batch about the workflow, without end; after an error, reading is retried."""
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
    """Return whether the progress is about the action that is running now."""
    step = workflow.step if workflow.is_open and workflow.phase == "started" else None
    return (
        step is not None
        and (progress.workflow_id, progress.place) == (workflow.id, workflow.place)
        and progress.try_ == len(step.starts)
        and step.selection is not None
        and progress.action == step.selection.action
    )
