"""Telemetry: log lines, spans for a trace collector, and metrics."""

from poweron_services.telemetry.instrumentation import (
    AnswerSpan,
    action_span,
    answer_span,
    bind_request,
    bind_workflow,
    model_call,
    model_request,
    report_ended,
)
from poweron_services.telemetry.log_events import MODEL_PASSED_OVER, MODEL_WAITS, STAGE_WAITS
from poweron_services.telemetry.logs import (
    LogFile,
    StageWaitReporter,
    configure,
    configure_for_library,
    hide_secrets,
)
from poweron_services.telemetry.meter import (
    STAGE_OF_PHASE,
    Meter,
    ModelAnswer,
    WatchedLog,
    bind_meter,
    count_answer,
    count_failure,
)
from poweron_services.telemetry.otlp import exporting
from poweron_services.telemetry.spans import Sink, traceparent

__all__ = [
    "MODEL_PASSED_OVER",
    "MODEL_WAITS",
    "STAGE_OF_PHASE",
    "STAGE_WAITS",
    "AnswerSpan",
    "LogFile",
    "Meter",
    "ModelAnswer",
    "Sink",
    "StageWaitReporter",
    "WatchedLog",
    "action_span",
    "answer_span",
    "bind_meter",
    "bind_request",
    "bind_workflow",
    "configure",
    "configure_for_library",
    "count_answer",
    "count_failure",
    "exporting",
    "hide_secrets",
    "model_call",
    "model_request",
    "report_ended",
    "traceparent",
]
