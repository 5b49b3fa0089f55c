"""Stage 2: parameters from the context that stage 1 wrote, since nothing else is shown.

The context is lines such as `aiPrompt: "What is the total?"`: a field's name and its value as JSON.
"""

import re
from typing import Final

import orjson
from pydantic import JsonValue

from poweron_events.selection import SchemaField
from poweron_services.models.prompts import ParametersPrompt

MAX_CONTEXT = 8_000  # characters of a parameters context

_LINE = re.compile(r"^(\w+): (.*)$", re.MULTILINE)
_FREE_TEXT: Final = frozenset({"aiPrompt", "query"})
"""Fields that any context can fill: what is asked, in words."""


def context(**values: JsonValue) -> str:
    """A parameters context that `fill` reads; the longest text is cut until it fits."""
    cut = MAX_CONTEXT
    while len(written := "\n".join(f"{name}: {_encoded(value, cut)}" for name, value in values.items())) > MAX_CONTEXT:
        cut = cut * 3 // 4
    return written


def fill(prompt: ParametersPrompt) -> str:
    """The fields of the schema that the context says something about."""
    stated = said(prompt.parameters_context)
    parameters = {field.name: value for field in prompt.fields if (value := _value(field, stated, prompt)) is not None}
    return orjson.dumps({"schema": "parameters_v1", "parameters": parameters}).decode()


def _value(field: SchemaField, stated: dict[str, JsonValue], prompt: ParametersPrompt) -> JsonValue:
    if field.name in stated:
        return stated[field.name]
    if field.required and field.name in _FREE_TEXT:
        return prompt.parameters_context.strip() or prompt.action_objective
    return prompt.action_objective if field.required and field.type == "string" else None


def said(text: str) -> dict[str, JsonValue]:
    """The values that a parameters context names."""
    found: dict[str, JsonValue] = {}
    for name, written in _LINE.findall(text):
        found.setdefault(name, _decoded(written))
    return found


def _encoded(value: JsonValue, cut: int) -> str:
    return orjson.dumps(value[:cut] if isinstance(value, str) else value).decode()


def _decoded(written: str) -> JsonValue:
    try:
        value: JsonValue = orjson.loads(written)
    except orjson.JSONDecodeError:
        return written.strip()
    return value
