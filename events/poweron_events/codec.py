"""Bytes <-> envelopes: CloudEvents 1.0 structured JSON with sorted keys, in one canonical form.

`encode(decode(b)) == b` for every record of this release. A record in any other form (duplicate keys,
other spacing, numbers that lose precision) is refused as a whole: hashes cover the raw bytes, so there
must be only one way to read them.

A released version never changes; a new meaning gets a new version and an upcast, which converts a payload of the
previous version.
"""

import base64
import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple, cast

import orjson
from pydantic import ValidationError

from poweron_events import topics
from poweron_events.envelope import CONTENT_TYPE, SPECVERSION, Cause, Envelope, Recorded
from poweron_events.errors import Refused
from poweron_events.event import READING, Event
from poweron_events.log import Record
from poweron_events.request import RequestIdentity, workflow_id
from poweron_events.request_seal import SEAL, holds
from poweron_events.stream import REQUESTS, WORKFLOW_EVENTS, Request, WorkflowEvent
from poweron_events.validation_messages import explain

Data = dict[str, Any]
Step = tuple[str, Callable[[Data], Data]]
"""The type that a step converts to, and the function that converts the payload."""

STEPS: Final[Mapping[str, Step]] = {}
"""Older wire type -> step. Empty in this release: every event is at its first version."""


def upcast(wire_type: str, data: Data, steps: Mapping[str, Step] = STEPS) -> tuple[str, Data]:
    """Return the wire type and the payload of an event in the newest version that `steps` can reach."""
    while wire_type in steps:
        wire_type, lift = steps[wire_type]
        data = lift(data)
    return wire_type, data


MAX_EVENT = 64_000  # bytes; longer lists and texts are stored as content and referenced
UUID_LENGTH = 36  # characters
REMEMBERED = 4_096  # checked ids to cache: most ids occur several times
TRACEPARENT = re.compile(r"00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})")
"""W3C trace context: trace id, id of the sender's span, flags."""
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Undecodable(Refused):
    """A record that cannot be read as an event; all readers must skip it, and it becomes a dead letter."""


class InvalidRequest(Refused):
    """A request whose identity is readable but whose content is not acceptable."""

    def __init__(self, identity: RequestIdentity, workflow_id: str | None, detail: str) -> None:
        super().__init__(detail)
        self.identity = identity
        self.workflow_id = workflow_id


def dumps(value: object) -> bytes:
    """Write a value as canonical JSON: sorted keys, no spaces, UTF-8."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def writable(text: str) -> str:
    """Return the text with lone surrogates, which no event can hold, replaced by `?`."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def sha256(value: bytes) -> str:
    """Return the SHA-256 of the raw bytes, in hex."""
    return hashlib.sha256(value).hexdigest()


def encode(envelope: Envelope) -> bytes:
    """Encode an envelope as a record value.

    Raises:
        Refused: the event would be larger than 64 kB, or holds text that is not Unicode.
    """
    assert envelope.event is not None  # only events of known types are written
    attributes: dict[str, object] = {
        "catalogue": envelope.catalogue,
        "correlationid": envelope.workflow_id,
        "data": envelope.event.model_dump(mode="json", by_alias=True),
        "datacontenttype": CONTENT_TYPE,
        "id": envelope.id,
        "source": envelope.source,
        "specversion": SPECVERSION,
        "subject": envelope.workflow_id,
        "time": envelope.time,
        "type": envelope.type,
    }
    attributes.update(_cause_attributes(envelope.cause))
    if envelope.traceparent is not None:
        attributes["traceparent"] = envelope.traceparent
    try:
        value = dumps(attributes)
    except TypeError as error:
        raise Refused(f"{envelope.type} cannot be written as JSON: {error}", code="event_unwritable") from error
    if len(value) > MAX_EVENT:
        raise Refused(
            f"{envelope.type} would take {len(value)} bytes; an event may take {MAX_EVENT}", code="event_too_large"
        )
    return value


def _cause_attributes(cause: Cause | None) -> dict[str, str]:
    if cause is None:
        return {}
    attributes = {"causationid": cause.id, "causationhash": cause.sha256}
    if cause.offset is not None:
        attributes["causationoffset"] = str(cause.offset)
    return attributes


def decode(value: bytes | None, *, key: bytes | None = None) -> Envelope:
    """Decode a record value into an envelope.

    Args:
        value: the record's value; a tombstone (None) is refused.
        key: the record's key, which must be the workflow id; None skips that check.

    Raises:
        Undecodable: the record is not one of our envelopes; the message says why.
    """
    attributes = _json_object(value)
    data = attributes.get("data")
    written = _canonical([data])[1:-1]  # in a list, so that its depth counts as within the record
    if _canonical({**attributes, "data": orjson.Fragment(written)} if "data" in attributes else attributes) != value:
        raise Undecodable("the JSON is not in canonical form (sorted keys, no spaces, no doubled keys)")
    _expect_specversion(attributes)
    workflow_id = _uuid(attributes, "subject")
    if key is not None:
        _expect_key(key, workflow_id)
    return Envelope(
        _uuid(attributes, "id"),
        _text(attributes, "source"),
        _text(attributes, "type"),
        workflow_id,
        _text(attributes, "time"),
        _event(attributes, data, written),
        _cause(attributes),
        _number(attributes, "catalogue"),
        _text(attributes, "traceparent") if "traceparent" in attributes else None,
    )


class KnownRecord(NamedTuple):
    """What the writer of a record knows of its value: the envelope that it encodes, and its SHA-256."""

    envelope: Envelope
    sha256: str


def read(
    value: bytes | None,
    *,
    key: bytes | None,
    partition: int,
    offset: int,
    time_ms: int,
    known: KnownRecord | None = None,
) -> Recorded:
    """Read a record of `poweron.events` as input for the fold.

    Args:
        value: the record's value.
        key: the record's key.
        partition: the record's partition.
        offset: the record's offset.
        time_ms: the broker's time.
        known: what the caller knows of `value`, if it wrote it; `value` is then neither decoded nor hashed again.

    Raises:
        Undecodable: the record is not one of our envelopes, or its key or partition is not that of its workflow.
    """
    if key is None:
        raise Undecodable("the record has no key; it must be its workflow id")
    envelope, digest = known or KnownRecord(decode(value), sha256(value or b""))
    _expect_key(key, envelope.workflow_id)
    home = topics.partition_of(key, topics.PARTITIONS)
    if partition != home:  # a reader of one partition and a reader of all would disagree about the workflow
        raise Undecodable(f"the record is in partition {partition}; those of its workflow belong in partition {home}")
    return Recorded(envelope, partition=partition, offset=offset, time_ms=time_ms, sha256=digest)


def read_record(record: Record, known: KnownRecord | None = None) -> Recorded:
    """Read a record of `poweron.events` as input for the fold; `known` and errors as in `read`."""
    value, key, partition, offset = record.value, record.key, record.partition, record.offset
    return read(value, key=key, partition=partition, offset=offset, time_ms=record.time_ms, known=known)


def _expect_key(key: bytes, workflow_id: str) -> None:
    if key != workflow_id.encode():
        raise Undecodable(f"the record's key {key[:100]!r} is not its workflow id {workflow_id!r}")


def _json_object(value: bytes | None) -> dict[str, Any]:
    if value is None:
        raise Undecodable("the record is a tombstone: it has no value")
    try:
        parsed = orjson.loads(value)
    except orjson.JSONDecodeError as error:
        raise Undecodable(f"the value is not JSON: {error}") from error
    if not isinstance(parsed, dict):
        raise Undecodable(f"the value must be a JSON object, not {type(parsed).__name__}")
    return parsed


def _expect_specversion(attributes: dict[str, Any]) -> None:
    found = attributes.get("specversion")
    if found != SPECVERSION:
        said = repr(found[:100]) if isinstance(found, str) else type(found).__name__
        raise Undecodable(f"specversion must be {SPECVERSION!r}, not {said}")


def _canonical(value: object) -> bytes:
    try:
        return dumps(value)
    except TypeError as error:
        raise Undecodable(f"the JSON is not one that we could have written: {error}") from error


def _text(attributes: dict[str, Any], name: str) -> str:
    value = attributes.get(name)
    if not isinstance(value, str) or not value:
        raise Undecodable(f"attribute {name!r} must be a text that is not empty")
    return value


def _uuid(attributes: dict[str, Any], name: str) -> str:
    value = attributes.get(name)
    if isinstance(value, str) and len(value) == UUID_LENGTH and _is_uuid(value):
        return value
    found = _text(attributes, name)
    raise Undecodable(f"attribute {name!r} must be a lower-case UUID, not {found[:100]!r}")


def is_uuid(value: str) -> bool:
    """Return whether the text is a UUID in its canonical lower-case form."""
    return len(value) == UUID_LENGTH and _is_uuid(value)


@lru_cache(REMEMBERED)
def _is_uuid(value: str) -> bool:
    return _UUID.fullmatch(value) is not None


def _number(attributes: dict[str, Any], name: str) -> int:
    value = attributes.get(name)
    if type(value) is not int:
        raise Undecodable(f"attribute {name!r} must be a whole number")
    return value


def _cause(attributes: dict[str, Any]) -> Cause | None:
    if "causationid" not in attributes:
        return None
    offset = attributes.get("causationoffset")
    if offset is not None and not (isinstance(offset, str) and offset.isdecimal() and len(offset) < 20):
        raise Undecodable("attribute 'causationoffset' must be a number in decimal digits")
    return Cause(
        id=_uuid(attributes, "causationid"),
        sha256=_text(attributes, "causationhash"),
        offset=None if offset is None else int(offset),
    )


def _event(attributes: dict[str, Any], data: object, written: bytes) -> WorkflowEvent | None:
    if not isinstance(data, dict):
        raise Undecodable("attribute 'data' must be a JSON object")
    wire_type = attributes["type"]
    if wire_type in STEPS:
        try:
            wire_type, data = upcast(wire_type, data)
        except (KeyError, TypeError, ValueError) as error:
            raise Undecodable(f"{attributes['type']} cannot be lifted to the version of today: {error!r}") from error
        written = dumps(data)
    event_class = WORKFLOW_EVENTS.get(wire_type)
    if event_class is None:
        return None
    return cast("WorkflowEvent", _validate(event_class, written))


def _validate(event_class: type[Event], data: bytes) -> Event:
    """Validate data as JSON in strict mode: a number is not accepted as text, and a field has only one name."""
    try:
        return event_class.model_validate_json(
            data, strict=True, extra="ignore", context=READING, by_alias=True, by_name=False
        )
    except ValidationError as error:
        raise Undecodable(f"{event_class.TYPE}: {explain(error)}") from error


# --- requests: written by any client, so read more leniently ---------------------------------------


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """A request as received, with the identity that makes repeated deliveries the same request."""

    identity: RequestIdentity
    request: Request
    traceparent: str | None = None


def encode_request(request: Request, *, source: str, request_id: str, time: str) -> bytes:
    """Encode a request as a structured CloudEvent for `poweron.requests`."""
    return dumps(
        {
            "data": request.model_dump(mode="json", by_alias=True),
            "datacontenttype": CONTENT_TYPE,
            "id": request_id,
            "source": source,
            "specversion": SPECVERSION,
            "time": time,
            "type": request.TYPE,
        }
    )


def has_seal(value: bytes | None, headers: Mapping[str, bytes]) -> bool:
    """Return whether a record of `poweron.requests` may have a seal, without decoding it: most have none."""
    return f"ce_{SEAL}" in headers or f'"{SEAL}"'.encode() in (value or b"")


def decode_request(
    value: bytes | None, headers: Mapping[str, bytes], *, seal_key: bytes | None = None
) -> ReceivedRequest:
    """Decode a record of `poweron.requests`, a structured or binary CloudEvent, into a request.

    Its actor is a claim, and so not `verified`, unless the request has a seal of `seal_key`.

    Raises:
        Undecodable: it has no readable identity or type, so there is no sender to answer.
        InvalidRequest: its identity is readable, but its content is not acceptable.
    """
    attributes, identity, wire_type = _request_head(value, headers)
    try:
        data = _request_data(value, headers, attributes)
        written = _canonical(data)
    except Undecodable as error:
        raise InvalidRequest(identity, None, str(error)) from error
    try:
        request = REQUESTS[wire_type].model_validate_json(written, strict=True, by_alias=True, by_name=False)
    except ValidationError as error:
        named = data.get("workflowId") if isinstance(data, dict) else None
        raise InvalidRequest(identity, named if isinstance(named, str) else None, explain(error)) from error
    is_proven = seal_key is not None and holds(attributes, data, seal_key)
    received = cast("Request", request) if is_proven else _unverified(cast("Request", request))
    return ReceivedRequest(identity, received, _trace_context(attributes, headers))


def _unverified(request: Request) -> Request:
    if request.actor is None or not request.actor.verified:
        return request
    return request.model_copy(update={"actor": request.actor.model_copy(update={"verified": False})})


def _request_head(value: bytes | None, headers: Mapping[str, bytes]) -> tuple[dict[str, Any], RequestIdentity, str]:
    """Return the attributes, identity and type of a request; a record without them raises `Undecodable`."""
    attributes = _header_attributes(headers) if _is_binary(headers) else _json_object(value)
    _expect_specversion(attributes)
    identity = _identity(attributes)
    wire_type = _text(attributes, "type")
    if wire_type not in REQUESTS:
        raise Undecodable(f"type {wire_type[:200]!r} is not one of {', '.join(sorted(REQUESTS))}")
    return attributes, identity, wire_type


def _request_data(value: bytes | None, headers: Mapping[str, bytes], attributes: dict[str, Any]) -> object:
    return _json_object(value) if _is_binary(headers) else _inner_data(attributes)


def _is_binary(headers: Mapping[str, bytes]) -> bool:
    return "ce_specversion" in headers


class RequestAddress(NamedTuple):
    """The identity of a request and the workflow that it is about, read without further validation."""

    source: str
    id: str
    workflow_id: str
    """The workflow that the request names, otherwise the one that it would open."""


def request_address(value: bytes | None, headers: Mapping[str, bytes]) -> RequestAddress | None:
    """Return the address of a record of `poweron.requests`; None if it has no readable identity or type."""
    try:
        attributes, identity, _ = _request_head(value, headers)
    except Undecodable:
        return None
    try:
        data = _request_data(value, headers, attributes)
    except Undecodable:
        data = None
    named = data.get("workflowId") if isinstance(data, dict) else None
    own = workflow_id(identity.source, identity.id)
    return RequestAddress(identity.source, identity.id, named if isinstance(named, str) and is_uuid(named) else own)


def _trace_context(attributes: dict[str, Any], headers: Mapping[str, bytes | None]) -> str | None:
    """Return the sender's W3C `traceparent`, a CloudEvent attribute or a Kafka header; None unless well-formed."""
    for found in (attributes.get("traceparent"), (headers.get("traceparent") or b"").decode("ascii", "replace")):
        if isinstance(found, str) and TRACEPARENT.fullmatch(found):
            return found
    return None


def _identity(attributes: dict[str, Any]) -> RequestIdentity:
    try:
        return RequestIdentity(source=_text(attributes, "source"), id=_text(attributes, "id"))
    except ValidationError as error:
        raise Undecodable(explain(error)) from error


def _header_attributes(headers: Mapping[str, bytes | None]) -> dict[str, Any]:
    """Return the attributes of a binary CloudEvent; Kafka allows null headers."""
    try:
        return {
            name.removeprefix("ce_"): (content or b"").decode()
            for name, content in headers.items()
            if name.startswith("ce_")
        }
    except UnicodeDecodeError as error:
        raise Undecodable("a CloudEvents header is not UTF-8") from error


def _inner_data(attributes: dict[str, Any]) -> object:
    """Return the data of a structured CloudEvent, inline or as base64."""
    if "data_base64" not in attributes:
        return attributes.get("data")
    try:
        return _json_object(base64.b64decode(attributes["data_base64"], validate=True))
    except (TypeError, ValueError) as error:
        raise Undecodable("attribute 'data_base64' is not base64") from error
