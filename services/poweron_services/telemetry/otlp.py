"""Exports spans to an OpenTelemetry collector; its libraries are imported only if a collector is configured.

The libraries read all other settings of the collector (headers, certificates, compression, batch sizes) themselves,
from the usual variables `OTEL_EXPORTER_OTLP_…` and `OTEL_BSP_…`.
"""

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from importlib.metadata import version
from typing import Final

import structlog

from poweron_events.errors import Refused
from poweron_services.telemetry.spans import Context, Sink, Span

log = structlog.get_logger()

FLUSH_TIMEOUT = 5.0  # seconds to send pending spans at shutdown
SCOPE: Final = "poweron"


@asynccontextmanager
async def exporting(endpoint: str | None, *, resource: Mapping[str, str]) -> AsyncGenerator[Sink | None, None]:
    """Yield a sink for spans, or None without a collector; at the end, pending spans are sent or dropped.

    An unavailable collector costs spans and log lines, nothing else, because a separate thread sends the spans.

    Raises:
        Refused: the libraries are not installed.
    """
    if endpoint is None:
        yield None
        return
    try:
        sink, shutdown = _exporter(endpoint, resource)
    except ImportError as error:
        raise Refused(
            "OTEL_EXPORTER_OTLP_ENDPOINT is set, but OpenTelemetry is not installed. "
            "Install poweron-services[otel], or unset the variable."
        ) from error
    try:
        yield sink
    finally:
        await _flush(shutdown)


async def _flush(shutdown: Callable[[], None]) -> None:
    """Send pending spans; a collector that does not accept them in time does not keep the process from ending."""
    loop, is_sent = asyncio.get_running_loop(), asyncio.Event()

    def flush() -> None:
        shutdown()
        with suppress(RuntimeError):  # the loop has ended in the meantime
            loop.call_soon_threadsafe(is_sent.set)

    threading.Thread(target=flush, name="flush spans", daemon=True).start()
    try:
        async with asyncio.timeout(FLUSH_TIMEOUT):
            await is_sent.wait()
    except TimeoutError:
        log.warning("spans_dropped")


def _exporter(endpoint: str, resource: Mapping[str, str]) -> tuple[Sink, Callable[[], None]]:
    """Return a sink for spans, and a function that sends pending spans and shuts down."""
    from opentelemetry import trace as api  # noqa: PLC0415 - takes long to import
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415 - as above
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource  # noqa: PLC0415 - as above
    from opentelemetry.sdk.trace import ReadableSpan  # noqa: PLC0415 - as above
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415 - as above
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope  # noqa: PLC0415 - as above

    release = version("poweron-services")
    place = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") or f"{endpoint.rstrip('/')}/v1/traces"
    processor = BatchSpanProcessor(OTLPSpanExporter(place))
    instrumentation = InstrumentationScope(SCOPE, release)
    own_resource = Resource.create({"service.name": SCOPE, "service.version": release, **resource})
    full_resource = own_resource.merge(OTELResourceDetector().detect())  # the OTEL_… variables override ours
    kinds = {
        "internal": api.SpanKind.INTERNAL,
        "client": api.SpanKind.CLIENT,
        "consumer": api.SpanKind.CONSUMER,
    }

    def span_context(context: Context) -> api.SpanContext:
        return api.SpanContext(
            context.trace_id, context.span_id, is_remote=False, trace_flags=api.TraceFlags(context.flags)
        )

    def sink(span: Span) -> None:
        attributes = dict(span.attributes) | ({"error.type": span.failed} if span.failed else {})
        processor.on_end(
            ReadableSpan(
                name=span.name,
                context=span_context(span.context),
                parent=span_context(span.parent) if span.parent else None,
                resource=full_resource,
                attributes=attributes,
                links=[api.Link(span_context(span.link))] if span.link else [],
                kind=kinds[span.kind],
                instrumentation_scope=instrumentation,
                status=api.Status(api.StatusCode.ERROR if span.failed else api.StatusCode.UNSET),
                start_time=span.began_ns,
                end_time=span.ended_ns,
            )
        )

    return sink, processor.shutdown
