"""Records model calls and actions as they happen, under the place that is being worked on.

The place is a context variable, set where a role begins its work, so that no code in between has to pass it on.
"""

import asyncio
import time
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

import structlog
from structlog.typing import EventDict

from poweron_events.codec import ReceivedRequest
from poweron_events.envelope import Recorded, event_id
from poweron_events.event import ModelCall
from poweron_events.fold.state import Rejection, Workflow
from poweron_events.request import RequestIdentity
from poweron_events.stream import WorkflowEvent
from poweron_services.telemetry import gen_ai
from poweron_services.telemetry.meter import measured_action
from poweron_services.telemetry.milestones import MILLISECOND, ended, place_fields, place_of_work, span
from poweron_services.telemetry.spans import Context, Kind, Sink, Span, Value, answer_context, context_of

log = structlog.get_logger()

CANCELLED: Final = "cancelled"
_Under = tuple[Sink, Context]
_REQUEST_ORIGIN: ContextVar[tuple[int, Context | None]] = ContextVar("poweron_asked", default=(0, None))
_AT: ContextVar[Workflow | None] = ContextVar("poweron_at", default=None)
_UNDER: ContextVar[_Under | None] = ContextVar("poweron_span", default=None)


def bind_workflow(workflow: Workflow, sink: Sink | None) -> None:
    """From now on in this task, add the place and the event to log lines and put spans under the place."""
    _AT.set(workflow)
    if sink is not None:
        _UNDER.set((sink, context_of(workflow.id, place_of_work(workflow))))


def add_place(_: object, __: str, line: EventDict) -> EventDict:
    """Add the current place and event to a log line, without overriding its own fields."""
    workflow = _AT.get()
    if workflow is None:
        return line
    event = workflow.head.id if workflow.head else None
    return {"workflow_id": workflow.id, "event_id": event, **place_fields(place_of_work(workflow)), **line}


def bind_request(since_ms: int, received: ReceivedRequest) -> None:
    """From now on in this task, treat this request, received at `since_ms`, as the one being answered."""
    structlog.contextvars.bind_contextvars(request_source=received.identity.source, request_id=received.identity.id)
    _REQUEST_ORIGIN.set((since_ms, Context.read(received.traceparent)))


@dataclass(slots=True)
class AnswerSpan:
    """The answer to a request, and its `traceparent` if spans are exported."""

    event: WorkflowEvent
    traceparent: str | None


@contextmanager
def answer_span(
    workflow_id: str, identity: RequestIdentity, event: WorkflowEvent, sink: Sink | None
) -> Generator[AnswerSpan, None, None]:
    """Record an answer once the block has appended it to the log; until then, the block may replace its event."""
    since_ms, upstream = _REQUEST_ORIGIN.get()
    context = answer_context(workflow_id, identity, upstream)
    answer = AnswerSpan(event, str(context) if sink is not None else None)
    yield answer
    event = answer.event
    log.info(
        "request_answered",
        workflow_id=workflow_id,
        event_id=event_id(workflow_id, event),
        answer=event.TYPE,
        round=getattr(event, "round", None),
    )
    if sink is not None:
        now, root = time.time_ns(), context_of(workflow_id, (getattr(event, "round", None) or 1, 0, 0, 0))
        sink(
            Span(
                name="intake",
                context=context,
                parent=upstream or root,
                began_ns=since_ms * MILLISECOND if since_ms else now,
                ended_ns=now,
                kind="consumer",
                attributes={"poweron.workflow_id": workflow_id, "poweron.answer": event.TYPE},
                link=root if upstream is not None else None,
            )
        )


def report_ended(before: Workflow, after: Workflow, recorded: Recorded, sink: Sink | None) -> None:
    """Write a log line and a span for everything that an accepted event ended, and a line if it rejected an answer."""
    if isinstance(event := recorded.envelope.event, Rejection):
        log.info(
            "answer_rejected",
            workflow_id=after.id,
            event_id=recorded.envelope.id,
            code=event.code,
            error=event.reason,
            detail=event.detail,
            **place_fields(before.place),
        )
    for milestone in ended(before, after, recorded):
        log.info(
            milestone.log_event,
            workflow_id=after.id,
            event_id=recorded.envelope.id,
            reason=milestone.reason,
            **place_fields(milestone.place),
            **milestone.facts,
        )
        if sink is not None:
            sink(span(after, milestone))


@dataclass(slots=True)
class SpanRecorder:
    """Collects what is known of a call or an action until it ends."""

    name: str
    kind: Kind
    attributes: dict[str, Value]
    call: ModelCall | None = None
    failed: str | None = None

    def answered(self, call: ModelCall) -> None:
        """Record that the model has answered."""
        self.call = call
        log.debug(
            "model_answered",
            template=call.template,
            provider=call.provider,
            model=call.model,
            input_tokens=call.input_tokens,
            output_tokens=call.output_tokens,
            cached_input_tokens=call.cached_input_tokens,
            reasoning_tokens=call.reasoning_tokens,
            cost_nano_usd=call.cost_nano_usd,
            usage_estimated=call.usage_estimated,
            duration_ms=call.duration_ms,
            tries=call.tries,
            finish_reason=call.finish_reason,
        )

    def ended(self, outcome: str) -> None:
        """Record that the action has ended."""
        self.attributes["poweron.outcome"] = outcome
        self.failed = None if outcome == "done" else outcome


def model_call(stage: str, template: str) -> AbstractContextManager[SpanRecorder]:
    """Record a model call as a span, whether or not it is answered."""
    return _reported(_call_recorder(stage, template))


def model_request(stage: str, template: str) -> AbstractContextManager[object]:
    """Record one request of a call; it has its own span only if it fails, as the call may still be answered."""
    if _UNDER.get() is None:
        return nullcontext()
    return _reported(_call_recorder(stage, template), only_failed=True)


def _call_recorder(stage: str, template: str) -> SpanRecorder:
    attributes: dict[str, Value] = {
        gen_ai.OPERATION: gen_ai.CHAT,
        "poweron.stage": stage,
        "poweron.template": template,
    }
    return SpanRecorder(gen_ai.CHAT, "client", attributes)


@contextmanager
def action_span(action: str) -> Generator[SpanRecorder, None, None]:
    """Record an action as a span, with its model calls under it, and measure it."""
    attributes: dict[str, Value] = {
        gen_ai.OPERATION: gen_ai.EXECUTE_TOOL,
        gen_ai.TOOL_NAME: action,
        gen_ai.TOOL_TYPE: gen_ai.FUNCTION,
    }
    with measured_action(), _reported(SpanRecorder(f"{gen_ai.EXECUTE_TOOL} {action}", "internal", attributes)) as span:
        yield span


def _reported(recorder: SpanRecorder, *, only_failed: bool = False) -> AbstractContextManager[SpanRecorder]:
    under = _UNDER.get()
    return nullcontext(recorder) if under is None else _reported_as_span(recorder, *under, only_failed=only_failed)


@contextmanager
def _reported_as_span(
    recorder: SpanRecorder, sink: Sink, parent: Context, *, only_failed: bool
) -> Generator[SpanRecorder, None, None]:
    context, began = parent.child(), time.time_ns()
    token = _UNDER.set((sink, context))
    try:
        yield recorder
    except BaseException as error:
        recorder.failed = CANCELLED if isinstance(error, asyncio.CancelledError) else type(error).__name__
        raise
    finally:
        _UNDER.reset(token)
        if not only_failed or recorder.failed not in (None, CANCELLED):
            answer_attributes = {} if recorder.call is None else gen_ai.answer_attributes(recorder.call)
            sink(
                Span(
                    name=recorder.name,
                    context=context,
                    parent=parent,
                    began_ns=began,
                    ended_ns=time.time_ns(),
                    kind=recorder.kind,
                    attributes=recorder.attributes | answer_attributes,
                    failed=recorder.failed,
                )
            )
