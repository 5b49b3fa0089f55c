"""A workflow at a glance: who asked for what, what people answered, how it ended, and what models did."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from poweron_projections.audit.verifier.event_facts import (
    NANO_USD,
    actor_words,
    calls_of,
    is_text,
    members,
    place_words,
    utc_words,
)

_MILESTONES: Final = {
    "poweron.workflow.requested.v1": "Requested",
    "poweron.round.requested.v1": "Requested",
    "poweron.approval.granted.v1": "Approved",
    "poweron.approval.denied.v1": "Denied",
    "poweron.parameters.changed.v1": "Other parameters proposed",
    "poweron.budget.granted.v1": "Larger budget granted",
    "poweron.budget.denied.v1": "Larger budget denied",
    "poweron.cancellation.requested.v1": "Cancellation requested",
    "poweron.round.completed.v1": "Completed",
    "poweron.round.failed.v1": "Failed",
    "poweron.round.cancelled.v1": "Cancelled",
    "poweron.content.erased.v1": "Content erased",
    "poweron.workflow.retained.v1": "Retention changed",
}
_OPENINGS: Final = ("poweron.workflow.requested.v1", "poweron.round.requested.v1")
_ENDS: Final = ("poweron.round.completed.v1", "poweron.round.failed.v1")
_STARTED: Final = "poweron.action.started.v1"
_ENDED: Final = "poweron.action.completed.v1"
_REJECTIONS: Final = {
    "poweron.answer.rejected.v1": "answers of models",
    "poweron.selection.rejected.v1": "selections",
    "poweron.parameters.rejected.v1": "parameters",
}
_SAID: Final = {"code": "", "until": "kept until ", "hold": "on hold ", "released": "no longer on hold "}
_SHOWN_OF_TEXT: Final = 300  # characters
_NAMED: Final = 20  # documents


def timeline_summary(
    events: Sequence[Mapping[str, Any]], entries: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[str, str]]:
    """Yield what the accepted events say together, in short values."""
    pairs = [(event, entry) for event, entry in zip(events, entries, strict=True) if entry["verdict"] == "accepted"]
    for event, entry in pairs:
        if event["type"] in _MILESTONES:
            yield _MILESTONES[event["type"]], _milestone(event["data"], utc_words(entry["time"]))
    accepted = [event for event, _ in pairs]
    yield from _documents(accepted)
    yield from _done(accepted)
    yield from _models(accepted)
    if len(accepted) < len(events):
        yield "Without effect", f"{len(events) - len(accepted)} of {len(events)} events, which others came before"


def _milestone(data: Mapping[str, Any], time: str) -> str:
    who = f", {actor_words(data['actor'])}" if isinstance(data.get("actor"), dict) else ""
    place = f", {place_words(data)}" if data.get("round") else ""
    said = "".join(f", {words}{data[name]}" for name, words in _SAID.items() if is_text(data.get(name)))
    text = next((data[name] for name in ("prompt", "message", "reason") if is_text(data.get(name))), "")
    shown = text if len(text) <= _SHOWN_OF_TEXT else f"{text[:_SHOWN_OF_TEXT]}…"
    return f"{time}{place}{who}{said}{f': {shown}' if shown else ''}"


def _documents(events: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield which documents came with requests, and which were the results of the rounds that ended."""
    for name, types in (("Documents handed over", _OPENINGS), ("Documents written", _ENDS)):
        listed = [each for event in events if event["type"] in types for each in members(event["data"], "documents")]
        names = list(dict.fromkeys(str(each.get("documentName")) for each in listed))
        if names:
            yield name, ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if names[_NAMED:] else "")


def _done(events: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield how often each action was begun, how actions ended, and what of the answers of models was rejected."""
    begun = Counter(str(event["data"].get("action")) for event in events if event["type"] == _STARTED)
    ended = Counter(str(event["data"].get("outcome")) for event in events if event["type"] == _ENDED)
    rejected = Counter(_REJECTIONS[event["type"]] for event in events if event["type"] in _REJECTIONS)
    for name, counts in (("Actions begun", begun), ("Actions ended", ended), ("Rejected", rejected)):
        if counts:
            yield name, ", ".join(f"{what} ({count})" for what, count in sorted(counts.items()))


def _models(events: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield what each model did and cost."""
    used = defaultdict[str, Counter[str]](Counter)
    for event in events:
        for call in calls_of(event["data"]):
            of_model = used[f"{call.get('provider', '')}:{call.get('model', '')}"]
            of_model.update(calls=1, tokens=call.get("inputTokens", 0) + call.get("outputTokens", 0))
            of_model.update(cost=call.get("costNanoUsd", 0))
    for model, sums in sorted(used.items()):
        cost = f"{sums['cost'] / NANO_USD:.6f} US dollars"
        yield "Model", f"{model}: {sums['calls']} calls, {sums['tokens']} tokens, {cost}"
