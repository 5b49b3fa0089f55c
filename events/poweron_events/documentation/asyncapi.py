"""The topics, their messages and keys as AsyncAPI 3.0, with JSON Schemas of everything on the wire."""

import inspect
from collections.abc import Iterable
from typing import Any, Final

from pydantic.json_schema import GenerateJsonSchema

from poweron_events import topics
from poweron_events.dead_letter import DeadLetter
from poweron_events.documentation.glossary import meaning
from poweron_events.envelope import CONTENT_TYPE, SPECVERSION
from poweron_events.event import Event, Model
from poweron_events.progress import StepProgress
from poweron_events.stream import REQUESTS, WORKFLOW_EVENTS

Json = dict[str, Any]

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
DEAD_LETTER: Final = "poweron.deadletter.v1"
PROGRESS: Final = "poweron.progress.v1"
ANY_VALUE: Final = "Any JSON value."


class _Untitled(GenerateJsonSchema):
    """A generator that omits titles, which only repeat the name of the field."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - pydantic's signature
        return False


def json_schemas() -> dict[str, Json]:
    """Return the schema of every event's and request's data, of dead letters and of progress, by wire type."""
    models: dict[str, type[Model]] = {**REQUESTS, **WORKFLOW_EVENTS, DEAD_LETTER: DeadLetter, PROGRESS: StepProgress}
    return {name: _json_schema(name, model) for name, model in models.items()}


def _json_schema(name: str, model: type[Model]) -> Json:
    schema = model.model_json_schema(by_alias=True, schema_generator=_Untitled)
    for part in (schema, *schema.get("$defs", {}).values()):
        part["description"] = joined(part.get("description", ANY_VALUE))
        for field, value in part.get("properties", {}).items():
            value["description"] = meaning(part["title"], field)
    return {"$schema": DIALECT, "$id": f"{name}.json", **schema}


def sentence(model: type[Model]) -> str:
    """Return the first sentence of a model's docstring."""
    return joined(inspect.getdoc(model) or "").partition(". ")[0].rstrip(".") + "."


def joined(text: str) -> str:
    """Return a text on one line."""
    return " ".join(text.split())


_UUID: Final = {"type": "string", "format": "uuid"}
_LETTER_KEY: Final = "`topic|partition|offset` of the record."
_BINDING: Final = "0.5.0"  # the version of AsyncAPI's Kafka bindings


def asyncapi() -> Json:
    """Return the six topics, their messages and keys as AsyncAPI 3.0."""
    events = [_event_message(event) for event in WORKFLOW_EVENTS.values()]
    requests = [message for event in REQUESTS.values() for message in _request_messages(event)]
    dead_letters = [_plain_message(DEAD_LETTER, DeadLetter, _key(_LETTER_KEY, {"type": "string"}))]
    progress = [_plain_message(PROGRESS, StepProgress, _key("The workflow id.", _UUID))]
    ledger, checkpoints = [_ledger_message()], [_checkpoint_message()]
    messages = (*requests, *events, *dead_letters, *progress, *ledger, *checkpoints)
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "PowerOn",
            "version": "1",
            "description": "Work steered by a language model: send requests to one topic, read decisions from another.",
        },
        "defaultContentType": "application/cloudevents+json",
        "channels": {
            "requests": _channel(topics.REQUESTS, requests, "Requests of clients."),
            "events": _channel(topics.EVENTS, events, "Everything that happened, in order within a workflow."),
            "deadletter": _channel(topics.DEAD_LETTERS, dead_letters, "Unreadable records, each with the reason."),
            "ledger": _channel(topics.LEDGER, ledger, "An entry for each record of the log."),
            "checkpoints": _channel(topics.CHECKPOINTS, checkpoints, "The signed sizes and roots of the ledger."),
            "progress": _channel(topics.PROGRESS, progress, "The progress of long work; it may be lost."),
        },
        "operations": {
            "takeRequests": _operation("receive", "requests", "PowerOn reads requests."),
            "writeEvents": _operation("send", "events", "PowerOn writes everything that happened."),
            "writeDeadLetters": _operation("send", "deadletter", "PowerOn writes records that it could not read."),
            "enterRecords": _operation("send", "ledger", "PowerOn enters what was written in the ledger."),
            "signLedger": _operation("send", "checkpoints", "PowerOn signs the ledger."),
            "tellProgress": _operation("send", "progress", "PowerOn reports the progress of long work."),
        },
        "components": {
            "messages": {message.pop("x-id"): message for message in messages},
            "schemas": {"Envelope": _envelope_schema(), "RequestEnvelope": _request_envelope_schema()},
        },
    }


def _channel(topic: topics.Topic, messages: Iterable[Json], description: str) -> Json:
    kafka = {"topic": topic.name, "partitions": topic.partitions, "bindingVersion": _BINDING}
    configuration = {
        "cleanup.policy": topic.settings["cleanup.policy"].split(","),
        **{name: int(topic.settings[name]) for name in ("retention.ms", "retention.bytes") if name in topic.settings},
    }
    return {
        "address": topic.name,
        "description": description,
        "messages": {message["x-id"]: {"$ref": f"#/components/messages/{message['x-id']}"} for message in messages},
        "bindings": {"kafka": {**kafka, "topicConfiguration": configuration}},
    }


def _operation(action: str, channel: str, summary: str) -> Json:
    return {"action": action, "channel": {"$ref": f"#/channels/{channel}"}, "summary": summary}


def _event_message(event: type[Event]) -> Json:
    return {
        "x-id": event.__name__,
        "name": event.TYPE,
        "title": event.__name__,
        "summary": sentence(event),
        "contentType": "application/cloudevents+json",
        "payload": _enveloped("Envelope", event),
        "bindings": _key("The workflow id.", _UUID),
    }


def _request_messages(event: type[Event]) -> tuple[Json, Json]:
    """Return the messages of a request, as structured and as binary CloudEvent."""
    common: Json = {
        "name": event.TYPE,
        "summary": sentence(event),
        "bindings": _key("Any key; the workflow id keeps requests about one workflow in order.", {"type": "string"}),
    }
    structured = {
        "x-id": event.__name__,
        **common,
        "title": f"{event.__name__}, structured",
        "contentType": "application/cloudevents+json",
        "payload": _enveloped("RequestEnvelope", event),
    }
    attributes: Json = {"specversion": {"const": SPECVERSION}, "type": {"const": event.TYPE}, **_identity_schema()}
    binary = {
        "x-id": f"{event.__name__}Binary",
        **common,
        "title": f"{event.__name__}, binary: attributes in the record's headers",
        "contentType": CONTENT_TYPE,
        "headers": {
            "type": "object",
            "required": [f"ce_{name}" for name in attributes],
            "properties": {f"ce_{name}": schema for name, schema in attributes.items()},
        },
        "payload": {"$ref": f"./schemas/{event.TYPE}.json"},
    }
    return structured, binary


def _plain_message(name: str, model: type[Model], bindings: Json) -> Json:
    """Return a message that is not a CloudEvent: the model as JSON."""
    return {
        "x-id": model.__name__,
        "name": name,
        "title": model.__name__,
        "summary": sentence(model),
        "contentType": CONTENT_TYPE,
        "payload": {"$ref": f"./schemas/{name}.json"},
        "bindings": bindings,
    }


def _ledger_message() -> Json:
    kinds = {"kind": {"enum": ["event", "reject", "heads", "key", "epoch"]}, "v": {"const": 1}}
    return {
        "x-id": "LedgerEntry",
        "name": "poweron.ledger.v1",
        "title": "LedgerEntry",
        "summary": "A leaf of the ledger's Merkle tree (RFC 6962); its offset is its index.",
        "contentType": CONTENT_TYPE,
        "payload": {"type": "object", "required": [*kinds], "properties": kinds},
        "bindings": _key("The same for all entries, so that they keep their order.", {"type": "string"}),
    }


def _checkpoint_message() -> Json:
    return {
        "x-id": "LedgerCheckpoint",
        "name": "poweron.checkpoint.v1",
        "title": "LedgerCheckpoint",
        "summary": "A checkpoint of the ledger: a signed note as C2SP `tlog-checkpoint` defines it.",
        "contentType": "text/plain",
        "payload": {"type": "string"},
        "bindings": _key("The same for all checkpoints.", {"type": "string"}),
    }


def _key(description: str, schema: Json) -> Json:
    return {"kafka": {"key": {**schema, "description": description}, "bindingVersion": _BINDING}}


def _enveloped(envelope: str, event: type[Event]) -> Json:
    inner = {"type": {"const": event.TYPE}, "data": {"$ref": f"./schemas/{event.TYPE}.json"}}
    return {"allOf": [{"$ref": f"#/components/schemas/{envelope}"}, {"properties": inner}]}


def _identity_schema() -> Json:
    return {
        "source": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[^|]*$"},
        "id": {"type": "string", "minLength": 1, "maxLength": 255},
    }


def _request_envelope_schema() -> Json:
    return {
        "type": "object",
        "description": "A CloudEvent 1.0; (source, id) identifies the request: sent twice, it is still one request.",
        "required": ["specversion", "type", "source", "id"],
        "oneOf": [{"required": ["data"]}, {"required": ["data_base64"]}],
        "properties": {
            "specversion": {"const": SPECVERSION},
            "type": {"enum": list(REQUESTS)},
            **_identity_schema(),
            "time": {"type": "string", "format": "date-time"},
            "datacontenttype": {"const": CONTENT_TYPE},
            "data": {"type": "object"},
            "data_base64": {"type": "string", "contentEncoding": "base64", "contentMediaType": CONTENT_TYPE},
        },
    }


def _envelope_schema() -> Json:
    properties: Json = {
        "specversion": {"const": SPECVERSION},
        "id": {**_UUID, "description": "uuid5 of the workflow id and the slot: the same work has the same id."},
        "source": {"type": "string", "description": "`/poweron/<role>/<instance>`: the writer."},
        "type": {"type": "string", "description": "`poweron.`, the words of the event's name, and its version."},
        "subject": {**_UUID, "description": "The workflow id; also the record's key."},
        "correlationid": {**_UUID, "description": "The workflow id."},
        "time": {
            "type": "string",
            "format": "date-time",
            "description": "The writer's clock; it has no influence on verdicts.",
        },
        "datacontenttype": {"const": CONTENT_TYPE},
        "catalogue": {"type": "integer", "minimum": 1, "description": "The number of the writer's set of event types."},
        "data": {"type": "object"},
    }
    optional: Json = {
        "causationid": {**_UUID, "description": "The id of the accepted event that the writer acted on."},
        "causationhash": {"type": "string", "pattern": "^[0-9a-f]{64}$", "description": "SHA-256 of its bytes."},
        "causationoffset": {"type": "string", "pattern": "^[0-9]+$", "description": "Its offset, if known."},
        "traceparent": {"type": "string", "description": "W3C trace context."},
    }
    return {
        "type": "object",
        "description": "A CloudEvent 1.0 in structured mode: canonical JSON with sorted keys and no spaces.",
        "required": list(properties),
        "properties": {**properties, **optional},
    }
