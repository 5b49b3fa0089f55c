"""What code, not a prompt, fills in: languages, formats, depths (D-01 to D-03)."""

import re
from collections.abc import Mapping

from pydantic import JsonValue

from poweron_events.fold.state import Workflow
from poweron_events.planning import TaskPlan

_FRESH = re.compile(
    r"\b(latest|newest|recent(ly)?|current(ly)?|up[- ]to[- ]date|today|this (week|month|year)"
    r"|neueste[nrs]?|aktuell\w*|heute|derzeit\w*|récent\w*|actuel\w*|aujourd'hui)\b",
    re.IGNORECASE,
)


def language(workflow: Workflow) -> str | None:
    """The user's language: of the request, else of the requester; None leaves it to the prompt's own."""
    opening = workflow.current.opening
    return opening.user_language or opening.requester.language


def defaults(action: str, workflow: Workflow) -> Mapping[str, JsonValue]:
    """Values for optional parameters of the action that were not given."""
    plan = workflow.task.plan
    if action == "ai.process":
        machine_readable = [kind for kind in plan.expected_formats if kind in ("json", "csv")]
        return {"expectedDocumentFormats": list(machine_readable)}
    if action.startswith("web."):
        depth = "advanced" if plan.task_type in ("analysis", "report") else "basic"
        recent: dict[str, JsonValue] = {"timeRange": "month"} if implies_freshness(plan) else {}
        return {"searchDepth": depth, "language": language(workflow), **recent}
    return {}


def implies_freshness(plan: TaskPlan) -> bool:
    """Whether the task's criteria ask for what is new (D-02)."""
    return any(_FRESH.search(criterion) for criterion in plan.success_criteria)
