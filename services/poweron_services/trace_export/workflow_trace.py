"""A workflow exported to other tools as one trace."""

import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from typing import Any, Final, Literal

from poweron_events.client import Heard
from poweron_events.codec import dumps
from poweron_events.content import ContentStore
from poweron_events.errors import MissingContent
from poweron_services.telemetry.spans import Context, Span, Value
from poweron_services.trace_export.openinference import openinference_span
from poweron_services.trace_export.workflow_spans import WorkflowSpan, workflow_spans

KINDS: Final = {"internal": 1, "client": 3, "consumer": 5}
OK_UNSET, ERROR = 0, 2
SCOPE: Final = "poweron"
TraceFormat = Literal["otel", "openinference"]
PROJECT: Final = "openinference.project.name"
_TRACE_ID: Final = re.compile(rb'"traceId":"([0-9a-f]{32})"')


async def exported_trace(history: Sequence[Heard], content: ContentStore, form: TraceFormat) -> bytes:
    """Return the trace as JSON on one line; only OpenInference includes the texts of users and models.

    Raises:
        Unavailable: the content store cannot be reached.
    """
    workflow_id = history[0].workflow.id
    told_spans = workflow_spans(history)
    spans: Iterable[Span] = (told_span.span for told_span in told_spans)
    if form == "openinference":
        texts = await _texts(content, workflow_id, told_spans)
        spans = (openinference_span(told_span, workflow_id, texts) for told_span in told_spans)
    resource = {PROJECT: "poweron"} if form == "openinference" else {}
    return dumps(export_request(spans, release=version("poweron-services"), resource=resource))


def is_trace_of(data: bytes, workflow_id: str, form: TraceFormat) -> bool:
    """Return whether the bytes are a trace of this workflow in this form, possibly one without spans."""
    ids = {match.decode() for match in _TRACE_ID.findall(data)}
    return (
        data.startswith(b'{"resourceSpans":')
        and (f'"{PROJECT}"'.encode() in data) == (form == "openinference")
        and (not ids or uuid.UUID(workflow_id).hex in ids)
    )


async def _texts(content: ContentStore, workflow_id: str, told_spans: Iterable[WorkflowSpan]) -> dict[str, str | None]:
    """Return each prompt and answer by its name in the store; None if it was erased."""
    calls = [told_span.call for told_span in told_spans if told_span.call is not None]
    names = dict.fromkeys(name for call in calls for name in (call.prompt_ref, call.answer_ref) if name is not None)
    return {name: await _text(content, workflow_id, name) for name in names}


async def _text(content: ContentStore, workflow_id: str, name: str) -> str | None:
    try:
        return (await content.get(workflow_id, name)).decode(errors="replace")
    except MissingContent:
        return None


def export_request(spans: Iterable[Span], *, release: str, resource: Mapping[str, Value]) -> dict[str, Any]:
    """Return the spans as one request to a collector."""
    attributes: dict[str, Value] = {"service.name": SCOPE, "service.version": release, **resource}
    scope = {"name": SCOPE, "version": release}
    scope_spans = [{"scope": scope, "spans": [_span(span) for span in spans]}]
    return {"resourceSpans": [{"resource": {"attributes": _attributes(attributes)}, "scopeSpans": scope_spans}]}


def _span(span: Span) -> dict[str, Any]:
    attributes = dict(span.attributes) | ({"error.type": span.failed} if span.failed else {})
    result: dict[str, Any] = {
        **_identity(span.context),
        "flags": span.context.flags,
        "name": span.name,
        "kind": KINDS[span.kind],
        "startTimeUnixNano": str(span.began_ns),
        "endTimeUnixNano": str(span.ended_ns),
        "attributes": _attributes(attributes),
        "status": {"code": ERROR, "message": span.failed} if span.failed else {"code": OK_UNSET},
    }
    if span.parent is not None:
        result["parentSpanId"] = f"{span.parent.span_id:016x}"
    if span.link is not None:
        result["links"] = [_identity(span.link)]
    return result


def _identity(context: Context) -> dict[str, str]:
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
