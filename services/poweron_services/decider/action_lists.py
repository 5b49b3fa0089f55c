"""Which actions the settings allow tasks to use: an allow list for each type of task, and one deny list (X-01).

Lists hold patterns: `method.name`, `method.*` or `method`, and `*` for every action. A denied action remains denied
even if a list allows it.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, get_args

from poweron_events.fold.state import Workflow
from poweron_events.request import TaskType
from poweron_services.decider.validation import NotAllowed, matches

Patterns = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ActionLists:
    """The lists of one process."""

    allowed: Mapping[TaskType, Patterns] = field(default_factory=dict)
    """By type of task; a type that is not listed may use everything."""
    denied: Patterns = ()

    def check(self, action: str, workflow: Workflow) -> None:
        """Refuse an action that this process may not run for the current task, even if another process selected it.

        Raises:
            NotAllowed: the task may not use it.
        """
        task_type = workflow.task.plan.task_type
        allowed = self.allowed.get(task_type)
        if matches(action, self.denied):
            reason = f"The settings deny it; denied are {', '.join(self.denied)}."
        elif allowed is not None and not matches(action, allowed):
            reason = f"By the settings a task of type {task_type} may use {', '.join(allowed) or 'nothing'}."
        else:
            return
        raise NotAllowed(f"{action!r} is not an action of this task.", code="action_not_allowed", detail=reason)

    def joined_allowed(self, request: Mapping[TaskType, Patterns]) -> dict[TaskType, Patterns]:
        """What both a request and these lists allow, by type of task; a type that neither limits is left out."""
        kinds: tuple[TaskType, ...] = get_args(TaskType)
        both = {kind: _both(request.get(kind), self.allowed.get(kind)) for kind in kinds}
        return {kind: patterns for kind, patterns in both.items() if patterns is not None}

    def joined_denied(self, patterns: Iterable[str]) -> Patterns:
        """What a request or these lists deny."""
        return tuple(dict.fromkeys((*self.denied, *patterns)))


EVERYTHING: Final = ActionLists()
"""No lists: every task may use every action."""


def _both(first: Patterns | None, second: Patterns | None) -> Patterns | None:
    if first is None or second is None:
        return second if first is None else first
    inner = [pattern for pattern in first if _is_within(pattern, second)]
    outer = [pattern for pattern in second if _is_within(pattern, first)]
    return tuple(dict.fromkeys((*inner, *outer)))


def _is_within(pattern: str, patterns: Collection[str]) -> bool:
    """Return whether one of the patterns covers everything that this pattern matches."""
    if pattern == "*":
        return "*" in patterns
    method, _, name = pattern.partition(".")
    if name in ("", "*"):
        return not {"*", method, f"{method}.*"}.isdisjoint(patterns)
    return matches(pattern, patterns)
