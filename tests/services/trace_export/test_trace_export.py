"""Whoever opens an exported workflow in a tool of others finds it whole: the readers of their own SDKs take it."""

import base64
from pathlib import Path
from typing import Any

import orjson
import pytest
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent
from exported_histories import NOBODY, PROMPT, RECORDED, one_step, recorded, told
from google.protobuf import json_format
from openinference.semconv.trace import OpenInferenceMimeTypeValues, OpenInferenceSpanKindValues, SpanAttributes
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as OtlpSpan

from builders import CALL, FAILED_CALLS, At, Told, planned, requested, step
from poweron_events.client import Heard
from poweron_events.codec import sha256
from poweron_events.content import ContentStore
from poweron_events.event import ModelCall
from poweron_events.step_events import ActionStarted
from poweron_services.telemetry.spans import Span, context_of
from poweron_services.trace_export import openinference
from poweron_services.trace_export.workflow_spans import WorkflowSpan, workflow_spans
from poweron_services.trace_export.workflow_trace import exported_trace, is_trace_of

ANSWER = '{"total": "$1,980.84"}'


async def opened(history: list[Heard], form: Any, content: ContentStore | None = None) -> list[OtlpSpan]:
    """The spans as OpenTelemetry's own reader takes them."""
    text = await exported_trace(history, content or ContentStore.at("memory:///"), form)
    request = json_format.Parse(text, ExportTraceServiceRequest())
    (resource,) = request.resource_spans
    (scope,) = resource.scope_spans
    return list(scope.spans)


def hexadecimal(read_id: bytes) -> str:
    """An id as it stands in the JSON: the reader of protobuf takes for base64 what is hexadecimal there."""
    return base64.b64encode(read_id).decode()


def attributes(span: OtlpSpan) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes}


def of_kind(spans: list[WorkflowSpan], kind: str) -> list[Span]:
    return [each.span for each in spans if each.kind == kind]


@RECORDED
@pytest.mark.parametrize("form", ["otel", "openinference"])
async def test_every_history_of_every_release_is_one_tree_that_opentelemetry_reads(path: Path, form: str) -> None:
    history = recorded(path)
    spans = await opened(history, form)
    ids = [hexadecimal(span.span_id) for span in spans]
    assert len(set(ids)) == len(ids)
    assert {hexadecimal(span.trace_id) for span in spans} == {history[0].workflow.id.replace("-", "")}
    orphans = [span.name for span in spans if span.parent_span_id and hexadecimal(span.parent_span_id) not in ids]
    assert orphans == []
    assert [span.name for span in spans if span.end_time_unix_nano < span.start_time_unix_nano] == []


@RECORDED
def test_every_call_and_every_started_action_of_a_history_has_one_span(path: Path) -> None:
    history = recorded(path)
    spans = workflow_spans(history)
    told_calls = [
        call
        for heard in history
        if heard.event is not None
        for call in (*heard.event.__dict__.get("model_calls", ()), heard.event.__dict__.get("model_call"))
        if call is not None
    ]
    assert [each.call for each in spans if each.call is not None] == told_calls
    started = [heard for heard in history if heard.verdict == "accepted" and isinstance(heard.event, ActionStarted)]
    assert len(of_kind(spans, "TOOL")) == len(started)


def test_rounds_attempts_and_steps_have_the_ids_that_telemetry_gives_them() -> None:
    history = one_step()
    spans = workflow_spans(history)
    id_ = history[0].workflow.id
    (root,) = of_kind(spans, "AGENT")
    assert (root.name, root.context) == ("workflow", context_of(id_, (1, 0, 0, 0)))
    assert {span.name: span.context for span in of_kind(spans, "CHAIN")} == {
        "task": context_of(id_, (1, 1, 1, 0)),
        "step": context_of(id_, (1, 1, 1, 1)),
    }


async def test_the_same_log_gives_the_same_bytes() -> None:
    content = ContentStore.at("memory:///")
    assert await exported_trace(one_step(), content, "otel") == await exported_trace(one_step(), content, "otel")


async def test_a_call_is_told_by_the_conventions_for_generative_ai_and_without_its_words() -> None:
    spans = await opened(one_step(), "otel")
    call = next(span for span in spans if attributes(span).get("poweron.stage") == "select")
    found = attributes(call)
    assert {name: value for name, value in found.items() if name.startswith("gen_ai.")} == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "builtin",
        "gen_ai.response.model": "extractive",
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 20,
        "gen_ai.usage.cache_read.input_tokens": 0,
        "gen_ai.usage.reasoning.output_tokens": 0,
    }
    assert PROMPT not in repr([attributes(span) for span in spans])
    assert call.end_time_unix_nano - call.start_time_unix_nano == CALL.duration_ms * 1_000_000


def test_calls_that_failed_stand_before_the_answer_that_came_after_all() -> None:
    selected = At(1).selected(failed_calls=(FAILED_CALLS,))
    failed, answered = of_kind(workflow_spans(told(requested(), planned(), selected)), "LLM")[1:]
    assert (failed.failed, failed.attributes["poweron.tries"], answered.failed) == ("model_busy", 3, None)
    assert failed.ended_ns == answered.began_ns
    assert answered.ended_ns == 2_000 * 1_000_000  # when the selection came into the log


def test_a_try_of_an_action_that_crashed_is_told_as_such_and_the_next_one_by_what_came_of_it() -> None:
    selected, parameters, started, *rest = step(1)
    again = started.model_copy(update={"try_": 2, "claim": "second"})
    ended = rest[0].model_copy(update={"try_": 2})
    history = told(requested(), planned(), selected, parameters, started, again, ended)
    crashed, done = of_kind(workflow_spans(history), "TOOL")
    assert (crashed.failed, crashed.ended_ns, done.failed, done.began_ns) == (
        *("crashed", 5_000_000_000),
        *(None, 5_000_000_000),
    )


async def said(content: ContentStore, call: ModelCall) -> tuple[list[Heard], dict[str, Any]]:
    selected = At(1).selected(model_call=call)
    history = told(requested(prompt=PROMPT), planned(), selected)
    spans = await opened(history, "openinference", content)
    return history, next(found for found in map(attributes, spans) if found.get("poweron.stage") == "select")


async def test_openinference_shows_prompt_and_answer_as_they_are_kept() -> None:
    content = ContentStore.at("memory:///")
    id_ = one_step()[0].workflow.id
    prompt, answer = [await content.put(id_, text.encode()) for text in (PROMPT, ANSWER)]
    _, found = await said(content, CALL.model_copy(update={"prompt_ref": prompt, "answer_ref": answer}))
    assert found[SpanAttributes.OPENINFERENCE_SPAN_KIND] == OpenInferenceSpanKindValues.LLM.value
    assert (found[SpanAttributes.INPUT_VALUE], found[SpanAttributes.OUTPUT_VALUE]) == (PROMPT, ANSWER)
    assert found[SpanAttributes.OUTPUT_MIME_TYPE] == OpenInferenceMimeTypeValues.JSON.value
    counted = (SpanAttributes.LLM_TOKEN_COUNT_PROMPT, SpanAttributes.LLM_TOKEN_COUNT_COMPLETION)
    assert [found[name] for name in (*counted, SpanAttributes.LLM_TOKEN_COUNT_TOTAL)] == [100, 20, 120]
    assert (found[SpanAttributes.LLM_MODEL_NAME], found[SpanAttributes.LLM_COST_TOTAL]) == ("extractive", 0.000003)


async def test_what_was_erased_is_said_to_be_and_nothing_stands_in_its_place() -> None:
    _, found = await said(ContentStore.at("memory:///"), CALL)
    assert (found["poweron.prompt_erased"], found["poweron.answer_erased"]) == (True, True)
    assert SpanAttributes.INPUT_VALUE not in found
    assert SpanAttributes.OUTPUT_VALUE not in found


async def test_openinference_tells_agents_chains_and_tools_apart() -> None:
    spans = [attributes(span) for span in await opened(one_step(), "openinference")]
    kinds = [found[SpanAttributes.OPENINFERENCE_SPAN_KIND] for found in spans]
    assert set(kinds) == {
        each.value for each in OpenInferenceSpanKindValues if each.name in {"AGENT", "CHAIN", "LLM", "TOOL"}
    }
    agent, tool = spans[kinds.index("AGENT")], spans[kinds.index("TOOL")]
    assert agent[SpanAttributes.INPUT_VALUE] == PROMPT
    assert tool[SpanAttributes.TOOL_NAME] == "document.extract"
    assert orjson.loads(tool[SpanAttributes.TOOL_PARAMETERS]) == {"documentList": ["docList:round1_request"]}


def test_our_names_are_those_of_openinference() -> None:
    ours = {value for name, value in vars(openinference).items() if name.isupper() and isinstance(value, str)}
    theirs = {value for name, value in vars(SpanAttributes).items() if name.isupper()}
    assert ours - theirs == {"application/json", "text/plain"}
    assert {OpenInferenceMimeTypeValues.JSON.value, OpenInferenceMimeTypeValues.TEXT.value} == ours - theirs
    call = openinference._usage_attributes(CALL)
    assert call.keys() - theirs == set()


def test_the_hash_of_a_record_is_that_of_its_bytes() -> None:
    (message,) = Told().tell(requested()).messages
    assert told(requested())[0].recorded.sha256 == sha256(message.value)


@RECORDED
def test_the_records_of_every_release_are_read_by_the_sdk_of_cloudevents(path: Path) -> None:
    for line in path.read_bytes().splitlines()[:-1]:
        value = orjson.loads(line)["value"]
        ours, event = orjson.loads(value), JSONFormat().read(CloudEvent, value)
        assert (event.get_id(), event.get_type(), event.get_subject(), event.get_data()) == (
            *(ours["id"], ours["type"]),
            *(ours["subject"], ours["data"]),
        )


@pytest.mark.parametrize("form", ["otel", "openinference"])
async def test_a_trace_is_known_by_its_workflow_and_its_form(form: Any) -> None:
    history, content = one_step(), ContentStore.at("memory:///")
    workflow = history[0].workflow.id
    for part in (history, history[:1]):  # one has no spans yet
        trace = await exported_trace(part, content, form)
        assert is_trace_of(trace, workflow, form)
        assert not is_trace_of(trace, workflow, "otel" if form == "openinference" else "openinference")
    assert not is_trace_of(await exported_trace(history, content, form), NOBODY, form)
    assert not is_trace_of(b"{}", workflow, "otel")
