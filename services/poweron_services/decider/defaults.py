"""Values that code fills in instead of a prompt: languages, formats, depths and time ranges (D-01 to D-03).

Code also writes the sentence above the results if the model's final message was cut off or filtered.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final, Literal

from pydantic import JsonValue, TypeAdapter, ValidationError

from poweron_events.catalog import ActionSpec, Filled, LanguageTag, TimeRange
from poweron_events.codes import Code
from poweron_events.fold.state import Workflow
from poweron_events.round_events import TaskPlan
from poweron_services.text.format_wishes import Kind, asked_formats
from poweron_services.text.freshness import time_range

MAX_TITLE = 100  # characters
Values = Mapping[str, JsonValue]

_TAG: Final = TypeAdapter[str](LanguageTag)
_REPORTS: Final[dict[Kind, str]] = {"PDF": "pdf", "Word": "docx", "Excel": "xlsx"}
_FORMATS: Final = {"json": "json", "application/json": "json", "csv": "csv", "text/csv": "csv"}


def language(workflow: Workflow) -> str | None:
    """The user's language that the opening names; with None, the language of the prompt itself applies."""
    opening = workflow.current.opening
    return opening.user_language or opening.requester.language


def own_language(workflow: Workflow) -> Literal["en", "de"]:
    """The language of PowerOn's own sentences below an answer: the user's if it is supported, otherwise English."""
    return "de" if (language(workflow) or "").casefold()[:2] == "de" else "en"


def defaults(spec: ActionSpec, workflow: Workflow) -> Values:
    """Values for optional parameters of the action that were not given."""
    return {name: value for kind in spec.filled for name, value in _FILL[kind](workflow).items()}


def overruled(spec: ActionSpec, parameters: Values, workflow: Workflow) -> frozenset[str]:
    """The given parameters to drop because the task does not ask for them, regardless of what the model says."""
    rules = (_OVERRULE[kind] for kind in spec.filled if kind in _OVERRULE)
    return frozenset(name for rule in rules for name in rule(parameters, workflow))


def demanded_formats(plan: TaskPlan) -> tuple[str, ...]:
    """JSON and CSV if the task expects them; all other documents start as markdown (D-03)."""
    kinds = (_FORMATS.get(kind.strip().casefold().removeprefix(".")) for kind in plan.expected_formats)
    return tuple(dict.fromkeys(kind for kind in kinds if kind))


def _language(workflow: Workflow) -> Values:
    tag = language(workflow)
    return {"language": tag} if _is_tag(tag) else {}


def _time_range(workflow: Workflow) -> Values:
    recent = time_range(workflow.task.plan.success_criteria)
    return {"timeRange": recent} if recent else {}


def _demanded_formats(workflow: Workflow) -> Values:
    return {"expectedDocumentFormats": list(demanded_formats(workflow.task.plan))}


def _report_title(workflow: Workflow) -> Values:
    title = _title(workflow.task.plan.objective)
    return {"title": title} if title else {}


def _report_formats(workflow: Workflow) -> Values:
    formats = [_REPORTS[kind] for kind in asked_formats(workflow) if kind in _REPORTS]
    return {"expectedDocumentFormats": list[JsonValue](formats)} if formats else {}


_FILL: Final[Mapping[Filled, Callable[[Workflow], Values]]] = {
    "search_depth": lambda workflow: {"searchDepth": _depth(workflow)},
    "extract_depth": lambda workflow: {"extractDepth": _depth(workflow)},
    "language": _language,
    "time_range": _time_range,
    "demanded_formats": _demanded_formats,
    "title": _report_title,
    "report_formats": _report_formats,
}


def _depth(workflow: Workflow) -> str:
    return "advanced" if workflow.task.plan.task_type in ("analysis", "report") else "basic"


def _is_tag(tag: str | None) -> bool:
    try:
        _TAG.validate_python(tag)
    except ValidationError:
        return False
    return True


def _title(objective: str) -> str:
    """The first line of the objective, truncated after a word."""
    line = next((line for line in map(str.strip, objective.splitlines()) if line), "")
    line = re.sub(r"\s+", " ", line).rstrip(".:;,")
    if len(line) <= MAX_TITLE:
        return line
    start = line[: MAX_TITLE - 1]
    return (start.rpartition(" ")[0] or start).rstrip(".:;,") + "…"


def _undemanded_formats(parameters: Values, workflow: Workflow) -> frozenset[str]:
    name = "expectedDocumentFormats"
    demanded = demanded_formats(workflow.task.plan)
    value = parameters.get(name)
    values = value if isinstance(value, list) else [value]
    formats = {_FORMATS.get(kind.strip().casefold()) for kind in values if isinstance(kind, str)} - {None}
    return frozenset({name} if formats - set(demanded) else ())


def _unasked_time(parameters: Values, workflow: Workflow) -> frozenset[str]:
    plan = workflow.task.plan
    span: TimeRange | None = time_range((*plan.success_criteria, plan.objective))
    return frozenset() if span else frozenset({"timeRange"} & parameters.keys())


_OVERRULE: Final[Mapping[Filled, Callable[[Values, Workflow], frozenset[str]]]] = {
    "time_range": _unasked_time,
    "demanded_formats": _undemanded_formats,
}


_SENTENCES: Final[Mapping[Code, Mapping[str, str]]] = {
    "answer_cut_off": {
        "en": "The final message was cut off at the limit of its length. These are the results as they are:",
        "de": "Die Schlussnachricht wurde an der Grenze ihrer Länge abgeschnitten. Dies sind die Ergebnisse selbst:",
    },
    "prompt_too_long": {
        "en": "The final message was cut off, since prompt and message are longer than what the model takes. "
        "These are the results as they are:",
        "de": "Die Schlussnachricht wurde abgeschnitten, da Prompt und Nachricht länger sind, als das Modell fasst. "
        "Dies sind die Ergebnisse selbst:",
    },
    "answer_refused": {
        "en": "The final message was filtered: the model, or a filter of its provider, would not write it. "
        "These are the results as they are:",
        "de": "Die Schlussnachricht wurde gefiltert: Das Modell oder ein Filter seines Anbieters lehnte sie ab. "
        "Dies sind die Ergebnisse selbst:",
    },
}


def why_unwritten(workflow: Workflow, code: Code) -> str:
    """Say why the final message is missing or incomplete; empty if the model simply wrote none."""
    sentences = _SENTENCES.get(code)
    return sentences[own_language(workflow)] if sentences else ""
