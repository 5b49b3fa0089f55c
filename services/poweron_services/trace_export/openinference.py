"""OpenInference attributes, by which viewers such as Phoenix recognise agents, models, tools, inputs and outputs."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import orjson

from poweron_events.event import NANO, ModelCall
from poweron_services.telemetry import gen_ai
from poweron_services.telemetry.spans import Span, Value
from poweron_services.trace_export.workflow_spans import WorkflowSpan

KIND: Final = "openinference.span.kind"
SESSION: Final = "session.id"
INPUT: Final = "input.value"
INPUT_TYPE: Final = "input.mime_type"
OUTPUT: Final = "output.value"
OUTPUT_TYPE: Final = "output.mime_type"
TOOL_NAME: Final = "tool.name"
TOOL_PARAMETERS: Final = "tool.parameters"
JSON: Final = "application/json"
TEXT: Final = "text/plain"

Texts = Mapping[str, str | None]
"""Texts by their names in the content store; None if erased."""


def openinference_span(told: WorkflowSpan, workflow_id: str, texts: Texts) -> Span:
    """Return the span with the attributes of OpenInference in addition to its own."""
    attributes: dict[str, Value] = {**told.span.attributes, KIND: told.kind, SESSION: workflow_id}
    if told.kind == "TOOL":
        attributes[TOOL_NAME] = told.span.attributes[gen_ai.TOOL_NAME]
        attributes |= {} if told.given is None else {TOOL_PARAMETERS: told.given}
    if told.call is None:
        attributes |= _text_attribute(INPUT, INPUT_TYPE, told.given) | _text_attribute(OUTPUT, OUTPUT_TYPE, told.came)
    else:
        attributes |= _usage_attributes(told.call) | _text_attributes(told.call, texts)
    return replace(told.span, attributes=attributes)


def _usage_attributes(call: ModelCall) -> dict[str, Value]:
    return {
        "llm.model_name": call.model,
        "llm.provider": call.provider,
        "llm.token_count.prompt": call.input_tokens,
        "llm.token_count.completion": call.output_tokens,
        "llm.token_count.total": call.input_tokens + call.output_tokens,
        "llm.token_count.prompt_details.cache_read": call.cached_input_tokens,
        "llm.token_count.completion_details.reasoning": call.reasoning_tokens,
        "llm.cost.total": call.cost_nano_usd / NANO,
    }


def _text_attributes(call: ModelCall, texts: Texts) -> dict[str, Value]:
    """Return the prompt and the answer from the content store, or an attribute that says that they were erased."""
    attributes: dict[str, Value] = {}
    for ref, value, mime, name in (
        (call.prompt_ref, INPUT, INPUT_TYPE, "poweron.prompt_erased"),
        (call.answer_ref, OUTPUT, OUTPUT_TYPE, "poweron.answer_erased"),
    ):
        if ref is not None:
            attributes |= {name: True} if texts[ref] is None else _text_attribute(value, mime, texts[ref])
    return attributes


def _text_attribute(value: str, mime: str, text: str | None) -> dict[str, Value]:
    return {} if text is None else {value: text, mime: JSON if _is_json(text) else TEXT}


def _is_json(text: str) -> bool:
    try:
        return isinstance(orjson.loads(text), dict | list)
    except orjson.JSONDecodeError:
        return False
