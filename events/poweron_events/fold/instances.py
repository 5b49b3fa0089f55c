"""The processes, each with a key of its own in the log: it starts once, and ends at most once."""

from poweron_events.envelope import Recorded
from poweron_events.fold.state import Instance, Workflow
from poweron_events.instance_events import InstanceEnded, InstanceStarted, instance_id


def instance_started(workflow: Workflow, recorded: Recorded, event: InstanceStarted) -> Workflow | None:
    """Accept the start of the instance that the key is derived from; the first one counts."""
    if not _is_of_instance(workflow, event) or workflow.instance is not None:
        return None
    return workflow._replace(instance=Instance(event, recorded.time_ms))


def instance_ended(workflow: Workflow, recorded: Recorded, event: InstanceEnded) -> Workflow | None:
    """Accept the end of an instance that has started; the first one counts."""
    instance = workflow.instance
    if not _is_of_instance(workflow, event) or instance is None or instance.ended_ms is not None:
        return None
    return workflow._replace(instance=instance._replace(ended_ms=recorded.time_ms))


def _is_of_instance(workflow: Workflow, event: InstanceStarted | InstanceEnded) -> bool:
    return workflow.phase == "none" and workflow.id == instance_id(event.instance)
