"""The records of a process for tests: its start, its end, and its story under its key."""

from typing import Any

from builders import Told
from poweron_events.fold.state import Workflow
from poweron_events.instance_events import InstanceEnded, InstanceStarted, OfferedAction, instance_id

INSTANCE = "host-7-1a2b3c4d"


def instance_started(instance: str = INSTANCE, **fields: Any) -> InstanceStarted:
    """A process that runs everything and offers to read documents."""
    given = {
        "release": "0.4.0",
        "roles": ("executor", "planner"),
        "settings": {"POWERON_DENY": "web.crawl"},
        "models": {"plan": ("builtin",)},
        "actions": (OfferedAction(action="document.extract", effect_class="pure"),),
        "denied": ("web.crawl",),
    }
    return InstanceStarted(instance=instance, **{**given, **fields})


def instance_ended(instance: str = INSTANCE) -> InstanceEnded:
    return InstanceEnded(instance=instance)


class Process(Told):
    """The story of a process, under its key."""

    def __init__(self, instance: str = INSTANCE) -> None:
        super().__init__()
        self.id = instance_id(instance)
        self.workflow = Workflow(self.id)
