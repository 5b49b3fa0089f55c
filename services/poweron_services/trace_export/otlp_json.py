"""Spans as JSON of the OpenTelemetry protocol: one `ExportTraceServiceRequest`, which collectors and viewers accept.

Ids are hexadecimal and 64-bit numbers are strings, as the protocol specifies for JSON.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from poweron_services.telemetry.spans import Context, Span, Value

KINDS: Final = {"internal": 1, "client": 3, "consumer": 5}
OK_UNSET, ERROR = 0, 2
SCOPE: Final = "poweron"


def export_request(spans: Iterable[Span], *, release: str, resource: Mapping[str, Value]) -> dict[str, Any]:
    """Return the spans as one request to a collector."""
    named: dict[str, Value] = {"service.name": SCOPE, "service.version": release, **resource}
    scope = {"name": SCOPE, "version": release}
    scoped = [{"scope": scope, "spans": [_span(each) for each in spans]}]
    return {"resourceSpans": [{"resource": {"attributes": _attributes(named)}, "scopeSpans": scoped}]}


def _span(span: Span) -> dict[str, Any]:
    attributes = dict(span.attributes) | ({"error.type": span.failed} if span.failed else {})
    made: dict[str, Any] = {
        **_named(span.context),
        "flags": span.context.flags,
        "name": span.name,
        "kind": KINDS[span.kind],
        "startTimeUnixNano": str(span.began_ns),
        "endTimeUnixNano": str(span.ended_ns),
        "attributes": _attributes(attributes),
        "status": {"code": ERROR, "message": span.failed} if span.failed else {"code": OK_UNSET},
    }
    if span.parent is not None:
        made["parentSpanId"] = f"{span.parent.span_id:016x}"
    if span.link is not None:
        made["links"] = [_named(span.link)]
    return made


def _named(context: Context) -> dict[str, str]:
    return {"traceId": f"{context.trace_id:032x}", "spanId": f"{context.span_id:016x}"}


def _attributes(values: Mapping[str, Value]) -> list[dict[str, Any]]:
    return [{"key": name, "value": _value(value)} for name, value in values.items()]


def _value(value: Value) -> dict[str, Any]:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case str():
            return {"stringValue": value}
