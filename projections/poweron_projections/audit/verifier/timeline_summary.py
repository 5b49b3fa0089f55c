"""A workflow at a glance: who asked for what, what people answered, how it ended, and what models did."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from poweron_projections.audit.verifier.event_facts import (
    ERASURES,
    actor_words,
    calls_of,
    dollars,
    erased_words,
    first_of,
    is_text,
    members,
    model_of,
    number,
    place_words,
    shortened,
    utc_words,
)

_MILESTONES: Final = {
    "poweron.workflow.requested.v1": "Requested",
    "poweron.round.requested.v1": "Requested",
    "poweron.approval.granted.v1": "Approval given",
    "poweron.approval.denied.v1": "Approval denied",
    "poweron.approval.escalated.v1": "Approval escalated",
    "poweron.parameters.changed.v1": "Other parameters proposed",
    "poweron.budget.granted.v1": "Larger budget granted",
    "poweron.budget.denied.v1": "Larger budget denied",
    "poweron.rules.changed.v1": "Rules changed",
    "poweron.round.paused.v1": "Paused",
    "poweron.round.resumed.v1": "Resumed",
    "poweron.cancellation.requested.v1": "Cancellation requested",
    "poweron.round.completed.v1": "Completed",
    "poweron.round.failed.v1": "Failed",
    "poweron.round.cancelled.v1": "Cancelled",
    "poweron.content.erased.v1": "Content erased",
    "poweron.document.erased.v1": "Content erased",
    "poweron.workflow.retained.v1": "Retention changed",
    "poweron.workflow.exported.v1": "Exported",
}
_WITHOUT_A_PERSON: Final = {
    "poweron.approval.denied.v1": "Approval not given in time",
    "poweron.budget.granted.v1": "Budget of another day begun",
    "poweron.budget.denied.v1": "Larger budget not granted in time",
}
"""The same events without a request of a person."""
_OPENINGS: Final = ("poweron.workflow.requested.v1", "poweron.round.requested.v1")
_ENDS: Final = ("poweron.round.completed.v1", "poweron.round.failed.v1", "poweron.round.cancelled.v1")
_REJECTIONS: Final = {
    "poweron.answer.rejected.v1": "answers",
    "poweron.selection.rejected.v1": "selections",
    "poweron.parameters.rejected.v1": "parameters",
}
_LABELS: Final = {
    "code": "",
    "until": "kept until ",
    "hold": "on hold ",
    "released": "no longer on hold ",
    "format": "as ",
    "legalBasis": "on the basis of ",
}
_TEXT_SHOWN: Final = 300  # characters
_DOCUMENTS_SHOWN: Final = 20


def timeline_summary(
    events: Sequence[Mapping[str, Any]], entries: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[str, str]]:
    """Yield what the accepted events say together, in short values."""
    pairs = [(event, entry) for event, entry in zip(events, entries, strict=True) if entry["verdict"] == "accepted"]
    for event, entry in pairs:
        kind, data = event["type"], event["data"]
        if kind in _MILESTONES:
            names = _MILESTONES if data.get("request") or kind not in _WITHOUT_A_PERSON else _WITHOUT_A_PERSON
            yield names[kind], ", ".join([utc_words(entry["time"]), *_milestone(kind, data)]) + _text_of(data)
    accepted = [event for event, _ in pairs]
    yield from _documents(accepted)
    yield from _actions(accepted)
    yield from _models(accepted)
    others = Counter(str(entry["verdict"]) for entry in entries if entry["verdict"] != "accepted")
    if others:
        yield "Events without effect", _counts(others)


def _milestone(kind: str, data: Mapping[str, Any]) -> Iterator[str]:
    """Yield place, person and terms of a milestone."""
    if data.get("round"):
        yield place_words(data)
    if isinstance(data.get("actor"), dict):
        yield actor_words(data["actor"])
    if isinstance(data.get("forkedFrom"), dict):
        yield f"forked from {data['forkedFrom'].get('workflow')} at event {data['forkedFrom'].get('seq')}"
    if is_text(data.get("restartedFrom")):
        yield f"with the request of {data['restartedFrom']} again"
    if kind in ERASURES:
        yield erased_words(data)
    if tokens := number(data, "tokens"):
        yield f"{tokens} tokens"
    if cost := number(data, "costNanoUsd"):
        yield dollars(cost)
    for name, label in _LABELS.items():
        if is_text(data.get(name)):
            yield f"{label}{data[name]}"


def _text_of(data: Mapping[str, Any]) -> str:
    """Return what a person or a model said in an event, cut, to be added to a line; nothing if nothing was said."""
    text = next((str(data[name]) for name in ("prompt", "message", "reason") if is_text(data.get(name))), "")
    return f": {shortened(text, _TEXT_SHOWN)}" if text else ""


def _documents(events: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield which documents came with requests, and which were the results of the rounds that ended."""
    for line, types in (("Documents handed over", _OPENINGS), ("Documents written", _ENDS)):
        documents = [part for event in events if event["type"] in types for part in members(event["data"], "documents")]
        unique = dict.fromkeys((str(part.get("documentName")), str(part.get("content"))) for part in documents)
        names = [name for name, _ in unique]
        if names:
            yield line, first_of(names, _DOCUMENTS_SHOWN)


def _actions(events: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield how the actions ended, and how often an answer of a model was rejected."""
    selected, ends, rejections = dict[str, str](), Counter[str](), Counter[str]()
    for event in events:
        kind, data = event["type"], event["data"]
        if kind == "poweron.action.started.v1":
            selected[place_words(data)] = str(data.get("action"))
        elif kind == "poweron.action.completed.v1":
            outcome = "taken over" if data.get("reusedFrom") else str(data.get("outcome")).replace("_", " ")
            ends[f"{selected.get(place_words(data), 'action')} {outcome}"] += 1
        elif kind in _REJECTIONS:
            rejections[_REJECTIONS[kind]] += 1
    for line, counts in (("Actions", ends), ("Rejected", rejections)):
        if counts:
            yield line, _counts(counts)


def _models(events: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield what each model did and cost; calls that failed do not name their model."""
    sums = defaultdict[str, Counter[str]](Counter)
    for event in events:
        for call in calls_of(event["data"]):
            is_taken_over = call.get("provider") == "recorded"
            model = f"of {model_of(call)}"
            _add(sums[f"Calls {'taken over from the forked workflow' if is_taken_over else model}"], call, 1)
        for calls in members(event["data"], "failedCalls"):
            _add(sums["Failed calls"], calls, number(calls, "count"))
    for line, used in sorted(sums.items(), key=lambda item: item[0] != "Failed calls"):
        estimated = ", partly estimated" if used["estimated"] else ""
        yield line, f"{used['calls']}, with {used['tokens']} tokens and {dollars(used['cost'])}{estimated}"


def _add(sums: Counter[str], calls: Mapping[str, Any], count: int) -> None:
    tokens = number(calls, "inputTokens") + number(calls, "outputTokens")
    sums.update(calls=count, tokens=tokens, cost=number(calls, "costNanoUsd"))
    sums.update(estimated=bool(calls.get("usageEstimated")))


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} ({count})" for name, count in sorted(counts.items()))
