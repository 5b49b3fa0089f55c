"""A workflow as events of the Open Cybersecurity Schema Framework 1.9, for a SIEM: one JSON object for each event.

All are of the class API Activity with the profile `ai_operation`, and contain no text that a person or a model wrote.
A model call is an event of its own after the event that reports it, so tokens can be added up.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import orjson

from poweron_events.actor import Actor
from poweron_events.catalog import READING, WRITING
from poweron_events.client import Heard
from poweron_events.codec import dumps
from poweron_events.event import PREFIX, AnyCall, DocumentRef, ModelCall
from poweron_events.fold.costs import failed_calls, model_calls
from poweron_events.fold.state import Workflow
from poweron_events.step_events import ActionCompleted
from poweron_events.stream import WorkflowEvent
from poweron_services.trace_export.event_kinds import EventKind, actor_of_event, kind_of

VERSION: Final = "1.9.0"
PROFILES: Final = ("ai_operation", "security_control", "trace")
API_ACTIVITY: Final = 6003
OTHER: Final = 99
ACTIVITIES: Final = {1: "Create", 2: "Read", 3: "Update", 4: "Delete"}
SEVERITIES: Final = {1: "Informational", 2: "Low", 3: "Medium"}
STATUSES: Final = {1: "Success", 2: "Failure", OTHER: "Other"}
DISPOSITIONS: Final = {
    "Approve": (1, "Allowed", 8, "Approved"),
    "Deny": (2, "Denied", 25, "Rejected"),
    "Refuse": (2, "Denied", 2, "Blocked"),
}
"""`action_id` and `disposition_id`, each with its caption."""
SHA_256: Final = 3  # `algorithm_id` of a fingerprint
NATIVE: Final = 1  # `type_id` of an agent that was built without a framework
PERSON, SYSTEM, SERVICE = 1, 3, 4  # `type_id` of a user: user, system, service
ASSISTANT: Final = 2  # `ai_role_id` of a message
CHAT: Final = "chat"
PLACE: Final = ("round", "task", "attempt", "step")
_CRUD: Final = {"Request": 1, "Control": 3, "Change": 3, "Erase": 4, "Export": 2, "Retain": 3}
_USER_TYPES: Final = {"person": PERSON, "system": SYSTEM, "service": SERVICE}


def ocsf_events(history: Sequence[Heard], release: str) -> Iterator[bytes]:
    """Yield the events of a workflow as JSON, in the order of the log; an event of a newer release is left out."""
    before = Workflow(history[0].workflow.id)
    for seq, record in enumerate(history):
        event = record.event
        if event is not None:
            place = _Place(before, record, event, seq, release)
            kind = kind_of(event)
            if kind.kind != "notice":
                yield dumps(_event(place, kind))
            calls: tuple[AnyCall, ...] = (*failed_calls(event), *model_calls(event))
            for number, call in enumerate(calls, start=1):
                yield dumps(_call(place, call, number))
        before = record.workflow


def is_ocsf_of(data: bytes, workflow_ids: Sequence[str]) -> bool:
    """Return whether the bytes are such events of these workflows alone."""
    try:
        events = [orjson.loads(line) for line in data.splitlines()]
        named = {(event["class_uid"], event["metadata"]["correlation_uid"]) for event in events}
        return bool(named) and named <= {(API_ACTIVITY, id_) for id_ in workflow_ids}
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return False


class _Place(NamedTuple):
    """An event, and where it is."""

    before: Workflow
    record: Heard
    event: WorkflowEvent
    seq: int
    release: str


def _event(place: _Place, kind: EventKind) -> dict[str, Any]:
    event, verdict = place.event, place.record.verdict
    activity, name = _activity(place, kind)
    code = getattr(event, "code", None)
    status = OTHER if verdict != "accepted" else 1 if kind.success else 2
    result = _base(place, activity, name, status) | {
        "severity_id": (severity := _severity(kind)),
        "severity": SEVERITIES[severity],
        "message": f"{event.TYPE.removeprefix(PREFIX)} of workflow {place.before.id}",
        "api": _api(place, _operation(place)),
    }
    if actor_of_event(event) is None:
        result["ai_agent"] = _agent(place, next(iter(model_calls(event)), None))
    if verdict != "accepted":
        result["status"] = verdict
    if code:
        result["status_code"] = code
    if resources := [_resource(document) for document in getattr(event, "documents", ()) if _is_document(document)]:
        result["resources"] = resources
    if isinstance(event, ActionCompleted):
        result |= _duration(place, event.duration_ms)
    return result | _disposition(kind)


def _activity(place: _Place, kind: EventKind) -> tuple[int, str]:
    """Return the activity and its name: what writes documents creates, what reads reads, all else has its own name."""
    activity = _CRUD.get(kind.verb, OTHER)
    if kind.verb == "Execute":
        action = _action(place)
        activity = 1 if action in WRITING else 2 if action in READING else OTHER
    return activity, ACTIVITIES.get(activity, kind.verb)


def _action(place: _Place) -> str | None:
    """Return the action that the event names or ends."""
    action = getattr(place.event, "action", None)
    if action is None and isinstance(place.event, ActionCompleted) and place.record.verdict == "accepted":
        selection = place.before.step.selection
        action = selection.action if selection else None
    return action


def _operation(place: _Place) -> str:
    """Return the type of the event and the action, if there is one."""
    name, action = place.event.TYPE.removeprefix(PREFIX), _action(place)
    return f"{name} {action}" if action else name


def _severity(kind: EventKind) -> int:
    if kind.success:
        return 1
    return 3 if kind.kind in ("failure", "end") else 2


def _disposition(kind: EventKind) -> dict[str, Any]:
    """Return whether something was allowed, if that is what the event says."""
    if kind.verb not in DISPOSITIONS:
        return {}
    action, name, disposition, caption = DISPOSITIONS[kind.verb]
    authorizations = {"authorizations": [{"decision": caption}]} if kind.kind == "approval" else {}
    return {
        "action_id": action,
        "action": name,
        "disposition_id": disposition,
        "disposition": caption,
        **authorizations,
    }


def _call(place: _Place, call: AnyCall, number: int) -> dict[str, Any]:
    """Return a model call, answered or not."""
    is_answered = isinstance(call, ModelCall)
    result = _base(place, 1, ACTIVITIES[1], 1 if is_answered else 2, part=number) | {
        "severity_id": 1 if is_answered else 2,
        "severity": SEVERITIES[1 if is_answered else 2],
        "message": f"Model call of workflow {place.before.id}",
        "api": _api(place, CHAT),
        "message_context": {
            "uid": place.before.id,
            "ai_role_id": ASSISTANT,
            "ai_role": "Assistant",
            "service": {"name": "PowerOn", "version": place.release},
            "prompt_tokens": call.input_tokens,
            "completion_tokens": call.output_tokens,
            "total_tokens": call.input_tokens + call.output_tokens,
        },
        "ai_agent": _agent(place, call if isinstance(call, ModelCall) else None),
        **_duration(place, call.duration_ms),
    }
    if isinstance(call, ModelCall):
        result["ai_model"] = _model(call)
        result["unmapped"] |= {"prompt": call.prompt_ref, "answer": call.answer_ref, "template": call.template}
    else:
        result |= {"status_code": call.code, "count": call.count}
    result["unmapped"]["costNanoUsd"] = call.cost_nano_usd
    return result


def _base(place: _Place, activity: int, name: str, status: int, part: int = 0) -> dict[str, Any]:
    recorded, workflow_id = place.record.recorded, place.before.id
    envelope = recorded.envelope
    type_name = ACTIVITIES.get(activity, "Other")
    return {
        "category_uid": 6,
        "category_name": "Application Activity",
        "class_uid": API_ACTIVITY,
        "class_name": "API Activity",
        "activity_id": activity,
        "activity_name": name,
        "type_uid": API_ACTIVITY * 100 + activity,
        "type_name": f"API Activity: {type_name}",
        "time": recorded.time_ms,
        "status_id": status,
        "status": STATUSES[status],
        "metadata": {
            "version": VERSION,
            "profiles": list(PROFILES),
            "product": {"name": "PowerOn", "vendor_name": "PowerOn", "version": place.release},
            "uid": f"{envelope.id}/{part}" if part else envelope.id,
            "original_event_uid": envelope.id,
            "correlation_uid": workflow_id,
            "event_code": envelope.type,
            "sequence": place.seq,
            "log_name": "poweron.events",
            "logged_time": recorded.time_ms,
        },
        "actor": _actor(actor_of_event(place.event), envelope.source),
        "src_endpoint": {"svc_name": "poweron", "instance_uid": envelope.source},
        "trace": {"uid": workflow_id.replace("-", "")},  # that of the spans
        "raw_data_hash": {"algorithm_id": SHA_256, "algorithm": "SHA-256", "value": recorded.sha256},
        "unmapped": {
            "verdict": place.record.verdict,
            **{name: number for name in PLACE if (number := getattr(place.event, name, 0))},
        },
    }


def _actor(actor: Actor | None, source: str) -> dict[str, Any]:
    """Return who acted: the person or service that asked, or else the process that wrote the event."""
    application = {"name": "PowerOn", "uid": source}
    if actor is None:
        return {"user": {"name": "poweron", "uid": source, "type_id": SERVICE}, "application": application}
    user: dict[str, Any] = {"name": actor.id, "uid": actor.id, "type_id": _USER_TYPES[actor.kind]}
    if actor.roles:
        user["groups"] = [{"name": role} for role in actor.roles]
    return {"user": user, "application": application}


def _api(place: _Place, operation: str) -> dict[str, Any]:
    return {
        "operation": operation,
        "service": {"name": "poweron", "version": place.release},
        "request": {"uid": place.record.recorded.envelope.id},
    }


def _agent(place: _Place, call: ModelCall | None) -> dict[str, Any]:
    role = place.record.recorded.envelope.source.removeprefix("/poweron/").partition("/")[0]
    agent = {
        "uid": f"poweron/{role}",
        "instance_uid": place.before.id,
        "name": f"PowerOn {role}",
        "type_id": NATIVE,
        "type": "Native",
        "version": place.release,
    }
    return agent if call is None else agent | {"ai_model": _model(call)}


def _model(call: ModelCall) -> dict[str, Any]:
    return {"name": call.model, "ai_provider": call.provider}


def _resource(document: DocumentRef) -> dict[str, Any]:
    return {
        "uid": document.document_id,
        "name": document.document_id,
        "type": document.mime_type,
        "data": {"size": document.size, "content": document.content},
    }


def _is_document(document: object) -> bool:
    return isinstance(document, DocumentRef)


def _duration(place: _Place, duration_ms: int) -> dict[str, Any]:
    end = place.record.recorded.time_ms
    return {"duration": duration_ms, "start_time": end - duration_ms, "end_time": end}
