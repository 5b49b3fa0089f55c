"""The schema of an answer as every provider takes it, also where it holds models to it strictly.

Strict modes know few words of JSON Schema, want objects closed and leave nothing out: a field that may be missing is
written with its empty value, or null. What they do not know, a bound, is told in words; what is ours alone stays here.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from poweron_events.event import Model

Schema = dict[str, Any]

_BOUNDS: Final[Mapping[str, str]] = {
    "minLength": "{} or more characters",
    "maxLength": "at most {} characters",
    "minItems": "{} or more items",
    "maxItems": "at most {} items",
    "minimum": "{} or more",
    "maximum": "at most {}",
    "pattern": "like {}",
}


def answer_schema(answer: type[Model]) -> Schema:
    """What a provider is sent; an object whose fields nobody knows before takes any."""
    return _sent(answer.model_json_schema())


def is_closed(schema: Schema) -> bool:
    """Whether every field is known before, so that a strict mode takes it."""
    return not any(each.get("additionalProperties") for each in _every(schema))


def _sent(schema: Schema) -> Schema:
    sent: Schema = {word: schema[word] for word in ("$ref", "type", "enum") if word in schema}
    if "const" in schema:
        sent["enum"] = [schema["const"]]
    if "anyOf" in schema:
        sent["anyOf"] = [_sent(each) for each in schema["anyOf"]]
    if "items" in schema:
        sent["items"] = _sent(schema["items"])
    if schema.get("type") == "object":
        sent |= _fields(schema.get("properties", {}))
    if bounds := [said.format(schema[word]) for word, said in _BOUNDS.items() if word in schema]:
        sent["description"] = ", ".join(bounds)
    if definitions := {name: _sent(each) for name, each in schema.get("$defs", {}).items() if each}:
        sent["$defs"] = definitions
    return sent


def _fields(properties: Mapping[str, Schema]) -> Schema:
    if not properties:
        return {"additionalProperties": True}
    sent = {name: _sent(each) for name, each in properties.items()}
    return {"properties": sent, "required": list(sent), "additionalProperties": False}


def _every(schema: Any) -> Iterator[Schema]:
    """All objects within it."""
    inside = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
    if isinstance(schema, dict):
        yield schema
    for each in inside:
        yield from _every(each)
