"""What PowerOn tells of its work while it works: log lines, and spans for a collector of traces."""

from poweron_services.telemetry.instrumentation import (
    Answering,
    answering,
    asked,
    begin,
    model_call,
    running,
    tell_ended,
)
from poweron_services.telemetry.log_events import STAGE_WAITS
from poweron_services.telemetry.logs import LogFile, Thinned, Waiting, configure, configure_for_library
from poweron_services.telemetry.otlp import exporting
from poweron_services.telemetry.spans import Context, Sink, Span, context_of, traceparent

__all__ = [
    "STAGE_WAITS",
    "Answering",
    "Context",
    "LogFile",
    "Sink",
    "Span",
    "Thinned",
    "Waiting",
    "answering",
    "asked",
    "begin",
    "configure",
    "configure_for_library",
    "context_of",
    "exporting",
    "model_call",
    "running",
    "tell_ended",
    "traceparent",
]
