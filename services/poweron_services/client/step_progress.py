"""Watching how far the steps of a workflow are, for as long as somebody looks on."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Final

from poweron_events.codec import Undecodable
from poweron_events.errors import PowerOnError
from poweron_events.fold.state import Workflow
from poweron_events.log import ProgressTopic
from poweron_events.progress import StepProgress

RETRY_PERIOD: Final = 10.0  # seconds until a topic that cannot be read is tried again


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
