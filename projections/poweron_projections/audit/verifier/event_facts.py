"""What an event says to people: short values and longer texts, each with a name."""

import json
import time
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any, Final

ERASURES: Final = ("poweron.content.erased.v1", "poweron.document.erased.v1")
_NANO_USD: Final = 1_000_000_000  # in a US dollar
_TEXTS: Final = {
    "prompt": "Request",
    "reason": "Reason",
    "detail": "Detail",
    "actionObjective": "Objective",
    "summary": "Summary",
    "message": "Message",
    "error": "Error",
    "hint": "Hint",
}
_PLAIN: Final = {
    "action": "Action",
    "decision": "Decision",
    "classification": "Classification",
    "status": "Status",
    "outcome": "Outcome",
    "code": "Code",
    "decidedBy": "Decided by",
    "restartedFrom": "Request taken from",
    "toolSha256": "SHA-256 of the tool as it was declared",
    "legalBasis": "Legal basis",
    "format": "Format",
    "until": "Kept until",
    "hold": "Legal hold",
    "released": "Legal hold released",
}


def event_facts(kind: str, data: Mapping[str, Any], contents: Container[str]) -> Iterator[tuple[str, str]]:
    """Yield what an event of this type says in short values; `contents` are those that are at hand."""
    for key, name in _PLAIN.items():
        if is_text(data.get(key)):
            yield name, data[key]
    if isinstance(data.get("actor"), dict):
        yield "Actor", actor_words(data["actor"])
    if isinstance(data.get("request"), dict):
        yield "Request", f"{data['request'].get('source', '')} {data['request'].get('id', '')}".strip()
    if isinstance(data.get("policy"), dict):
        yield "Policy", f"number {data['policy'].get('number', data.get('number', ''))}"
    if isinstance(data.get("forkedFrom"), dict):
        yield "Forked from", json.dumps(data["forkedFrom"], ensure_ascii=False, sort_keys=True)
    if isinstance(data.get("parametersSchema"), dict):
        fields = members(data["parametersSchema"], "fields")
        yield "Parameters asked for", ", ".join(f"{each.get('name')} ({each.get('type')})" for each in fields) or "none"
    for task in members(data, "tasks"):
        yield "Task", str(task.get("objective", ""))
    if kind in ERASURES:
        yield "Erased", erased_words(data)
    for document in members(data, "documents"):
        yield from _document_facts(document, contents)
    for document in members(data, "unread"):
        yield "Not read completely", str(document.get("reason", ""))
    yield from _call_facts(data)


def _call_facts(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for call in calls_of(data):
        cost = dollars(number(call, "costNanoUsd"))
        tokens = f"{number(call, 'inputTokens')} tokens in, {number(call, 'outputTokens')} out"
        yield "Model", f"{model_of(call)}, with the template {call.get('template', '')}: {tokens}, {cost}"


def _document_facts(document: Mapping[str, Any], contents: Container[str]) -> Iterator[tuple[str, str]]:
    name, content = str(document.get("documentName")), str(document.get("content"))
    yield "Document", f"{name} ({document.get('size', 0)} bytes, {_place(content, contents)})"
    if isinstance(document.get("page"), dict):
        yield "Web page of it", _page_words(document["page"])
    for source in members(document, "sources"):
        page = source["page"] if isinstance(source.get("page"), dict) else {}
        text = _place(str(source.get("text")), contents)
        yield "Source of it", f"[{source.get('n')}] {_page_words(page)}, its text {text}"


def _place(content: str, contents: Container[str]) -> str:
    return f"blobs/{content}" if content in contents else "not in this bundle"


def erased_words(data: Mapping[str, Any]) -> str:
    """Return what an erasure erased."""
    documents = data.get("documents")
    return f"documents {', '.join(map(str, documents))}" if isinstance(documents, list) else "all content"


def _page_words(page: Mapping[str, Any]) -> str:
    return f"{page.get('url')}, fetched {page.get('fetchedAt')}, SHA-256 {page.get('sha256')}"


def longer_texts(data: Mapping[str, Any], contents: Mapping[str, bytes]) -> Iterator[tuple[str, str]]:
    """Yield what people and models wrote, parameters, and what the model saw and said."""
    for key, name in _TEXTS.items():
        if is_text(data.get(key)):
            yield name, data[key]
    for key, name in (("given", "Parameters from the model"), ("parameters", "Parameters")):
        if isinstance(data.get(key), dict) and data[key]:
            yield name, json.dumps(data[key], indent=1, ensure_ascii=False, sort_keys=True)
    for call in calls_of(data):
        for key, name in (("promptRef", "Prompt"), ("answerRef", "Answer")):
            reference = str(call.get(key))
            if reference in contents:
                yield f"{name} (blobs/{reference})", contents[reference].decode(errors="replace")
            elif is_text(call.get(key)):
                yield name, f"blobs/{reference} is not in this bundle: it was erased, or left out"


def place_words(data: Mapping[str, Any]) -> str:
    """Return the place of an event in its workflow, such as `round 1 task 1`; empty for none."""
    return " ".join(f"{name} {data[name]}" for name in ("round", "task", "attempt", "step") if data.get(name))


def source_words(source: str) -> str:
    """Return the role and the process that wrote an event."""
    parts = source.split("/")
    return f"{parts[2]} (process {parts[3]})" if len(parts) == 4 and parts[1] == "poweron" else source


def actor_words(actor: Mapping[str, Any]) -> str:
    """Return who acted, through which door, and whether that was verified."""
    proof = "verified" if actor.get("verified") else "not verified"
    return f"{actor.get('id', '')} ({actor.get('via', '')}, {proof})"


def utc_words(time_ms: int) -> str:
    """Return a time in milliseconds since 1970 as people read it."""
    return f"{time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime(time_ms // 1_000))}.{time_ms % 1_000:03} UTC"


def model_of(call: Mapping[str, Any]) -> str:
    """Return which model answered a call."""
    return f"{call.get('provider', '')}:{call.get('model', '')}"


def dollars(nano_usd: int) -> str:
    """Return an amount of nano-USD as people read it."""
    return f"{nano_usd / _NANO_USD:.6f} US dollars"


def shortened(text: str, limit: int) -> str:
    """Return at most this many characters of a text."""
    return text if len(text) <= limit else f"{text[:limit]}…"


def first_of(names: Sequence[str], limit: int) -> str:
    """Join at most this many names, and say how many others there are."""
    others = f" and {len(names) - limit} more" if len(names) > limit else ""
    return f"{', '.join(names[:limit])}{others}"


def is_text(value: object) -> bool:
    """Return whether a value is a text that is not empty."""
    return isinstance(value, str) and value != ""


def members(data: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the objects in a list of this name; nothing if there is none."""
    value = data.get(name)
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def number(data: Mapping[str, Any], name: str) -> int:
    """Return a whole number of this name; 0 if there is none."""
    value = data.get(name)
    return value if type(value) is int else 0


def calls_of(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the answered calls of a model that an event reports."""
    return [data["modelCall"]] if isinstance(data.get("modelCall"), dict) else members(data, "modelCalls")
