"""A workflow exported to other tools as one trace."""

import re
import uuid
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from typing import Final, Literal

from poweron_events.client import Heard
from poweron_events.codec import dumps
from poweron_events.content import ContentStore
from poweron_events.errors import MissingContent
from poweron_services.telemetry.spans import Span
from poweron_services.trace_export.openinference import openinference_span
from poweron_services.trace_export.otlp_json import export_request
from poweron_services.trace_export.workflow_spans import ToldSpan, workflow_spans

TraceFormat = Literal["otel", "openinference"]
PROJECT: Final = "openinference.project.name"
_TRACE_ID: Final = re.compile(rb'"traceId":"([0-9a-f]{32})"')


async def exported_trace(history: Sequence[Heard], content: ContentStore, form: TraceFormat) -> bytes:
    """Return the trace as JSON on one line; only OpenInference includes the texts of users and models.

    Raises:
        Unavailable: the content store cannot be reached.
    """
    workflow_id = history[0].workflow.id
    told = workflow_spans(history)
    spans: Iterable[Span] = (each.span for each in told)
    if form == "openinference":
        texts = await _kept_texts(content, workflow_id, told)
        spans = (openinference_span(each, workflow_id, texts) for each in told)
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


async def _kept_texts(content: ContentStore, workflow_id: str, told: Iterable[ToldSpan]) -> dict[str, str | None]:
    """Return each prompt and answer by its name in the store; None if it was erased."""
    calls = [each.call for each in told if each.call is not None]
    names = dict.fromkeys(name for call in calls for name in (call.prompt_ref, call.answer_ref) if name is not None)
    return {name: await _kept_text(content, workflow_id, name) for name in names}


async def _kept_text(content: ContentStore, workflow_id: str, name: str) -> str | None:
    try:
        return (await content.get(workflow_id, name)).decode(errors="replace")
    except MissingContent:
        return None
